// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which of two ways the next burst is expected to want.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir {

/// The usual way, until nearly all of the last bursts have wanted the other one; and that one again as soon
/// as some have not. What the last burst alone has wanted tells nothing: whoever sends bursts of his own
/// between those of others would so have all of theirs go the wrong way.
class ExpectedWay {
 public:
  bool is_other() const noexcept { return wanted_ >= enough; }
  /// Whether it makes a difference that a burst has not wanted the other way.
  bool has_learned() const noexcept { return wanted_ > 0; }
  /// @param other  what this burst has wanted
  void learn(bool other) noexcept {
    wanted_ = other ? std::min<std::uint8_t>(static_cast<std::uint8_t>(wanted_ + 1), most) : wanted_ / 2;
  }

 private:
  static constexpr std::uint8_t enough = 8;
  static constexpr std::uint8_t most = 2 * enough;

  std::uint8_t wanted_ = 0;  // by how many bursts, as far as others since do not speak against it
};

}  // namespace weir
