// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Memory for tables that are read at random: zeroed, on huge pages where the kernel has some to give, and
/// not touched before its user does.
///
/// The problem: a table of 64 MiB lies on 16,384 small pages, more than any translation buffer holds, so that
/// nearly every random access costs a page walk beside the cache miss. And memory that is cleared by the
/// thread that allocates it lies on that thread's NUMA node, not on the one of the worker that reads it. So:
/// fresh mappings, which the kernel zeroes at first touch, on the node of whoever touches them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "base/huge_pages.h"
#include "base/pages.h"

namespace weir {

/// A fixed number of T, each beginning as zero bytes. Throws std::bad_alloc when there is no memory.
template <typename T>
class HugeArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  HugeArray() noexcept = default;
  explicit HugeArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    data_ = std::launder(static_cast<T*>(map_pages(bytes())));
  }
  HugeArray(HugeArray&& other) noexcept { swap(other); }
  HugeArray& operator=(HugeArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~HugeArray() {
    if (data_ != nullptr) unmap_pages(data_, bytes());
  }

  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return size_ * sizeof(T); }

  /// Has the kernel provide all pages now, on the NUMA node of the calling thread if nobody has touched them.
  /// Changes no content; nobody else may write meanwhile.
  void touch_pages() noexcept { touch_pages(0, size_); }
  /// The same for the elements from `from` on and before `to`.
  void touch_pages(std::size_t from, std::size_t to) noexcept {
    volatile std::byte* const bytes = reinterpret_cast<std::byte*>(data_);
    for (std::size_t at = from * sizeof(T) / small_page * small_page; at < to * sizeof(T); at += small_page)
      bytes[at] = bytes[at];
  }
  /// Has what is touched before it is provided lie on small pages: then whoever touches some of it waits for
  /// little, and takes little. While nobody has touched any.
  void use_small_pages() noexcept {
    if (mapped() >= huge_page) ::madvise(data_, mapped(), MADV_NOHUGEPAGE);
  }
  /// The opposite: for who touches all of it at once.
  void use_huge_pages() noexcept {
    // Only advice, as above.
    if (mapped() >= huge_page) ::madvise(data_, mapped(), MADV_HUGEPAGE);
  }
  /// Gives the memory back: all elements are zero bytes again. While nobody else uses them.
  void release() noexcept {
    if (data_ != nullptr) ::madvise(data_, mapped(), MADV_DONTNEED);
  }
  /// The same for the pages that the elements from `from` on and before `to` fill; the others are as before.
  void release(std::size_t from, std::size_t to) noexcept {
    const std::size_t first = (from * sizeof(T) + small_page - 1) / small_page * small_page;
    const std::size_t last = to * sizeof(T) / small_page * small_page;
    if (first < last) ::madvise(reinterpret_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
  }
  /// Has what nobody has touched yet lie on the NUMA node of the calling thread, whoever touches it. Advice.
  void prefer_this_node() noexcept {
    if (data_ != nullptr) weir::prefer_this_node(data_, mapped());
  }
  /// Has the kernel provide the pages of the elements from `from` on and before `to`, in order, huge ones as
  /// far as these fill them. Any thread; others may write there meanwhile.
  /// @return false: it cannot, see base/pages.h
  bool provide(std::size_t from, std::size_t to) noexcept {
    const std::size_t begin = from * sizeof(T);
    const std::size_t first = begin / huge_page * huge_page;
    const std::size_t last = (to == size_ ? mapped() : to * sizeof(T)) / huge_page * huge_page;
    // Only advice, as above.
    if (first < last) ::madvise(reinterpret_cast<std::byte*>(data_) + first, last - first, MADV_HUGEPAGE);
    return provide_pages(data_ + from, (to - from) * sizeof(T));
  }
  /// Has the elements from `from` on and before `to`, all of them provided, lie on huge pages as far as they
  /// fill these. While nobody else uses them. Advice.
  void gather(std::size_t from, std::size_t to) noexcept {
    const std::size_t first = from * sizeof(T) / huge_page * huge_page;
    const std::size_t last = to * sizeof(T) / huge_page * huge_page;
    if (first < last) gather_pages(reinterpret_cast<std::byte*>(data_) + first, last - first);
  }

 private:
  std::size_t mapped() const noexcept { return mapped_for(bytes()); }

  void swap(HugeArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weir
