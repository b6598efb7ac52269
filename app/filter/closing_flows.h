// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// After a 429 the server has been reset but the client still talks: it acknowledges the response, may be in
/// the middle of a body, and ends its side with FIN. Were these segments passed on, the server's stack would
/// answer each with RST, and a client may lose a response it has not read yet to an RST that follows it (RFC
/// 9112, 9.6). So the filter sees such a connection to its end: a small table of closing flows, per worker,
/// remembers what to answer.
///
/// A request may be made up by who only knows the ends of somebody's connection. What is remembered of it
/// then says nothing of the connection itself, as its sequence numbers tell: those of the client's own
/// segments are far away, and the first of these ends it. (RFC 5961 has stacks look at them likewise.)
///
/// It is bounded in memory and time. A flow that was pushed out, or that outlives its time, falls back to the
/// server's RST: later than without the table, and never worse. One thread; no allocation after construction.
///
/// As long as any flow is closing, every frame may be one of its segments, and a single client who is refused
/// now and then sees to it that some flow always is. So the table answers in two steps. may_hold() needs no
/// more than a plain frame's bytes and one word, of a byte of hash for each flow of a set, and says no to
/// nearly all others; find() is exact.
#pragma once

#include <rte_common.h>
#include <rte_prefetch.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "weir/packet.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir::filter {

/// The connection of one refused request, from the client's side.
struct ClosingFlow {
  IpAddress client;
  IpAddress server;
  std::uint16_t client_port = 0;
  std::uint16_t server_port = 0;
  RuleIndex rule = no_rule;               ///< the rule that refused, and
  bool head = false;                      ///< the method was HEAD, and
  std::uint64_t retry_after_seconds = 1;  ///< what the 429 said: a lost one is repeated with the same bytes
  std::uint32_t request_sequence = 0;     ///< first byte of the refused request
  std::uint32_t reply_sequence = 0;       ///< first byte of the 429
  std::uint32_t next_to_client = 0;       ///< the byte after the 429 and its FIN
  std::uint32_t next_from_client = 0;     ///< all before it has arrived
  std::uint32_t acknowledged = 0;         ///< all before it has been acknowledged to the client
  MonotonicTime expires = never;          ///< a free slot: in the past
};

/// What to do with a segment of a closing flow.
enum class ClosingStep : std::uint8_t {
  forget,  ///< a new connection, the client has given up, or the refused request was none of this
           ///< connection's: drop the entry, treat the frame as any other
  absorb,  ///< nothing to say yet: the client has not seen the 429, or has nothing that is not acknowledged
  acknowledge,   ///< ACK what has arrived
  repeat_reply,  ///< the 429 was lost: send it again
};

/// Takes up one more segment from the client. Pure but for what `flow` says of what has come from it.
ClosingStep closing_step(ClosingFlow& flow, const Frame& frame) noexcept;

/// A flow for a request that has just been refused; `frame` is the request's.
/// @param reply_length  TCP payload of the 429, in bytes
ClosingFlow closing_flow(const Frame& frame, std::size_t reply_length) noexcept;

class ClosingFlows {
 public:
  /// How long a client's connection is looked after.
  static constexpr Duration lifetime = std::chrono::seconds{5};

  /// @param capacity  flows; rounded up to a power of two, at least 4
  /// @param seed      random, so that nobody can choose whom to push out
  ClosingFlows(std::size_t capacity, std::uint64_t seed);

  /// Bytes of that many.
  static constexpr std::size_t memory(std::size_t capacity) noexcept {
    return capacity * (sizeof(ClosingFlow) + 1);
  }

  /// Whether find() may find something. Of as many flows as there is room for, one frame in 64 is taken for
  /// one of theirs; and those are that were.
  /// @param frame  one of which plain_payload() has found the payload, from its first byte on
  bool may_hold(const std::byte* frame) const noexcept { return marked(hash_of(Ends::of(frame))) != 0; }
  /// The same of any TCP frame.
  bool may_hold(const Frame& frame) const noexcept { return marked(hash_of(ends_of(frame))) != 0; }

  /// Has memory bring what find() and insert() look at. @param frame  a plain one, as above
  void prefetch(const std::byte* frame) const noexcept {
    const auto* const set =
        reinterpret_cast<const std::byte*>(&slots_[set_of(hash_of(Ends::of(frame))) * ways]);
    for (std::size_t at = 0; at < ways * sizeof(ClosingFlow); at += RTE_CACHE_LINE_SIZE)
      rte_prefetch0(set + at);
  }
  /// The closing flow a client's segment belongs to; null if there is none. Valid until the next insert().
  ClosingFlow* find(const Frame& frame, MonotonicTime now) noexcept {
    return now >= last_expiry_ ? nullptr : search(frame, now);
  }
  /// Remembers a flow for `lifetime`; pushes out the oldest of its set when that is full.
  void insert(const ClosingFlow& flow, const Frame& frame, MonotonicTime now) noexcept;
  static void erase(ClosingFlow& flow) noexcept { flow.expires = never; }

  /// No flow has been closing since all had expired: find() finds nothing, whenever.
  bool idle() const noexcept { return last_expiry_ == never; }
  /// Makes the table idle when the last flow has expired.
  void expire(MonotonicTime now) noexcept {
    if (now >= last_expiry_) last_expiry_ = never;
  }

  std::size_t capacity() const noexcept { return slots_.size(); }

 private:
  static constexpr std::size_t ways = 4;
  static constexpr std::uint32_t each_byte = 0x01010101;

  /// Addresses and ports, of IPv4 as they lie in a frame.
  struct Ends {
    std::uint64_t addresses;
    std::uint32_t ports;

    static Ends of(const std::byte* plain) noexcept {
      constexpr std::size_t addresses_at = 26;
      constexpr std::size_t ports_at = 34;
      Ends ends;
      std::memcpy(&ends.addresses, plain + addresses_at, sizeof ends.addresses);
      std::memcpy(&ends.ports, plain + ports_at, sizeof ends.ports);
      return ends;
    }
  };
  /// The upper half is for the set, the byte below it for the mark.
  std::uint64_t hash_of(const Ends& ends) const noexcept {
    const std::uint64_t sum = ends.addresses * multipliers_[0] + ends.ports * multipliers_[1];
    return (sum ^ sum >> 32) * multipliers_[2];
  }
  std::size_t set_of(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>((hash >> 32) * marks_.size() >> 32);
  }
  /// Never that of a free slot, 0.
  static std::uint8_t mark_of(std::uint64_t hash) noexcept {
    const auto mark = static_cast<std::uint8_t>(hash >> 24);
    return static_cast<std::uint8_t>(mark + (mark == 0 ? 1 : 0));
  }
  /// @return the highest bit of the byte of each slot that may be meant: none that is not named is
  std::uint32_t marked(std::uint64_t hash) const noexcept {
    // A byte that is 0 borrows from its highest bit.
    const std::uint32_t differing = marks_[set_of(hash)] ^ mark_of(hash) * each_byte;
    return (differing - each_byte) & ~differing & each_byte << 7;
  }
  /// Of a frame's flow, expired or not; null if there is none.
  ClosingFlow* slot_of(std::uint64_t hash, const Frame& frame) noexcept;
  Ends ends_of(const Frame& frame) const noexcept;
  ClosingFlow* search(const Frame& frame, MonotonicTime now) noexcept;

  std::vector<ClosingFlow> slots_;
  std::vector<std::uint32_t> marks_;   // of each set a byte for each of its slots
  std::uint64_t multipliers_[3];       // odd, and secret
  MonotonicTime last_expiry_ = never;  // no entry is younger: an idle table costs one comparison
};

}  // namespace weir::filter
