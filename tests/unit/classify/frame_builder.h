// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Ethernet frames for tests: honest by default, with right lengths and checksums, and lying where told to.
#pragma once

#include <arpa/inet.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/packet.h"

namespace weir::test {

using Bytes = std::vector<std::byte>;

inline IpAddress address(const std::string& text) {
  IpAddress result;
  if (inet_pton(AF_INET, text.c_str(), result.bytes.data()) == 1) {
    result.family = IpAddress::Family::v4;
  } else if (inet_pton(AF_INET6, text.c_str(), result.bytes.data()) == 1) {
    result.family = IpAddress::Family::v6;
  } else {
    std::abort();  // a test with a mistake in it
  }
  return result;
}

inline Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Builds one frame: FrameBuilder().vlan(5).ip("10.0.0.1", "10.0.0.2").tcp(40000, 80).payload("GET /
/// …").build().
class FrameBuilder {
 public:
  FrameBuilder() { ip("10.0.0.1", "10.0.0.2").tcp(40000, 80); }

  FrameBuilder& vlan(std::uint16_t id, std::uint16_t ethertype = 0x8100) {
    vlans_.push_back({ethertype, id});
    return *this;
  }
  FrameBuilder& ip(const std::string& source, const std::string& destination) {
    source_ = address(source);
    destination_ = address(destination);
    return *this;
  }
  FrameBuilder& tcp(std::uint16_t source_port, std::uint16_t destination_port) {
    source_port_ = source_port;
    destination_port_ = destination_port;
    return *this;
  }
  FrameBuilder& sequence(std::uint32_t number) { return sequence_ = number, *this; }
  FrameBuilder& acknowledgment(std::uint32_t number) { return acknowledgment_ = number, *this; }
  FrameBuilder& flags(std::uint8_t bits) { return flags_ = bits, *this; }
  FrameBuilder& payload(std::string_view text) { return payload_ = text, *this; }
  /// Padded to a multiple of four with no-operations.
  FrameBuilder& ipv4_options(std::size_t bytes) { return ipv4_options_ = (bytes + 3) / 4 * 4, *this; }
  FrameBuilder& tcp_options(std::size_t bytes) { return tcp_options_ = (bytes + 3) / 4 * 4, *this; }
  /// An IPv6 extension header of this kind and of `bytes` bytes, a multiple of eight (AH: of four).
  FrameBuilder& extension(std::uint8_t kind, std::size_t bytes = 8) {
    extensions_.push_back({kind, bytes, std::nullopt});
    return *this;
  }
  /// The fragment header of IPv6, or the fragment fields of IPv4. `offset` in units of eight bytes.
  FrameBuilder& fragment(std::uint16_t offset, bool more) {
    if (source_.family == IpAddress::Family::v4) {
      ipv4_fragment_ = static_cast<std::uint16_t>(offset | (more ? 0x2000 : 0));
    } else {
      extensions_.push_back({44, 8, static_cast<std::uint16_t>(offset << 3 | (more ? 1 : 0))});
    }
    return *this;
  }
  FrameBuilder& dont_fragment() { return ipv4_fragment_ = 0x4000, *this; }
  /// Ethernet padding behind the IP packet.
  FrameBuilder& padding(std::size_t bytes) { return padding_ = bytes, *this; }
  /// Another transport than TCP; what would be the segment is still there.
  FrameBuilder& protocol(std::uint8_t number) { return protocol_ = number, *this; }

  // Lies.
  FrameBuilder& lie_ethertype(std::uint16_t type) { return ethertype_ = type, *this; }
  FrameBuilder& lie_ip_version(std::uint8_t version) { return ip_version_ = version, *this; }
  FrameBuilder& lie_ipv4_header_words(std::uint8_t words) { return ipv4_words_ = words, *this; }
  /// IPv4 total length or IPv6 payload length.
  FrameBuilder& lie_ip_length(std::uint16_t length) { return ip_length_ = length, *this; }
  FrameBuilder& lie_tcp_header_words(std::uint8_t words) { return tcp_words_ = words, *this; }
  /// The length field of the last extension header.
  FrameBuilder& lie_extension_length(std::uint8_t length) { return extension_length_ = length, *this; }

  Bytes build() const {
    Bytes frame = link_header();
    Bytes segment = protocol_ == 6 ? tcp_segment() : to_bytes(payload_);
    if (source_.family == IpAddress::Family::v4) {
      append_ipv4(frame, segment);
    } else {
      append_ipv6(frame, segment);
    }
    frame.insert(frame.end(), padding_, std::byte{0xee});
    return frame;
  }

 private:
  struct Vlan {
    std::uint16_t ethertype;
    std::uint16_t id;
  };
  struct Extension {
    std::uint8_t kind;
    std::size_t bytes;
    std::optional<std::uint16_t> fragment_field;
  };

  static void put8(Bytes& out, std::size_t value) { out.push_back(static_cast<std::byte>(value)); }
  static void put16(Bytes& out, std::size_t value) {
    put8(out, value >> 8 & 0xff);
    put8(out, value & 0xff);
  }
  static void put32(Bytes& out, std::size_t value) {
    put16(out, value >> 16 & 0xffff);
    put16(out, value & 0xffff);
  }
  static void set16(Bytes& out, std::size_t at, std::size_t value) {
    out[at] = static_cast<std::byte>(value >> 8);
    out[at + 1] = static_cast<std::byte>(value);
  }
  static std::uint32_t sum16(std::span<const std::byte> bytes) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    return sum;
  }
  static std::uint16_t checksum(std::uint32_t sum) {
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }
  std::span<const std::byte> address_bytes(const IpAddress& which) const {
    return std::as_bytes(std::span(which.bytes)).first(which.family == IpAddress::Family::v4 ? 4 : 16);
  }
  static void append(Bytes& out, std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  }

  Bytes link_header() const {
    Bytes out;
    for (const unsigned byte : {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}) put8(out, byte);
    for (const Vlan& tag : vlans_) {
      put16(out, tag.ethertype);
      put16(out, tag.id);
    }
    put16(out, ethertype_.value_or(source_.family == IpAddress::Family::v4 ? 0x0800 : 0x86dd));
    return out;
  }

  Bytes tcp_segment() const {
    Bytes out;
    put16(out, source_port_);
    put16(out, destination_port_);
    put32(out, sequence_);
    put32(out, acknowledgment_);
    put8(out, static_cast<std::size_t>(tcp_words_.value_or(static_cast<std::uint8_t>(5 + tcp_options_ / 4)))
                  << 4);
    put8(out, flags_);
    put16(out, 65535);
    put32(out, 0);
    out.insert(out.end(), tcp_options_, std::byte{1});
    append(out, to_bytes(payload_));
    const std::uint32_t pseudo_header = sum16(address_bytes(source_)) + sum16(address_bytes(destination_)) +
                                        6 + static_cast<std::uint32_t>(out.size());
    set16(out, 16, checksum(pseudo_header + sum16(out)));
    return out;
  }

  void append_ipv4(Bytes& frame, const Bytes& segment) const {
    Bytes header;
    const std::size_t length = 20 + ipv4_options_;
    put8(header, static_cast<std::size_t>(ip_version_.value_or(4)) << 4 |
                     ipv4_words_.value_or(static_cast<std::uint8_t>(length / 4)));
    put8(header, 0);
    put16(header, ip_length_.value_or(static_cast<std::uint16_t>(length + segment.size())));
    put16(header, 1);
    put16(header, ipv4_fragment_);
    put8(header, 64);
    put8(header, protocol_);
    put16(header, 0);
    append(header, address_bytes(source_));
    append(header, address_bytes(destination_));
    header.insert(header.end(), ipv4_options_, std::byte{1});
    set16(header, 10, checksum(sum16(header)));
    append(frame, header);
    append(frame, segment);
  }

  void append_ipv6(Bytes& frame, const Bytes& segment) const {
    std::size_t length = segment.size();
    for (const Extension& extension : extensions_) length += extension.bytes;
    put32(frame, static_cast<std::size_t>(ip_version_.value_or(6)) << 28);
    put16(frame, ip_length_.value_or(static_cast<std::uint16_t>(length)));
    put8(frame, extensions_.empty() ? protocol_ : extensions_.front().kind);
    put8(frame, 64);
    append(frame, address_bytes(source_));
    append(frame, address_bytes(destination_));
    for (std::size_t i = 0; i < extensions_.size(); ++i) {
      const Extension& extension = extensions_[i];
      const bool last = i + 1 == extensions_.size();
      put8(frame, last ? protocol_ : extensions_[i + 1].kind);
      const std::size_t own_length = extension.kind == 44   ? 0
                                     : extension.kind == 51 ? extension.bytes / 4 - 2
                                                            : extension.bytes / 8 - 1;
      put8(frame, last && extension_length_ ? *extension_length_ : own_length);
      put16(frame, extension.fragment_field.value_or(0));
      frame.insert(frame.end(), extension.bytes - 4, std::byte{0});
    }
    append(frame, segment);
  }

  std::vector<Vlan> vlans_;
  std::vector<Extension> extensions_;
  IpAddress source_;
  IpAddress destination_;
  std::uint16_t source_port_ = 0;
  std::uint16_t destination_port_ = 0;
  std::uint32_t sequence_ = 1000;
  std::uint32_t acknowledgment_ = 2000;
  std::uint8_t flags_ = tcp_psh | tcp_ack;
  std::uint8_t protocol_ = 6;
  std::uint16_t ipv4_fragment_ = 0;
  std::size_t ipv4_options_ = 0;
  std::size_t tcp_options_ = 0;
  std::size_t padding_ = 0;
  std::string payload_;
  std::optional<std::uint16_t> ethertype_;
  std::optional<std::uint8_t> ip_version_;
  std::optional<std::uint8_t> ipv4_words_;
  std::optional<std::uint16_t> ip_length_;
  std::optional<std::uint8_t> tcp_words_;
  std::optional<std::uint8_t> extension_length_;
};

/// The text of a request: HttpText("GET", "/").host("example.com").header("X-Api-Key", "k").str().
class HttpText {
 public:
  explicit HttpText(std::string_view method = "GET", std::string_view target = "/",
                    std::string_view version = "HTTP/1.1") {
    text_.append(method).append(" ").append(target).append(" ").append(version).append("\r\n");
  }
  HttpText& header(std::string_view name, std::string_view value) {
    text_.append(name).append(": ").append(value).append("\r\n");
    return *this;
  }
  HttpText& host(std::string_view value) { return header("Host", value); }
  HttpText& body(std::string_view bytes) {
    header("Content-Length", std::to_string(bytes.size()));
    body_ = bytes;
    return *this;
  }
  std::string str() const { return text_ + "\r\n" + body_; }

 private:
  std::string text_;
  std::string body_;
};

}  // namespace weir::test
