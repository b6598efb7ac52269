// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The names of keys that are new in a worker's grants (shared/grant_table.h), on their way to the
/// controller.
///
/// The problem: a key's name is wanted once, by whoever tells the store of it; a worker that kept the names
/// of all its keys would keep as much again as all else that it has of them, and so would every other worker.
/// So it writes a new key's name down, once, and forgets it; the controller reads it, and what has been read
/// makes room for the next.
///
/// Protocol. Two logs for each worker, in turns with its span tables: the worker adds to one of them; the
/// controller empties the other one, which it owns then. What has been added it may read at any time: the end
/// is stored with release order after what lies before it. The worker adds a key here before the key shows in
/// its grants: so whoever has seen it there (acquire) finds its name here.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/pages.h"
#include "shared/filling_array.h"
#include "weir/rule.h"

namespace weir {

/// A key and its name.
struct NewName {
  std::uint64_t key = 0;
  RuleIndex rule = no_rule;
  std::span<const std::byte> bytes;  ///< see base/key_bytes.h
};

class alignas(64) NameLog {
 public:
  /// Reserves addresses for as many keys' names of usual lengths.
  explicit NameLog(std::uint32_t keys)
      : bytes_(keys == 0 ? 0 : std::size_t{keys} * bytes_per_key + always_ahead) {}

  // The worker:

  /// Has the kernel provide the memory of the first names, on the NUMA node of the calling thread. Before it
  /// adds any.
  void touch_pages() noexcept {
    bytes_.prefer_this_node();
    bytes_.begin_surely(always_ahead);
  }
  bool has_room_for(std::span<const std::byte> name) const noexcept {
    return name.size() <= UINT16_MAX && bytes_.has_room_for(sizeof(Header) + name.size());
  }
  /// @pre has_room_for() it
  void add(std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept {
    const Header header{key, rule, static_cast<std::uint16_t>(name.size())};
    std::byte* const at = bytes_.at(bytes_.take(sizeof header + name.size()));
    std::memcpy(at, &header, sizeof header);
    if (!name.empty()) std::memcpy(at + sizeof header, name.data(), name.size());
    // Release: who reads so far finds it written.
    end_.store(bytes_.used(), std::memory_order_release);
  }

  // The controller:

  /// Whether any has been added since read_new() was last called. Relaxed: of a key that the caller has seen
  /// in the grants it tells so, for that was an acquire; of others another time will do.
  bool has_new() const noexcept { return read_ < end_.load(std::memory_order_relaxed); }
  /// Calls visit(const NewName&) for each that has been added since it was last called.
  template <typename Visitor>
  void read_new(Visitor&& visit) {
    // Acquire: pairs with add().
    for (const FillingBytes::Offset end = end_.load(std::memory_order_acquire); read_ < end;) {
      Header header;
      std::memcpy(&header, bytes_.at(read_), sizeof header);
      visit(NewName{header.key, header.rule, {bytes_.at(read_) + sizeof header, header.length}});
      read_ += static_cast<FillingBytes::Offset>(sizeof header + header.length);
    }
  }
  /// Forgets what has been read, which is all there is. Provides room for twice as much as came, and gives
  /// the memory of a crowd of new keys back once they are no longer new. While the worker is known to write
  /// in the other log; once it has been online.
  void empty() noexcept {
    const std::size_t came = bytes_.used();
    const std::size_t ahead = std::max<std::size_t>(2 * std::max(came, emptied_), always_ahead);
    emptied_ = came;
    bytes_.keep(0);
    read_ = 0;
    // Nobody else looks: relaxed.
    end_.store(0, std::memory_order_relaxed);
    // (Where the kernel cannot provide pages for the worker, all of them are there.)
    if (can_provide_pages() && bytes_.provided() > kept_of_ahead * ahead) {
      bytes_.release();
      bytes_.begin(ahead);
    } else {
      bytes_.provide_ahead(ahead);
    }
  }

  /// What has been provided so far, in bytes.
  std::size_t memory() const noexcept { return bytes_.memory(); }

 private:
  struct Header {
    std::uint64_t key;
    RuleIndex rule;
    std::uint16_t length;
  };
  // A name that is an address takes 6 bytes, an API key 40.
  static constexpr std::size_t bytes_per_key = 56;
  static constexpr std::size_t always_ahead = std::size_t{16} << 10;
  static constexpr std::size_t kept_of_ahead = 4;

  FillingBytes bytes_;
  std::atomic<FillingBytes::Offset> end_{0};  // what is before it may be read
  FillingBytes::Offset read_ = 0;             // the controller's
  std::size_t emptied_ = 0;                   // likewise: what came before the last time it was emptied
};

}  // namespace weir
