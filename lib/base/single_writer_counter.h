// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace weir {

/// A counter that one thread writes and any thread may read. Relaxed load and store instead of a locked add
/// (about 1 cycle against 11–12): with one writer nothing can be lost, and readers of a figure need no order
/// with other memory.
class SingleWriterCounter {
 public:
  SingleWriterCounter() noexcept = default;
  /// While nobody else knows of either.
  SingleWriterCounter(SingleWriterCounter&& other) noexcept : value_(other.read()) {}
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }
  /// For code that must not instantiate what others may, as it is for some machines only: to be written by the
  /// writer alone, as add() does.
  std::uint64_t* word() noexcept { return reinterpret_cast<std::uint64_t*>(&value_); }

 private:
  std::atomic<std::uint64_t> value_{0};
  static_assert(sizeof(value_) == sizeof(std::uint64_t) && std::atomic<std::uint64_t>::is_always_lock_free);
};

}  // namespace weir
