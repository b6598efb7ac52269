// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Frames as a generator on another core makes them: clones of prepared ones, without end.
#pragma once

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filter/counters.h"
#include "frame_source.h"
#include "thread/pinned_thread.h"

namespace weir::bench {

/// How often the polling thread has asked for frames in vain, and how long that takes: between two such
/// polls, one right after the other, lies one of them.
struct VainPolls {
  std::uint64_t all = 0;
  std::uint64_t timed = 0;  ///< those that came right after another
  std::uint64_t ticks = 0;  ///< that these have taken, of the time stamp counter

  VainPolls operator-(const VainPolls& earlier) const noexcept {
    return {all - earlier.all, timed - earlier.timed, ticks - earlier.ticks};
  }
  /// @pre timed > 0
  double seconds_each() const;
};

/// A generator on a processor of its own attaches mbufs to prepared frames, as rte_pktmbuf_clone() does,
/// hands them to the polling thread through a ring for as long as that has room, and frees what comes back.
/// No byte of a frame is written anew: what comes from the other core is the mbuf that says where the frame
/// lies.
class ClonedSource : public OneWaySource {
 public:
  /// @param frames     different ones
  /// @param processor  of the generator
  ClonedSource(std::string name, std::uint32_t frames, int processor);
  ~ClonedSource() override;

  /// From now on there are frames, until end().
  void begin();
  std::string end() override;
  /// Any thread; the three may move while they are read.
  VainPolls vain_polls() const noexcept { return {vain_.all.read(), vain_.timed.read(), vain_.ticks.read()}; }

 private:
  static std::uint16_t note_poll(std::uint16_t port, std::uint16_t queue, rte_mbuf** frames,
                                 std::uint16_t count, std::uint16_t most, void* source) noexcept;
  void generate() noexcept;
  /// One burst, if there is room for it.
  void hand_over() noexcept;
  /// Frees what lies in a ring. @return how many
  unsigned clear(rte_ring* ring) noexcept;

  // Of two polls that are farther apart somebody else had the processor in between.
  const std::uint64_t longest_poll_ = rte_get_tsc_hz() / 100'000;
  int processor_;
  std::vector<rte_mbuf*> frames_;  // to be cloned, one after the other
  std::unique_ptr<rte_mempool, FreePool> clones_;
  const rte_eth_rxtx_callback* callback_ = nullptr;
  std::optional<PinnedThread> generator_;
  std::atomic<bool> stop_{false};

  // The generator writes these.
  struct alignas(64) {
    std::size_t next = 0;  // frame
    filter::Counter generated;
    filter::Counter returned;
  } made_;
  // The polling thread writes these.
  struct alignas(64) {
    filter::Counter all;
    filter::Counter timed;
    filter::Counter ticks;
    std::uint64_t last = 0;  // ticks when the last poll was over, if that was in vain
  } vain_;
};

}  // namespace weir::bench
