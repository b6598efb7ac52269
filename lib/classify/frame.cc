// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "weir/packet.h"

namespace weir {
namespace {

constexpr std::uint16_t type_ipv4 = 0x0800;
constexpr std::uint16_t type_ipv6 = 0x86dd;
constexpr std::uint16_t type_vlan = 0x8100;
constexpr std::uint16_t type_service_vlan = 0x88a8;

constexpr std::uint8_t protocol_tcp = 6;

constexpr std::size_t ethernet_addresses = 12;
constexpr std::size_t ethernet_header = 14;
constexpr std::size_t vlan_tag = 4;
constexpr std::size_t ipv4_header = 20;
constexpr std::size_t ipv6_header = 40;
constexpr std::size_t tcp_header = 20;

/// IPv6 extension headers that may stand before TCP; every other next header is a transport of its own (or
/// ESP, behind which nothing can be read).
enum Ipv6Extension : std::uint8_t {
  hop_by_hop = 0,
  routing = 43,
  fragment_header = 44,
  authentication = 51,
  destination_options = 60,
};

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

std::uint16_t load16(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint16_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap16(word) : word;
}

std::uint32_t load32(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

template <IpAddress::Family family>
void load_address(std::span<const std::byte> bytes, std::size_t at, IpAddress& address) noexcept {
  address.family = family;
  std::memcpy(address.bytes.data(), bytes.data() + at, family == IpAddress::Family::v4 ? 4 : 16);
}

// In the functions below `bytes` ends where the enclosing header says that its content ends; before each load
// it has been checked that the bytes are there.

void parse_tcp(std::span<const std::byte> bytes, std::size_t at, Frame& frame) noexcept {
  if (bytes.size() - at < tcp_header) return;
  const std::size_t header = static_cast<std::size_t>(byte_at(bytes, at + 12) >> 4) * 4;
  if (header < tcp_header || header > bytes.size() - at) return;
  // Extension headers can push TCP further away than the offsets of Frame reach; nothing honest does.
  if (at + header > std::numeric_limits<std::uint16_t>::max()) return;
  frame.source_port = load16(bytes, at);
  frame.destination_port = load16(bytes, at + 2);
  frame.sequence = load32(bytes, at + 4);
  frame.acknowledgment = load32(bytes, at + 8);
  frame.tcp_flags = byte_at(bytes, at + 13);
  frame.payload_offset = static_cast<std::uint16_t>(at + header);
  frame.payload_length = static_cast<std::uint32_t>(bytes.size() - at - header);
  frame.kind = FrameKind::tcp;
}

void parse_transport(std::span<const std::byte> bytes, std::size_t at, std::uint8_t protocol,
                     Frame& frame) noexcept {
  if (at > std::numeric_limits<std::uint16_t>::max()) return;
  frame.l4_offset = static_cast<std::uint16_t>(at);
  if (protocol == protocol_tcp) {
    parse_tcp(bytes, at, frame);
  } else {
    frame.kind = FrameKind::other_transport;
  }
}

void parse_ipv4(std::span<const std::byte> bytes, std::size_t at, Frame& frame) noexcept {
  if (bytes.size() - at < ipv4_header || byte_at(bytes, at) >> 4 != 4) return;
  const std::size_t header = static_cast<std::size_t>(byte_at(bytes, at) & 15) * 4;
  const std::size_t total = load16(bytes, at + 2);
  if (header < ipv4_header || header > total || total > bytes.size() - at) return;
  load_address<IpAddress::Family::v4>(bytes, at + 12, frame.source);
  load_address<IpAddress::Family::v4>(bytes, at + 16, frame.destination);
  constexpr std::uint16_t more_fragments_and_offset = 0x3fff;
  if ((load16(bytes, at + 6) & more_fragments_and_offset) != 0) {
    frame.l4_offset = static_cast<std::uint16_t>(at + header);
    frame.kind = FrameKind::fragment;
    return;
  }
  parse_transport(bytes.first(at + total), at + header, byte_at(bytes, at + 9), frame);
}

void parse_ipv6(std::span<const std::byte> bytes, std::size_t at, Frame& frame) noexcept {
  if (bytes.size() - at < ipv6_header || byte_at(bytes, at) >> 4 != 6) return;
  const std::size_t length = load16(bytes, at + 4);
  if (length > bytes.size() - at - ipv6_header) return;
  load_address<IpAddress::Family::v6>(bytes, at + 8, frame.source);
  load_address<IpAddress::Family::v6>(bytes, at + 24, frame.destination);
  std::uint8_t next = byte_at(bytes, at + 6);
  at += ipv6_header;
  bytes = bytes.first(at + length);
  // Each round consumes at least eight bytes, so the packet's length bounds the rounds.
  for (;;) {
    std::size_t header = 0;
    switch (next) {
      case hop_by_hop:
      case routing:
      case destination_options:
        if (bytes.size() - at < 8) return;
        header = (byte_at(bytes, at + 1) + std::size_t{1}) * 8;
        break;
      case authentication:
        if (bytes.size() - at < 8) return;
        header = (byte_at(bytes, at + 1) + std::size_t{2}) * 4;
        break;
      case fragment_header: {
        if (bytes.size() - at < 8) return;
        header = 8;
        constexpr std::uint16_t offset_and_more_fragments = 0xfff9;
        // A fragment that is the whole packet (RFC 6946, "atomic") is no fragment.
        if ((load16(bytes, at + 2) & offset_and_more_fragments) != 0) {
          frame.l4_offset = static_cast<std::uint16_t>(
              std::min<std::size_t>(at + header, std::numeric_limits<std::uint16_t>::max()));
          frame.kind = FrameKind::fragment;
          return;
        }
        break;
      }
      default:
        parse_transport(bytes, at, next, frame);
        return;
    }
    if (header > bytes.size() - at) return;
    next = byte_at(bytes, at);
    at += header;
  }
}

/// A plain frame, as the functions above would fill it, with fewer questions. @return false: `frame` is
/// untouched, they have their say
bool parse_plain(std::span<const std::byte> bytes, Frame& frame) noexcept {
  const PlainPayload payload = plain_payload(bytes);
  if (payload.offset == 0) return false;
  constexpr std::size_t ip = ethernet_header;
  constexpr std::size_t tcp = ip + ipv4_header;
  load_address<IpAddress::Family::v4>(bytes, ip + 12, frame.source);
  load_address<IpAddress::Family::v4>(bytes, ip + 16, frame.destination);
  frame.kind = FrameKind::tcp;
  frame.tcp_flags = byte_at(bytes, tcp + 13);
  frame.l3_offset = ip;
  frame.l4_offset = tcp;
  frame.payload_offset = static_cast<std::uint16_t>(payload.offset);
  frame.payload_length = payload.length;
  frame.sequence = load32(bytes, tcp + 4);
  frame.acknowledgment = load32(bytes, tcp + 8);
  frame.source_port = load16(bytes, tcp);
  frame.destination_port = load16(bytes, tcp + 2);
  return true;
}

}  // namespace

Frame parse_frame(std::span<const std::byte> bytes) noexcept {
  Frame frame;
  if (parse_plain(bytes, frame)) return frame;
  if (bytes.size() < ethernet_header) return frame;
  std::size_t at = ethernet_header;
  std::uint16_t type = load16(bytes, ethernet_addresses);
  while ((type == type_vlan || type == type_service_vlan) && frame.vlan_tags < 2) {
    if (bytes.size() - at < vlan_tag) return frame;
    type = load16(bytes, at + 2);
    at += vlan_tag;
    ++frame.vlan_tags;
  }
  frame.l3_offset = static_cast<std::uint16_t>(at);
  if (type == type_ipv4) {
    parse_ipv4(bytes, at, frame);
  } else if (type == type_ipv6) {
    parse_ipv6(bytes, at, frame);
  } else {
    frame.kind = FrameKind::not_ip;
  }
  return frame;
}

}  // namespace weir
