// SPDX-License-Identifier: BSD-3-Clause
#include "shared/publication.h"

#include <bit>

namespace weir {

void Publication::reset_keys(std::size_t count) {
  states_.clear();
  states_.reserve(count);
  index_.assign(std::bit_ceil(2 * count + 1), free);
  mask_ = index_.size() - 1;
}

void Publication::add_key(const KeyState& state) noexcept {
  std::size_t i = state.key & mask_;
  while (index_[i] != free) i = (i + 1) & mask_;
  states_.push_back(state);
  index_[i] = (state.key & ~Word{0xffffffff}) | states_.size();
}

}  // namespace weir
