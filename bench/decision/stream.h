// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The requests that all contenders of a size decide on, in the order in which they come.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/huge_allocator.h"
#include "key_sequence.h"

namespace weir::bench {

/// A request's key as a pipeline hands it over, its name with it, as in a packet that has just been read:
/// what the floor and the peers read in place of a weir::Key, and as large.
class PlainKey {
 public:
  explicit PlainKey(std::uint32_t index);

  std::string_view name() const noexcept { return {name_.data(), size_}; }
  std::uint64_t hash = 0;
  std::uint32_t index = 0;

 private:
  std::uint8_t size_ = 0;
  std::array<char, 19> name_{};
};
static_assert(sizeof(PlainKey) == 32);

/// How the keys of a stream are drawn.
enum class Drawn : std::uint8_t { uniform, zipf, once };
inline constexpr std::size_t drawn_kinds = 3;
const char* name_of(Drawn drawn);

/// As mbufs lie: on small pages it would be the address translation of requests that is measured.
template <typename T>
using OnHugePages = std::vector<T, HugeAllocator<T>>;

/// Requests one after the other, and the first few bursts once more after the last one: whoever looks ahead
/// need not ask where the end is.
class Stream {
 public:
  Stream(std::size_t keys, Drawn drawn);

  /// Requests; a multiple of `burst`, but where every key comes once.
  std::size_t size() const noexcept { return size_; }
  /// Any part up to size() + furthest_ahead * burst.
  std::span<const PlainKey> part(std::size_t at, std::size_t count) const noexcept {
    return std::span(keys_).subspan(at, count);
  }
  std::span<const PlainKey> all() const noexcept { return keys_; }
  std::size_t bytes() const noexcept { return keys_.size() * sizeof(PlainKey); }

  /// Bursts that anyone looks ahead.
  static constexpr std::size_t furthest_ahead = 3;

  /// So long that most keys come, but neither shorter than any cache nor longer than memory likes.
  static std::size_t length(std::size_t keys, Drawn drawn);

 private:
  std::size_t size_;
  OnHugePages<PlainKey> keys_;
};

/// One size's streams, each made when it is first asked for. One thread at a time.
class Workload {
 public:
  explicit Workload(std::size_t keys) : keys_(keys) {}
  std::size_t keys() const noexcept { return keys_; }
  const Stream& stream(Drawn drawn) {
    std::optional<Stream>& stream = streams_[static_cast<std::size_t>(drawn)];
    if (!stream) stream.emplace(keys_, drawn);
    return *stream;
  }

 private:
  std::size_t keys_;
  std::array<std::optional<Stream>, drawn_kinds> streams_;
};

/// Calls step(at, count) for each burst of a part of a stream.
template <typename Step>
void each_burst(std::size_t at, std::size_t count, Step&& step) {
  for (const std::size_t end = at + count; at < end; at += burst) step(at, std::min(burst, end - at));
}

}  // namespace weir::bench
