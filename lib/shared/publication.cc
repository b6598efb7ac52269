// SPDX-License-Identifier: BSD-3-Clause
#include "shared/publication.h"

#include <bit>
#include <utility>

namespace weir {
namespace {

// How many keys ahead their words of the index are fetched.
constexpr std::size_t indexed_ahead = 16;

}  // namespace

void Publication::take_memory_of(Publication& other) {
  // What this one had goes, and the other one finds nothing in what it has now.
  const auto take = [](auto& mine, auto& its, auto nothing) {
    mine = std::exchange(its, std::move(nothing));
  };
  take(states_, other.states_, HugeVector<KeyState>());
  take(index_, other.index_, HugeVector<Word>(1));
  take(mask_, other.mask_, std::size_t{0});
  take(blocked_, other.blocked_, nullptr);
  take(changed_, other.changed_, KeyFilter());
  take(ungranted_, other.ungranted_, KeyFilter());
  take(ungranted_keys_, other.ungranted_keys_, std::size_t{0});
  take(light_keys, other.light_keys, std::vector<KeyFilter>());
  take(defaults, other.defaults, std::vector<KeyTerms>());
  for (const auto words : {&Publication::light_allowances, &Publication::unknown_allowances,
                           &Publication::reserves, &Publication::reserves_before})
    take(this->*words, other.*words, std::vector<std::uint64_t>());
  for (const auto words : {&Publication::grants, &Publication::grant_turn_of_worker})
    take(this->*words, other.*words, std::vector<std::uint32_t>());
  for (const auto bytes : {&Publication::table_of_worker, &Publication::some_ungranted})
    take(this->*bytes, other.*bytes, std::vector<std::uint8_t>());
}

std::size_t Publication::memory() const noexcept {
  std::size_t bytes = states_.capacity() * sizeof(KeyState) + index_.capacity() * sizeof(Word) +
                      changed_.memory() + ungranted_.memory() + defaults.capacity() * sizeof(KeyTerms) +
                      table_of_worker.capacity() + some_ungranted.capacity();
  for (const auto words : {&light_allowances, &unknown_allowances, &reserves, &reserves_before})
    bytes += words->capacity() * sizeof(std::uint64_t);
  for (const auto words : {&grants, &grant_turn_of_worker})
    bytes += words->capacity() * sizeof(std::uint32_t);
  for (const KeyFilter& filter : light_keys) bytes += filter.memory();
  return bytes;
}

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
