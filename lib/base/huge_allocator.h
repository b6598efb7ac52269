// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// For vectors that may grow large and are read at random: from the size of a huge page on they lie on such
/// pages, where the kernel has some to give (see huge_array.h); below, where all others do.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>

#include "base/huge_pages.h"

namespace weir {

/// An allocator as the standard's containers want it. Thread-safe. allocate() throws std::bad_alloc when
/// there is no memory.
template <typename T>
class HugeAllocator {
  static_assert(alignof(T) <= small_page);

 public:
  using value_type = T;

  HugeAllocator() noexcept = default;
  template <typename Other>
  explicit(false) HugeAllocator(const HugeAllocator<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T) - huge_page) throw std::bad_alloc();
    if (is_small(count)) return std::allocator<T>().allocate(count);
    return static_cast<T*>(map_pages(count * sizeof(T)));
  }
  void deallocate(T* begin, std::size_t count) noexcept {
    if (is_small(count)) return std::allocator<T>().deallocate(begin, count);
    unmap_pages(begin, count * sizeof(T));
  }
  /// What one has allocated any other may free.
  template <typename Other>
  bool operator==(const HugeAllocator<Other>&) const noexcept {
    return true;
  }

 private:
  static constexpr bool is_small(std::size_t count) noexcept { return count * sizeof(T) < huge_page; }
};

}  // namespace weir
