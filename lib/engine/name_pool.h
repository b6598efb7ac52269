// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The names of the ledger's keys: texts of a few to a few hundred bytes, that come and go by the million. An
/// allocator's block for each would cost its bookkeeping, and a std::string's own 32 bytes in the key.
///
/// A name takes a block of 16, 32, 64 … bytes, out of chunks that are never moved nor given back; a freed
/// block waits for the next name of its size. So memory is at most twice what the longest names would take of
/// as many keys as there ever were at once, whatever sizes come and go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/huge_array.h"
#include "base/prefetch.h"

namespace weir {

class NamePool {
 public:
  /// Names a text in the pool.
  using Name = std::uint32_t;
  static constexpr Name none = 0xffffffff;
  /// What is longer is cut.
  static constexpr std::size_t longest = 8190;

  Name add(std::string_view text);
  /// @pre added, and not removed since
  void remove(Name name) noexcept;
  /// Valid until it is removed.
  std::string_view text(Name name) const noexcept;

  void prefetch(Name name) const noexcept { prefetch_to_read(at(name)); }

  std::size_t memory() const noexcept { return chunks_.size() * units_of_chunk * unit; }

 private:
  static constexpr std::size_t unit = 16;
  static constexpr std::size_t units_of_chunk = std::size_t{1} << 17;  // a huge page
  static constexpr std::size_t sizes = 10;                             // 1, 2, 4 … 512 units

  static std::size_t size_for(std::size_t text) noexcept;
  std::byte* at(Name name) noexcept { return &chunks_[name / units_of_chunk][name % units_of_chunk * unit]; }
  const std::byte* at(Name name) const noexcept {
    return &chunks_[name / units_of_chunk][name % units_of_chunk * unit];
  }

  std::vector<HugeArray<std::byte>> chunks_;
  std::size_t used_ = units_of_chunk;  // units of the last chunk
  std::array<Name, sizes> free_ = [] {
    std::array<Name, sizes> empty;
    empty.fill(none);
    return empty;
  }();
};

}  // namespace weir
