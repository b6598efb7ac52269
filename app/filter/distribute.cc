// SPDX-License-Identifier: BSD-3-Clause
#include "filter/distribute.h"

#include <rte_atomic.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "filter/egress.h"
#include "filter/flow_hash.h"
#include "filter/idle.h"
#include "weir/mbuf.h"

namespace weir::filter {
namespace {

// DPDK's rings copy pointers as 64-bit integers, which the compiler may take for other memory than an array
// of rte_mbuf*; the barriers keep it from moving our accesses across theirs.
unsigned put(rte_ring* ring, rte_mbuf* const* frames, std::size_t count) noexcept {
  rte_compiler_barrier();
  return rte_ring_enqueue_burst(ring, reinterpret_cast<void* const*>(frames), static_cast<unsigned>(count),
                                nullptr);
}

unsigned take(rte_ring* ring, std::span<rte_mbuf*> frames) noexcept {
  const unsigned count = rte_ring_dequeue_burst(ring, reinterpret_cast<void**>(frames.data()),
                                                static_cast<unsigned>(frames.size()), nullptr);
  rte_compiler_barrier();
  return count;
}

void give_up(std::span<rte_mbuf*> frames, Counters& counters) noexcept {
  counters.transmit_drops.add(frames.size());
  rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
}

}  // namespace

/// The I/O lcore's own memory.
class Distributor::InputOutput {
 public:
  InputOutput(Distributor& distributor, std::span<const QueueSet> sets, Counters& counters)
      : distributor_(distributor),
        counters_(counters),
        egress_(sets, counters),
        staged_(distributor.lanes_.size()),
        scratch_(65536 + 64) {}

  /// @return frames received
  unsigned receive(std::uint16_t port, std::uint16_t queue) noexcept {
    std::array<rte_mbuf*, burst_size> burst;
    const std::uint16_t count = rte_eth_rx_burst(port, queue, burst.data(), burst_size);
    if (count == 0) return 0;
    counters_.received.add(count);
    for (rte_mbuf* const mbuf : std::span{burst}.first(count)) {
      mbuf->port = port;  // not every driver (net_ring) has said it
      Staged& staged = staged_[worker_of(mbuf)];
      staged.frames[staged.count++] = mbuf;
    }
    for (std::size_t i = 0; i < staged_.size(); ++i) hand_over(i);
    return count;
  }

  /// Sends what the workers have given back. @return frames
  unsigned send_returned() noexcept {
    unsigned sent = 0;
    for (Lane& lane : distributor_.lanes_) {
      std::array<rte_mbuf*, max_outgoing> frames;
      const unsigned count = take(lane.from_worker.get(), frames);
      if (count != 0) egress_.send(std::span{frames}.first(count));
      sent += count;
    }
    return sent;
  }

 private:
  std::size_t worker_of(const rte_mbuf* mbuf) noexcept {
    const Frame frame = parse_frame(frame_bytes(mbuf, scratch_));
    return flow_hash(frame, 0) % staged_.size();
  }

  void hand_over(std::size_t worker) noexcept {
    Staged& staged = staged_[worker];
    std::size_t done = 0;
    for (unsigned attempt = 0; done < staged.count && attempt < hand_over_attempts; ++attempt) {
      // A worker may be waiting for room on its way back: make some, else both would wait in vain.
      if (attempt != 0 && send_returned() == 0) rte_pause();
      done +=
          put(distributor_.lanes_[worker].to_worker.get(), staged.frames.data() + done, staged.count - done);
    }
    if (done < staged.count) give_up(std::span{staged.frames}.subspan(done, staged.count - done), counters_);
    staged.count = 0;
  }

  Distributor& distributor_;
  Counters& counters_;
  Egress egress_;
  std::vector<Staged> staged_;
  std::vector<std::byte> scratch_;
};

std::unique_ptr<Distributor> Distributor::create(unsigned workers, std::string& error) {
  std::unique_ptr<Distributor> distributor(new Distributor(workers));
  for (unsigned i = 0; i < workers; ++i) {
    Lane& lane = distributor->lanes_[i];
    const auto ring = [i](const char* name) {
      return rte_ring_create((name + std::to_string(i)).c_str(), ring_size, static_cast<int>(rte_socket_id()),
                             RING_F_SP_ENQ | RING_F_SC_DEQ);
    };
    lane.to_worker.reset(ring("weir_to_"));
    lane.from_worker.reset(ring("weir_from_"));
    if (lane.to_worker == nullptr || lane.from_worker == nullptr) {
      error = std::string("no memory for the rings between threads: ") + rte_strerror(rte_errno);
      return nullptr;
    }
  }
  return distributor;
}

void Distributor::run_io(std::span<const QueueSet> sets, Counters& counters, Duration idle_sleep,
                         const std::atomic<bool>& stop) noexcept {
  InputOutput input_output(*this, sets, counters);
  Idle idle(idle_sleep);
  while (true) {
    unsigned moved = 0;
    const bool stopping = stop.load(std::memory_order_relaxed);
    if (stopping) {
      // Release: a worker that sees the end of the input also sees all of it in its ring.
      input_ended_.store(true, std::memory_order_release);
    } else {
      for (const QueueSet& set : sets) {
        moved += input_output.receive(set.ports.first, set.queue);
        moved += input_output.receive(set.ports.second, set.queue);
      }
    }
    bool all_finished = stopping;
    // Before the rings are emptied, so that nothing can be put into one afterwards.
    for (const Lane& lane : lanes_)
      all_finished = all_finished && lane.finished.load(std::memory_order_acquire);
    moved += input_output.send_returned();
    if (all_finished && moved == 0) return;
    if (idle.due(moved != 0)) idle.rest();
  }
}

void Distributor::run_worker(unsigned index, const WorkerSeat& seat) noexcept {
  Lane& lane = lanes_[index];
  Idle idle(seat.idle_sleep);
  seat.worker.online();
  while (true) {
    const bool ended = input_ended_.load(std::memory_order_acquire);
    std::array<rte_mbuf*, burst_size> burst;
    const unsigned count = take(lane.to_worker.get(), burst);
    if (count != 0) {
      Outgoing out;
      const std::span received = std::span{burst}.first(count);
      if (seat.filter.passes_without_time(received) ||
          seat.filter.passes_in_time(received, monotonic_now(), out))
        seat.filter.pass_all(received, out);
      std::size_t done = 0;
      for (unsigned attempt = 0; done < out.count && attempt < hand_over_attempts; ++attempt) {
        if (attempt != 0) rte_pause();
        done += put(lane.from_worker.get(), out.frames.data() + done, out.count - done);
      }
      if (done < out.count) give_up(std::span{out.frames}.subspan(done, out.count - done), seat.counters);
    } else if (ended) {
      break;
    }
    seat.worker.quiescent();
    if (idle.due(count != 0)) {
      seat.worker.offline();
      idle.rest();
      seat.worker.online();
    }
  }
  seat.worker.offline();
  lane.finished.store(true, std::memory_order_release);
}

}  // namespace weir::filter
