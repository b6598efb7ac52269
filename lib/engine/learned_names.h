// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The names of keys of which workers tell by their hash alone (shared/grant_table.h): once for the node, as
/// long as any worker holds the key, also while the ledger has forgotten it. There is room for all: a worker
/// tells a name only once, and a key that is asked for all the time it never forgets. So there are as many as
/// the places of all workers' tables, at most. Memory grows with them and is kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.h"
#include "base/prefetch.h"
#include "engine/name_pool.h"

namespace weir {

class LearnedNames {
 public:
  struct Learned {
    std::uint64_t key;  ///< 0: free
    NamePool::Name name;
    std::uint32_t holders;  ///< workers that hold the key
  };

  /// The key's, or nullptr. Valid until the next add() or remove().
  Learned* find(std::uint64_t key) noexcept;
  const Learned* find(std::uint64_t key) const noexcept { return const_cast<LearnedNames*>(this)->find(key); }
  void prefetch(std::uint64_t key) const noexcept {
    if (size_ > 0) prefetch_to_write(&places_[home(key)]);
  }
  /// One holder of a key that has had none. @pre find() is nullptr
  void add(std::uint64_t key, NamePool::Name name);
  /// @pre find() has found it
  void remove(Learned& learned) noexcept;

  std::uint32_t size() const noexcept { return size_; }
  std::size_t memory() const noexcept { return places_.bytes(); }

 private:
  static constexpr std::size_t first_places = 1024;

  std::size_t home(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(key) * places_.size() >> 64);
  }
  std::size_t next(std::size_t place) const noexcept { return place + 1 == places_.size() ? 0 : place + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return to >= from ? to - from : to + places_.size() - from;
  }
  void grow();

  std::uint32_t size_ = 0;
  HugeArray<Learned> places_;  // linear probing, three quarters full at most; grows with the keys
};

}  // namespace weir
