// SPDX-License-Identifier: BSD-3-Clause
#include "filter/reply.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "filter/checksum.h"

namespace weir::filter {
namespace {

constexpr std::size_t ipv4_header_length = 20;
constexpr std::size_t ipv6_header_length = 40;
constexpr std::size_t tcp_header_length = 20;
constexpr std::size_t timestamps_length = 12;  // two NOPs before it keep its values aligned
constexpr std::uint8_t hop_limit = 64;
constexpr std::uint8_t protocol_tcp = 6;

/// Appends to a fixed piece of memory; what does not fit makes it `failed` instead.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) noexcept : out_(out) {}

  void bytes(std::span<const std::byte> piece) noexcept {
    if (piece.empty() || failed_) return;
    if (piece.size() > out_.size() - length_) {
      failed_ = true;
      return;
    }
    std::memcpy(out_.data() + length_, piece.data(), piece.size());
    length_ += piece.size();
  }
  void text(std::string_view piece) noexcept { bytes(std::as_bytes(std::span{piece})); }
  void number(std::uint64_t value) noexcept {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  void u8(std::uint8_t value) noexcept { bytes(std::array{std::byte{value}}); }
  void u16(std::uint16_t value) noexcept {
    u8(static_cast<std::uint8_t>(value >> 8));
    u8(static_cast<std::uint8_t>(value & 0xff));
  }
  void u32(std::uint32_t value) noexcept {
    u16(static_cast<std::uint16_t>(value >> 16));
    u16(static_cast<std::uint16_t>(value & 0xffff));
  }

  std::size_t length() const noexcept { return length_; }
  bool failed() const noexcept { return failed_; }

 private:
  std::span<std::byte> out_;
  std::size_t length_ = 0;
  bool failed_ = false;
};

void store_u16(std::span<std::byte> at, std::uint16_t value) noexcept {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value & 0xff);
}

std::uint32_t load_u32(std::span<const std::byte> at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = (value << 8) | std::to_integer<std::uint32_t>(at[i]);
  return value;
}

/// The client's TCP timestamps; absent where the connection does not use them.
struct Timestamps {
  bool present = false;
  std::uint32_t value = 0;
  std::uint32_t echo = 0;
};

Timestamps timestamps_of(const Segment& segment) noexcept {
  constexpr std::uint8_t end_of_options = 0;
  constexpr std::uint8_t no_operation = 1;
  constexpr std::uint8_t timestamps = 8;
  const std::size_t begin = segment.frame.l4_offset + tcp_header_length;
  const std::size_t end = std::min<std::size_t>(segment.frame.payload_offset, segment.bytes.size());
  for (std::size_t at = begin; at < end;) {
    const auto kind = std::to_integer<std::uint8_t>(segment.bytes[at]);
    if (kind == end_of_options) break;
    if (kind == no_operation) {
      ++at;
      continue;
    }
    if (at + 1 >= end) break;
    const auto length = std::to_integer<std::size_t>(segment.bytes[at + 1]);
    if (length < 2 || length > end - at) break;
    if (kind == timestamps && length == 10)
      return {true, load_u32(segment.bytes.subspan(at + 2, 4)), load_u32(segment.bytes.subspan(at + 6, 4))};
    at += length;
  }
  return {};
}

enum class Toward { client, server };

struct TcpFields {
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgment = 0;
  std::uint8_t flags = 0;
  Timestamps timestamps;  // as the client's segment has them; sent back the other way round
};

/// A frame on the client's connection: link header copied, everything above it made anew.
std::size_t craft(const Segment& origin, Toward toward, const TcpFields& fields, std::string_view payload,
                  std::span<std::byte> out) noexcept {
  const Frame& frame = origin.frame;
  const bool back = toward == Toward::client;
  const IpAddress& source = back ? frame.destination : frame.source;
  const IpAddress& destination = back ? frame.source : frame.destination;
  const bool ipv6 = source.family == IpAddress::Family::v6;
  const std::size_t options_length = fields.timestamps.present ? timestamps_length : 0;
  const std::size_t segment_length = tcp_header_length + options_length + payload.size();
  const std::size_t l3_length = ipv6 ? ipv6_header_length : ipv4_header_length;

  Writer writer(out);
  const auto link = origin.bytes.first(frame.l3_offset);
  writer.bytes(back ? link.subspan(6, 6) : link.first(6));
  writer.bytes(back ? link.first(6) : link.subspan(6, 6));
  writer.bytes(link.subspan(12));
  if (ipv6) {
    writer.u32(std::uint32_t{6} << 28);
    writer.u16(static_cast<std::uint16_t>(segment_length));
    writer.u8(protocol_tcp);
    writer.u8(hop_limit);
    writer.bytes(std::as_bytes(std::span{source.bytes}));
    writer.bytes(std::as_bytes(std::span{destination.bytes}));
  } else {
    constexpr std::uint16_t do_not_fragment = 0x4000;  // so the identification may be zero (RFC 6864)
    writer.u16(0x4500);
    writer.u16(static_cast<std::uint16_t>(l3_length + segment_length));
    writer.u16(0);
    writer.u16(do_not_fragment);
    writer.u8(hop_limit);
    writer.u8(protocol_tcp);
    writer.u16(0);  // checksum, below
    writer.bytes(std::as_bytes(std::span{source.bytes}.first(4)));
    writer.bytes(std::as_bytes(std::span{destination.bytes}.first(4)));
  }
  // The peer's window scale is unknown here; the largest unscaled window lets a client finish what it is
  // sending.
  const std::uint16_t window = (fields.flags & tcp_rst) != 0 ? 0 : 0xffff;
  writer.u16(back ? frame.destination_port : frame.source_port);
  writer.u16(back ? frame.source_port : frame.destination_port);
  writer.u32(fields.sequence);
  writer.u32(fields.acknowledgment);
  writer.u8(static_cast<std::uint8_t>(((tcp_header_length + options_length) / 4) << 4));
  writer.u8(fields.flags);
  writer.u16(window);
  writer.u16(0);  // checksum, below
  writer.u16(0);
  if (fields.timestamps.present) {
    writer.u32(0x0101080a);  // NOP, NOP, kind 8, length 10
    // The last value the client saw from the server: neither older nor newer than what its checks accept.
    writer.u32(fields.timestamps.echo);
    writer.u32(fields.timestamps.value);
  }
  writer.text(payload);
  if (writer.failed()) return 0;

  const auto l3 = out.subspan(frame.l3_offset, l3_length);
  if (!ipv6) store_u16(l3.subspan(10), ipv4_header_checksum(l3));
  const auto l4 = out.subspan(frame.l3_offset + l3_length, segment_length);
  store_u16(l4.subspan(16), tcp_checksum(source, destination, l4));
  return writer.length();
}

void write_body(Writer& writer, const Refusal& refusal) noexcept {
  writer.text("Too many requests: the limit of rule \"");
  writer.text(refusal.rule->name);
  writer.text("\" is reached. Try again in ");
  writer.number(refusal.retry_after_seconds);
  writer.text(" s.\n");
}

void write_response(Writer& writer, const Refusal& refusal) noexcept {
  const Rule& rule = *refusal.rule;
  const std::uint64_t window_seconds = whole_seconds(rule.interval);
  const std::uint64_t seconds = refusal.retry_after_seconds;
  std::array<std::byte, 256> body_memory;
  Writer body(body_memory);
  write_body(body, refusal);

  writer.text("HTTP/1.1 429 Too Many Requests\r\nRetry-After: ");
  writer.number(seconds);
  writer.text("\r\nRateLimit-Policy: \"");
  writer.text(rule.name);
  writer.text("\";q=");
  writer.number(rule.limit);
  writer.text(";w=");
  writer.number(window_seconds);
  writer.text("\r\nRateLimit: \"");
  writer.text(rule.name);
  writer.text("\";r=0;t=");
  writer.number(seconds);
  writer.text("\r\nRateLimit-Limit: ");
  writer.number(rule.limit);
  writer.text("\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: ");
  writer.number(seconds);
  writer.text("\r\nContent-Type: text/plain\r\nContent-Length: ");
  writer.number(body.length());
  writer.text("\r\nConnection: close\r\n\r\n");
  if (!refusal.head) writer.bytes(std::span{body_memory}.first(body.length()));
}

}  // namespace

std::uint64_t whole_seconds(Duration duration) noexcept {
  constexpr std::int64_t second = std::chrono::nanoseconds{std::chrono::seconds{1}}.count();
  if (duration.count() <= second) return 1;
  return static_cast<std::uint64_t>((duration.count() - 1) / second + 1);
}

std::uint32_t sequence_end(const Frame& frame) noexcept {
  return frame.sequence + frame.payload_length + ((frame.tcp_flags & tcp_syn) != 0 ? 1 : 0) +
         ((frame.tcp_flags & tcp_fin) != 0 ? 1 : 0);
}

std::size_t craft_reset_to_client(const Segment& request, std::span<std::byte> out) noexcept {
  const bool acknowledged = (request.frame.tcp_flags & tcp_ack) != 0;
  return craft(request, Toward::client,
               {.sequence = acknowledged ? request.frame.acknowledgment : 0,
                .acknowledgment = sequence_end(request.frame),
                .flags = tcp_rst | tcp_ack,
                .timestamps = {}},
               {}, out);
}

std::size_t craft_reset_to_server(const Segment& request, std::span<std::byte> out) noexcept {
  return craft(request, Toward::server,
               {.sequence = request.frame.sequence, .acknowledgment = 0, .flags = tcp_rst, .timestamps = {}},
               {}, out);
}

CraftedReply craft_reply_429(const Segment& request, const Refusal& refusal,
                             std::span<std::byte> out) noexcept {
  std::array<std::byte, max_crafted_frame> memory;
  Writer response(memory);
  write_response(response, refusal);
  if (response.failed()) return {};
  const std::string_view payload(reinterpret_cast<const char*>(memory.data()), response.length());
  const std::size_t length = craft(request, Toward::client,
                                   {.sequence = request.frame.acknowledgment,
                                    .acknowledgment = sequence_end(request.frame),
                                    .flags = tcp_psh | tcp_ack | tcp_fin,
                                    .timestamps = timestamps_of(request)},
                                   payload, out);
  return {length, payload.size()};
}

std::size_t craft_acknowledgment(const Segment& segment, std::uint32_t sequence, std::uint32_t acknowledgment,
                                 std::span<std::byte> out) noexcept {
  return craft(segment, Toward::client,
               {.sequence = sequence,
                .acknowledgment = acknowledgment,
                .flags = tcp_ack,
                .timestamps = timestamps_of(segment)},
               {}, out);
}

}  // namespace weir::filter
