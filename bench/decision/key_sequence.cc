// SPDX-License-Identifier: BSD-3-Clause
#include "key_sequence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace weir::bench {

std::vector<std::uint32_t> each_key_once(std::size_t keys) {
  std::mt19937_64 random(43);
  std::vector<std::uint32_t> order(keys);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

std::vector<std::uint32_t> key_sequence(std::size_t keys, Distribution distribution, std::size_t length) {
  std::mt19937_64 random(42);
  std::vector<std::uint32_t> sequence(length);
  if (distribution == Distribution::uniform) {
    for (auto& key : sequence) key = static_cast<std::uint32_t>(random() % keys);
    return sequence;
  }
  std::vector<double> cumulated(keys);
  double sum = 0;
  for (std::size_t rank = 0; rank < keys; ++rank)
    cumulated[rank] = sum += std::pow(static_cast<double>(rank + 1), -0.99);
  std::vector<std::uint32_t> key_of_rank(keys);
  std::iota(key_of_rank.begin(), key_of_rank.end(), 0U);
  std::shuffle(key_of_rank.begin(), key_of_rank.end(), random);
  std::uniform_real_distribution<double> uniform(0, sum);
  for (auto& key : sequence) {
    const auto rank =
        std::lower_bound(cumulated.begin(), cumulated.end(), uniform(random)) - cumulated.begin();
    key = key_of_rank[std::min(static_cast<std::size_t>(rank), keys - 1)];
  }
  return sequence;
}

}  // namespace weir::bench
