// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which keys workers have grants of (shared/grant_table.h): what one publication says of it, by what the one
/// before said.
///
/// A key of which each request is to be looked at has no grants, and from the next interval on nothing is
/// kept from its cell for them. Which keys those are workers learn from publications, each in its own time:
/// so who has had grants when an interval began may have used them until it ends, and who has had none gets
/// none until then.
///
/// A window that slides holds what was admitted in the interval before, too. So a key must not be granted
/// anything while others may still draw all that it has left: grants come back to it only after an interval
/// in which what they come to has been kept. Meanwhile it has none, and they are reserved.
#pragma once

#include <cstdint>

#include "shared/publication.h"

namespace weir {

/// Of one key under one publication; as KeyState says it.
struct GrantTerms {
  std::uint64_t ungranted_since = KeyState::granted;
  bool reserved = false;

  bool granted() const noexcept { return ungranted_since == KeyState::granted; }
  /// Where windows slide: what is to be left in cells for what workers use out of grants. Why so much
  /// shared/grant_table.h derives; where there are no grants any more, there is still what was used before.
  /// @param granted   what all workers' grants come to in an interval at most
  /// @param interval  WindowState::interval_number
  std::uint64_t kept(std::uint64_t granted, std::uint64_t interval) const noexcept {
    if (reserved || ungranted_since > interval) return 3 * granted;
    return ungranted_since == interval ? 2 * granted : 0;
  }
};

/// The interval that a publication is of.
struct GrantInterval {
  std::uint64_t number = 0;  ///< WindowState::interval_number
  std::uint64_t whole = 0;   ///< the first one that lies wholly after what was published before
  bool turned = false;       ///< it runs for the first time with this publication
  bool judged = true;        ///< Publication::judged
  bool slides = false;       ///< its windows do
  bool keeps_all = false;    ///< what grants come to is never drawn: it is missing in the bucket
};

/// @param before     what was published of it; nullptr: it was granted
/// @param wants_all  whether the key is to have none
inline GrantTerms next_grant_terms(const KeyState* before, bool wants_all,
                                   const GrantInterval& interval) noexcept {
  if (interval.keeps_all && !wants_all) return {};
  if (!interval.slides) {
    // Who had none when the interval began has none until it ends: all of the allowance may be drawn.
    if (!wants_all && (before == nullptr || interval.turned)) return {};
    return {.ungranted_since = before != nullptr ? before->ungranted_since : interval.whole};
  }
  if (wants_all)
    return {.ungranted_since =
                before != nullptr && !before->reserved ? before->ungranted_since : interval.whole};
  if (before == nullptr || (before->reserved && before->ungranted_since < interval.number)) return {};
  // As long as it is not known what was used in the span that has ended, more seems to be left than there is.
  if (!before->reserved && !interval.judged) return {.ungranted_since = before->ungranted_since};
  return {.ungranted_since = before->reserved ? before->ungranted_since : interval.whole, .reserved = true};
}

}  // namespace weir
