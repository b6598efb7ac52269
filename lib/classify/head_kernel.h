// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The vector searches, written once over the operations of a vector type. Included by the head_scan_*.cc
/// alone, in the region of each where its instruction set is in force; it uses no function of the standard
/// library, because such a function, compiled there, could become the copy that the linker gives to
/// everybody.
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

#include "base/key_bytes.h"
#include "base/key_hash.h"
#include "classify/head_scan.h"
#include "classify/without_rare.h"

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

/// Whether a method has letters 'A' to 'Z' only. @pre length < 8; `word` begins with the method
inline bool is_capitals(std::uint64_t word, std::size_t length) noexcept {
  constexpr std::uint64_t each = 0x0101010101010101;
  constexpr std::uint64_t top = 0x80 * each;
  // Each byte by itself: no sum of two bytes below 0x80 reaches the next byte.
  const std::uint64_t low = word & ~top;
  const std::uint64_t from_a = low + (0x80 - 'A') * each;
  const std::uint64_t behind_z = low + (0x80 - 'Z' - 1) * each;
  return (~(from_a & ~behind_z & ~word) & top & bits_below(8 * length)) == 0;
}

/// The path of a target that lies in the first window whole.
template <typename Bytes>
void find_path(const char* data, const Bytes& bytes, std::size_t begin, std::size_t end,
               FoundHead& found) noexcept {
  const std::uint64_t target = bits_below(end) & ~bits_below(begin);
  const std::uint64_t marks = bytes.any('?', '#', '%') & target;
  const std::size_t path_end = marks != 0 ? lowest(marks) : end;
  const std::uint64_t path = bits_below(path_end) & target;
  const std::uint64_t slashes = bytes.equal('/') & path;
  const std::uint64_t odd = (slashes << 1) & (slashes | bytes.equal('.')) & path;
  found.path_normal = odd == 0 && data[begin] == '/' && data[path_end] != '%';
  found.path_end = static_cast<std::uint32_t>(path_end);
  found.slashes = slashes >> begin;
}

/// The request line, as far as its first window tells. @return the position of its '\n'; 0: not of the usual
/// spelling
/// @pre size >= 16
template <typename Set, typename Bytes>
[[gnu::always_inline]] inline std::size_t find_line(const char* data, std::size_t size, const Bytes& bytes,
                                                    std::uint64_t there, FoundHead& found) noexcept {
  constexpr std::size_t version_length = 8;
  const std::uint64_t stops = bytes.not_of_target() & there;
  if (stops == 0) return 0;
  const std::size_t method_end = lowest(stops);
  // Most requests are of one method, which one comparison tells.
  const std::uint64_t first = word_at(data);
  if (static_cast<std::uint32_t>(first) != static_cast<std::uint32_t>(word_of("GET \0\0\0\0"))) {
    if (method_end == 0 || data[method_end] != ' ') return 0;
    if (method_end < 8 ? !is_capitals(first, method_end) : (~bytes.capitals() & bits_below(method_end)) != 0)
      return 0;
  }
  const std::uint64_t more = stops & (stops - 1);
  std::size_t target_end;
  found.path_normal = false;
  if (more != 0) [[likely]] {
    target_end = lowest(more);
    find_path(data, bytes, method_end + 1, target_end, found);
  } else if (size > window_size) {
    target_end = next_stop<Set>(data, window_size, size);
    found.path_end = static_cast<std::uint32_t>(method_end + 1);
    found.slashes = 0;
  } else {
    return 0;
  }
  if (size - target_end < 1 + version_length + 2) return 0;
  if (data[target_end] != ' ' || target_end == method_end + 1) return 0;
  const char* const version = data + target_end + 1;
  const std::uint64_t word = word_at(version);
  // The minor version is the last character, and "0" and "1" differ in one bit.
  constexpr std::uint64_t minor = std::uint64_t{'0' ^ '1'} << 56;
  if ((word | minor) != word_of("HTTP/1.1")) return 0;
  if (version[version_length] != '\r' || version[version_length + 1] != '\n') return 0;
  found.method_end = static_cast<std::uint32_t>(method_end);
  found.target_end = static_cast<std::uint32_t>(target_end);
  found.minor_zero = word == word_of("HTTP/1.0");
  return target_end + 1 + version_length + 1;
}

/// Collects the line ends of a header section, window by window, from the request line's '\n' on, which is
/// the first; that of the empty line is left out. Fills found.complete and found.end.
/// @tparam kept  false: nobody wants to know where the lines end
/// @param ends  room for 64 more than `most`
/// @return behind the last one; nullptr: there are more than `most`
template <typename Set, bool kept, typename Position>
[[gnu::always_inline]] inline Position* find_line_ends(const char* data, std::size_t line_end,
                                                       std::size_t size, FoundHead& found, Position* ends,
                                                       std::size_t most) noexcept {
  // Windows overlap by as much as a line end behind an empty line looks back.
  constexpr std::size_t overlap = 2;
  constexpr std::uint64_t fresh = all << overlap;
  const typename Set::Byte newline('\n');
  const Position* const last = ends + most;
  std::size_t at = line_end - overlap;
  found.complete = false;
  found.end = 0;
  for (;;) {
    const std::size_t left = size - at;
    std::uint64_t mask;
    if (left >= window_size) [[likely]]
      mask = typename Set::Whole(data + at).equal(newline);
    else if (left <= overlap)
      return ends;
    else if (size >= window_size)  // the last window is a whole one that begins earlier
      mask = typename Set::Whole(data + size - window_size).equal('\n') >> (window_size - left);
    else
      mask = typename Set::Part(data + at, left).equal('\n') & bits_below(left);
    // A line end behind an empty line has another one before it, or one byte between, which tells.
    std::uint64_t pairs = mask & (mask << 1 | mask << 2);
    for (; pairs != 0; pairs &= pairs - 1) {
      const unsigned end = lowest(pairs);
      const char between = data[at + end - 1];
      if (between != '\n' && between != '\r') continue;
      found.complete = true;
      found.end = static_cast<std::uint32_t>(at + end + 1);
      if constexpr (kept) {
        ends = Set::append(ends, static_cast<std::uint32_t>(at), mask & fresh & bits_below(end));
        if (ends > last) return nullptr;
      }
      return ends;
    }
    if constexpr (kept) {
      ends = Set::append(ends, static_cast<std::uint32_t>(at), mask & fresh);
      if (ends > last) return nullptr;
    }
    if (left <= window_size) return ends;
    at += window_size - overlap;
  }
}

/// Whether the rest of a name stands in a line, too. @pre before the line there are seven bytes, and it is
/// longer than the name
inline bool rest_equals(const char* line, const SoughtFields::Field& field) noexcept {
  const auto equal = [](const char* at, const SoughtFields::Word& word) {
    return ((word_at(at) | word.fold) & word.care) == word.want;
  };
  if (!equal(line + field.length - 7, field.last)) return false;
  for (std::size_t i = 0; i < field.between_count; ++i)
    if (!equal(line + 8 * (i + 1), field.between[i])) return false;
  return true;
}

/// Takes a line if it is a wanted field.
/// @param ends  its end and, before that, the end of the line before
/// @param fields  mask of those whose names begin as it does
/// @return false: there is no more room
inline bool take_field(const char* data, const std::uint32_t* ends, std::uint32_t fields,
                       const SoughtFields& sought, FoundHead& found) noexcept {
  const std::uint32_t begin = ends[0] + 1;
  for (; fields != 0; fields &= fields - 1) {
    const auto index = static_cast<std::uint8_t>(lowest(fields));
    const SoughtFields::Field& field = sought.fields[index];
    if (ends[1] - begin <= field.length || !rest_equals(data + begin, field)) continue;
    if (found.count == FoundHead::max_fields) return false;
    FoundField& one = found.fields[found.count++];
    one.colon = begin + field.length;
    one.line_end = ends[1];
    one.field = index;
    return true;  // no two names are equal
  }
  return true;
}

/// The fields among the lines of a header section. First all lines, then those that begin as a wanted name
/// does, then their rest: each loop goes on by counting, for what the bytes say is nothing that a predictor
/// could learn.
/// Not inlined: its room on the stack is set up where it is needed alone.
/// @tparam few  no more fields are sought than Names compares at once
template <typename Set, bool few>
[[gnu::noinline]] bool find_fields_sought(const char* data, std::size_t line_end, std::size_t size,
                                          const SoughtFields& sought, FoundHead& found) noexcept {
  // More lines than anything honest sends.
  constexpr std::size_t max_lines = 128;
  std::uint32_t line_ends[max_lines + 1 + window_size];
  const std::uint32_t* const behind =
      find_line_ends<Set, true>(data, line_end, size, found, line_ends, max_lines);
  if (behind == nullptr) return false;

  std::uint8_t candidates[max_lines + 1];
  std::size_t candidate_count = 0;
  const typename Set::template Names<few> names(sought);
  const auto lines = static_cast<std::size_t>(behind - line_ends) - 1;  // each from one of them to the next
  // Of a line that begins near the payload's end there are not as many bytes as are compared.
  const std::size_t last_word = size - sizeof(std::uint64_t);
  std::size_t with_word = lines;
  while (with_word != 0 && line_ends[with_word - 1] >= last_word) --with_word;
  for (std::size_t i = 0; i < with_word; ++i) {
    candidates[candidate_count] = static_cast<std::uint8_t>(i);
    candidate_count += names.beginning_with(word_at(data + line_ends[i] + 1)) != 0;
  }

  found.count = 0;
  for (std::size_t i = 0; i < candidate_count; ++i) {
    const std::uint32_t* const line = line_ends + candidates[i];
    if (!take_field(data, line, names.beginning_with(word_at(data + line[0] + 1)), sought, found))
      return false;
  }
  for (std::size_t i = with_word; i < lines; ++i) {
    const std::size_t missing = line_ends[i] + std::size_t{1} - last_word;
    const std::uint32_t fields = names.beginning_with(word_at(data + last_word) >> (8 * missing));
    if (!take_field(data, line_ends + i, fields, sought, found)) return false;
  }
  return true;
}

/// @param line_end  the position of the request line's '\n'
template <typename Set>
[[gnu::always_inline]] inline bool find_fields_here(const char* data, std::size_t line_end, std::size_t size,
                                                    const SoughtFields& sought, FoundHead& found) noexcept {
  if (sought.field_count == 0) {
    found.count = 0;
    find_line_ends<Set, false, std::uint16_t>(data, line_end, size, found, nullptr, 0);
    return true;
  }
  return sought.field_count <= Set::names_at_once
             ? find_fields_sought<Set, true>(data, line_end, size, sought, found)
             : find_fields_sought<Set, false>(data, line_end, size, sought, found);
}

template <typename Set>
bool find_fields(const char* data, std::size_t line_end, std::size_t size, const SoughtFields& sought,
                 FoundHead& found) noexcept {
  return find_fields_here<Set>(data, line_end, size, sought, found);
}

template <typename Set>
bool find_head(const char* data, std::size_t size, const SoughtFields& sought, FoundHead& found) noexcept {
  // "X / HTTP/1.1", two line ends and nothing else.
  constexpr std::size_t shortest = 16;
  if (size < shortest) return false;
  const std::size_t line_end =
      size >= window_size
          ? find_line<Set>(data, size, typename Set::Whole(data), all, found)
          : find_line<Set>(data, size, typename Set::Part(data, size), bits_below(size), found);
  found.line_end = static_cast<std::uint32_t>(line_end);
  return line_end != 0 && find_fields_here<Set>(data, line_end, size, sought, found);
}

/// The request line of a plain request. @return the position of its '\n'; 0: it is none
/// @pre size >= 16; `there` has bits where the payload has bytes
template <typename Bytes>
[[gnu::always_inline]] inline std::size_t find_plain_line(const char* data, std::size_t size,
                                                          const Bytes& bytes, std::uint64_t there,
                                                          std::size_t frame, PlainHeads& heads) noexcept {
  const std::uint64_t stops = bytes.not_of_target() & there;
  const std::uint64_t more = stops & (stops - 1);
  if (more == 0) return 0;
  const std::size_t target_end = lowest(more);
  constexpr std::size_t rest_of_line = 11;  // " HTTP/1.1" and its end
  if (size < target_end + rest_of_line) return 0;
  // Most requests are of one method, which one comparison tells.
  std::size_t method_end = 3;
  const std::uint64_t first = word_at(data);
  if (static_cast<std::uint32_t>(first) != static_cast<std::uint32_t>(word_of("GET \0\0\0\0"))) {
    method_end = lowest(stops);
    if (method_end == 0 || method_end > 7 || data[method_end] != ' ' || !is_capitals(first, method_end))
      return 0;
  }
  // The minor version is the last character but two, and "0" and "1" differ in one bit.
  constexpr std::uint64_t minor = std::uint64_t{'0' ^ '1'} << 40;
  if (((word_at(data + target_end) ^ word_of(" HTTP/1.")) |
       ((word_at(data + target_end + 3) | minor) ^ word_of("TP/1.1\r\n"))) != 0)
    return 0;

  // A method has none of the bytes that are looked for here.
  const std::uint64_t marks = bytes.any('?', '#', '%') | std::uint64_t{1} << target_end;
  const std::size_t path_end = lowest(marks);
  const std::size_t begin = method_end + 1;
  const std::uint64_t path = bits_below(path_end);
  const std::uint64_t all_slashes = bytes.equal('/');
  const std::uint64_t slashes = (all_slashes & path) >> begin;
  const std::uint64_t odd = (all_slashes << 1) & (all_slashes | bytes.equal('.')) & path;
  if (odd != 0 || (slashes & 1) == 0 || data[path_end] == '%') return 0;
  heads.values[PlainHeads::method][frame] = {0, static_cast<std::uint16_t>(method_end)};
  // Without the slash at the end, but not without the only one.
  const std::size_t last = path_end - begin - 1;
  heads.values[PlainHeads::path][frame] = {
      static_cast<std::uint16_t>(begin),
      static_cast<std::uint16_t>(path_end - ((slashes & ~std::uint64_t{1}) >> last & 1))};
  heads.slashes[frame] = slashes;
  return target_end + rest_of_line - 1;
}

/// Where a value begins and ends, white space before and behind it.
[[gnu::noinline]] inline PlainHeads::Value value_between(const char* data, std::size_t begin,
                                                         std::size_t end) noexcept {
  end -= data[end - 1] == '\r' ? 1 : 0;
  while (begin < end && is_blank(data[begin])) ++begin;
  while (begin < end && is_blank(data[end - 1])) --end;
  return {static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(end)};
}

template <typename Set>
HostShape host_shape(const char* data, std::size_t size) noexcept;

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

/// The host that a plain value names. @return false: it is not plain
/// @param size  of what there is from `data` on
template <typename Set>
[[gnu::always_inline]] inline bool trim_host(const char* data, std::size_t size,
                                             PlainHeads::Value& value) noexcept {
  const std::size_t length = unsigned{value.end} - unsigned{value.begin};
  if (length == 0) {
    value.end = 0;
    return true;
  }
  const char* const host = data + value.begin;
  const HostShape shape = Set::Front::holds(length, size - value.begin)
                              ? shape_of_host(typename Set::Front(host, length), bits_below(length), length)
                              : host_shape<Set>(host, length);
  if (!shape.plain) return false;
  std::size_t end = value.begin + shape.length;
  end -= shape.length != 0 && data[end - 1] == '.' ? 1 : 0;
  value.end = end != value.begin ? static_cast<std::uint16_t>(end) : std::uint16_t{0};
  return true;
}

/// The request line of a plain request. @return the position of its '\n'; 0: it is none
template <typename Set>
[[gnu::always_inline]] inline std::size_t find_request_line(const char* data, std::size_t size,
                                                            std::size_t frame, PlainHeads& heads) noexcept {
  constexpr std::size_t shortest = 16;
  constexpr std::size_t longest = 0xffff;
  if (size < shortest || size > longest) return 0;
  return size >= window_size
             ? find_plain_line(data, size, typename Set::Whole(data), all, frame, heads)
             : find_plain_line(data, size, typename Set::Part(data, size), bits_below(size), frame, heads);
}

/// A head on its way from one pass to the next. Not initialised: as much of it is used as there are lines and
/// fields.
struct HeadLines {
  /// As many lines as a word has bits, less one.
  static constexpr std::size_t most = 63;

  HeadLines() noexcept {}

  const char* data;
  std::uint32_t size;
  std::uint32_t frame;
  std::uint32_t request_line_end;
  std::uint32_t count;  ///< of lines behind the request line, each from one of the ends to the next
  std::uint16_t ends[most + 1 + window_size];
  std::uint64_t named[SoughtFields::max_fields];  ///< bit i: line i begins as the field's name does
};

/// Whether a payload ends as nearly all heads do, with an empty line behind another one, and is as long as
/// the windows below. @pre size >= 16
inline bool ends_as_head(const char* data, std::size_t size, std::size_t least) noexcept {
  std::uint32_t last_bytes;
  __builtin_memcpy(&last_bytes, data + size - sizeof last_bytes, sizeof last_bytes);
  return size >= least && last_bytes == static_cast<std::uint32_t>(word_of("\r\n\r\n\0\0\0\0"));
}

/// Where nobody wants to know where the lines end. @return false: there is something behind the head
template <typename Set>
[[gnu::noinline]] bool is_one_head_closely(const char* data, std::size_t line_end,
                                           std::size_t size) noexcept {
  FoundHead found;
  find_line_ends<Set, false, std::uint16_t>(data, line_end, size, found, nullptr, 0);
  // What stands behind the head may be another request.
  return !found.complete || found.end == size;
}

/// The same. Nearly all heads end where the payload does, with an empty line, and before that there is none:
/// no line begins with a line's end. One that begins as no line does may be looked at closely, too.
template <typename Set>
[[gnu::always_inline]] inline bool is_one_head(const char* data, std::size_t line_end, std::size_t size,
                                               const typename Set::EmptyLines& empty_lines) noexcept {
  // The last line's end, and what the empty line has of three bytes.
  constexpr std::size_t behind_windows = 3;
  if (!ends_as_head(data, size, window_size + behind_windows)) [[unlikely]]
    return is_one_head_closely<Set>(data, line_end, size);
  const char* const last_window = data + size - behind_windows - window_size;
  if (empty_lines.between(data + line_end, last_window)) [[unlikely]]
    return is_one_head_closely<Set>(data, line_end, size);
  return true;
}

/// @return false: there is something behind the head, or it is not plain
/// @param ends  by then, behind the last one
template <typename Set>
[[gnu::noinline]] bool find_lines_closely(const char* data, std::size_t line_end, std::size_t size,
                                          std::uint16_t*& ends) noexcept {
  FoundHead found;
  ends = find_line_ends<Set, true>(data, line_end, size, found, ends, HeadLines::most);
  return ends != nullptr && (!found.complete || found.end == size);
}

/// The same, as is_one_head().
template <typename Set>
[[gnu::always_inline]] inline bool find_lines(const char* data, std::size_t line_end, std::size_t size,
                                              std::uint16_t*& ends) noexcept {
  constexpr std::size_t empty_line = 2;
  // As find_line_ends() has it.
  constexpr std::size_t overlap = 2;
  if (!ends_as_head(data, size, window_size + empty_line)) [[unlikely]]
    return find_lines_closely<Set>(data, line_end, size, ends);
  const typename Set::Byte newline('\n');
  const char* const last_window = data + size - empty_line - window_size;
  std::uint16_t* behind = ends;
  std::uint64_t pairs = 0;
  const auto take = [&](const char* at, std::uint64_t mask) __attribute__((always_inline)) {
    pairs |= mask & (mask << 1 | mask << 2);
    behind = Set::append(behind, static_cast<std::uint32_t>(at - data), mask & all << overlap);
  };
  const char* at = data + line_end - overlap;
  for (; at < last_window; at += window_size - overlap) {
    take(at, typename Set::Whole(at).equal(newline));
    if (behind > ends + HeadLines::most) [[unlikely]]
      return false;
  }
  // The last window is a whole one that begins earlier.
  take(at, typename Set::Whole(last_window).equal(newline) >> (at - last_window));
  if (pairs != 0 || behind > ends + HeadLines::most) [[unlikely]]
    return find_lines_closely<Set>(data, line_end, size, ends);
  ends = behind;
  return true;
}

/// Which lines begin as which name does: several lines at once.
/// @return false: of the last line there are not as many bytes as are compared
template <typename Set>
[[gnu::always_inline]] inline bool find_names(HeadLines& lines, const SoughtFields& sought) noexcept {
  const std::size_t fields = sought.field_count;
  const std::size_t count = lines.count;
  std::uint16_t* const ends = lines.ends;
  if (count == 0 || ends[count - 1] + 1 + sizeof(std::uint64_t) > lines.size) [[unlikely]] {
    for (std::size_t i = 0; i < fields; ++i) lines.named[i] = 0;
    return count == 0;
  }
  // What is compared beyond the last line is the first one once more: behind its end there may be less.
  const std::uint16_t last_end = ends[count];
  static_assert(Set::Lines::count * sizeof ends[0] == sizeof(std::uint64_t));
  const std::uint64_t first_ends = ends[0] * 0x0001'0001'0001'0001U;
  __builtin_memcpy(&ends[count], &first_ends, sizeof first_ends);
  const std::uint64_t all_lines = bits_below(count);
  const auto compare = [&](std::size_t at, auto&& note) __attribute__((always_inline)) {
    const typename Set::Lines words(lines.data, ends + at);
    for (std::size_t i = 0; i < fields; ++i) {
      const std::uint64_t these = words.beginning_with(sought.want[i], sought.fold[i], sought.care[i]);
      note(lines.named[i], these << at & all_lines);
    }
  };
  compare(0, [](std::uint64_t& mask, std::uint64_t these) { mask = these; });
  for (std::size_t at = Set::Lines::count; at < count; at += Set::Lines::count)
    compare(at, [](std::uint64_t& mask, std::uint64_t these) { mask |= these; });
  ends[count] = last_end;
  return true;
}

/// The value of the first line that is a wanted field, and its host if it is one.
/// @return false: a host that is not plain
template <typename Set>
[[gnu::noinline]] bool find_value_closely(const HeadLines& lines, const SoughtFields& sought,
                                          std::size_t index, PlainHeads::Value& value) noexcept {
  const SoughtFields::Field& field = sought.fields[index];
  value = {0, 0};
  for (std::uint64_t rest = lines.named[index]; rest != 0; rest &= rest - 1) {
    const unsigned line = lowest(rest);
    const std::size_t begin = lines.ends[line] + std::size_t{1};
    const std::size_t end = lines.ends[line + 1];
    const std::size_t colon = begin + field.length;
    if (end <= colon || !rest_equals(lines.data + begin, field)) continue;
    value = value_between(lines.data, colon + 1, end);
    return (field.roles & SoughtFields::is_host) == 0 || trim_host<Set>(lines.data, lines.size, value);
  }
  return true;
}

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
  void finish() const noexcept {}
};

// The passes over a burst are functions of their own: each has all registers to itself.

/// The requests with a plain request line.
/// @param line_ends  room for all of a burst's frames: the positions of their '\n'
template <typename Set, typename Next>
[[gnu::noinline]] std::uint32_t find_request_lines(const PlainFrame* frames, std::size_t count,
                                                   PlainHeads& heads, std::uint32_t* line_ends,
                                                   Next& all_ahead) noexcept {
  Next ahead = all_ahead;
  std::uint32_t found = 0;
  const auto look_at = [&](std::size_t i) __attribute__((always_inline)) {
    const std::size_t line_end =
        find_request_line<Set>(heads.payloads[i], frames[i].payload.length, i, heads);
    line_ends[i] = static_cast<std::uint32_t>(line_end);
    found |= std::uint32_t{line_end != 0} << i;
  };
  if constexpr (requires { typename Set::RequestLines; }) {
    std::uint32_t others = 0;
    found = Set::RequestLines::find(frames, count, heads, line_ends, others, ahead);
    for (; others != 0; others &= others - 1) look_at(lowest(others));
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      heads.payloads[i] = reinterpret_cast<const char*>(frames[i].bytes) + frames[i].payload.offset;
      heads.sizes[i] = frames[i].payload.length;
      look_at(i);
      ahead.step(Ahead::of_pass);
    }
  }
  all_ahead = ahead;
  return found;
}

/// @return the frames whose heads are not plain
template <typename Set, typename Next>
[[gnu::noinline]] std::uint32_t find_all_lines(HeadLines* lines, std::size_t count,
                                               Next& all_ahead) noexcept {
  Next ahead = all_ahead;
  std::uint32_t others = 0;
  for (const HeadLines* const last = lines + count; lines != last; ++lines) {
    std::uint16_t* behind = lines->ends;
    lines->count = 0;
    if (find_lines<Set>(lines->data, lines->request_line_end, lines->size, behind)) [[likely]]
      lines->count = static_cast<std::uint32_t>(behind - lines->ends) - 1;
    else
      others |= std::uint32_t{1} << lines->frame;
    ahead.step(Ahead::of_pass);
  }
  all_ahead = ahead;
  return others;
}

/// @return the frames whose heads are not plain
template <typename Set, typename Next>
[[gnu::noinline]] std::uint32_t find_all_names(HeadLines* lines, std::size_t count,
                                               const SoughtFields& sought, Next& all_ahead) noexcept {
  Next ahead = all_ahead;
  std::uint32_t others = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!find_names<Set>(lines[i], sought)) [[unlikely]]
      others |= std::uint32_t{1} << lines[i].frame;
    ahead.step(Ahead::of_pass);
  }
  all_ahead = ahead;
  return others;
}

/// The values of one field. @return the frames whose hosts are not plain
template <typename Set, bool host>
[[gnu::noinline]] std::uint32_t find_values(const HeadLines* lines, std::size_t count,
                                            const SoughtFields& sought, std::size_t index,
                                            PlainHeads& heads) noexcept {
  const auto is_visible = [](char c) { return static_cast<unsigned char>(c) > ' '; };
  const SoughtFields::Field& field = sought.fields[index];
  const std::size_t length = field.length;
  PlainHeads::Value* const values = heads.values[PlainHeads::fields + index].data();
  std::uint32_t others = 0;
  for (const HeadLines* const last = lines + count; lines != last; ++lines) {
    PlainHeads::Value& value = values[lines->frame];
    const std::uint64_t named = lines->named[index];
    if (named == 0) {
      value = {0, 0};
      continue;
    }
    const char* const data = lines->data;
    const unsigned line = lowest(named);
    const std::size_t begin = lines->ends[line] + std::size_t{1};
    const std::size_t end = lines->ends[line + 1];
    const std::size_t colon = begin + length;
    bool plain = true;
    // As nearly all are, "name: value\r\n". Before the end there is at least the colon, and from the
    // beginning on at least the line's end.
    if (end > colon && data[colon + 1] == ' ' && is_visible(data[colon + 2]) && data[end - 1] == '\r' &&
        is_visible(data[end - 2]) && rest_equals(data + begin, field)) [[likely]] {
      value = {static_cast<std::uint16_t>(colon + 2), static_cast<std::uint16_t>(end - 1)};
      if constexpr (host) plain = trim_host<Set>(data, lines->size, value);
    } else {
      plain = find_value_closely<Set>(*lines, sought, index, value);
    }
    if (!plain) [[unlikely]]
      others |= std::uint32_t{1} << lines->frame;
  }
  return others;
}

/// Where no field is looked for. @param requests  with a plain request line
/// @return those that are plain
template <typename Set, typename Next>
[[gnu::noinline]] std::uint32_t find_bare_requests(const PlainHeads& heads, std::uint32_t requests,
                                                   const std::uint32_t* line_ends, Next& all_ahead) noexcept {
  Next ahead = all_ahead;
  std::uint32_t others = 0;
  const typename Set::EmptyLines empty_lines;
  for (std::uint32_t rest = requests; rest != 0; rest &= rest - 1) {
    const unsigned i = lowest(rest);
    if (!is_one_head<Set>(heads.payloads[i], line_ends[i], heads.sizes[i], empty_lines)) [[unlikely]]
      others |= std::uint32_t{1} << i;
    ahead.step(Ahead::of_pass);
  }
  all_ahead = ahead;
  return requests & ~others;
}

/// Where fields are looked for. @param requests  with a plain request line
/// @return those that are plain
template <typename Set, typename Next>
[[gnu::noinline]] std::uint32_t find_requests_with_fields(std::uint32_t requests,
                                                          const std::uint32_t* line_ends,
                                                          const SoughtFields& sought, PlainHeads& heads,
                                                          Next& all_ahead) noexcept {
  HeadLines lines[burst_frames];
  std::size_t found = 0;
  for (std::uint32_t rest = requests; rest != 0; rest &= rest - 1, ++found) {
    const unsigned i = lowest(rest);
    HeadLines& one = lines[found];
    one.data = heads.payloads[i];
    one.size = heads.sizes[i];
    one.frame = i;
    one.request_line_end = line_ends[i];
  }
  std::uint32_t others = find_all_lines<Set>(lines, found, all_ahead);
  others |= find_all_names<Set>(lines, found, sought, all_ahead);
  for (std::size_t i = 0; i < sought.field_count; ++i)
    others |= (sought.fields[i].roles & SoughtFields::is_host) != 0
                  ? find_values<Set, true>(lines, found, sought, i, heads)
                  : find_values<Set, false>(lines, found, sought, i, heads);
  return requests & ~others;
}

/// In passes: the request lines; the ends of all lines; of several lines at once which begin as a name does;
/// then field by field the one line of each. What one frame waits for is another's work, and what the bytes
/// say decides as little as can be about where the code goes, since a predictor could not learn it.
template <typename Set, typename Next>
[[gnu::always_inline]] inline std::uint32_t find_plain_in_passes(const PlainFrame* frames, std::size_t count,
                                                                 const SoughtFields& sought,
                                                                 PlainHeads& heads, Next ahead) noexcept {
  std::uint32_t line_ends[burst_frames];
  const auto every = static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
  const std::uint32_t requests =
      without_rare(every, every & ~find_request_lines<Set>(frames, count, heads, line_ends, ahead));
  if (sought.field_count == 0) {
    const std::uint32_t bare = find_bare_requests<Set>(heads, requests, line_ends, ahead);
    ahead.finish();
    return bare;
  }
  std::uint32_t others = requests;
  std::uint32_t plain = 0;
  if constexpr (requires { typename Set::Fields; }) {
    if (sought.field_count <= Set::Fields::most)
      plain = Set::Fields::template find<Set>(heads, count, requests, line_ends, sought, others, ahead);
  }
  if (others != 0) plain |= find_requests_with_fields<Set>(others, line_ends, sought, heads, ahead);
  ahead.finish();
  return plain;
}

template <typename Set>
std::uint32_t find_plain(const PlainFrame* frames, std::size_t count, const SoughtFields& sought,
                         PlainHeads& heads, const PlainFrame* next, std::size_t next_count) noexcept {
  if (next_count == 0) return find_plain_in_passes<Set>(frames, count, sought, heads, NothingAhead());
  // Where fields are sought, the passes for their values are not among these: they need all registers.
  std::size_t work = (sought.field_count == 0 ? 2 : 3) * Ahead::of_pass;
  if constexpr (requires { typename Set::Fields; }) {
    if (count != 0 && sought.field_count != 0 && sought.field_count <= Set::Fields::most)
      work = Ahead::of_pass + Set::Fields::work(frames[0].payload.length, sought.field_count);
  }
  return find_plain_in_passes<Set>(frames, count, sought, heads, Ahead(next, next_count, work * count));
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

/// @param hash_texts  as in Scans; null where the set has none
template <typename Set>
constexpr Scans scans_with(decltype(Scans::hash_texts) hash_texts) noexcept {
  return {Entry<Set, find_head<Set>>::call,  Entry<Set, find_fields<Set>>::call,
          Entry<Set, find_plain<Set>>::call, hash_texts,
          Entry<Set, path_shape<Set>>::call, Entry<Set, host_shape<Set>>::call};
}

}  // namespace
}  // namespace weir
