// SPDX-License-Identifier: BSD-3-Clause
#include "key_set.h"

#include <random>

namespace weir::bench {

KeySet make_keys(std::size_t keys) {
  KeySet set;
  set.names.reserve(keys);
  set.counts.reserve(keys);
  std::mt19937 random(42);
  for (std::size_t i = 0; i < keys; ++i) {
    // An odd factor maps 32 bits one to one: no address comes twice.
    const auto address = static_cast<std::uint32_t>(i * 2654435761U);
    set.names.push_back("user|" + std::to_string(address >> 24) + '.' + std::to_string(address >> 16 & 255) +
                        '.' + std::to_string(address >> 8 & 255) + '.' + std::to_string(address & 255));
    const auto drawn = static_cast<std::uint32_t>(random());
    set.counts.push_back(1 + (drawn % 4 == 0 ? drawn / 4 % 200 : drawn / 4 % 3));
    set.sum += set.counts.back();
  }
  return set;
}

}  // namespace weir::bench
