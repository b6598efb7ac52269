// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Rows of a table that grows: they stay where they are, lie on huge pages where the kernel has some to give,
/// and take memory as they are made.
///
/// The problem: an allocator's blocks lie on small pages. Of a million that are read at random nearly every
/// one costs a page walk, which misses the caches by itself, beside its own cache misses; and to ask for them
/// ahead does not help, for whoever asks waits for the walk.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/huge_array.h"

namespace weir {

/// Not thread-safe.
template <typename T>
class HugeRows {
 public:
  /// @param width  of a row: so many T
  /// @param most  rows that there will probably be at most: for fewer, less is mapped at once
  explicit HugeRows(std::size_t width, std::size_t most)
      : width_(width),
        shift_(static_cast<unsigned>(std::countr_zero(
            std::min(std::bit_ceil(std::max<std::size_t>(most, 1)),
                     std::bit_floor(std::max<std::size_t>(most_mapped / (width * sizeof(T)), 1)))))) {}
  HugeRows(HugeRows&& other) noexcept
      : width_(other.width_),
        shift_(other.shift_),
        size_(std::exchange(other.size_, 0)),
        mapped_(std::move(other.mapped_)),
        rows_(std::move(other.rows_)) {}
  HugeRows& operator=(HugeRows&&) = delete;
  ~HugeRows() {
    for (std::size_t row = 0; row < size_; ++row) std::destroy_n((*this)[row], width_);
  }

  /// Makes one more, its elements as T() is. Throws std::bad_alloc where there is no memory.
  /// @return its number
  std::size_t add() {
    if (size_ >> shift_ == mapped_.size()) {
      rows_.reserve(mapped_.size() + 1);
      mapped_.emplace_back((width_ * sizeof(T)) << shift_);
      rows_.push_back(reinterpret_cast<T*>(mapped_.back().data()));
    }
    std::uninitialized_value_construct_n((*this)[size_], width_);
    return size_++;
  }

  /// The first element of a row.
  T* operator[](std::size_t row) noexcept { return rows_[row >> shift_] + (row & mask()) * width_; }
  const T* operator[](std::size_t row) const noexcept {
    return rows_[row >> shift_] + (row & mask()) * width_;
  }
  std::size_t width() const noexcept { return width_; }
  std::size_t size() const noexcept { return size_; }
  /// Of the rows made so far. Bytes.
  std::size_t memory() const noexcept { return size_ * width_ * sizeof(T); }

 private:
  /// In one go: so many huge pages that little is lost at the end of the last one.
  static constexpr std::size_t most_mapped = std::size_t{32} << 20;
  static_assert(alignof(T) <= 4096);

  std::size_t mask() const noexcept { return (std::size_t{1} << shift_) - 1; }

  std::size_t width_;
  unsigned shift_;  // of a number of rows that are mapped together
  std::size_t size_ = 0;
  std::vector<HugeArray<std::byte>> mapped_;
  std::vector<T*> rows_;  // where each of these begins
};

}  // namespace weir
