// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Memory asked for ahead of the burst that needs it. Included as head_kernel.h is.
#pragma once

#include "classify/head_scan.h"

namespace weir {
namespace {

/// Asks for the frames that come next between the work on those of this burst, each at once and one every so
/// much work: in a row a processor takes only so many wishes before it waits, and memory that lies side by
/// side comes faster together. Passes work on copies, whose members are in registers.
class Ahead {
 public:
  /// The work on a request in one pass, where nothing better is known.
  static constexpr std::int32_t of_pass = 3;

  /// @param work  about as much as there will be done
  Ahead(const PlainFrame* next, std::size_t count, std::size_t work) noexcept
      : next_(next), end_(next + count) {
    if (work > count && count != 0) every_ = static_cast<std::int32_t>(work / count);
    left_ = every_;
  }
  [[gnu::always_inline]] void step(std::int32_t work) noexcept {
    left_ -= work;
    if (left_ > 0) return;
    left_ += every_;
    if (next_ != end_) ask_for(*next_++);
  }
  /// A pass over so many requests. @param work  on each, which of_each(number) does
  [[gnu::always_inline]] void beside(std::size_t count, std::int32_t work, auto&& of_each) noexcept {
    Ahead ahead = *this;
    for (std::size_t i = 0; i < count; ++i) {
      of_each(i);
      ahead.step(work);
    }
    *this = ahead;
  }
  void finish() noexcept {
    while (next_ != end_) ask_for(*next_++);
  }

 private:
  static constexpr std::size_t line = 64;
  static constexpr std::size_t near = 4 * line;
  // What lies further behind the processor sees coming by itself.
  static constexpr std::size_t most = 16 * line;

  /// Who has found where its payload is has looked at the first line. Most heads end in the next few, which
  /// are asked for whether they are there or not: that costs less than to find it out.
  [[gnu::always_inline]] static void ask_for(const PlainFrame& frame) noexcept {
    // Numbers, as there may be nothing there.
    const auto first = reinterpret_cast<std::uintptr_t>(frame.bytes);
    const auto ask_for_line = [first](std::size_t at) __attribute__((always_inline)) {
      __builtin_prefetch(reinterpret_cast<const void*>(first + at));
    };
    for (std::size_t at = line; at < near; at += line) ask_for_line(at);
    const std::size_t size = std::size_t{frame.payload.offset} + frame.payload.length;
    for (std::size_t at = near; at < size && at < most; at += line) ask_for_line(at);
  }

  const PlainFrame* next_;
  const PlainFrame* end_;
  std::int32_t every_ = 1;
  std::int32_t left_;
};

/// The same where nobody knows what comes next.
struct NothingAhead {
  void step(std::int32_t) const noexcept {}
  /// @param count  a multiple of eight: so many are done without asking whether there are more
  [[gnu::always_inline]] void beside(std::size_t count, std::int32_t, auto&& of_each) const noexcept {
    for (std::size_t at = 0; at < count; at += 8)
#pragma GCC unroll 8
      for (std::size_t i = at; i < at + 8; ++i) of_each(i);
  }
  void finish() const noexcept {}
};

}  // namespace
}  // namespace weir
