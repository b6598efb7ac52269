// SPDX-License-Identifier: BSD-3-Clause
#include "cloned_source.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_pause.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace weir::bench {
namespace {

constexpr std::uint32_t ring_room = 1024;
// Whatever is under way, the generator finds some; and all find room in the ring back, so that none is
// dropped there.
constexpr std::uint32_t clones_at_once = 2 * ring_room;

}  // namespace

ClonedSource::ClonedSource(std::string name, std::uint32_t frames, int processor)
    : OneWaySource(std::move(name), frames, ring_room, clones_at_once),
      processor_(processor),
      frames_(frames) {
  if (rte_pktmbuf_alloc_bulk(memory().pool(), frames_.data(), frames) != 0)
    throw std::logic_error("cloned source: fewer frames than made");
  for (rte_mbuf* const frame : frames_) be_frame(frame);
  // They have no room of their own. The pool's usual kind, for a polling thread may free frames, too.
  clones_.reset(
      rte_pktmbuf_pool_create((this->name() + "_clones").c_str(), clones_at_once, 0, 0, 0, SOCKET_ID_ANY));
  if (clones_ == nullptr) throw std::runtime_error(std::string("cloned source: ") + rte_strerror(rte_errno));
  callback_ = rte_eth_add_rx_callback(set().ports.first, 0, note_poll, this);
  if (callback_ == nullptr) throw std::runtime_error("cloned source: polls cannot be counted");
}

ClonedSource::~ClonedSource() {
  end();
  rte_eth_remove_rx_callback(set().ports.first, 0, callback_);
  rte_free(const_cast<rte_eth_rxtx_callback*>(callback_));  // nobody polls
  rte_pktmbuf_free_bulk(frames_.data(), static_cast<unsigned>(frames_.size()));
}

double VainPolls::seconds_each() const {
  return static_cast<double>(ticks) / static_cast<double>(timed) / static_cast<double>(rte_get_tsc_hz());
}

std::uint16_t ClonedSource::note_poll(std::uint16_t, std::uint16_t, rte_mbuf**, std::uint16_t count,
                                      std::uint16_t, void* source) noexcept {
  auto& own = *static_cast<ClonedSource*>(source);
  auto& vain = own.vain_;
  if (count != 0) {
    vain.last = 0;
    return count;
  }
  const std::uint64_t now = rte_rdtsc();
  vain.all.add(1);
  if (vain.last != 0 && now - vain.last < own.longest_poll_) {
    vain.timed.add(1);
    vain.ticks.add(now - vain.last);
  }
  vain.last = now;
  return count;
}

void ClonedSource::begin() {
  stop_.store(false, std::memory_order_relaxed);  // the thread's start orders it
  generator_.emplace(processor_, [this] { generate(); });
}

std::string ClonedSource::end() {
  if (!generator_) return {};
  stop_.store(true, std::memory_order_relaxed);  // orders nothing: the thread is joined
  generator_->join();
  generator_.reset();
  made_.returned.add(clear(in()) + clear(out()));
  if (made_.returned.read() != made_.generated.read())
    return "of " + std::to_string(made_.generated.read()) + " frames " +
           std::to_string(made_.returned.read()) + " have come back";
  if (rte_mempool_avail_count(clones_.get()) != clones_at_once) return "clones have been lost";
  if (!std::ranges::all_of(frames_, [](const rte_mbuf* frame) { return rte_mbuf_refcnt_read(frame) == 1; }))
    return "frames are still referred to";
  return {};
}

void ClonedSource::generate() noexcept {
  while (!stop_.load(std::memory_order_relaxed)) {
    made_.returned.add(clear(out()));
    hand_over();
  }
}

void ClonedSource::hand_over() noexcept {
  constexpr unsigned count = filter::burst_size;
  std::array<rte_mbuf*, count> burst;
  // This thread alone puts frames in: room that is there stays.
  if (rte_ring_free_count(in()) < count || rte_pktmbuf_alloc_bulk(clones_.get(), burst.data(), count) != 0)
    return rte_pause();
  for (rte_mbuf* const clone : burst) {
    rte_pktmbuf_attach(clone, frames_[made_.next]);
    made_.next = made_.next + 1 == frames_.size() ? 0 : made_.next + 1;
  }
  rte_ring_enqueue_bulk(in(), reinterpret_cast<void**>(burst.data()), count, nullptr);
  made_.generated.add(count);
}

unsigned ClonedSource::clear(rte_ring* ring) noexcept {
  std::array<rte_mbuf*, filter::burst_size> burst;
  unsigned cleared = 0;
  while (const unsigned count = rte_ring_dequeue_burst(ring, reinterpret_cast<void**>(burst.data()),
                                                       filter::burst_size, nullptr)) {
    rte_pktmbuf_free_bulk(burst.data(), count);
    cleared += count;
  }
  return cleared;
}

}  // namespace weir::bench
