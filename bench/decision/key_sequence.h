// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// In which order keys come: the same for every contender, long enough that no cache keeps it, and so that a
/// table of as many keys is touched as the benchmark says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::bench {

enum class Distribution { uniform, zipf };

/// Requests in a sequence, unless another length is asked for; a contender goes round and round.
inline constexpr std::size_t sequence_length = std::size_t{1} << 20;
inline constexpr std::size_t burst = 32;

/// Draws from the keys 0 … keys−1. Zipf has the exponent 0.99, and its frequent keys lie at random among the
/// rest.
std::vector<std::uint32_t> key_sequence(std::size_t keys, Distribution distribution,
                                        std::size_t length = sequence_length);
/// Every key once, in random order.
std::vector<std::uint32_t> each_key_once(std::size_t keys);

}  // namespace weir::bench
