// SPDX-License-Identifier: BSD-3-Clause
#include <tbb/concurrent_hash_map.h>

#include "peers.h"

namespace weir::bench {

struct TbbMap::Map {
  tbb::concurrent_hash_map<std::uint64_t, std::uint64_t> counts;
};

TbbMap::TbbMap(std::size_t keys) : map_(std::make_unique<Map>()) { map_->counts.rehash(keys); }
TbbMap::~TbbMap() = default;

void TbbMap::admit(std::span<const PlainKey> keys) {
  for (const PlainKey& key : keys) {
    tbb::concurrent_hash_map<std::uint64_t, std::uint64_t>::accessor place;
    map_->counts.insert(place, key.hash);
    admitted_ += ++place->second <= limit;
  }
}

}  // namespace weir::bench
