// SPDX-License-Identifier: BSD-3-Clause
#include "shared/publication.h"

#include <bit>

namespace weir {

void Publication::reset_keys(std::size_t count) {
  keys_.assign(std::bit_ceil(2 * count + 1), KeyState{});
  mask_ = keys_.size() - 1;
  count_ = 0;
}

void Publication::add_key(const KeyState& state) noexcept {
  std::size_t i = state.key & mask_;
  while (keys_[i].key != 0) i = (i + 1) & mask_;
  keys_[i] = state;
  ++count_;
}

}  // namespace weir
