// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Software distribution, for ports with a single queue: one I/O lcore receives, hands each frame to the
/// worker its flow belongs to, and sends what the workers give back. A flow always goes to the same worker,
/// through rings that keep order, so its frames leave as they came; frames of different flows may overtake
/// each other.
///
///            ┌─ to_worker[0] ─► worker 0 ─ from_worker[0] ─┐
///   receive ─┤                                             ├─► transmit
///            └─ to_worker[1] ─► worker 1 ─ from_worker[1] ─┘
///
/// The end: `stop` makes the I/O lcore receive no more and say so (`input_ended`); each worker empties its
/// ring and says so (`finished`); the I/O lcore sends what is left. Nothing stays behind in a ring.
#pragma once

#include <rte_ring.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "filter/counters.h"
#include "filter/queue_plan.h"
#include "filter/wiring.h"
#include "filter/worker_loop.h"
#include "weir/time.h"

namespace weir::filter {

class Distributor {
 public:
  /// Frames that fit between two threads: some milliseconds' worth, so that a worker may be kept from its CPU
  /// that long.
  static constexpr unsigned ring_size = 4096;

  /// Null when there is no memory for the rings; then `error` says so.
  static std::unique_ptr<Distributor> create(unsigned workers, std::string& error);

  /// The I/O lcore's loop.
  /// @param sets      all queues of all ports
  /// @param counters  the I/O lcore's own
  void run_io(std::span<const QueueSet> sets, Counters& counters, Duration idle_sleep,
              const std::atomic<bool>& stop) noexcept;

  /// The loop of worker `index`; ends when the I/O lcore has received its last frame and this worker has
  /// handled it.
  void run_worker(unsigned index, const WorkerSeat& seat) noexcept;

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
  };
  struct alignas(64) Lane {
    std::unique_ptr<rte_ring, FreeRing> to_worker;    // writer: I/O lcore; reader: worker
    std::unique_ptr<rte_ring, FreeRing> from_worker;  // writer: worker; reader: I/O lcore
    std::atomic<bool> finished{false};                // writer: worker, once; reader: I/O lcore
  };
  /// Frames on their way to one worker, collected so that a ring is touched once per burst.
  struct Staged {
    std::size_t count = 0;
    std::array<rte_mbuf*, burst_size> frames{};
  };
  class InputOutput;

  explicit Distributor(unsigned workers) : lanes_(workers) {}

  std::vector<Lane> lanes_;
  std::atomic<bool> input_ended_{false};  // writer: I/O lcore, once; readers: workers
};

}  // namespace weir::filter
