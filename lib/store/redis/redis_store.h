// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The counters in Redis, shared by all nodes that name the same server and prefix.
///
/// Names. "prefix:{partition}:rule|value:ordinal"; the partition (0 … 15) is a stable hash of "rule|value",
/// so that the names of one batch fall into one slot of a Redis Cluster.
///
/// Exactly once. A timeout leaves it unknown whether Redis has applied a batch. So each batch carries this
/// store object's random instance id and, per partition, a sequence number, and a script applies it:
///   - one batch of a partition is out at a time, and it is sent again unchanged, with its number, until it
///   is answered
///     or its counters have expired;
///   - the script first moves the marker "prefix:{partition}:applied:<instance>" to the batch's number, with
///   the very
///     commands it then uses on the counters: what Redis refuses (read-only, out of memory, no permission),
///     it refuses before anything has been added. A script is atomic, also in the append-only file and
///     towards replicas;
///   - where the marker has reached the number already, the script adds nothing and only reads.
/// The marker lives longer than its batch may be sent again. A connection that failed is reset, so that no
/// old copy of a batch lies in the kernel; one that lies in Redis' own buffers meets the marker. Numbers only
/// grow, so a copy that comes late, after its successor, adds nothing either. Every counter is created with
/// its time to live in the same command, so none without can exist.
///
/// What this does not cover: counts that Redis itself has acknowledged and then lost (wiped, restarted
/// without persistence, failed over to a replica that had not received them) are gone: weir does not know,
/// and does not send them again. Counters and markers are lost together, so nothing is counted twice by it
/// either, unless only one of them survives (eviction under memory pressure; use noeviction, a wall clock of
/// the server that jumps ahead by more than a minute, a DEL by hand). A batch given up as expired may have
/// been applied.
#pragma once

#include <memory>

#include "store/redis/redis_url.h"
#include "store/store.h"
#include "weir/config.h"

namespace weir {

/// Starts a thread that connects and keeps connected, all signals blocked in it. Faults show in figures():
/// `up`, `failures`, `error`; they heal by reconnecting every `config.reconnect`.
///
/// `config.timeout` bounds connecting (with AUTH and SELECT) and, from the answer of one batch to the next,
/// each round trip; name resolution alone is bounded by the system's resolver. The destructor waits for
/// neither, except for a name resolution in progress. Deltas above 2^63−1, and those for a counter that is of
/// another type or would overflow, are given up and counted as expired, the latter also as a failure.
/// @pre url.transport != RedisUrl::Transport::memory; `config.url` is not looked at
std::unique_ptr<Store> make_redis_store(const RedisUrl& url, const StoreConfig& config);

}  // namespace weir
