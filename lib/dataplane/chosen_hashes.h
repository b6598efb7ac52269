// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The keys of some of a burst's requests, as the loops over a table's lines take them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "classify/plain_classifier.h"
#include "dataplane/request_bits.h"
#include "shared/lane_search.h"

namespace weir {

/// The hashes of some of a burst's requests in a row: nearly always all, and then where they are.
class ChosenHashes {
 public:
  using OfBurst = std::array<std::uint64_t, PlainKeys::most_frames>;

  ChosenHashes(const OfBurst& hashes, std::uint32_t requests) noexcept
      : keys_(Hashes::alone(hashes.data(), static_cast<std::size_t>(std::popcount(requests)))),
        all_(requests == (std::uint64_t{1} << keys_.count) - 1) {
    if (all_) [[likely]]
      return;
    std::size_t next = 0;
    for_each(requests, [&](std::size_t at) {
      hashes_[next] = hashes[at];
      requests_[next++] = static_cast<std::uint8_t>(at);
    });
    keys_ = Hashes::alone(hashes_.data(), next);
  }
  ChosenHashes(const ChosenHashes&) = delete;
  ChosenHashes& operator=(const ChosenHashes&) = delete;

  const Hashes& keys() const noexcept { return keys_; }
  /// Puts what find() finds where the requests are.
  /// @param words  by request
  /// @param find   called with room for where so many keys are
  void put(std::array<std::byte*, PlainKeys::most_frames>& words, auto&& find) const noexcept {
    if (all_) [[likely]]
      return find(words.data());
    std::array<std::byte*, PlainKeys::most_frames> found;
    find(found.data());
    for (std::size_t i = 0; i < keys_.count; ++i) words[requests_[i]] = found[i];
  }
  std::size_t request(std::size_t i) const noexcept { return all_ ? i : requests_[i]; }

 private:
  Hashes keys_;
  bool all_;
  OfBurst hashes_;  // where they are not all
  std::array<std::uint8_t, PlainKeys::most_frames> requests_;
};

}  // namespace weir
