// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a 429 says, in the fields of RFC 9110 and draft-ietf-httpapi-ratelimit-headers and the older ones
/// that clients know. A flood is mostly refused requests, each of which gets its answer, and most of them are
/// told the same, to the second: so the last answer is kept, and copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "filter/checksum.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::filter {

/// Retry-After for a block that lasts this much longer: whole seconds, rounded up, at least 1.
std::uint64_t whole_seconds(Duration duration) noexcept;

/// The responses of one rule. One thread.
class RefusalText {
 public:
  /// A response in its place.
  struct Written {
    std::size_t length = 0;  ///< bytes
    ChecksumSum sum;
  };

  /// Allocates all that it will ever need.
  explicit RefusalText(const Rule& rule);

  /// Bytes that one takes, at most.
  static constexpr std::size_t memory() noexcept { return sizeof(RefusalText) + 2 * longest_text; }

  /// Writes a response from its first byte to its last.
  /// @param retry_after_seconds  at least 1
  /// @param head                 the method was HEAD: no body
  /// @return its length is 0 when it does not fit
  Written write(std::uint64_t retry_after_seconds, bool head, std::span<std::byte> out) noexcept;

 private:
  /// Of what a configuration may have; a string may have twice the room.
  static constexpr std::size_t longest_text = 1024;

  void compose(std::uint64_t retry_after_seconds, bool head);

  std::string name_;  // in quotes
  std::string limit_;
  std::string window_;  // seconds
  // The last one.
  std::string text_;
  ChecksumSum sum_;
  std::uint64_t seconds_ = 0;
  bool head_ = false;
};

}  // namespace weir::filter
