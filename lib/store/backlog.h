// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How much waits for a store, and how much may. A number of counters alone is no bound of their memory:
/// clients choose the names, and these may be thousands of bytes long.
#pragma once

#include <cstddef>

namespace weir {

class Backlog {
 public:
  /// What a counter takes beside its name.
  static constexpr std::size_t bytes_beside_name = 72;
  /// Of memory for each counter that may wait; where names are longer than this leaves room for, fewer may.
  static constexpr std::size_t bytes_each = 100;

  explicit Backlog(std::size_t most) noexcept : most_(most) {}

  bool has_room_for(std::size_t name_size) const noexcept {
    return counters_ < most_ &&
           (counters_ + 1) * bytes_beside_name + name_bytes_ + name_size <= most_ * bytes_each;
  }
  void add(std::size_t name_size) noexcept {
    ++counters_;
    name_bytes_ += name_size;
  }
  void remove(std::size_t counters, std::size_t name_bytes) noexcept {
    counters_ -= counters;
    name_bytes_ -= name_bytes;
  }
  void clear() noexcept { counters_ = name_bytes_ = 0; }
  std::size_t counters() const noexcept { return counters_; }

 private:
  std::size_t most_;
  std::size_t counters_ = 0;
  std::size_t name_bytes_ = 0;
};

}  // namespace weir
