// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a client of the token server holds: tokens that were granted and not spent yet, by key, each until
/// the end of the window they were granted in.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weir {

/// Tokens of one key in one window.
struct HeldTokens {
  std::uint64_t tokens = 0;
  std::uint64_t left = 0;    ///< at the server, when it was last asked
  std::int64_t ordinal = 0;  ///< of the window
  std::chrono::steady_clock::time_point until{};
};

/// Bounded; one thread at a time.
class TokenPurse {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// @param most  keys held at once
  explicit TokenPurse(std::size_t most) : most_(most) {}

  /// What is held for a key and has not expired; nothing: nullptr. Valid until the next call of put().
  HeldTokens* find(std::string_view key, TimePoint now);

  /// Whether tokens of a key could be kept: it is known, or there is room, made by forgetting what has
  /// expired.
  bool has_room(std::string_view key, TimePoint now);

  /// @pre has_room()
  void put(std::string_view key, const HeldTokens& held);
  void forget(std::string_view key);

 private:
  std::size_t most_;
  std::unordered_map<std::string, HeldTokens> held_;
  TimePoint next_sweep_ = TimePoint::min();  // nothing expires before
};

}  // namespace weir
