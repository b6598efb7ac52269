// SPDX-License-Identifier: BSD-3-Clause
#include "shared/publication.h"

#include <bit>

namespace weir {
namespace {

// How many keys ahead their words of the index are fetched.
constexpr std::size_t indexed_ahead = 16;

}  // namespace

void Publication::reset_keys(std::size_t likely) {
  states_.clear();
  states_.reserve(likely);
  index_keys();
}

void Publication::index_keys(std::size_t more) {
  const std::size_t count = states_.size();
  states_.reserve(count + more);
  index_.assign(std::bit_ceil(2 * (count + more) + 1), free);
  mask_ = index_.size() - 1;
  for (std::size_t entry = 0; entry < count; ++entry) {
    if (entry + indexed_ahead < count) prefetch_to_write(&index_[states_[entry + indexed_ahead].key & mask_]);
    index(entry);
  }
}

void Publication::add_key(const KeyState& state) noexcept {
  states_.push_back(state);
  index(states_.size() - 1);
}

void Publication::index(std::size_t entry) noexcept {
  const std::uint64_t key = states_[entry].key;
  std::size_t i = key & mask_;
  while (index_[i] != free) i = (i + 1) & mask_;
  index_[i] = (key & ~Word{0xffffffff}) | (entry + 1);
}

}  // namespace weir
