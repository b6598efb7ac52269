// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A pool of mbufs with requests in them.
///
/// The problem it solves: a traffic generator costs more than what is to be measured. So there is none: all
/// frames are written beforehand, and a device that copies nothing (net_null, copy=0) hands out mbufs as the
/// pool gives them, requests and all. The pool is a FIFO without caches, so that each frame comes round only
/// after all others have: the usual LIFO would hand out the same few, which never leave the nearest cache.
#pragma once

#include <rte_mempool.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "classify/workload.h"

namespace weir::bench {

/// Bytes in each frame. What net_null hands out is of one length, whatever the frames are.
inline constexpr std::uint16_t frame_length = 200;

/// At least `count` different frames of frame_length.
/// @param content  one with frames of that length
FramePool make_frames(Content content, std::uint32_t count);

struct FreePool {
  void operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }
};

/// One thread at a time takes from the pool and gives back.
class FrameMemory {
 public:
  /// On huge pages where the kernel gives them, as mbufs lie in production. Throws when there is no memory.
  /// @param mbufs  in the pool
  FrameMemory(const std::string& name, std::uint32_t mbufs);
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;

  rte_mempool* pool() const noexcept { return pool_.get(); }
  std::uint32_t size() const noexcept { return pool_->size; }

  /// Writes a frame into every mbuf, wherever it is. All are different.
  /// @param content  one with frames of frame_length
  void fill(Content content);

 private:
  struct Unmap {
    std::size_t size;
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<void, Unmap> memory_;  // outlives the pool that lies in it
  std::unique_ptr<rte_mempool, FreePool> pool_;
};

}  // namespace weir::bench
