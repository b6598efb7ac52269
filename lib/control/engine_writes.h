// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the engine wants told, in the store's words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "store/store.h"

namespace weir {

/// So many writes are handed over at once, or as many as long names leave room for: what they say, and their
/// names, are still in a near cache when the store reads them; and they are worth a batch for each of a
/// store's partitions.
inline constexpr std::size_t written_together = 1024;

/// Writes on their way from the engine to a store. Kept for the next time: memory that is near.
class WritesOnTheirWay {
 public:
  WritesOnTheirWay() {
    writes_.reserve(written_together);
    texts_.reserve(texts_together);
  }
  // A copy's texts would have less room.
  WritesOnTheirWay(const WritesOnTheirWay&) = delete;
  WritesOnTheirWay& operator=(const WritesOnTheirWay&) = delete;

  /// Hands all writes of the engine over, and clears them.
  void submit(Engine& engine, Store& store, MonotonicTime now) {
    engine.for_each_write([&](const EngineWrite& write) {
      if (!has_room(write)) hand_over(store, now);
      add(write, now);
    });
    hand_over(store, now);
    engine.clear_writes();
  }

 private:
  // Names are seldom longer than this on average.
  static constexpr std::size_t texts_together = 64 * written_together;
  static_assert(NamePool::longest + 16 < texts_together);

  // Texts must stay where they are.
  bool has_room(const EngineWrite& write) const noexcept {
    const std::size_t joined = write.suffix.empty() ? 0 : write.name.size() + write.suffix.size();
    return writes_.size() < written_together && texts_.size() + joined <= texts_together;
  }

  void add(const EngineWrite& write, MonotonicTime now) {
    writes_.push_back({.key = write.key,
                       .name = write.suffix.empty() ? write.name : joined(write.name, write.suffix),
                       .ordinal = write.ordinal,
                       .interval = write.interval,
                       .delta = write.delta,
                       .time_to_live = write.time_to_live,
                       .expires = now + write.time_to_live,
                       .returned = write.returned,
                       .raised_to = write.raised_to,
                       .tag = static_cast<std::uint8_t>(write.use),
                       .weightless = write.use == CounterUse::members || write.use == CounterUse::refused,
                       .undivided = write.use == CounterUse::lease || write.use == CounterUse::blocked});
  }

  std::string_view joined(std::string_view name, std::string_view suffix) {
    const std::size_t begin = texts_.size();
    texts_.append(name).append(suffix);
    return std::string_view(texts_).substr(begin);
  }

  void hand_over(Store& store, MonotonicTime now) {
    if (!writes_.empty()) store.submit(writes_, now);
    writes_.clear();
    texts_.clear();
  }

  std::vector<CounterWrite> writes_;
  std::string texts_;
};

}  // namespace weir
