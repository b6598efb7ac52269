// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The names of keys of which workers tell by their hash alone (shared/grant_table.h): once for the node, as
/// long as any worker holds the key, also while the ledger has forgotten it. There is room for all: a worker
/// tells a name only once, and a key that is asked for all the time it never forgets. So there are as many as
/// the places of all workers' tables, at most.
///
/// Memory grows and shrinks with them, and never all at once: a million keys take long to move, and whoever
/// waits for the controller's next block would wait for that. So a table that is too small, or too large,
/// stays beside its successor, and each key that comes or goes moves the next few over. Where a key is, its
/// hash tells, also meanwhile: keys are moved in the order of their homes, and a search looks in one table
/// only.
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
    if (size_ > 0) prefetch_to_write(table_of(key).at_home(key));
  }
  /// One holder of a key that has had none. @pre find() is nullptr
  /// @return false: there is no memory for one more
  [[nodiscard]] bool add(std::uint64_t key, NamePool::Name name) noexcept;
  /// @pre find() has found it
  void remove(Learned& learned) noexcept;

  std::uint32_t size() const noexcept { return size_; }
  std::size_t memory() const noexcept { return table_.memory() + left_.memory(); }

 private:
  /// Linear probing, and always a place that is free.
  class Table {
   public:
    Table() noexcept = default;
    explicit Table(std::size_t places) : places_(places) {}

    std::size_t places() const noexcept { return places_.size(); }
    std::size_t memory() const noexcept { return places_.bytes(); }
    Learned& operator[](std::size_t place) noexcept { return places_[place]; }
    std::size_t home(std::uint64_t key) const noexcept {
      return static_cast<std::size_t>(static_cast<unsigned __int128>(key) * places_.size() >> 64);
    }
    std::size_t next(std::size_t place) const noexcept { return place + 1 == places_.size() ? 0 : place + 1; }
    std::size_t distance(std::size_t from, std::size_t to) const noexcept {
      return to >= from ? to - from : to + places_.size() - from;
    }
    const Learned* at_home(std::uint64_t key) const noexcept { return &places_[home(key)]; }
    Learned* find(std::uint64_t key) noexcept {
      for (std::size_t i = home(key); places_[i].key != 0; i = next(i))
        if (places_[i].key == key) return &places_[i];
      return nullptr;
    }
    void add(const Learned& learned) noexcept {
      std::size_t i = home(learned.key);
      while (places_[i].key != 0) i = next(i);
      places_[i] = learned;
    }
    void remove(Learned& learned) noexcept;
    /// Gives back the memory of places that are all free.
    void release(std::size_t from, std::size_t to) noexcept { places_.release(from, to); }

   private:
    HugeArray<Learned> places_;
  };

  static constexpr std::size_t first_places = 1024;
  static constexpr std::size_t moved_at_once = 16;  // places; as many lines of memory are near each other
  static constexpr std::size_t released_at_once = (std::size_t{2} << 20) / sizeof(Learned);  // a huge page

  bool moving() const noexcept { return left_.places() != 0; }
  bool has_moved(std::uint64_t key) const noexcept {
    return left_.distance(begun_, left_.home(key)) < moved_;
  }
  const Table& table_of(std::uint64_t key) const noexcept {
    return !moving() || has_moved(key) ? table_ : left_;
  }
  Table& table_of(std::uint64_t key) noexcept { return !moving() || has_moved(key) ? table_ : left_; }
  void move_to(std::size_t places) noexcept;
  void move_some() noexcept;

  std::uint32_t size_ = 0;
  // Between an eighth and three quarters full, where there is memory to grow and it is not small.
  Table table_;
  Table left_;             // while keys are moved out of it; else without places
  std::size_t begun_ = 0;  // the place in `left_` that was looked at first; …
  std::size_t moved_ = 0;  // …places looked at since: what has its home there has been moved
};

}  // namespace weir
