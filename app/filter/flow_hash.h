// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One number for both directions of a flow, so that a flow's frames meet at one worker and stay in order.
#pragma once

#include <cstdint>
#include <cstring>

#include "weir/packet.h"

namespace weir::filter {

/// Spreads the bits of a number over all of it (the finaliser of splitmix64).
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

/// A hash of a frame's two endpoints, the same for both directions. Fragments have addresses only, frames
/// without IP (and malformed ones) all have the same. Any thread.
/// @param seed  a secret where the sender must not be able to choose who collides with whom; else anything
inline std::uint64_t flow_hash(const Frame& frame, std::uint64_t seed) noexcept {
  if (frame.kind == FrameKind::not_ip || frame.kind == FrameKind::malformed) return mix(seed);
  const bool ports = frame.kind == FrameKind::tcp;
  const auto endpoint = [seed](const IpAddress& address, std::uint16_t port) noexcept {
    std::uint64_t halves[2];
    std::memcpy(halves, address.bytes.data(), sizeof halves);
    return mix(mix(mix(seed ^ halves[0]) ^ halves[1]) + port);
  };
  // A sum, since exclusive or would make 0 of every flow between equal endpoints.
  return mix(endpoint(frame.source, ports ? frame.source_port : 0) +
             endpoint(frame.destination, ports ? frame.destination_port : 0));
}

}  // namespace weir::filter
