// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The shortest span in which many nodes get all their keys synchronised, by trial.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "redis_server.h"
#include "weir/config.h"

namespace weir::bench {

struct SpanTerms {
  std::size_t nodes = 8;
  std::size_t keys = 100'000;  ///< all of them active on every node, in every span
  std::size_t spans = 8;       ///< of one trial
  StoreLayout layout = StoreLayout::hash;
  bool cold = false;  ///< every span has counters of its own, instead of the same ones for all
};

/// Spans of one length, one after the other; all nodes begin each at the same instant.
struct SpanTrial {
  Duration span{};        ///< 0: each node began the next as soon as it was through
  bool held = false;      ///< every sync of every node was through when its span was
  Duration slowest{};     ///< sync of any node
  Duration elapsed{};     ///< of the whole trial
  double server_cores{};  ///< processor time of the server, and of all nodes together, per time elapsed
  double nodes_cores{};
  double busy_cores{};           ///< by everything on this machine
  double bytes_in_per_second{};  ///< at the server
  double bytes_out_per_second{};
};

struct SpanResult {
  std::vector<SpanTrial> trials;  ///< in the order they were made
  SpanTrial best;                 ///< the shortest that was held
  double cores = 0;               ///< of this machine
  std::string bound;              ///< what there was no more of
};

/// Starts a process per node; so the calling process must have no other threads. Throws when a sum on the
/// server is not what the nodes have submitted.
SpanResult find_span(RedisServer& server, const SpanTerms& terms);

}  // namespace weir::bench
