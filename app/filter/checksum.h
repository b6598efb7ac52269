// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The Internet checksum (RFC 1071), in software: crafted frames must be right on every device, virtual ones
/// included. Pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace weir::filter {

/// The sum of up to 64 KiB, taken as 16-bit words in the machine's order: an odd last byte is padded with
/// zero. Whichever way the bytes of all words are swapped, so are those of their sum, and the sums of larger
/// words fold to the same 16 bits (RFC 1071, 2(B) and 2(D)).
class ChecksumSum {
 public:
  ChecksumSum() = default;
  explicit ChecksumSum(std::span<const std::byte> bytes) noexcept {
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 4; at += 4, left -= 4) add(load<std::uint32_t>(at));
    if (left >= 2) add(std::uint32_t{load<std::uint16_t>(at)});
    if (left % 2 == 0) return;
    const std::array<std::byte, 2> padded{bytes.back(), std::byte{0}};
    add(std::uint32_t{load<std::uint16_t>(padded.data())});
  }

  /// One or two words as they lie in memory.
  void add(std::uint32_t words) noexcept { sum_ += words; }
  /// @pre it stands behind an even number of bytes
  void add(ChecksumSum other) noexcept { sum_ += other.sum_; }

  /// The checksum of what has 0 in the place of it, as it lies in memory; 0 of what has the right one there.
  std::uint16_t checksum() const noexcept {
    std::uint64_t sum = (sum_ & 0xffffffff) + (sum_ >> 32);
    for (int i = 0; i < 3; ++i) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }

 private:
  template <typename Word>
  static Word load(const std::byte* at) noexcept {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }

  std::uint64_t sum_ = 0;  // of so few words that it does not overflow
};

}  // namespace weir::filter
