// SPDX-License-Identifier: BSD-3-Clause
#include "filter/reply.h"

#include <rte_byteorder.h>

#include <algorithm>
#include <cstring>

#include "filter/checksum.h"

namespace weir::filter {
namespace {

constexpr std::size_t ipv4_header_length = 20;
constexpr std::size_t ipv6_header_length = 40;
constexpr std::size_t tcp_header_length = 20;
constexpr std::size_t timestamps_length = 12;  // two NOPs before it keep its values aligned
constexpr std::uint8_t hop_limit = 64;
constexpr std::uint8_t protocol_tcp = 6;

/// Writes numbers as headers have them, and sums them on their way: whoever read them back to do so would
/// wait for what has been written in smaller pieces than he reads.
class HeaderWriter {
 public:
  explicit HeaderWriter(std::byte* at) noexcept : at_(at) {}

  void u16(std::uint16_t number) noexcept { put(rte_cpu_to_be_16(number)); }
  void u32(std::uint32_t number) noexcept { put(rte_cpu_to_be_32(number)); }
  void two_u8(std::uint8_t first, std::uint8_t second) noexcept {
    u16(static_cast<std::uint16_t>(first << 8 | second));
  }
  /// @return the sum of it
  ChecksumSum address(const IpAddress& address) noexcept {
    ChecksumSum sum;
    const std::size_t size = address.family == IpAddress::Family::v6 ? 16 : 4;
    for (std::size_t i = 0; i < size; i += 4) {
      std::uint32_t words;
      std::memcpy(&words, &address.bytes[i], sizeof words);
      put(words);
      sum.add(words);
    }
    return sum;
  }

  std::byte* at() const noexcept { return at_; }
  /// Of what has been written.
  ChecksumSum sum() const noexcept { return sum_; }

 private:
  template <typename Word>
  void put(Word words) noexcept {
    std::memcpy(at_, &words, sizeof words);
    at_ += sizeof words;
    sum_.add(std::uint32_t{words});
  }

  std::byte* at_;
  ChecksumSum sum_;
};

void write_checksum(std::byte* at, const ChecksumSum& sum) noexcept {
  const std::uint16_t checksum = sum.checksum();
  std::memcpy(at, &checksum, sizeof checksum);
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

bool is_ipv6(const Frame& frame) noexcept { return frame.source.family == IpAddress::Family::v6; }

/// Of all headers of a crafted frame.
std::size_t headers_length(const Frame& origin, bool timestamps) noexcept {
  return origin.l3_offset + (is_ipv6(origin) ? ipv6_header_length : ipv4_header_length) + tcp_header_length +
         (timestamps ? timestamps_length : 0);
}

/// Makes the headers of a frame on the client's connection: the link header copied, everything above it anew.
/// @param payload  stands in `out` behind the place of the headers already
/// @return the frame's length; 0 when it does not fit
std::size_t craft(const Segment& origin, Toward toward, const TcpFields& fields,
                  const RefusalText::Written& payload, std::span<std::byte> out) noexcept {
  const Frame& frame = origin.frame;
  const std::size_t length = headers_length(frame, fields.timestamps.present) + payload.length;
  if (length > out.size()) return 0;
  const bool back = toward == Toward::client;
  const IpAddress& source = back ? frame.destination : frame.source;
  const IpAddress& destination = back ? frame.source : frame.destination;
  const bool ipv6 = is_ipv6(frame);
  const std::size_t l3_length = ipv6 ? ipv6_header_length : ipv4_header_length;
  const std::size_t segment_length = length - frame.l3_offset - l3_length;
  const std::size_t options_length = fields.timestamps.present ? timestamps_length : 0;

  constexpr std::size_t mac_length = 6;
  const std::byte* const link = origin.bytes.data();
  std::memcpy(out.data(), back ? link + mac_length : link, mac_length);
  std::memcpy(out.data() + mac_length, back ? link : link + mac_length, mac_length);
  std::memcpy(out.data() + 2 * mac_length, link + 2 * mac_length, frame.l3_offset - 2 * mac_length);

  HeaderWriter l3(out.data() + frame.l3_offset);
  ChecksumSum pseudo_header;
  const auto addresses = [&] {
    pseudo_header.add(l3.address(source));
    pseudo_header.add(l3.address(destination));
  };
  if (ipv6) {
    l3.u32(std::uint32_t{6} << 28);
    l3.u16(static_cast<std::uint16_t>(segment_length));
    l3.two_u8(protocol_tcp, hop_limit);
    addresses();
  } else {
    constexpr std::uint16_t do_not_fragment = 0x4000;  // so the identification may be zero (RFC 6864)
    l3.u16(0x4500);
    l3.u16(static_cast<std::uint16_t>(l3_length + segment_length));
    l3.u16(0);
    l3.u16(do_not_fragment);
    l3.two_u8(hop_limit, protocol_tcp);
    std::byte* const checksum = l3.at();
    l3.u16(0);
    addresses();
    write_checksum(checksum, l3.sum());
  }
  // The peer's window scale is unknown here; the largest unscaled window lets a client finish what it is
  // sending.
  const std::uint16_t window = (fields.flags & tcp_rst) != 0 ? 0 : 0xffff;
  HeaderWriter l4(l3.at());
  l4.u16(back ? frame.destination_port : frame.source_port);
  l4.u16(back ? frame.source_port : frame.destination_port);
  l4.u32(fields.sequence);
  l4.u32(fields.acknowledgment);
  l4.two_u8(static_cast<std::uint8_t>(((tcp_header_length + options_length) / 4) << 4), fields.flags);
  l4.u16(window);
  std::byte* const checksum = l4.at();
  l4.u32(0);  // and no urgent data
  if (fields.timestamps.present) {
    l4.u32(0x0101080a);  // NOP, NOP, kind 8, length 10
    // The last value the client saw from the server: neither older nor newer than what its checks accept.
    l4.u32(fields.timestamps.echo);
    l4.u32(fields.timestamps.value);
  }
  ChecksumSum sum = l4.sum();
  sum.add(payload.sum);
  sum.add(pseudo_header);
  sum.add(rte_cpu_to_be_32(protocol_tcp + static_cast<std::uint32_t>(segment_length)));
  write_checksum(checksum, sum);
  return length;
}

}  // namespace

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
  const TcpFields fields{.sequence = request.frame.acknowledgment,
                         .acknowledgment = sequence_end(request.frame),
                         .flags = tcp_psh | tcp_ack | tcp_fin,
                         .timestamps = timestamps_of(request)};
  const std::size_t headers = headers_length(request.frame, fields.timestamps.present);
  if (headers > out.size()) return {};
  const RefusalText::Written text =
      refusal.text->write(refusal.retry_after_seconds, refusal.head, out.subspan(headers));
  if (text.length == 0) return {};
  return {craft(request, Toward::client, fields, text, out), text.length};
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
