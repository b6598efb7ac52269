// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Plays packets through a node in the packets' own time: both clocks are the capture's, so the same capture
/// gives the same decisions however fast it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capture.h"
#include "tally.h"
#include "timeline.h"
#include "weir/throttle.h"

namespace weir::replay {

/// A request and what became of it. Views are valid during the call only.
struct Outcome {
  WallTime time;  ///< of its packet
  const Request& request;
  std::string_view rule;     ///< the one that refused, else the first that applied; empty: none did
  std::string_view key;      ///< under that rule
  std::uint32_t weight = 1;  ///< charged, or refused, under that rule
  Verdict verdict = Verdict::admit;
};

class Replay {
 public:
  using Listener = std::function<void(const Outcome&)>;

  /// @param throttle  none: classify without rules
  /// @param longest_walk  see Timeline
  Replay(std::unique_ptr<Throttle> throttle, Listener listener,
         std::int64_t longest_walk = Timeline::default_longest_walk);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void play(const Packet& packet);

  const Tally& tally() const noexcept { return tally_; }
  /// What the node itself has counted, by rule, with the keys blocked at the end; empty without rules.
  std::vector<RuleFigures> rules() const;
  /// Requests that found no room for their keys, once for each rule: what became of them may be wrong.
  std::uint64_t overflowed() const { return throttle_ == nullptr ? 0 : throttle_->figures().overflowed; }
  /// Whether a key is blocked at the end of what has been played.
  bool is_blocked(const KeyTally& key) const noexcept { return monotonic(now_) < key.blocked_until; }

 private:
  MonotonicTime monotonic(WallTime at) const noexcept;
  void move_to(WallTime time);
  void drive(WallTime at);
  void decide(const Packet& packet, ParsedRequest& parsed);
  KeyTally* tally_of(const std::string& key);
  /// By rule: whether it observes, and would have refused what has just been decided on.
  std::vector<bool> would_have_refused(const Decision& decision);

  std::unique_ptr<Throttle> throttle_;
  Worker* worker_ = nullptr;
  Listener listener_;
  Timeline timeline_;
  Tally tally_;
  HeaderSelection headers_;  ///< what the rules name, and the host, which listeners see
  /// By rule: how many requests it would have refused so far, if it observes.
  std::vector<std::uint64_t> observed_;
  WallTime now_{};
};

}  // namespace weir::replay
