// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What one polling thread has counted since the start.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace weir::filter {

/// Written by one thread, read by any: with one writer a relaxed load and store lose nothing.
class Counter {
 public:
  void add(std::uint64_t count) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// At rest `received + crafted = transmitted + transmit_drops + consumed`: no frame is lost uncounted.
/// Writer: one polling thread. Readers: statistics.
struct alignas(64) Counters {
  Counter received;        ///< frames from ports
  Counter transmitted;     ///< frames to ports, passed on or crafted
  Counter transmit_drops;  ///< frames for which a port (or a ring between threads) had no room
  Counter crafted;         ///< frames made here: 429, RST, ACK
  Counter consumed;        ///< received frames that end here: of refused requests and of closing flows
  Counter requests;        ///< requests decided: admitted + blocked
  Counter admitted;
  Counter blocked;
  Counter dropped;    ///< frames of refused requests that got no answer: action drop, or no memory for one
  Counter absorbed;   ///< frames of closing flows
  Counter malformed;  ///< frames passed on although a length or version in them is a lie
  /// requests whose head goes on in the next segment, and without something of it that some rule asks for
  Counter cut_heads;
};

/// The same, added up over threads: plain numbers of one moment.
struct Totals {
  std::uint64_t received = 0;
  std::uint64_t transmitted = 0;
  std::uint64_t transmit_drops = 0;
  std::uint64_t crafted = 0;
  std::uint64_t consumed = 0;
  std::uint64_t requests = 0;
  std::uint64_t admitted = 0;
  std::uint64_t blocked = 0;
  std::uint64_t dropped = 0;
  std::uint64_t absorbed = 0;
  std::uint64_t malformed = 0;
  std::uint64_t cut_heads = 0;
};

/// Any thread; counters may move while they are read.
inline Totals add_up(std::span<const Counters> all) noexcept {
  Totals totals;
  for (const Counters& each : all) {
    totals.received += each.received.read();
    totals.transmitted += each.transmitted.read();
    totals.transmit_drops += each.transmit_drops.read();
    totals.crafted += each.crafted.read();
    totals.consumed += each.consumed.read();
    totals.requests += each.requests.read();
    totals.admitted += each.admitted.read();
    totals.blocked += each.blocked.read();
    totals.dropped += each.dropped.read();
    totals.absorbed += each.absorbed.read();
    totals.malformed += each.malformed.read();
    totals.cut_heads += each.cut_heads.read();
  }
  return totals;
}

}  // namespace weir::filter
