// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a replay has found, in numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weir/packet.h"
#include "weir/time.h"

namespace weir::replay {

/// Requests of one key under one rule.
struct KeyTally {
  RuleIndex rule = no_rule;
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  std::uint64_t blocked = 0;  ///< refused by this rule, would-be refusals of an observing rule included
  MonotonicTime blocked_until = never;
};

struct Tally {
  static constexpr std::size_t frame_kinds = 5;

  std::array<std::uint64_t, frame_kinds> frames{};  ///< packets by FrameKind
  std::uint64_t packets = 0;
  std::uint64_t truncated = 0;         ///< packets of which the capture holds only a part
  std::uint64_t backward_steps = 0;    ///< packets earlier than one before them
  std::uint64_t with_requests = 0;     ///< TCP packets with at least one request
  std::uint64_t without_requests = 0;  ///< TCP packets with a payload that holds none
  std::uint64_t without_payload = 0;   ///< TCP packets
  std::uint64_t requests = 0;
  std::uint64_t incomplete = 0;    ///< requests whose headers go on in the next segment
  std::uint64_t without_rule = 0;  ///< requests to which no rule applied
  std::uint64_t blocked = 0;       ///< requests refused
  WallTime first{};                ///< of the packets
  WallTime last{};                 ///< the latest
  std::unordered_map<std::string, KeyTally> keys;
  std::uint64_t keys_left_out = 0;  ///< requests, per rule, of keys beyond the most that are told apart
};

}  // namespace weir::replay
