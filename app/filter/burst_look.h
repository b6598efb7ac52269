// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A look at a burst: which of its frames may carry a request. Where few do, this is most of the filter's
/// work.
///
/// A plain frame (see plain_payload()) is told by a few fields of its headers and of its mbuf. To ask for
/// them one by one takes half as long as to receive and send the frame; a vector look brings the fields of
/// several frames side by side, one vector for each field, and asks all of these frames at once. It reads
/// each frame's first line with loads that wait for nothing but its mbuf, so that a processor has those of
/// many frames under way: lines need not be asked for beforehand.
///
/// One file per instruction set (burst_look_*.cc) holds the code that needs it. All find the same.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "filter/wiring.h"
#include "weir/packet.h"

namespace weir::filter {

/// What a look at a burst has found, by frame. Without initial values: a look fills them, some beyond the
/// burst's end.
struct BurstLook {
  static_assert(burst_size == 32, "a burst's frames are the bits of a word");

  std::uint32_t odd;      ///< bit i: frame i is not plain, or in several pieces
  std::uint32_t opening;  ///< not odd, and the first byte of its payload can begin a request
  /// The first byte of each frame that is not odd.
  alignas(64) std::array<const std::byte*, burst_size> bytes;
  /// Of each of these that has one.
  alignas(64) std::array<PlainPayload, burst_size> payloads;
};

/// Pure; any thread. @param burst  at most burst_size; of each frame no byte beyond its first segment is read
using LookAtBurst = void (*)(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept;

/// The look of an instruction set; where the build or the machine has it not, the portable one.
LookAtBurst burst_look_of(InstructionSet set) noexcept;

#if defined(__x86_64__)
void look_at_burst_avx2(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept;
void look_at_burst_avx512(std::span<rte_mbuf* const> burst, BurstLook& look) noexcept;
#endif

}  // namespace weir::filter
