// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The search for one head: a request line, and the wanted fields of the header section behind it. Included
/// as head_kernel.h is.
#pragma once

#include "classify/head_scan.h"
#include "classify/scan_set.h"

namespace weir {
namespace {

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

}  // namespace
}  // namespace weir
