// SPDX-License-Identifier: BSD-3-Clause
#include "filter/burst_look.h"

#include <rte_prefetch.h>

namespace weir::filter {
namespace {

const std::byte* data_of(const rte_mbuf* mbuf) noexcept { return rte_pktmbuf_mtod(mbuf, const std::byte*); }

/// What the vector looks find, found frame by frame.
void look_portably(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept {
  // Here branches lie between one frame's lines and the next one's.
#pragma GCC unroll 4
  for (const rte_mbuf* const mbuf : burst) rte_prefetch0(data_of(mbuf));
  look.odd = 0;
  look.opening = 0;
  for (std::size_t i = 0; i < burst.size(); ++i) {
    const std::byte* const bytes = data_of(burst[i]);
    const PlainPayload payload = plain_payload({bytes, rte_pktmbuf_data_len(burst[i])});
    if (payload.offset == 0 || burst[i]->nb_segs != 1) {
      look.odd |= std::uint32_t{1} << i;
      continue;
    }
    look.bytes[i] = bytes;
    if (payload.length == 0) continue;
    look.payloads[i] = payload;
    if (can_begin_request(static_cast<char>(bytes[payload.offset]))) look.opening |= std::uint32_t{1} << i;
  }
}

}  // namespace

LookAtBurst burst_look_of(InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (has_instruction_set(set)) {
    if (set == InstructionSet::avx512) return look_at_burst_avx512;
    if (set == InstructionSet::avx2) return look_at_burst_avx2;
  }
#else
  static_cast<void>(set);
#endif
  return look_portably;
}

}  // namespace weir::filter
