// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The number under which a worker counts a key. It is computed for every rule of every request, of bytes
/// that clients choose; who could choose bytes whose numbers are equal, or lie side by side in a table, could
/// make others pay.
///
/// A pseudo-random function like SipHash keeps that away from clients who learn its values. They learn next
/// to none: a key's number leaves the process nowhere, but for a few bits of it in the length of a block that
/// is spread by `dephase`. So it is enough that the function itself is drawn at random, and that is several
/// times cheaper, since its multiplications do not wait for each other:
///
///   NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC", 1999): sum over i of (m[2i] + k[2i]) (m[2i+1] +
///   k[2i+1])
///     modulo 2^128, of 64-bit words m of the bytes and k of the key. Two different texts of one length have
///     equal sums for at most one key in 2^64.
///   Multilinear (Lemire, Kaser: "Strongly universal string hashing is fast", 2014): the upper half of
///     a + b x + c y + d z modulo 2^128, of the sum's halves x and y and of the length and the rule, z, with
///     keys of 128 bits. Strongly universal: every pair of different inputs has every pair of values equally
///     often.
///
/// Together: two given keys collide with a probability of at most 2 in 2^64, whatever their bytes. What is
/// left of linearity (texts in arithmetic progression have values nearly so) is broken by a last step that is
/// one to one and depends on the secret, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/key_bytes.h"
#include "base/keyed_hash.h"

namespace weir {

/// One function of the family, about 600 bytes. Immutable: any number of threads may use one at once, but
/// what a worker reads for each request had better be its own. Values are of one process: they depend on the
/// machine's byte order.
class KeyHash {
 public:
  /// @param secret  random, unless a run must replay; all the words of the key are derived from it by SipHash
  explicit KeyHash(HashKey secret) noexcept;

  /// @param tweak  separates domains: the rule's index; below 2^48
  /// @pre bytes.size() <= KeyBytes::capacity
  std::uint64_t operator()(std::uint64_t tweak, std::span<const std::byte> bytes) const noexcept;

 private:
  static constexpr std::size_t block = 16;
  struct Wide {
    std::uint64_t low;
    std::uint64_t high;
  };

  std::array<Wide, 4> outer_;
  std::uint64_t last_;  // odd
  std::array<Wide, (KeyBytes::capacity + block - 1) / block> inner_;
};

}  // namespace weir
