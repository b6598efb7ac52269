// SPDX-License-Identifier: BSD-3-Clause
#include "filter/checksum.h"

#include <bit>
#include <cstring>

namespace weir::filter {

std::uint64_t checksum_add(std::uint64_t sum, std::span<const std::byte> bytes) noexcept {
  std::size_t at = 0;
  // Eight at a time: sums of 32-bit words fold to the same 16 bits (RFC 1071, 2(D)).
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    sum += (word >> 32) + (word & 0xffffffff);
  }
  for (; at + 1 < bytes.size(); at += 2)
    sum += (std::to_integer<std::uint64_t>(bytes[at]) << 8) | std::to_integer<std::uint64_t>(bytes[at + 1]);
  if (at < bytes.size()) sum += std::to_integer<std::uint64_t>(bytes[at]) << 8;
  return sum;
}

std::uint16_t checksum_finish(std::uint64_t sum) noexcept {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::uint16_t ipv4_header_checksum(std::span<const std::byte> header) noexcept {
  return checksum_finish(checksum_add(0, header));
}

std::uint16_t tcp_checksum(const IpAddress& source, const IpAddress& destination,
                           std::span<const std::byte> segment) noexcept {
  constexpr std::uint64_t protocol_tcp = 6;
  const std::size_t address_length = source.family == IpAddress::Family::v6 ? 16 : 4;
  std::uint64_t sum = protocol_tcp + segment.size();
  sum = checksum_add(sum, std::as_bytes(std::span{source.bytes}.first(address_length)));
  sum = checksum_add(sum, std::as_bytes(std::span{destination.bytes}.first(address_length)));
  return checksum_finish(checksum_add(sum, segment));
}

}  // namespace weir::filter
