// SPDX-License-Identifier: BSD-3-Clause
#include "frame_memory.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <sys/mman.h>

#include <cstring>
#include <stdexcept>

namespace weir::bench {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::uint16_t data_room = RTE_MBUF_DEFAULT_BUF_SIZE;

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("frame memory: ") + what + ": " + rte_strerror(rte_errno));
}

}  // namespace

FramePool make_frames(Content content, std::uint32_t count) {
  constexpr std::size_t lines = (frame_length + RTE_CACHE_LINE_SIZE - 1) / RTE_CACHE_LINE_SIZE;
  FramePool frames(content, std::size_t{count} * lines * RTE_CACHE_LINE_SIZE);
  if (frames.size() < count || frames[0].size() != frame_length)
    throw std::logic_error("make_frames: fewer frames than asked for, or of another length");
  return frames;
}

void FrameMemory::Unmap::operator()(void* memory) const noexcept { munmap(memory, size); }

FrameMemory::FrameMemory(const std::string& name, std::uint32_t mbufs) : memory_(nullptr, Unmap{0}) {
  const unsigned element = sizeof(rte_mbuf) + data_room;
  // No device reads it: without the flag no mbuf would cross a small page's end, and each would begin a page,
  // all in the same few sets of the caches.
  pool_.reset(rte_mempool_create_empty(name.c_str(), mbufs, element, 0, sizeof(rte_pktmbuf_pool_private),
                                       SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG));
  require(pool_ != nullptr, "no pool");
  // One worker takes and gives back: no locked operations, the source shall cost as little as can be.
  require(rte_mempool_set_ops_byname(pool_.get(), "ring_sp_sc", nullptr) == 0, "no ring for the pool");
  rte_pktmbuf_pool_private properties{};
  properties.mbuf_data_room_size = data_room;
  rte_pktmbuf_pool_init(pool_.get(), &properties);

  const std::size_t each = pool_->header_size + pool_->elt_size + pool_->trailer_size;
  const std::size_t room = (mbufs * each / huge_page + 2) * huge_page;  // one for alignment
  void* const mapped =
      mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(mapped != MAP_FAILED, "no address space");
  memory_ = std::unique_ptr<void, Unmap>(mapped, Unmap{room});
  madvise(mapped, room, MADV_HUGEPAGE);  // where it is refused, small pages do
  auto* const begin = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(mapped) + huge_page - 1) /
                                              huge_page * huge_page);
  const int populated =
      rte_mempool_populate_iova(pool_.get(), begin, RTE_BAD_IOVA, room - huge_page, nullptr, nullptr);
  require(populated == static_cast<int>(mbufs), "the pool does not fill");
  rte_mempool_obj_iter(pool_.get(), rte_pktmbuf_init, nullptr);
}

void FrameMemory::fill(Content content) {
  const FramePool frames = make_frames(content, size());
  rte_mempool_obj_iter(
      pool_.get(),
      [](rte_mempool*, void* argument, void* object, unsigned index) {
        auto* const mbuf = static_cast<rte_mbuf*>(object);
        const std::span<const std::byte> frame = (*static_cast<const FramePool*>(argument))[index];
        std::memcpy(static_cast<char*>(mbuf->buf_addr) + RTE_PKTMBUF_HEADROOM, frame.data(), frame.size());
      },
      const_cast<FramePool*>(&frames));
}

}  // namespace weir::bench
