// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// By how much a `cooldown` rule can be exceeded in one aligned interval, all nodes together: the bound that is
/// published for a configuration, and that the simulator holds its measurements against.
///
/// Derivation. A node stops at the limit minus what others are known to have admitted (the sound early block),
/// so alone it never exceeds the limit, and n nodes together never exceed n limits: the excess is at most
/// n − 1 limits, whatever fails. While the store answers, let t be the moment the cluster's admissions reach
/// the limit. Every node has written what it admitted until t by the end of the span that t lies in. A node that
/// admits something after t writes it when its span ends, and the answer tells it the sum; where another's write
/// for that span comes after its own, it sees that one with its next. From then on it admits nothing more. So
/// each node is blind for at most 2 spans + 2 round trips, counted from its first admission after t: which may be
/// late, where a node falls silent and comes back. So the excess is at most the sum over nodes of the most that
/// is offered to each in any window of that length. Clocks that differ by up to `skew` shift spans and borders
/// by as much, each way.
///
/// Keeping back (Rule::hold_back, a part h of the limit) hides at most h limits over all nodes at the end of any
/// span. So when the cluster's admissions reach the limit plus that, what is written reaches the limit: h more at
/// most until then. And a node that has just written may admit its part of h once more before it writes, and
/// hears, again: another h at most. So the excess grows by at most 2 h limits. (That holds while the nodes know how
/// many they are: a node keeps nothing back before it has been counted for a whole second, others know of it by
/// then, and who may keep back less than before writes what is beyond that with his next span. Only of nodes that
/// begin where there were none the n-th keeps back a part of h before: one in n (n + 1), which comes to less than h
/// for all of them. So the first may have more than an equal part for a second; the sum is what counts.)
///
/// What blocks, the share (`nodes`) and reading ahead of need spare comes off, and is not
/// counted on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "weir/time.h"

namespace weir {

/// How long an exceeding can stay unknown to some node while the store answers.
/// @param round_trip  the longest from a span's end to the store's answer
/// @param skew        the most by which two nodes' clocks differ
constexpr Duration cooldown_blind_time(Duration interval, std::uint32_t spans, Duration round_trip,
                                       Duration skew) noexcept {
  return 2 * (interval / spans + Duration{1}) + 2 * round_trip + 2 * skew;
}

/// The most that can be admitted over `limit` in one aligned interval, in units of weight.
/// @param nodes    that may carry the key, those that restarted or whose clock was set within the interval
///                 counted once more for each time
/// @param offered  the sum over nodes of the most offered to each in any window of cooldown_blind_time(); where the
///                 store fails, loses answers or is wiped: the largest number there is
/// @param hold_back  0 … 0.5, as in the rule; nothing where it comes to less than one request
constexpr std::uint64_t cooldown_overshoot_bound(std::uint64_t limit, std::uint64_t nodes, std::uint64_t offered,
                                                 double hold_back) noexcept {
  const auto hidden = static_cast<std::uint64_t>(2 * hold_back * static_cast<double>(limit) + 1e-9);
  const auto others = static_cast<unsigned __int128>(nodes > 0 ? nodes - 1 : 0) * limit;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  offered = offered > most - hidden ? most : offered + hidden;
  return std::min(offered, others > most ? most : static_cast<std::uint64_t>(others));
}

}  // namespace weir
