// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How a limit is divided: into the shares of nodes, into the price of a bucket's token, into the fraction of a
/// demand. And how the pieces become whole requests again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir {

/// What one token of a shared bucket costs a node, in 1/65536 of a token: the number of nodes that the key's
/// traffic is spread over. A node that sees a quarter of the traffic pays four tokens each, so that all
/// together spend the rate. At least full_price.
using TokenPrice = std::uint64_t;
inline constexpr TokenPrice full_price = 1 << 16;

constexpr TokenPrice price_of_share(double share) noexcept {
  constexpr double dearest = 4294967296.0;
  const double price = static_cast<double>(full_price) / std::max(share, 1e-9);
  return static_cast<TokenPrice>(std::clamp(price, static_cast<double>(full_price), dearest));
}

/// What a rule that sheds admits of a key's demand, of 2^32.
using AdmitFraction = std::uint64_t;
inline constexpr AdmitFraction admit_all = std::uint64_t{1} << 32;

constexpr AdmitFraction fraction_of(double limit, double demand) noexcept {
  if (demand <= limit || demand <= 0) return admit_all;
  return static_cast<AdmitFraction>(static_cast<double>(admit_all) * std::max(limit / demand, 0.0));
}

/// A part of a limit in whole requests: the whole ones, and one more as often as the rest is large. So a
/// hundred nodes with a tenth of a request each admit ten between them, not none and not a hundred. Which of
/// them do follows from the key's hash (every node has its own) and changes from window to window.
constexpr std::uint64_t whole_requests(double part, std::uint64_t key, std::int64_t window) noexcept {
  constexpr double most = 9.2e18;
  if (!(part > 0)) return 0;
  if (part >= most) return static_cast<std::uint64_t>(most);
  // Golden-ratio steps from window to window: the ones are spread evenly over time as well.
  const std::uint64_t phase = key * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(window) * 0x9e3779b97f4a7c15;
  return static_cast<std::uint64_t>(part + static_cast<double>(phase >> 11) * 0x1p-53);
}

}  // namespace weir
