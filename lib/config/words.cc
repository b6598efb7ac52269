// SPDX-License-Identifier: BSD-3-Clause
#include "config/words.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weir {
namespace {

constexpr std::size_t max_shown = 64;

/// Length of the well-formed UTF-8 sequence at the start of `text`; 0 where there is none.
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  std::size_t length = 0;
  if (first >= 0xc2 && first <= 0xdf)
    length = 2;
  else if (first >= 0xe0 && first <= 0xef)
    length = 3;
  else if (first >= 0xf0 && first <= 0xf4)
    length = 4;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  // C1 control characters (U+0080 … U+009F) move cursors too.
  if (first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) return 0;
  return length;
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += "\\x";
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

/// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  // "user:password@": a store's address that has got into another value.
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos && text.find(':') < at) {
    result += "***";
    text.remove_prefix(at);
  }
  std::size_t shown = 0;
  while (shown < text.size() && shown < max_shown) {
    const char c = text[shown];
    if (c >= ' ' && c < 0x7f) {
      result += c;
      ++shown;
    } else if (const std::size_t length = sequence_length(text.substr(shown)); length != 0) {
      result += text.substr(shown, length);
      shown += length;
    } else {
      append_escaped(result, c);
      ++shown;
    }
  }
  if (shown < text.size()) result += "…";
  result += '"';
  return result;
}

std::string_view closest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = 0;
  // A word much longer than any known one is no slip of the finger, and not worth the square of its length.
  if (word.size() > max_shown) return best;
  for (const std::string_view candidate : known) {
    const std::size_t d = distance(word, candidate);
    // One slip in three characters; two in a short word, where swapping neighbours takes as many.
    if (d > 2 && d * 3 > std::max(word.size(), candidate.size())) continue;
    if (d * 2 > std::min(word.size(), candidate.size())) continue;
    if (best.empty() || d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

std::string listed(std::span<const std::string_view> words) {
  std::string result;
  for (const std::string_view word : words) {
    if (!result.empty()) result += ", ";
    result += word;
  }
  return result;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known,
                       std::string_view label) {
  if (const std::string_view meant = closest(word, known); !meant.empty())
    return "; did you mean " + in_quotes(meant) + "?";
  return "; " + std::string(label) + ": " + listed(known);
}

}  // namespace weir
