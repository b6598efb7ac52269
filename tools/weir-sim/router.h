// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which node a request comes to.
#pragma once

#include <cstdint>
#include <vector>

#include "random.h"
#include "scenario.h"

namespace weir::sim {

/// A load balancer in front of the nodes, after the scenario's `[spread]`.
class Router {
 public:
  Router(const Spread& spread, std::uint32_t nodes, std::size_t keys, Random random);

  /// A node that is away gets nothing, or what it gets is lost.
  enum class State : std::uint8_t { open, closed, losing };
  void set(std::uint32_t node, State state);

  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

  /// @param regular  of a stream that comes at equal distances: even spread takes turns
  /// @return `nowhere` when the request is lost
  std::uint32_t route(std::size_t key, Duration now, bool regular);

 private:
  std::uint32_t next_open(std::uint32_t node) const noexcept;

  Spread spread_;
  Random random_;
  Chooser zipf_;
  std::vector<State> states_;
  std::vector<std::uint32_t> taking_;  // not closed
  std::vector<std::uint32_t> turns_;   // by key
};

}  // namespace weir::sim
