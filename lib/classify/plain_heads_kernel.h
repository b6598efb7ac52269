// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The search for the plain requests of a burst (PlainHeads). Included as head_kernel.h is.
#pragma once

#include "classify/frames_ahead.h"
#include "classify/head_scan.h"
#include "classify/one_head_kernel.h"
#include "classify/scan_set.h"
#include "classify/value_shapes_kernel.h"
#include "classify/without_rare.h"

namespace weir {
namespace {

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

/// Where a value begins and ends, white space before and behind it, and any number of '\r' (see http1.cc).
[[gnu::noinline]] inline PlainHeads::Value value_between(const char* data, std::size_t begin,
                                                         std::size_t end) noexcept {
  while (begin < end && is_blank(data[begin])) ++begin;
  while (begin < end && (is_blank(data[end - 1]) || data[end - 1] == '\r')) --end;
  return {static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(end)};
}

/// The host that a plain value names. @return false: it is not plain
/// @param size  of what there is from `data` on
template <typename Set>
[[gnu::always_inline]] inline bool trim_host(const char* data, std::size_t size,
                                             PlainHeads::Value& value) noexcept {
  const std::size_t length = unsigned{value.end} - unsigned{value.begin};
  // The next line may go on with it.
  if (length == 0) return false;
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
  bool cut;             ///< the head goes on in the next segment
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
/// @param cut  by then, whether the head goes on in the next segment
template <typename Set>
[[gnu::noinline]] bool find_lines_closely(const char* data, std::size_t line_end, std::size_t size,
                                          std::uint16_t*& ends, bool& cut) noexcept {
  FoundHead found;
  ends = find_line_ends<Set, true>(data, line_end, size, found, ends, HeadLines::most);
  cut = !found.complete;
  return ends != nullptr && (!found.complete || found.end == size);
}

/// The same, as is_one_head().
template <typename Set>
[[gnu::always_inline]] inline bool find_lines(const char* data, std::size_t line_end, std::size_t size,
                                              std::uint16_t*& ends, bool& cut) noexcept {
  constexpr std::size_t empty_line = 2;
  // As find_line_ends() has it.
  constexpr std::size_t overlap = 2;
  cut = false;
  if (!ends_as_head(data, size, window_size + empty_line)) [[unlikely]]
    return find_lines_closely<Set>(data, line_end, size, ends, cut);
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
    return find_lines_closely<Set>(data, line_end, size, ends, cut);
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
/// @return false: a host that is not plain, or it may stand where the head is cut, or behind that, or in the
/// next line
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
    if ((field.roles & SoughtFields::is_host) != 0) return trim_host<Set>(lines.data, lines.size, value);
    return value.begin != value.end || end + 1 >= lines.size || !is_blank(lines.data[end + 1]);
  }
  return !lines.cut;
}

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
    if (find_lines<Set>(lines->data, lines->request_line_end, lines->size, behind, lines->cut)) [[likely]]
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

/// The values of one field. @return the frames whose hosts are not plain, or whose heads are cut before it
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
      if (lines->cut) [[unlikely]]
        others |= std::uint32_t{1} << lines->frame;
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

}  // namespace
}  // namespace weir
