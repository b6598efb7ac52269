// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What weir says about one request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

enum class Verdict : std::uint8_t { admit, block };

/// How much a burst's decisions tell. What is not told keeps its default; verdict, rule, action, observed,
/// limit and weight are always told. (To say what remains a decision must look at memory that workers share.)
enum class Detail : std::uint8_t {
  full,      ///< everything, of every request
  refusals,  ///< everything of what is refused; of what is admitted neither `remaining` nor `reset_after`
  verdicts,  ///< neither `remaining` nor `retry_after` nor `reset_after`
};

/// The answer to one request.
struct Decision {
  Verdict verdict = Verdict::admit;
  Action action = Action::observe;  ///< of the deciding rule; meaningful for `block`
  /// The rule that refused; else the first rule that applied; else no_rule.
  RuleIndex rule = no_rule;
  /// An observing rule that would have refused (the verdict does not show it); else no_rule.
  RuleIndex observed = no_rule;
  std::uint32_t weight = 0;  ///< what was, or would have been, charged under `rule`
  std::uint64_t limit = 0;   ///< of `rule`, per interval
  /// Weight that may still be admitted to the key now, by requests that fit into it, as far as this worker
  /// knows. Not in it is what other workers have at hand of the key, and what this one had when a span ended,
  /// until that has been counted: all together at most a 32nd of the limit, and what was drawn for requests
  /// that another rule then refused. 0 of what a rule that sheds has refused.
  std::uint64_t remaining = 0;
  /// For `block`: until the request may pass, if no other does, as far as this node knows; at least 1 ns.
  /// `forever`: it weighs more than the limit, or of a bucket than it holds beside what workers may have
  /// drawn ahead (a 32nd less than the burst, at most), and never may. Not said of what weighs all but a 32nd
  /// of the limit of a window that slides, or more: beside what is set aside for grants, and who is taken to
  /// have used a little, it may be told to wait time and again.
  Duration retry_after{};
  /// Until everything may be admitted again: the interval ends, the bucket is full, the window has passed,
  /// and a block has ended; 0: now.
  Duration reset_after{};
};

/// What Worker::decide_plain() says of a burst's frames. Without initial values: of each frame only what
/// belongs to a refused request is filled.
struct PlainDecisions {
  static constexpr std::size_t most_frames = 32;

  std::uint32_t admitted;  ///< bit i: the request in frame i has been, as Worker::admit_plain() has it
  std::uint32_t refused;   ///< bit i: likewise
  std::array<RuleIndex, most_frames> rules;       ///< by frame: Decision::rule
  std::array<Duration, most_frames> retry_after;  ///< by frame: Decision::retry_after, where the
                                                  ///< rule answers (reply-429); else 0
};

}  // namespace weir
