// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// SipHash (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012). Keys come from attackers, so
/// everything that is placed by a hash is placed by a keyed one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir {

struct HashKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

struct Digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Digest128&) const = default;
};

/// SipHash-1-3, 64 bits: places names in the tables of one process, and derives secrets from a secret.
/// `tweak` separates domains. (What workers hash per request is the cheaper KeyHash.)
std::uint64_t keyed_hash(HashKey key, std::uint64_t tweak, std::span<const std::byte> bytes) noexcept;

/// SipHash-2-4 with 128 bits of output: stands for a value too long to be kept.
Digest128 digest128(HashKey key, std::span<const std::byte> bytes) noexcept;

}  // namespace weir
