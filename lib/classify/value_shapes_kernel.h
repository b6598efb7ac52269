// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The shapes of what a request line and a host field hold: how far a path or a host reaches, and whether it
/// is in normal form as it stands. Included as head_kernel.h is.
#pragma once

#include "classify/head_scan.h"
#include "classify/scan_set.h"

namespace weir {
namespace {

/// @pre size != 0
template <typename Bytes>
[[gnu::always_inline]] inline HostShape shape_of_host(const Bytes& bytes, std::uint64_t there,
                                                      std::size_t size) noexcept {
  const std::uint64_t colons = bytes.equal(':') & there;
  HostShape shape;
  shape.length = colons != 0 ? lowest(colons) : size;
  shape.plain = (bytes.not_of_host() & there) == 0;
  return shape;
}

/// The path of a target, window by window.
class PathSearch {
 public:
  /// @return false: the path has ended
  template <typename Bytes>
  bool step(std::size_t at, const Bytes& bytes, std::uint64_t there) noexcept {
    const std::uint64_t ends = bytes.either('?', '#') & there;
    const std::uint64_t path = there & (ends - 1) & ~ends;
    const std::uint64_t slashes = bytes.equal('/') & path;
    const std::uint64_t behind_slashes = slashes << 1 | slash_before_;
    odd_ |= path & (bytes.equal('%') | (behind_slashes & (slashes | bytes.equal('.'))));
    if (at == 0) slashes_ = slashes;
    slash_before_ = slashes >> 63;
    end_ = ends != 0 ? at + lowest(ends) : end_;
    return ends == 0;
  }

  PathShape shape(const char* data, std::size_t size) const noexcept {
    PathShape shape;
    shape.length = end_ < size ? end_ : size;
    shape.normal = odd_ == 0 && data[0] == '/';
    shape.slashes = slashes_;
    return shape;
  }

 private:
  std::uint64_t odd_ = 0;
  std::uint64_t slashes_ = 0;
  std::uint64_t slash_before_ = 0;
  std::size_t end_ = ~std::size_t{0};
};

template <typename Set>
PathShape path_shape(const char* data, std::size_t size) noexcept {
  if (size == 0) return {};
  PathSearch search;
  std::size_t at = 0;
  bool going_on = true;
  for (; going_on && size - at >= window_size; at += window_size)
    going_on = search.step(at, typename Set::Whole(data + at), all);
  if (going_on && at < size) search.step(at, typename Set::Part(data + at, size - at), bits_below(size - at));
  return search.shape(data, size);
}

template <typename Set>
HostShape host_shape(const char* data, std::size_t size) noexcept {
  if (size >= Set::Short::least && size <= Set::Short::most) [[likely]]
    return shape_of_host(typename Set::Short(data, size), bits_below(size), size);
  if (size == 0 || size > window_size) return {size, false};
  return size == window_size ? shape_of_host(typename Set::Whole(data), all, size)
                             : shape_of_host(typename Set::Part(data, size), bits_below(size), size);
}

}  // namespace
}  // namespace weir
