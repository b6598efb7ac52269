// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "classify/normalise.h"
#include "weir/packet.h"

namespace weir {
namespace {

/// Characters of a token (RFC 9110 §5.6.2): methods and field names.
constexpr std::array<bool, 256> make_token_table() noexcept {
  std::array<bool, 256> table{};
  for (unsigned char c = '0'; c <= '9'; ++c) table[c] = true;
  for (unsigned char c = 'a'; c <= 'z'; ++c) table[c] = true;
  for (unsigned char c = 'A'; c <= 'Z'; ++c) table[c] = true;
  for (const unsigned char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    table[c] = true;
  return table;
}
constexpr std::array<bool, 256> token_table = make_token_table();

// Predicates are lambdas, so that the algorithms that take them can be inlined.
constexpr auto is_token_character = [](char c) noexcept {
  return token_table[static_cast<unsigned char>(c)];
};

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

constexpr auto is_digit = [](char c) noexcept { return c >= '0' && c <= '9'; };

constexpr auto is_target_character = [](char c) noexcept {
  return static_cast<unsigned char>(c) > 0x20 && c != 0x7f;
};

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

/// @pre lower_case is in lower case
bool equals_lower(std::string_view text, std::string_view lower_case) noexcept {
  if (text.size() != lower_case.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (lower(text[i]) != lower_case[i]) return false;
  }
  return true;
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Takes one line with its end (CRLF or a bare LF) off the front. @return none when no line ends there
std::optional<std::string_view> take_line(std::string_view& rest) noexcept {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = rest.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  rest.remove_prefix(end + 1);
  return line;
}

constexpr std::string_view host_name = "host";
constexpr std::string_view content_length_name = "content-length";
constexpr std::string_view transfer_encoding_name = "transfer-encoding";

struct RequestLine {
  std::string_view method;
  std::string_view target;
  std::string_view protocol;
};

/// "1.0" and "1.1" by their names; receivers treat a higher minor version as the highest they know (RFC 9110
/// §2.5).
std::string_view protocol_name(std::string_view version) noexcept {
  constexpr std::string_view prefix = "HTTP/1.";
  if (!version.starts_with(prefix)) return {};
  const std::string_view minor = version.substr(prefix.size());
  if (minor.empty() || minor.size() > 3 || !std::all_of(minor.begin(), minor.end(), is_digit)) return {};
  return minor == "0" ? "http/1.0" : "http/1.1";
}

/// More than one space between the parts, and spaces at the end, are let through: servers do (RFC 9112 §3).
std::optional<RequestLine> parse_request_line(std::string_view line) noexcept {
  const auto skip_spaces = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(' '), text.size()));
  };
  RequestLine out;
  const std::size_t method_end = line.find(' ');
  if (method_end == std::string_view::npos) return std::nullopt;
  out.method = line.substr(0, method_end);
  if (!is_token(out.method)) return std::nullopt;
  line = skip_spaces(line.substr(method_end));
  const std::size_t target_end = line.find(' ');
  if (target_end == std::string_view::npos || target_end == 0) return std::nullopt;
  out.target = line.substr(0, target_end);
  if (!std::all_of(out.target.begin(), out.target.end(), is_target_character)) return std::nullopt;
  line = skip_spaces(line.substr(target_end));
  const std::size_t version_end = std::min(line.find(' '), line.size());
  if (!skip_spaces(line.substr(version_end)).empty()) return std::nullopt;
  out.protocol = protocol_name(line.substr(0, version_end));
  if (out.protocol.empty()) return std::nullopt;
  return out;
}

/// Where the body of a request ends, as its header fields tell.
class BodyLength {
 public:
  void transfer_encoding() noexcept { unknown_ = true; }

  void content_length(std::string_view value) noexcept {
    std::uint64_t length = 0;
    // 18 digits cannot overflow, and no segment holds that much.
    if (value.empty() || value.size() > 18 || !std::all_of(value.begin(), value.end(), is_digit)) {
      unknown_ = true;
      return;
    }
    for (const char c : value) length = length * 10 + static_cast<std::uint64_t>(c - '0');
    unknown_ = unknown_ || (given_ && length != length_);
    given_ = true;
    length_ = length;
  }

  /// How many of the bytes behind the header section to skip for the next request; none if it is not among
  /// them, or nobody can tell where.
  std::optional<std::size_t> skip(std::size_t available) const noexcept {
    if (unknown_ || length_ > available) return std::nullopt;
    return static_cast<std::size_t>(length_);
  }

 private:
  std::uint64_t length_ = 0;
  bool given_ = false;
  bool unknown_ = false;
};

/// The lengths that a wanted name can have: tells most of a request's header lines apart without comparing
/// anything.
class NameLengths {
 public:
  explicit NameLengths(const HeaderSelection& selection) noexcept {
    for (const std::string_view name : {host_name, content_length_name, transfer_encoding_name})
      add(name.size());
    for (std::size_t i = 0; i < selection.size(); ++i) add(selection[i].size());
  }
  bool contains(std::size_t length) const noexcept {
    return length - 1 < 64 && (bits_ >> (length - 1) & 1) != 0;
  }

 private:
  void add(std::size_t length) noexcept { bits_ |= std::uint64_t{1} << (length - 1); }
  std::uint64_t bits_ = 0;  // the names of a selection have 1 to 64 bytes
};

/// Keeps the first of each chosen header.
class ChosenHeaders {
 public:
  ChosenHeaders(const HeaderSelection& selection, std::array<Header, max_chosen_headers>& out) noexcept
      : selection_(selection), out_(out) {}

  void offer(std::string_view name, std::string_view value) noexcept {
    for (std::size_t i = 0; i < selection_.size(); ++i) {
      if (!equals_lower(name, selection_[i])) continue;
      if (!found_[i]) {
        found_[i] = true;
        out_[count_++] = {name, value};
      }
      return;
    }
  }

  std::span<const Header> headers() const noexcept { return std::span(out_).first(count_); }

 private:
  const HeaderSelection& selection_;
  std::array<Header, max_chosen_headers>& out_;
  std::array<bool, max_chosen_headers> found_{};
  std::size_t count_ = 0;
};

}  // namespace

bool HeaderSelection::add(std::string_view lower_case_name) noexcept {
  if (lower_case_name.empty() || lower_case_name.size() > max_name) return false;
  for (std::size_t i = 0; i < size_; ++i) {
    if ((*this)[i] == lower_case_name) return true;
  }
  if (size_ == max_chosen_headers) return false;
  std::memcpy(names_[size_].data(), lower_case_name.data(), lower_case_name.size());
  lengths_[size_] = static_cast<std::uint8_t>(lower_case_name.size());
  ++size_;
  return true;
}

bool HttpRequests::next(ParsedRequest& out) noexcept {
  // Empty lines before a request line are skipped, as servers do (RFC 9112 §2.2).
  std::string_view rest = rest_.substr(std::min(rest_.find_first_not_of("\r\n"), rest_.size()));
  rest_ = {};
  const std::optional<std::string_view> first = take_line(rest);
  if (!first) return false;
  const std::optional<RequestLine> line = parse_request_line(*first);
  if (!line) return false;

  out.complete = false;
  out.request.method = line->method;
  out.request.target = line->target;
  out.request.protocol = line->protocol;
  out.request.host = {};
  ChosenHeaders chosen(*selection_, out.headers);
  const NameLengths lengths(*selection_);
  BodyLength body;
  bool host_seen = false;
  while (const std::optional<std::string_view> field = take_line(rest)) {
    if (field->empty()) {
      out.complete = true;
      break;
    }
    const std::size_t colon = field->find(':');
    if (colon == std::string_view::npos) continue;
    // A wanted name stands alone before the colon. So neither a folded line can pass for a field, as it
    // begins with white space, nor a name with anything else about it. The text of a folded line is not added
    // to the field it continues: a value and its folded spellings count under few keys rather than under
    // many.
    const std::string_view name = field->substr(0, colon);
    if (!lengths.contains(name.size())) continue;
    const std::string_view value = trim(field->substr(colon + 1));
    if (equals_lower(name, host_name)) {
      if (!host_seen) out.request.host = value;
      host_seen = true;
    } else if (equals_lower(name, content_length_name)) {
      body.content_length(value);
    } else if (equals_lower(name, transfer_encoding_name)) {
      body.transfer_encoding();
    }
    chosen.offer(name, value);
  }
  out.request.headers = chosen.headers();

  const bool is_connect = line->method == "CONNECT";
  if (const AbsoluteTarget absolute = split_absolute(line->target); !absolute.authority.empty()) {
    out.request.host = absolute.authority;
  } else if (is_connect && !line->target.starts_with('/')) {
    out.request.host = line->target;
  }

  // Behind CONNECT comes a tunnel, not a request.
  if (out.complete && !is_connect) {
    if (const std::optional<std::size_t> length = body.skip(rest.size())) rest_ = rest.substr(*length);
  }
  return true;
}

}  // namespace weir
