// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What becomes of a decision: whoever asks for one looks at it.
#pragma once

#include <weir/decision.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace weir::bench {

inline std::uint64_t admitted_of(std::span<const Verdict> verdicts) noexcept {
  return static_cast<std::uint64_t>(std::ranges::count(verdicts, Verdict::admit));
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
