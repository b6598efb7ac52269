// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Elements that a worker uses from the front and that take memory only as it does.
///
/// The problem: room for all that a node may ever hold is several times what is ever used: keys' names are
/// short as a rule and may be long, and most keys never need more than a grant. Untouched pages cost nothing,
/// but the worker that touches one first waits for the kernel. So pages are provided ahead of it: by the
/// controller, each time it has drained a table, as many as the worker is likely to need until it comes back.
/// A worker that is faster than that touches small pages first, each for a microsecond or so, and loses
/// nothing. Only where the kernel has said that it has no memory there is room for no more than what is
/// there, as where all is full, until it has some again.
///
/// Who provides: at first the worker itself, before it decides on anything (which also tells the kernel on
/// which NUMA node all the rest is to lie). A kernel that cannot provide pages for somebody else (before
/// Linux 5.14) provides all of them then. What has been provided lies on huge pages, once it is enough to
/// fill one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/huge_array.h"

namespace weir {

/// A fixed number of T, each beginning as zero bytes. Offsets and sizes count elements.
template <typename T>
class FillingArray {
 public:
  using Offset = std::uint32_t;

  /// Reserves addresses for so many; until begin() pages come as they are touched.
  explicit FillingArray(std::size_t size) : elements_(size), provided_(size), usable_(size) {
    elements_.use_small_pages();
  }
  /// While nobody uses the other one.
  FillingArray(FillingArray&& other) noexcept
      : elements_(std::move(other.elements_)),
        used_(other.used()),
        provided_(other.provided()),
        usable_(other.usable()) {}

  /// Has the pages lie on the NUMA node of the calling thread, the worker's, as far as nobody has touched
  /// them.
  void prefer_this_node() noexcept { elements_.prefer_this_node(); }
  /// Provides the first of them; all the others may come later. While nobody else uses them.
  void begin(std::size_t ahead) noexcept {
    if (size() == 0) return;
    tell(size(), size());
    if (!can_provide_pages()) {
      elements_.use_huge_pages();
      return elements_.touch_pages();
    }
    tell(0, size());
    provide_ahead(ahead);
  }
  /// The same for who would be without for good: where the kernel cannot provide them now, waits for it.
  void begin_surely(std::size_t ahead) noexcept {
    begin(ahead);
    const std::size_t first = in_whole_pages(std::min(used() + ahead, size()));
    if (provided() >= first) return;
    elements_.touch_pages(0, first);
    tell(first, size());
  }
  /// Provides the last ones, from `from` on, too: for who uses those out of order. memory() does not know of
  /// them.
  void begin_last(std::size_t from) noexcept { elements_.touch_pages(from, size()); }
  /// Forgets all and gives the memory back, until begin(). While nobody else uses it.
  void release() noexcept {
    keep(0);
    tell(0, 0);
    gathered_ = 0;
    elements_.release();
  }
  /// The controller: has so many beyond those that are used provided, as far as there are as many. Where the
  /// kernel had no memory the last time, at least some more than there are: so that it shows whether it has
  /// some again.
  void provide_ahead(std::size_t ahead) noexcept {
    const std::size_t provided = this->provided();
    const std::size_t least = usable() < size() ? provided + 1 : 0;
    const std::size_t to = in_whole_pages(std::min(std::max(used() + ahead, least), size()));
    if (to <= provided) return;
    if (elements_.provide(provided, to))
      tell(to, size());
    else
      tell(provided, std::max<std::size_t>(provided, used()));
  }
  /// Has what is provided lie on huge pages as far as it fills them: for who looks for elements here and
  /// there. While nobody else uses it.
  void gather() noexcept {
    const std::size_t before = std::exchange(gathered_, provided());
    if (before < gathered_) elements_.gather(before, gathered_);
  }

  // The worker's, or the one's who owns the table that they are part of:

  std::size_t size() const noexcept { return elements_.size(); }
  T* data() noexcept { return elements_.data(); }
  T& operator[](std::size_t index) noexcept { return elements_[index]; }
  const T& operator[](std::size_t index) const noexcept { return elements_[index]; }
  T* at(Offset offset) noexcept { return elements_.data() + offset; }
  const T* at(Offset offset) const noexcept { return elements_.data() + offset; }
  bool holds(const T* element) const noexcept {
    return std::less_equal<>{}(elements_.data(), element) &&
           std::less<>{}(element, elements_.data() + elements_.size());
  }
  bool has_room_for(std::size_t count) const noexcept { return used() + count <= usable(); }
  /// Uses so many. @pre has_room_for() them
  Offset take(std::size_t count) noexcept {
    const Offset taken = used();
    used_.store(taken + static_cast<Offset>(count), std::memory_order_relaxed);
    return taken;
  }
  /// From then on only the first `count` are used. @pre so many are
  void keep(Offset count) noexcept { used_.store(count, std::memory_order_relaxed); }

  // Any thread:

  Offset used() const noexcept { return used_.load(std::memory_order_relaxed); }
  /// Those that take memory ahead of their use; until begin(): that may.
  std::size_t provided() const noexcept { return provided_.load(std::memory_order_relaxed); }
  /// No more are to be used by now, see has_room_for().
  std::size_t usable() const noexcept { return usable_.load(std::memory_order_relaxed); }
  /// What takes memory, in bytes; until begin(): what may.
  std::size_t memory() const noexcept { return std::max<std::size_t>(provided(), used()) * sizeof(T); }

 private:
  // Some small pages at once; and huge ones as soon as these are a small part of all: what grows by less than
  // one would never lie on any.
  static constexpr std::size_t small_step = std::size_t{16} << 10;
  static constexpr std::size_t huge_step = std::size_t{2} << 20;
  static constexpr std::size_t many = 4 * huge_step;
  static_assert(small_step % sizeof(T) == 0);

  std::size_t in_whole_pages(std::size_t count) const noexcept {
    const std::size_t bytes = count * sizeof(T);
    const std::size_t step = bytes <= many ? small_step : huge_step;
    return std::min((bytes + step - 1) / step * step / sizeof(T), size());
  }
  // Relaxed here as everywhere: numbers, and the pages are the kernel's.
  void tell(std::size_t provided, std::size_t usable) noexcept {
    provided_.store(provided, std::memory_order_relaxed);
    usable_.store(usable, std::memory_order_relaxed);
  }

  HugeArray<T> elements_;
  // Written by the worker that fills, read by the controller.
  std::atomic<Offset> used_{0};
  // Written by the controller, but at first by the worker; read by the worker.
  std::atomic<std::size_t> provided_;
  std::atomic<std::size_t> usable_;
  std::size_t gathered_ = 0;  // whoever owns it
};

using FillingBytes = FillingArray<std::byte>;

}  // namespace weir
