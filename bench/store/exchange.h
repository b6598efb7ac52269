// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The other way to share counters: each node writes all its own counts, a blob per partition, and reads
/// those of all other nodes. Idempotent without a script; but what is read grows with the square of the
/// nodes.
#pragma once

#include <cstddef>

#include "key_set.h"
#include "redis_server.h"

namespace weir::bench {

/// Per key and node: one node's part in one sync of one key. Nanoseconds of processor time, and bytes.
struct ExchangeReading {
  double server_set = 0;  ///< to take in the node's own blobs
  double server_get = 0;  ///< to give out those of the others
  double node_send = 0;   ///< to send its own; without the making of them
  double node_receive = 0;
  double node_merge = 0;  ///< to add the others' counts up in a table
  double bytes_in = 0;    ///< at the server
  double bytes_out = 0;
};

/// Plays all nodes in turn, each on a connection of its own. Throws when a sum is wrong.
/// @param nodes  ≥ 1
ExchangeReading measure_exchange(RedisServer& server, const KeySet& keys, std::size_t nodes);

}  // namespace weir::bench
