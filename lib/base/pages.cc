// SPDX-License-Identifier: BSD-3-Clause
#include "base/pages.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdint>

namespace weir {
namespace {

// Older headers do not name them; the kernel's numbers stay.
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
constexpr int collapse = 25;        // MADV_COLLAPSE
constexpr int preferred = 1;        // MPOL_PREFERRED

}  // namespace

bool provide_pages(void* begin, std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  // The kernel wants the beginning of a page.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(begin) % page;
  return ::madvise(static_cast<std::byte*>(begin) - before, bytes + before, populate_write) == 0;
}

bool can_provide_pages() noexcept {
  static const bool can = ::madvise(nullptr, 0, populate_write) == 0;
  return can;
}

void gather_pages(void* begin, std::size_t bytes) noexcept {
  if (bytes > 0) ::madvise(begin, bytes, collapse);
}

void prefer_this_node(void* begin, std::size_t bytes) noexcept {
  unsigned cpu = 0;
  unsigned node = 0;
  std::array<unsigned long, 16> nodes{};
  constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
  if (::getcpu(&cpu, &node) != 0 || node >= nodes.size() * bits) return;
  nodes[node / bits] = 1UL << node % bits;
  // One bit more than there are: the kernel counts so.
  ::syscall(SYS_mbind, begin, bytes, preferred, nodes.data(), nodes.size() * bits + 1, 0U);
}

}  // namespace weir
