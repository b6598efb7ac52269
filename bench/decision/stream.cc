// SPDX-License-Identifier: BSD-3-Clause
#include "stream.h"

#include <bit>
#include <string>
#include <tuple>

#include "program/program.h"

namespace weir::bench {

// Of the hash's bits the high ones choose a line and none are zero: as well spread as a keyed hash, at no
// cost.
PlainKey::PlainKey(std::uint32_t key) : hash((std::uint64_t{key} + 1) * 0x9e3779b97f4a7c15), index(key) {
  static_assert(user_name_size <= std::tuple_size_v<decltype(name_)>);
  const std::string name = user_name(key);
  size_ = static_cast<std::uint8_t>(name.copy(name_.data(), name_.size()));
}

const char* name_of(Drawn drawn) {
  constexpr const char* names[] = {"uniform", "zipf", "once"};
  return names[static_cast<std::size_t>(drawn)];
}

std::size_t Stream::length(std::size_t keys, Drawn drawn) {
  constexpr std::size_t longest = std::size_t{1} << 24;
  return drawn == Drawn::once ? keys : std::clamp(std::bit_ceil(2 * keys), sequence_length, longest);
}

Stream::Stream(std::size_t keys, Drawn drawn) : size_(length(keys, drawn)) {
  const std::vector<std::uint32_t> sequence =
      drawn == Drawn::once
          ? each_key_once(keys)
          : key_sequence(keys, drawn == Drawn::zipf ? Distribution::zipf : Distribution::uniform, size_);
  constexpr std::size_t again = furthest_ahead * burst;
  keys_.reserve(size_ + again);
  for (const std::uint32_t key : sequence) keys_.emplace_back(key);
  for (std::size_t i = 0; i < again; ++i) keys_.push_back(keys_[i % size_]);
}

}  // namespace weir::bench
