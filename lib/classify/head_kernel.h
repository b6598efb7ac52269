// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The vector searches, written once over the operations of a vector type. Included by the head_scan_*.cc
/// alone, in the region of each where its instruction set is in force; it uses no function of the standard
/// library, because such a function, compiled there, could become the copy that the linker gives to
/// everybody.
///
/// A set of operations Set has
///   Set::leave()              called last: ends what would slow down code that does not know of the set
/// and two types of 64 bytes as vectors, made from a pointer:
///   Set::Whole(data)          64 bytes from data on
///   Set::Part(data, size)     1 to 63 bytes; reads no other ones
/// whose objects have
///   equal(byte)               mask: bit i is set where byte i equals
///   either(a, b)              mask: bit i is set where byte i equals one of them
///   not_of_target()           mask: space, control characters and DEL, which no target contains
///   capitals()                mask: 'A' to 'Z'
/// where a Part's bits behind its size are arbitrary.
#pragma once

#include "classify/head_scan.h"

namespace weir {
namespace {

constexpr std::size_t window_size = 64;
constexpr std::uint64_t all = ~std::uint64_t{0};

/// @pre count < 64
inline std::uint64_t bits_below(std::size_t count) noexcept { return (std::uint64_t{1} << count) - 1; }

inline unsigned lowest(std::uint64_t mask) noexcept { return static_cast<unsigned>(__builtin_ctzll(mask)); }
inline unsigned highest(std::uint64_t mask) noexcept {
  return 63U - static_cast<unsigned>(__builtin_clzll(mask));
}

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

/// As a word in memory's own order, what eight characters are; the machines that have these sets are little
/// endian.
constexpr std::uint64_t word_of(const char (&text)[9]) noexcept {
  std::uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | static_cast<unsigned char>(text[i]);
  return word;
}

/// Whole and Part of a set whose vectors have 32 bytes or fewer, put together of two halves. A Half is made
/// from 32 bytes, of_16() of them, or of_word() of eight, the others being zero; it has the masks named
/// above, of 32 bits.
template <typename Half>
struct InHalves {
  static void leave() noexcept {}

  class Whole {
   public:
    explicit Whole(const char* data) noexcept : low_(data), high_(data + 32) {}
    std::uint64_t equal(char byte) const noexcept { return low_.equal(byte) | high_.equal(byte) << 32; }
    std::uint64_t either(char a, char b) const noexcept {
      return low_.either(a, b) | high_.either(a, b) << 32;
    }
    std::uint64_t not_of_target() const noexcept {
      return low_.not_of_target() | high_.not_of_target() << 32;
    }
    std::uint64_t capitals() const noexcept { return low_.capitals() | high_.capitals() << 32; }

   private:
    Half low_;
    Half high_;
  };

  /// The first and the last bytes, as many of each as the largest load takes that fits; they overlap.
  class Part {
   public:
    Part(const char* data, std::size_t size) noexcept : Part(load(data, size)) {}
    std::uint64_t equal(char byte) const noexcept { return join(first_.equal(byte), last_.equal(byte)); }
    std::uint64_t either(char a, char b) const noexcept {
      return join(first_.either(a, b), last_.either(a, b));
    }
    std::uint64_t not_of_target() const noexcept {
      return join(first_.not_of_target(), last_.not_of_target());
    }
    std::uint64_t capitals() const noexcept { return join(first_.capitals(), last_.capitals()); }

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

/// What a word of a name and the eight bytes before a place differ in; 0: nothing.
inline std::uint64_t difference(const char* end, const SoughtFields::Word& word) noexcept {
  return ((word_at(end - 8) | word.fold) & word.care) ^ word.want;
}

/// @param colon  where the name ends; at least 16 bytes precede it, and 7 the name
inline bool name_ends_at(const char* colon, const SoughtFields::Field& field) noexcept {
  // Most names have one word or two: both at once, without a branch on which. A second word that is not there
  // equals.
  if ((difference(colon, field.words[0]) | difference(colon - 8, field.words[1])) != 0) return false;
  for (std::size_t i = 2; i < field.word_count; ++i) {
    if (difference(colon - 8 * i, field.words[i]) != 0) return false;
  }
  return true;
}

inline std::uint8_t field_named(const char* colon, std::size_t length, const SoughtFields& sought) noexcept {
  std::uint8_t field = sought.first_of_length[length];
  while (field != SoughtFields::no_field && !name_ends_at(colon, sought.fields[field]))
    field = sought.fields[field].next_of_length;
  return field;
}

/// The next byte from `at` on that no target contains. @return its position; size: none
template <typename Set>
std::size_t next_stop(const char* data, std::size_t at, std::size_t size) noexcept {
  for (; size - at >= window_size; at += window_size) {
    const std::uint64_t stops = typename Set::Whole(data + at).not_of_target();
    if (stops != 0) return at + lowest(stops);
  }
  if (at == size) return size;
  const std::uint64_t stops =
      typename Set::Part(data + at, size - at).not_of_target() & bits_below(size - at);
  return stops != 0 ? at + lowest(stops) : size;
}

/// The request line, as far as its first window tells. @return the position of its '\n'; 0: not of the usual
/// spelling
template <typename Set, typename Bytes>
std::size_t find_line(const char* data, std::size_t size, const Bytes& bytes, std::uint64_t there,
                      FoundHead& found) noexcept {
  constexpr std::size_t version_length = 8;
  const std::uint64_t stops = bytes.not_of_target() & there;
  if (stops == 0) return 0;
  const std::size_t method_end = lowest(stops);
  if (method_end == 0 || data[method_end] != ' ' || (~bytes.capitals() & bits_below(method_end)) != 0)
    return 0;
  const std::uint64_t more = stops & (stops - 1);
  std::size_t target_end;
  if (more != 0) [[likely]]
    target_end = lowest(more);
  else if (size > window_size)
    target_end = next_stop<Set>(data, window_size, size);
  else
    return 0;
  if (size - target_end < 1 + version_length + 2) return 0;
  if (data[target_end] != ' ' || target_end == method_end + 1) return 0;
  const char* const version = data + target_end + 1;
  const std::uint64_t word = word_at(version);
  if (word != word_of("HTTP/1.1") && word != word_of("HTTP/1.0")) return 0;
  if (version[version_length] != '\r' || version[version_length + 1] != '\n') return 0;
  found.method_end = static_cast<std::uint32_t>(method_end);
  found.target_end = static_cast<std::uint32_t>(target_end);
  found.minor_zero = word == word_of("HTTP/1.0");
  return target_end + 1 + version_length + 1;
}

/// A window whose first bytes are left out.
template <typename Whole>
class Shifted {
 public:
  Shifted(const Whole& whole, std::size_t left_out) noexcept : whole_(whole), left_out_(left_out) {}
  std::uint64_t equal(char byte) const noexcept { return whole_.equal(byte) >> left_out_; }

 private:
  const Whole whole_;
  std::size_t left_out_;
};

/// The header section, window by window from the request line's '\n' on.
/// @tparam count  how many distances there are, so that no loop goes over them; 0: any number
template <unsigned count>
class FieldSearch {
 public:
  enum class State : std::uint8_t { going_on, at_end, not_mine };

  FieldSearch(const char* data, const SoughtFields& sought, FoundHead& found) noexcept
      : data_(data), sought_(sought), found_(found) {
    for (unsigned i = 0; i < count; ++i) distances_[i] = sought.distances[i];
  }

  template <typename Bytes>
  State step(std::size_t at, const Bytes& bytes, std::uint64_t there) noexcept {
    const std::uint64_t line_ends = bytes.equal('\n') & there;
    // Of the colons only those count that stand where a wanted name would end.
    const std::uint64_t names = bytes.equal(':') & there & name_ends(line_ends);
    // A line end behind an empty line has another one before it, or one byte between, which tells.
    const std::uint64_t pairs = line_ends & (line_ends << 1 | before_ >> 63 | line_ends << 2 | before_ >> 62);
    State state = State::going_on;
    if ((names | pairs | (open_ & line_ends)) != 0) state = look(at, line_ends, names, pairs);
    before_ = line_ends;
    return state;
  }

  /// A field that was cut off is none.
  std::uint32_t found() const noexcept { return open_ != 0 ? found_count_ - 1 : found_count_; }

 private:
  std::uint64_t name_ends(std::uint64_t line_ends) const noexcept {
    std::uint64_t ends = 0;
    const auto add = [&](SoughtFields::Distance distance) {
      ends |= line_ends << distance.bytes;
      ends |= before_ >> distance.from_window_end;
    };
    if constexpr (count != 0) {
      for (unsigned i = 0; i < count; ++i) add(distances_[i]);
    } else {
      for (std::size_t i = 0; i < sought_.distance_count; ++i) add(sought_.distances[i]);
    }
    return ends;
  }

  /// The first of the pairs that really is behind an empty line, or nothing.
  std::uint64_t end_of_head(std::size_t at, std::uint64_t pairs) const noexcept {
    for (; pairs != 0; pairs &= pairs - 1) {
      const char between = data_[at + lowest(pairs) - 1];
      if (between == '\n' || between == '\r') return pairs & (~pairs + 1);
    }
    return 0;
  }

  State look(std::size_t at, std::uint64_t line_ends, std::uint64_t names, std::uint64_t pairs) noexcept {
    if ((open_ & line_ends) != 0) {
      found_.fields[found_count_ - 1].line_end = static_cast<std::uint32_t>(at + lowest(line_ends));
      open_ = 0;
    }
    const std::uint64_t end = end_of_head(at, pairs);
    for (names &= end - 1; names != 0; names &= names - 1) {  // all of them, if there is no end here
      if (!take(at, lowest(names), line_ends)) return State::not_mine;
    }
    if (end == 0) return State::going_on;
    found_.end = static_cast<std::uint32_t>(at + lowest(end) + 1);
    return State::at_end;
  }

  /// Looks whether a wanted name ends at a colon. @return false: not for this search
  bool take(std::size_t at, unsigned colon, std::uint64_t line_ends) noexcept {
    // The line begins in this window or in the one before: a wanted name is no longer than that.
    const std::uint64_t ends_before = line_ends & bits_below(colon);
    const std::size_t length =
        ends_before != 0 ? colon - highest(ends_before) - 1 : colon + 63 - highest(before_);
    if (at + colon < 16) return false;  // a name of one byte behind the shortest request line there is
    const std::uint8_t field = field_named(data_ + at + colon, length, sought_);
    if (field == SoughtFields::no_field) return true;
    if (found_count_ == FoundHead::max_fields) return false;
    const std::uint64_t ends_behind = line_ends & ~bits_below(colon);
    FoundField& one = found_.fields[found_count_++];
    one.field = field;
    one.colon = static_cast<std::uint32_t>(at + colon);
    if (ends_behind != 0)
      one.line_end = static_cast<std::uint32_t>(at + lowest(ends_behind));
    else
      open_ = all;
    return true;
  }

  const char* data_;
  const SoughtFields& sought_;
  FoundHead& found_;
  SoughtFields::Distance distances_[count != 0 ? count : 1];
  std::uint64_t before_ = 0;  // line ends of the window before
  std::uint64_t open_ = 0;    // all bits: the last field's line has not ended yet
  std::uint32_t found_count_ = 0;
};

template <typename Set, unsigned count>
bool find_fields_of(const char* data, std::size_t at, std::size_t size, const SoughtFields& sought,
                    FoundHead& found) noexcept {
  using Search = FieldSearch<count>;
  using State = typename Search::State;
  Search search(data, sought, found);
  State state = State::going_on;
  for (; state == State::going_on && size - at >= window_size; at += window_size)
    state = search.step(at, typename Set::Whole(data + at), all);
  if (state == State::going_on && at < size) {
    // With 64 bytes before the payload's end, the last window is a whole one that begins earlier.
    if (size >= window_size)
      state = search.step(
          at, Shifted(typename Set::Whole(data + size - window_size), at + window_size - size), all);
    else
      state = search.step(at, typename Set::Part(data + at, size - at), bits_below(size - at));
  }
  found.complete = state == State::at_end;
  found.count = search.found();
  return state != State::not_mine;
}

/// @param line_end  the position of the request line's '\n'
template <typename Set>
bool find_fields(const char* data, std::size_t line_end, std::size_t size, const SoughtFields& sought,
                 FoundHead& found) noexcept {
  switch (sought.distance_count) {
    case 1:
      return find_fields_of<Set, 1>(data, line_end, size, sought, found);
    case 2:
      return find_fields_of<Set, 2>(data, line_end, size, sought, found);
    case 3:
      return find_fields_of<Set, 3>(data, line_end, size, sought, found);
    default:
      return find_fields_of<Set, 0>(data, line_end, size, sought, found);
  }
}

template <typename Set>
bool find_head(const char* data, std::size_t size, const SoughtFields& sought, FoundHead& found) noexcept {
  std::size_t line_end = 0;
  if (size >= window_size)
    line_end = find_line<Set>(data, size, typename Set::Whole(data), all, found);
  else if (size != 0)
    line_end = find_line<Set>(data, size, typename Set::Part(data, size), bits_below(size), found);
  found.line_end = static_cast<std::uint32_t>(line_end);
  return line_end != 0 && find_fields<Set>(data, line_end, size, sought, found);
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

/// @pre size != 0
template <typename Bytes>
HostShape shape_of_host(const Bytes& bytes, std::uint64_t there, std::size_t size) noexcept {
  const std::uint64_t colons = bytes.equal(':') & there;
  HostShape shape;
  shape.length = colons != 0 ? lowest(colons) : size;
  shape.plain = ((bytes.either('@', '[') | bytes.capitals()) & there) == 0;
  return shape;
}

template <typename Set>
HostShape host_shape(const char* data, std::size_t size) noexcept {
  if (size == 0 || size > window_size) return {size, false};
  return size == window_size ? shape_of_host(typename Set::Whole(data), all, size)
                             : shape_of_host(typename Set::Part(data, size), bits_below(size), size);
}

/// What the table of an instruction set points to: one of the functions above, and then what the set has to
/// do before code for every machine goes on.
template <typename Set, auto function>
struct Entry;

template <typename Set, typename Result, typename... Arguments, Result (*function)(Arguments...) noexcept>
struct Entry<Set, function> {
  static Result call(Arguments... arguments) noexcept {
    const Result result = function(arguments...);
    Set::leave();
    return result;
  }
};

template <typename Set>
constexpr Scans scans_with() noexcept {
  return {Entry<Set, find_head<Set>>::call, Entry<Set, find_fields<Set>>::call,
          Entry<Set, path_shape<Set>>::call, Entry<Set, host_shape<Set>>::call};
}

}  // namespace
}  // namespace weir
