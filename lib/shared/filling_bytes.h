// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Bytes that a worker fills from the front and that take memory only as it does.
///
/// The problem: keys' names are short as a rule and may be long; room for the longest of as many keys as a
/// node may hold is several times what is ever used. Untouched pages cost nothing, but the worker that
/// touches one first would wait for the kernel. So the worker uses what has been provided, and the controller
/// has more provided, ahead of it, each time it has drained a table. A worker that is faster than that finds
/// no room, as where all is full: that key has no place until the next span.
///
/// Who provides: at first the worker itself, before it decides on anything (which also tells the kernel on
/// which NUMA node all the rest is to lie). A kernel that cannot provide pages for somebody else (before
/// Linux 5.14) provides all of them then.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/huge_array.h"

namespace weir {

class FillingBytes {
 public:
  using Offset = std::uint32_t;

  /// Reserves addresses for so many; until begin() pages come as they are touched.
  explicit FillingBytes(std::size_t size) : bytes_(size), provided_(size) {}
  /// While nobody uses the other one.
  FillingBytes(FillingBytes&& other) noexcept
      : bytes_(std::move(other.bytes_)), used_(other.used()), provided_(other.provided()) {}

  /// Has the pages lie on the NUMA node of the calling thread, the worker's, as far as nobody has touched
  /// them.
  void prefer_this_node() noexcept { bytes_.prefer_this_node(); }
  /// Provides the first of them; all the others may come later. While nobody else uses them.
  void begin(std::size_t ahead) noexcept {
    if (bytes_.size() == 0) return;
    // Relaxed here as everywhere: a number, and the pages are the kernel's.
    provided_.store(bytes_.size(), std::memory_order_relaxed);
    if (!can_provide_pages()) return bytes_.touch_pages();
    provided_.store(0, std::memory_order_relaxed);
    provide_ahead(ahead);
  }
  /// The same for who would be without for good: where the kernel cannot provide them now, waits for it.
  void begin_surely(std::size_t ahead) noexcept {
    begin(ahead);
    if (provided() > 0 || bytes_.size() == 0) return;
    bytes_.touch_pages();
    provided_.store(bytes_.size(), std::memory_order_relaxed);
  }
  /// Forgets all and gives the memory back, until begin(). While nobody else uses it.
  void release() noexcept {
    keep(0);
    provided_.store(0, std::memory_order_relaxed);
    bytes_.release();
  }
  /// The controller: has so many beyond those that are used provided, as far as there are as many.
  void provide_ahead(std::size_t ahead) noexcept {
    const std::size_t provided = provided_.load(std::memory_order_relaxed);
    const std::size_t wanted = used() + ahead;
    if (wanted <= provided || provided == bytes_.size()) return;
    const std::size_t to = std::min((wanted + step - 1) / step * step, bytes_.size());
    if (bytes_.provide(provided, to)) provided_.store(to, std::memory_order_relaxed);
  }

  // The worker's, or the one's who owns the table that they are part of:

  std::size_t size() const noexcept { return bytes_.size(); }
  std::byte* at(Offset offset) noexcept { return bytes_.data() + offset; }
  const std::byte* at(Offset offset) const noexcept { return bytes_.data() + offset; }
  bool has_room_for(std::size_t bytes) const noexcept {
    return used() + bytes <= provided_.load(std::memory_order_relaxed);
  }
  /// Uses so many. @pre has_room_for() them
  Offset take(std::size_t bytes) noexcept {
    const Offset taken = used();
    used_.store(taken + static_cast<Offset>(bytes), std::memory_order_relaxed);
    return taken;
  }
  /// From then on only the first `count` are used. @pre so many are
  void keep(Offset count) noexcept { used_.store(count, std::memory_order_relaxed); }

  // Any thread:

  Offset used() const noexcept { return used_.load(std::memory_order_relaxed); }
  /// What takes memory; until begin(): what may.
  std::size_t provided() const noexcept { return provided_.load(std::memory_order_relaxed); }

 private:
  // A huge page: the kernel gives no less where it has one.
  static constexpr std::size_t step = std::size_t{2} << 20;

  HugeArray<std::byte> bytes_;
  // Written by the worker that fills, read by the controller.
  std::atomic<Offset> used_{0};
  // Written by the controller, but at first by the worker; read by the worker.
  std::atomic<std::size_t> provided_;
};

}  // namespace weir
