// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The counters in Redis, shared by all nodes that name the same servers and prefix: one server, the one that
/// sentinels name, or a cluster (redis_servers.h).
///
/// Names (layout "hash"). All counters of a partition, a length of interval and an ordinal are the fields of
/// one hash, "prefix:{partition}:interval in ms:ordinal", and the field's name is "rule|value". The partition
/// (0 … 63) is a stable hash of "rule|value"; the braces make each partition one slot of a Redis Cluster.
/// Measured against a key of its own for each counter (bench/store): a third of the server's time, a third of
/// the bytes, and one time to live for thousands of counters.
///
/// Exactly once. A timeout leaves it unknown whether Redis has applied a batch. So each batch carries this
/// store object's random instance id and a number, and a script applies it:
///   - the counters of one hash go in one batch at a time, and it is sent again unchanged, with its number,
///   until
///     it is answered or its counters have expired (store/outbox.h);
///   - the field "~applied:<instance>" of the same hash holds the number of the last batch applied; where it
///   has
///     reached the batch's, the script adds nothing and only reads;
///   - all of the hash is written by one command first, which is also what Redis refuses first (read-only,
///   out of
///     memory, no permission): before anything has been added. A script is atomic, also in the append-only
///     file and towards replicas.
/// Counters and marker are one value of Redis: they are moved, replicated, evicted, wiped, and expire
/// together. Nothing can be counted twice because one of them survived the other. A connection that failed is
/// reset, so that no old copy of a batch lies in the kernel; one that lies elsewhere, even if it comes late
/// and over another connection, meets the marker. Numbers only grow, so a copy that comes after its successor
/// adds nothing either. The hash gets its time to live in the script that creates it, so none without can
/// exist.
///
/// What this does not cover: counts that Redis has acknowledged and then lost itself. weir does not know, and
/// does not send them again.
///   - Wiped, or restarted without persistence: everything counted before.
///   - Failover (Sentinel or Cluster): replication is asynchronous, so what the old master acknowledged and
///   the new
///     one had not received: as a rule the last milliseconds; with a SENTINEL FAILOVER
///     by hand, which does not wait for the replica, all until the old master steps down. While a partition
///     of the network leaves the old master with some nodes, what they write to it is lost when it heals:
///     bound it with min-replicas-to-write 1 and min-replicas-max-lag 1 (then by about a second); such nodes
///     learn of the new master within a second, if they reach a sentinel that knows it. What is lost can only
///     let more requests pass, by as much, until the interval ends.
///   - Eviction: use maxmemory-policy noeviction, or volatile-ttl, which evicts what would die next.
/// A batch given up as expired may have been applied.
///
/// Layout "plain" has a key of its own for each counter, "rule|value:ordinal", as gateways in other languages
/// would write it with INCRBY and EXPIRE. The script and its marker are the same, but the marker is a key of
/// its own
/// ("prefix:{partition}:interval:ordinal:applied:<instance>"), so that eviction, a DEL by hand or a jump of
/// the server's clock by a minute may leave one without the other; what the other gateways do is theirs. The
/// name has neither prefix nor length of interval in it: rules of one name must agree on it everywhere. Only
/// the counter by which nodes know how many they are has the prefix, "prefix:~nodes:ordinal": those of
/// another prefix are not counted among them.
///
/// Layout "exchange": nodes exchange plain sums instead of adding them up in Redis. Each writes what it has
/// counted into a log of its own and reads those of the others (store/exchange/exchange_group.h); all logs of
/// a partition, interval and ordinal are fields of one hash, "prefix:{partition}:x:interval in ms:ordinal"
/// (exchange_command.h), with what is said above of one value of Redis. Writes that are `undivided` go as in
/// layout "hash". What Redis acknowledges and then loses, the nodes that have counted it write anew when they
/// next have something to do with those counters. That does not bring back what nodes had counted that are no
/// more; nor, where a node that has never seen the partition is the first to write to it after a wipe, what
/// the others had counted there: it lies under another seed. A node knows at most `config.backlog` counters
/// of its own and of others (48 to 96 bytes each); beyond, it reads more (store/exchange/exchange.h).
///
/// Rights (ACL) that are needed, and nothing else:
///     +evalsha +eval +script|load +time +hmget +hset +hget +hincrby +pttl +pexpire ~prefix:*
///     exchange: +hdel as well (to shorten logs)
///     plain: +evalsha +eval +script|load +time +get +set +incrby ~*
///     a database other than 0: +select; sentinel: +role; cluster: +cluster|slots +asking
#pragma once

#include <memory>

#include "store/redis/redis_url.h"
#include "store/store.h"
#include "weir/config.h"

namespace weir {

/// Starts a thread that connects and keeps connected, all signals blocked in it. Faults show in figures():
/// `up`, `failures`, `error`; they heal by reconnecting every `config.reconnect`. Password and TLS files are
/// read anew for every connection; read_access() tells beforehand whether they are good.
///
/// `config.timeout` bounds connecting (with the TLS handshake, AUTH and SELECT) and, from the answer of one
/// batch to the next, each round trip; name resolution alone is bounded by the system's resolver. The thread
/// waits for that, one name at a time, and no server is given up for what it could not say meanwhile. The
/// destructor waits for neither, except for a name resolution in progress. Deltas above 2^63−1, and those for
/// a counter that is of another type or would overflow, are given up and counted as expired, the latter also
/// as a failure.
/// @pre url.mode != RedisUrl::Mode::memory; `config.url` is not looked at
std::unique_ptr<Store> make_redis_store(const RedisUrl& url, const StoreConfig& config);

}  // namespace weir
