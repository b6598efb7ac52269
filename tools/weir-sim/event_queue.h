// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What is to happen, in order of time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weir/time.h"

namespace weir::sim {

/// A binary heap of plain values. Events of one moment come out in the order they were put in, so that a run
/// repeats.
class EventQueue {
 public:
  enum class Kind : std::uint8_t {
    controller,   ///< a node's controller is due; `subject`: its incarnation
    arrival,      ///< a round reaches the server; `subject`: the round
    answer,       ///< its answers reach the client; `subject`: the round
    store_timer,  ///< a client's deadline or its time to connect again; `subject`: its incarnation
    scenario,     ///< `subject`: index of the scenario's step
  };
  struct Event {
    Duration at{};
    std::uint64_t order = 0;
    std::uint32_t subject = 0;
    Kind kind = Kind::controller;
  };

  void push(Duration at, Kind kind, std::uint32_t subject) {
    heap_.push_back({at, next_order_++, subject, kind});
    std::ranges::push_heap(heap_, later);
  }
  bool empty() const noexcept { return heap_.empty(); }
  /// @pre not empty
  const Event& top() const noexcept { return heap_.front(); }
  Event pop() {
    std::ranges::pop_heap(heap_, later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  std::vector<Event> heap_;
  std::uint64_t next_order_ = 0;
};

}  // namespace weir::sim
