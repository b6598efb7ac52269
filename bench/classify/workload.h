// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What classification is measured on: Ethernet frames with an HTTP/1.1 request each (or none), all
/// different, made from a fixed seed; and the rules that say how much of a request is wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weir/rule.h"

namespace weir::bench {

/// What the frames of a pool carry.
enum class Content : std::uint8_t {
  get_200,      ///< 200 B frames: a GET with Host, Authorization and X-Api-Key
  headers_800,  ///< 800 B frames: as a browser behind a proxy sends them, the three among fourteen header
                ///< fields
  no_http,      ///< 200 B frames of TCP whose payload is no request
};

/// How much of a request the rules want.
enum class Wanted : std::uint8_t {
  request_line,   ///< method and path
  host,           ///< and Host
  three_headers,  ///< and Authorization and X-Api-Key
};

std::vector<Rule> rules_for(Wanted wanted);

/// Frames side by side in memory, walked in an order that no hardware prefetcher guesses.
class FramePool {
 public:
  /// @param bytes  what the frames' own cache lines take together, about
  FramePool(Content content, std::size_t bytes);

  std::size_t size() const noexcept { return order_.size(); }
  /// The frame that comes at this place of the walk. @pre place < size()
  std::span<const std::byte> operator[](std::size_t place) const noexcept {
    return {memory_.get() + std::size_t{order_[place]} * stride_, length_};
  }

 private:
  std::size_t length_ = 0;  ///< of each frame, bytes
  std::size_t stride_ =
      0;  ///< from frame to frame, bytes; whole cache lines, room for what an mbuf keeps before it
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::vector<std::uint32_t> order_;
};

}  // namespace weir::bench
