// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What becomes of a decision: whoever asks for one looks at it.
#pragma once

#include <weir/decision.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace weir::bench {

/// @param verdicts  of a burst: so few that a byte counts them. (std::ranges::count() takes longer over them
/// than an array's elements take to be counted up.)
inline std::uint64_t admitted_of(std::span<const Verdict> verdicts) noexcept {
  std::uint8_t admitted = 0;
  for (const Verdict verdict : verdicts) admitted += verdict == Verdict::admit;
  return admitted;
}

inline std::uint64_t admitted_of(std::span<const Decision> decisions) noexcept {
  return static_cast<std::uint64_t>(std::ranges::count(decisions, Verdict::admit, &Decision::verdict));
}

/// What a worker has been asked, and what it has said.
struct Asked {
  std::uint64_t requests = 0;
  std::uint64_t admitted = 0;

  void count(auto answers) noexcept {
    requests += answers.size();
    admitted += admitted_of(answers);
  }
};

}  // namespace weir::bench
