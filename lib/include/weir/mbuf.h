// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Frames in DPDK mbufs. Kept apart from weir/packet.h so that users without DPDK need none of its headers;
/// who includes this compiles with `pkg-config --cflags libdpdk` besides weir's own flags.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/export.h"

namespace weir {

/// The bytes of a frame in an mbuf chain, in one piece: in place when the first segment holds them all, else
/// gathered into `scratch` (as many as fit; a request's head is at the front).
inline std::span<const std::byte> frame_bytes(const rte_mbuf* mbuf, std::span<std::byte> scratch) noexcept {
  if (mbuf->nb_segs == 1) return {rte_pktmbuf_mtod(mbuf, const std::byte*), rte_pktmbuf_data_len(mbuf)};
  const auto length = std::min<std::size_t>(rte_pktmbuf_pkt_len(mbuf), scratch.size());
  const void* bytes = rte_pktmbuf_read(mbuf, 0, static_cast<std::uint32_t>(length), scratch.data());
  return {static_cast<const std::byte*>(bytes), bytes == nullptr ? 0 : length};
}

}  // namespace weir
