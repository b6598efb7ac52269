// SPDX-License-Identifier: BSD-3-Clause
#include <tbb/concurrent_hash_map.h>

#include "peers.h"

namespace weir::bench {

struct TbbMap::Map {
  tbb::concurrent_hash_map<std::uint64_t, std::uint64_t> counts;
};

TbbMap::TbbMap(std::size_t keys) : map_(std::make_unique<Map>()) { map_->counts.rehash(keys); }
TbbMap::~TbbMap() = default;

std::uint64_t TbbMap::admit(std::span<const PlainKey> keys) {
  std::uint64_t admitted = 0;
  for (const PlainKey& key : keys) {
    tbb::concurrent_hash_map<std::uint64_t, std::uint64_t>::accessor place;
    map_->counts.insert(place, key.hash);
    admitted += ++place->second <= limit;
  }
  return admitted;
}

std::uint64_t TbbMap::counted() const {
  std::uint64_t sum = 0;
  for (const auto& [key, count] : map_->counts) sum += count;
  return sum;
}

}  // namespace weir::bench
