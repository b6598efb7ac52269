// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Memory of whole pages, fresh from the kernel: huge ones where there is as much to lie on them. Why:
/// huge_array.h.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace weir {

inline constexpr std::size_t small_page = 4096;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// How much map_pages() maps for so many bytes: huge pages from the size of one on.
constexpr std::size_t mapped_for(std::size_t bytes) noexcept {
  const std::size_t unit = bytes < huge_page ? small_page : huge_page;
  return (bytes + unit - 1) / unit * unit;
}

/// Zeroed memory that nobody has touched, on huge pages, from the size of one on, where the kernel has some
/// to give. Throws std::bad_alloc when there is no memory. Thread-safe.
/// @param bytes  not 0
/// @return the beginning of a page, of a huge one from the size of one on
inline void* map_pages(std::size_t bytes) {
  const std::size_t mapped = mapped_for(bytes);
  // Small ones share no huge page with anything, so they do without. Of large ones one more, so that a whole
  // number of huge pages lies within, wherever the mapping begins.
  const std::size_t slack = bytes < huge_page ? 0 : huge_page;
  void* const begin =
      ::mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  if (slack == 0) return begin;
  auto* const first = static_cast<std::byte*>(begin);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = (address + huge_page - 1) / huge_page * huge_page - address;
  if (before != 0) ::munmap(first, before);
  if (before != slack) ::munmap(first + before + mapped, slack - before);
  // Only advice: without huge pages everything works, slower.
  ::madvise(first + before, mapped, MADV_HUGEPAGE);
  return first + before;
}

/// Gives them back.
/// @param bytes  that map_pages() was asked for
inline void unmap_pages(void* begin, std::size_t bytes) noexcept { ::munmap(begin, mapped_for(bytes)); }

}  // namespace weir
