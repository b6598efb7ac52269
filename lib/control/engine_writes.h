// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the engine wants told, in the store's words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "store/store.h"

namespace weir {

inline CounterWrite counter_write(const EngineWrite& write, MonotonicTime now) noexcept {
  return {.key = write.key,
          .name = write.name,
          .ordinal = write.ordinal,
          .interval = write.interval,
          .delta = write.delta,
          .time_to_live = write.time_to_live,
          .expires = now + write.time_to_live,
          .returned = write.returned,
          .raised_to = write.raised_to,
          .tag = static_cast<std::uint8_t>(write.use),
          .weightless = write.use == CounterUse::members || write.use == CounterUse::refused,
          .undivided = write.use == CounterUse::lease || write.use == CounterUse::blocked};
}

/// So many writes are handed over at once: what they say, and their names, are still in a near cache when the
/// store reads them; and they are worth a batch for each of a store's partitions.
inline constexpr std::size_t written_together = 1024;

/// Hands all writes of the engine over, and clears them.
/// @param room  for some of them; kept for the next time
inline void submit_writes(Engine& engine, Store& store, MonotonicTime now, std::vector<CounterWrite>& room) {
  const auto submit = [&] {
    store.submit(room, now);
    room.clear();
  };
  engine.for_each_write([&](const EngineWrite& write) {
    room.push_back(counter_write(write, now));
    if (room.size() == written_together) submit();
  });
  if (!room.empty()) submit();
  engine.clear_writes();
}

}  // namespace weir
