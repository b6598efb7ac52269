// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the vector searches are written over: the operations of one instruction set, and what sets have in
/// common. Included as head_kernel.h is.
///
/// A set of operations Set has
///   Set::leave()              called last: ends what would slow down code that does not know of the set
///   Set::append(to, at, mask) writes at + i to `to` for each bit i, and no more than 64 numbers in all, of
///                             which those behind the last bit's mean nothing; returns where the last one
///                             ends
///   Set::Lines(data, ends)    the first eight bytes behind so many line ends, Set::Lines::count, as words;
///                             beginning_with(want, fold, care) is a mask of those that equal such a name
///   Set::Names<few>(sought)   whose beginning_with(word) is a mask of the fields whose names begin so;
///                             few: they are no more than Set::names_at_once
/// and two types of 64 bytes as vectors, made from a pointer:
///   Set::Whole(data)          64 bytes from data on
///   Set::Part(data, size)     1 to 63 bytes; reads no other ones
/// whose objects have
///   equal(byte)               mask: bit i is set where byte i equals; of a Whole also for a
///                             Set::Byte(byte), which is made once for many windows
///   either(a, b)              mask: bit i is set where byte i equals one of them
///   any(a, b, c)              the same of three
///   not_of_target()           mask: space, control characters and DEL, which no target contains
///   capitals()                mask: 'A' to 'Z'
///   not_of_host()             mask: these, '@' and '[', by which a host is not plain
/// where a Part's bits behind its size are arbitrary. And
///   Set::EmptyLines           whose between(data, last_window) is whether a '\n' stands before '\r' or '\n',
///                             in the windows of 64 bytes from data on that begin before last_window, or in
///                             that one, each with one byte more. It may be said of other control
///                             characters and of bytes beyond ASCII, too
///   Set::Fields               if the set can do so faster: looks for the fields of several requests at once,
///                             up to Fields::most of them, see fields_kernel.h
///   Set::RequestLines         if the set can do so faster: what find_request_line() does, of several
///                             requests at once, see request_line_kernel.h
///   Set::Short(data, size)    as a Part, of Short::least to Short::most bytes, with equal() and
///                             not_of_host() only
///   Set::Front(data, size)    the same, where Front::holds(size, readable), and so many bytes may be read
#pragma once

#include "classify/head_scan.h"

namespace weir {
namespace {

constexpr std::size_t window_size = 64;
constexpr std::size_t burst_frames = PlainHeads::most_frames;
constexpr std::uint64_t all = ~std::uint64_t{0};

/// @pre count < 64
inline std::uint64_t bits_below(std::size_t count) noexcept { return (std::uint64_t{1} << count) - 1; }

inline unsigned lowest(std::uint64_t mask) noexcept { return static_cast<unsigned>(__builtin_ctzll(mask)); }

inline std::uint64_t word_at(const char* data) noexcept {
  std::uint64_t word;
  __builtin_memcpy(&word, data, sizeof word);
  return word;
}

/// Up to seven bytes, zeros behind them.
inline std::uint64_t short_word(const char* data, std::size_t size) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < size; ++i)
    word |= std::uint64_t{static_cast<unsigned char>(data[i])} << (8 * i);
  return word;
}

inline bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

/// As a word in memory's own order, what eight characters are; the machines that have these sets are little
/// endian.
constexpr std::uint64_t word_of(const char (&text)[9]) noexcept {
  std::uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | static_cast<unsigned char>(text[i]);
  return word;
}

/// append(), Lines and Names of a set without instructions for it.
struct OneByOne {
  template <typename Position>
  static Position* append(Position* to, std::uint32_t at, std::uint64_t mask) noexcept {
    for (; mask != 0; mask &= mask - 1) *to++ = static_cast<Position>(at + lowest(mask));
    return to;
  }

  class Lines {
   public:
    static constexpr std::size_t count = 4;
    Lines(const char* data, const std::uint16_t* ends) noexcept {
      for (std::size_t i = 0; i < count; ++i) words_[i] = word_at(data + ends[i] + 1);
    }
    std::uint32_t beginning_with(std::uint64_t want, std::uint64_t fold, std::uint64_t care) const noexcept {
      std::uint32_t lines = 0;
      for (std::size_t i = 0; i < count; ++i)
        lines |= std::uint32_t{((words_[i] | fold) & care) == want} << i;
      return lines;
    }

   private:
    std::uint64_t words_[count];
  };

  static constexpr std::size_t names_at_once = 1;
  template <bool few>
  class Names {
   public:
    explicit Names(const SoughtFields& sought) noexcept : sought_(sought) {}
    std::uint32_t beginning_with(std::uint64_t word) const noexcept {
      std::uint32_t fields = 0;
      for (std::size_t i = 0; i < sought_.field_count; ++i) {
        const bool equal = ((word | sought_.fold[i]) & sought_.care[i]) == sought_.want[i];
        fields |= std::uint32_t{equal} << i;
      }
      return fields;
    }

   private:
    const SoughtFields& sought_;
  };
};

/// Whole and Part of a set whose vectors have 32 bytes or fewer, put together of two halves. A Half is made
/// from 32 bytes, of_16() of them, or of_word() of eight, the others being zero; it has the masks named
/// above, of 32 bits.
template <typename Half>
struct InHalves {
  class Whole {
   public:
    explicit Whole(const char* data) noexcept : low_(data), high_(data + 32) {}
    std::uint64_t equal(auto byte) const noexcept { return low_.equal(byte) | high_.equal(byte) << 32; }
    std::uint64_t either(char a, char b) const noexcept {
      return low_.either(a, b) | high_.either(a, b) << 32;
    }
    std::uint64_t any(char a, char b, char c) const noexcept {
      return low_.any(a, b, c) | high_.any(a, b, c) << 32;
    }
    std::uint64_t not_of_target() const noexcept {
      return low_.not_of_target() | high_.not_of_target() << 32;
    }
    std::uint64_t capitals() const noexcept { return low_.capitals() | high_.capitals() << 32; }
    std::uint64_t not_of_host() const noexcept { return low_.not_of_host() | high_.not_of_host() << 32; }

   private:
    Half low_;
    Half high_;
  };

  class Front {
   public:
    static bool holds(std::size_t size, std::size_t readable) noexcept {
      return size <= 32 && readable >= 32;
    }
    Front(const char* data, std::size_t) noexcept : bytes_(data) {}
    std::uint64_t equal(char byte) const noexcept { return bytes_.equal(byte); }
    std::uint64_t not_of_host() const noexcept { return bytes_.not_of_host(); }

   private:
    Half bytes_;
  };

  /// The first and the last bytes, as many of each as the largest load takes that fits; they overlap.
  class Part {
   public:
    static constexpr std::size_t least = 1;
    static constexpr std::size_t most = 63;
    Part(const char* data, std::size_t size) noexcept : Part(load(data, size)) {}
    std::uint64_t equal(char byte) const noexcept { return join(first_.equal(byte), last_.equal(byte)); }
    std::uint64_t either(char a, char b) const noexcept {
      return join(first_.either(a, b), last_.either(a, b));
    }
    std::uint64_t any(char a, char b, char c) const noexcept {
      return join(first_.any(a, b, c), last_.any(a, b, c));
    }
    std::uint64_t not_of_target() const noexcept {
      return join(first_.not_of_target(), last_.not_of_target());
    }
    std::uint64_t capitals() const noexcept { return join(first_.capitals(), last_.capitals()); }
    std::uint64_t not_of_host() const noexcept { return join(first_.not_of_host(), last_.not_of_host()); }

   private:
    Part(Half first, Half last, std::size_t last_at) noexcept
        : first_(first), last_(last), last_at_(last_at) {}

    static Part load(const char* data, std::size_t size) noexcept {
      if (size >= 32) return {Half(data), Half(data + size - 32), size - 32};
      if (size >= 16) return {Half::of_16(data), Half::of_16(data + size - 16), size - 16};
      if (size >= 8) return {Half::of_word(word_at(data)), Half::of_word(word_at(data + size - 8)), size - 8};
      return {Half::of_word(short_word(data, size)), Half::of_word(short_word(data, size)), 0};
    }

    std::uint64_t join(std::uint64_t first, std::uint64_t last) const noexcept {
      return (first & bits_below(last_at_)) | last << last_at_;
    }

    Half first_;
    Half last_;
    std::size_t last_at_;
  };
};

}  // namespace
}  // namespace weir
