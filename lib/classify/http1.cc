// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "classify/head_scan.h"
#include "classify/normalise.h"
#include "weir/packet.h"

namespace weir {

namespace {

// Predicates are lambdas, so that the algorithms that take them can be inlined.
constexpr auto is_token_character = [](char c) noexcept { return request_byte(c) == RequestByte::method; };

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

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

/// What a value ends before. nginx takes any number of '\r' for a line's end: were they the value's, each
/// number would make another key of it.
constexpr bool is_behind_value(char c) noexcept { return is_blank(c) || c == '\r'; }

std::string_view trim_value(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_behind_value(text.back())) text.remove_suffix(1);
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

constexpr std::string_view protocol_0_9 = "http/0.9";
constexpr std::string_view protocol_1_0 = "http/1.0";
constexpr std::string_view protocol_1_1 = "http/1.1";

constexpr std::string_view host_name = "host";
constexpr std::string_view content_length_name = "content-length";
constexpr std::string_view transfer_encoding_name = "transfer-encoding";

struct RequestLine {
  std::string_view method;
  std::string_view target;
  std::string_view protocol;
};

/// As servers take them: a URL of any scheme, and perhaps without a host.
bool is_path_or_url(std::string_view target) noexcept {
  if (target.front() == '/') return true;
  const AbsoluteTarget absolute = split_absolute(target);
  return !absolute.authority.empty() || !absolute.rest.empty();
}

/// What a request line asks for by HTTP, whatever its version says.
bool is_of_http(std::string_view target) noexcept {
  const std::string_view scheme = target.substr(0, std::min(target.find(':'), target.size()));
  return target.front() == '/' ||
         ((equals_lower(scheme, "http") || equals_lower(scheme, "https")) && is_path_or_url(target));
}

/// "1.0" and "1.1" by their names. Of others there are none in these bytes, and receivers take them for the
/// highest they know (for minor versions RFC 9110 §2.5 says so): Apache and HAProxy take any, nginx any
/// number of zeros before a minor one, Node.js some, RTSP's and ICE's among them. @return nothing: it is none
std::string_view protocol_name(std::string_view version, const RequestLine& line) noexcept {
  if (version == "HTTP/1.1") [[likely]]
    return protocol_1_1;
  const std::size_t slash = version.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view protocol = version.substr(0, slash);
  if (protocol != "HTTP" && !(protocol == "RTSP" && is_of_http(line.target)) &&
      !(protocol == "ICE" && line.method == "SOURCE"))
    return {};
  version.remove_prefix(slash + 1);
  const std::size_t dot = version.find('.');
  if (dot == std::string_view::npos) return {};
  const auto is_number = [](std::string_view text) {
    if (text.empty()) return false;
    text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
    return text.size() <= 3 && std::all_of(text.begin(), text.end(), is_digit);
  };
  if (!is_number(version.substr(0, dot)) || !is_number(version.substr(dot + 1))) return {};
  return version == "1.0" ? protocol_1_0 : protocol_1_1;
}

/// Methods that may stand in a line without a version: GET is HTTP/0.9's, and Node.js takes these, too, and
/// reads on. All others would make a request of any two words.
bool goes_without_version(std::string_view method) noexcept {
  constexpr std::array<std::string_view, 34> methods{
      "GET",      "POST",      "PUT",        "HEAD",     "DELETE",     "PATCH",      "OPTIONS",
      "TRACE",    "ACL",       "BIND",       "CHECKOUT", "COPY",       "LINK",       "LOCK",
      "MERGE",    "M-SEARCH",  "MKACTIVITY", "MKCOL",    "MKCALENDAR", "MOVE",       "NOTIFY",
      "PROPFIND", "PROPPATCH", "PURGE",      "QUERY",    "REBIND",     "REPORT",     "SEARCH",
      "SOURCE",   "SUBSCRIBE", "UNBIND",     "UNLINK",   "UNLOCK",     "UNSUBSCRIBE"};
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

/// White space of any kind and number between the parts, and at the end, is let through: servers do (RFC 9112
/// §3). So is a line without a version.
std::optional<RequestLine> parse_request_line(std::string_view line) noexcept {
  constexpr auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; };
  const auto take_part = [&] {
    const auto end = std::find_if(line.begin(), line.end(), is_space);
    const std::string_view part(line.begin(), end);
    line = {std::find_if_not(end, line.end(), is_space), line.end()};
    return part;
  };
  RequestLine out;
  out.method = take_part();
  if (!is_token(out.method)) return std::nullopt;
  out.target = take_part();
  if (out.target.empty() || !std::all_of(out.target.begin(), out.target.end(), is_target_character))
    return std::nullopt;
  const std::string_view version = take_part();
  if (!line.empty()) return std::nullopt;
  if (version.empty())
    out.protocol =
        is_path_or_url(out.target) && goes_without_version(out.method) ? protocol_0_9 : std::string_view();
  // What HTTP/2 begins with is none.
  else if (out.method != "PRI" || out.target != "*" || version != "HTTP/2.0")
    out.protocol = protocol_name(version, out);
  if (out.protocol.empty()) return std::nullopt;
  return out;
}

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
  /// @param out  room for all that the selection names
  explicit ChosenHeaders(std::span<Header> out) noexcept : out_(out) {}

  /// @param index  in the selection
  void offer(std::size_t index, std::string_view name, std::string_view value) noexcept {
    const std::uint32_t bit = std::uint32_t{1} << index;
    if ((found_ & bit) != 0) return;
    found_ |= bit;
    out_[count_++] = {name, value};
  }

  std::span<const Header> headers() const noexcept { return out_.first(count_); }

 private:
  std::span<Header> out_;
  static_assert(max_chosen_headers <= 32);
  std::uint32_t found_ = 0;
  std::size_t count_ = 0;
};

constexpr bool is_letter(char c) noexcept { return c >= 'a' && c <= 'z'; }

/// Eight bytes of a name with its colon, as a search compares them. @param at  of the first of them
constexpr SoughtFields::Word word_of(std::string_view name, std::size_t at) noexcept {
  std::array<char, 8> want{};
  std::array<char, 8> fold{};
  std::array<char, 8> care{};
  for (std::size_t i = 0; i < 8 && at + i <= name.size(); ++i) {
    want[i] = at + i < name.size() ? name[at + i] : ':';
    fold[i] = is_letter(want[i]) ? 'a' - 'A' : '\0';
    care[i] = '\xff';
  }
  return {std::bit_cast<std::uint64_t>(want), std::bit_cast<std::uint64_t>(fold),
          std::bit_cast<std::uint64_t>(care)};
}

/// Adds a name to what a search looks for, or a role to a name that is there already.
constexpr void seek(SoughtFields& sought, std::string_view name, SoughtFields::Role role,
                    std::uint8_t chosen = 0) noexcept {
  // What no field's name can be, since the byte would have ended it, or never equals one in lower case.
  if (std::any_of(name.begin(), name.end(),
                  [](char c) { return c == ':' || c == '\n' || (c >= 'A' && c <= 'Z'); }))
    return;
  constexpr std::size_t word = 8;
  const SoughtFields::Word first = word_of(name, 0);
  SoughtFields::Field added;
  added.length = static_cast<std::uint8_t>(name.size());
  if (name.size() >= word) added.last = word_of(name, name.size() + 1 - word);
  for (std::size_t at = word; at + word <= name.size(); at += word)
    added.between[added.between_count++] = word_of(name, at);
  std::copy_n(name.begin(), name.size(), added.front.begin());
  constexpr std::string_view behind_name = ": ";
  if (name.size() + behind_name.size() <= added.front.size())
    std::copy_n(behind_name.begin(), behind_name.size(), added.front.begin() + name.size());
  std::uint8_t at = 0;
  while (at != sought.field_count &&
         !(sought.want[at] == first.want && sought.care[at] == first.care &&
           sought.fields[at].length == added.length && sought.fields[at].last == added.last &&
           sought.fields[at].between == added.between))
    ++at;
  if (at == sought.field_count) {
    ++sought.field_count;
    sought.want[at] = first.want;
    sought.fold[at] = first.fold;
    sought.care[at] = first.care;
    sought.fields[at] = added;
  }
  sought.fields[at].roles |= role;
  if (role == SoughtFields::is_chosen) sought.fields[at].chosen = chosen;
}

std::optional<std::size_t> hexadecimal(char c) noexcept {
  if (is_digit(c)) return static_cast<std::size_t>(c - '0');
  c = lower(c);
  return c >= 'a' && c <= 'f' ? std::optional(static_cast<std::size_t>(c - 'a' + 10)) : std::nullopt;
}

/// The size that a chunk's line tells, or as much more than there is. @return none: it tells none
std::optional<std::size_t> chunk_size(std::string_view line, std::size_t available) noexcept {
  constexpr std::string_view behind_size = " \t;";
  std::size_t size = 0;
  std::size_t at = 0;
  while (at < line.size()) {
    const std::optional<std::size_t> digit = hexadecimal(line[at]);
    if (!digit) break;
    size = std::min(size * 16 + *digit, available + 1);
    ++at;
  }
  if (at == 0 || (at < line.size() && behind_size.find(line[at]) == std::string_view::npos))
    return std::nullopt;
  return size;
}

/// What stands behind a chunked body and its trailer (RFC 9112 §7.1): nothing where they go on in the next
/// segment. @return none: these are no chunks, or more than anything honest sends in a segment
std::optional<std::string_view> behind_chunks(std::string_view rest) noexcept {
  constexpr std::string_view nothing;
  constexpr int most_chunks = 64;
  for (int chunk = 0;; ++chunk) {
    const std::optional<std::string_view> line = take_line(rest);
    if (!line) return nothing;
    const std::optional<std::size_t> size = chunk_size(*line, rest.size());
    if (!size || chunk == most_chunks) return std::nullopt;
    if (*size == 0) break;
    if (*size > rest.size()) return nothing;
    rest.remove_prefix(*size);
    const std::optional<std::string_view> end = take_line(rest);
    if (!end) return nothing;
    if (!end->empty()) return std::nullopt;
  }
  while (const std::optional<std::string_view> field = take_line(rest))
    if (field->empty()) return rest;
  return nothing;
}

/// From the first line on that begins a request, perhaps with some '\r' before it, as before the first one.
std::string_view from_request_line(std::string_view rest) noexcept {
  for (std::string_view behind = rest; std::optional<std::string_view> line = take_line(behind);
       rest = behind) {
    line->remove_prefix(std::min(line->find_first_not_of('\r'), line->size()));
    if (parse_request_line(*line)) return rest;
  }
  return {};
}

/// The value of a field that tells of the body, which may stand in the lines that continue it.
/// @param behind  the field's line
/// @return what is no such value, if it stands in several
std::string_view unfolded(std::string_view value, std::string_view behind) noexcept {
  while (!behind.empty() && is_blank(behind.front())) {
    const std::optional<std::string_view> line = take_line(behind);
    if (!line) break;
    const std::string_view more = trim_value(*line);
    if (!more.empty()) value = value.empty() ? more : std::string_view("?");
  }
  return value;
}

/// The value of a Host field: Apache and HAProxy take one from a line that continues it where there is none
/// in its own.
std::string_view host_of(std::string_view value, std::string_view behind) noexcept {
  while (value.empty() && !behind.empty() && is_blank(behind.front())) {
    const std::optional<std::string_view> line = take_line(behind);
    if (!line) break;
    value = trim_value(*line);
  }
  return value;
}

}  // namespace

/// Where the body of a request ends, as its header fields tell (RFC 9112 §6.3) and servers read them.
class HttpRequests::Body {
 public:
  /// Chunked, if that is the last of all codings.
  void transfer_encoding(std::string_view value) noexcept {
    encoded_ = true;
    chunked_ = false;
    each_of(value, [&](std::string_view coding) {
      if (!coding.empty()) chunked_ = equals_lower(coding, "chunked");
    });
  }

  /// Each of several must be the same.
  void content_length(std::string_view value) noexcept {
    each_of(value, [&](std::string_view length) {
      const std::size_t zeros = std::min(length.find_first_not_of('0'), length.size());
      const std::string_view digits = length.substr(zeros);
      // 18 digits cannot overflow, and no segment holds that much.
      unknown_ = unknown_ || length.empty() || digits.size() > 18 ||
                 !std::all_of(digits.begin(), digits.end(), is_digit);
      if (unknown_) return;
      std::uint64_t number = 0;
      for (const char c : digits) number = number * 10 + static_cast<std::uint64_t>(c - '0');
      unknown_ = given_ && number != length_;
      given_ = true;
      length_ = number;
    });
  }

  /// What stands behind it: nothing if it goes on in the next segment. @return none: nobody can tell
  std::optional<std::string_view> skip(std::string_view behind_head) const noexcept {
    if (chunked_) return behind_chunks(behind_head);
    if (encoded_ || unknown_) return std::nullopt;
    return behind_head.substr(static_cast<std::size_t>(std::min<std::uint64_t>(length_, behind_head.size())));
  }

 private:
  /// Calls take() with each member of a list.
  template <typename Take>
  static void each_of(std::string_view list, const Take& take) noexcept {
    for (;;) {
      const std::size_t comma = std::min(list.find(','), list.size());
      take(trim_value(list.substr(0, comma)));
      if (comma == list.size()) return;
      list.remove_prefix(comma + 1);
    }
  }

  std::uint64_t length_ = 0;
  bool given_ = false;
  bool unknown_ = false;  // the length
  bool encoded_ = false;  // whatever length is given
  bool chunked_ = false;
};

HeaderSelection::HeaderSelection(InstructionSet set) noexcept : scans_(&scans_of(set)) {
  seek(sought_, host_name, SoughtFields::is_host);
}

void HeaderSelection::want_host(bool wanted) noexcept {
  host_wanted_ = wanted;
  sought_ = {};
  if (wanted) seek(sought_, host_name, SoughtFields::is_host);
  for (std::uint8_t i = 0; i < size_; ++i) seek(sought_, (*this)[i], SoughtFields::is_chosen, i);
}

bool HeaderSelection::add(std::string_view lower_case_name) noexcept {
  if (lower_case_name.empty() || lower_case_name.size() > max_name) return false;
  for (std::size_t i = 0; i < size_; ++i) {
    if ((*this)[i] == lower_case_name) return true;
  }
  if (size_ == max_chosen_headers) return false;
  std::memcpy(names_[size_].data(), lower_case_name.data(), lower_case_name.size());
  lengths_[size_] = static_cast<std::uint8_t>(lower_case_name.size());
  seek(sought_, lower_case_name, SoughtFields::is_chosen, size_);
  ++size_;
  return true;
}

/// The portable parser of one request. Its result is what a payload means: the vector searches must find the
/// same.
/// @param rest  from the request on; afterwards from the end of its header section on, if complete
bool HttpRequests::parse(std::string_view& rest, Request& out, std::span<Header> headers, bool& complete,
                         Body& body) const noexcept {
  const std::optional<std::string_view> first = take_line(rest);
  if (!first) return false;
  const std::optional<RequestLine> line = parse_request_line(*first);
  if (!line) return false;

  out.method = line->method;
  out.target = line->target;
  out.target_shape = {};
  out.protocol = line->protocol;
  ChosenHeaders chosen(headers);
  const NameLengths lengths(*selection_);
  bool host_seen = false;
  while (const std::optional<std::string_view> field = take_line(rest)) {
    if (field->empty()) {
      complete = true;
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
    const std::string_view value = trim_value(field->substr(colon + 1));
    if (equals_lower(name, host_name)) {
      if (!host_seen && selection_->host_wanted_) out.host = host_of(value, rest);
      host_seen = true;
    } else if (equals_lower(name, content_length_name)) {
      body.content_length(unfolded(value, rest));
    } else if (equals_lower(name, transfer_encoding_name)) {
      body.transfer_encoding(unfolded(value, rest));
    }
    for (std::size_t i = 0; i < selection_->size(); ++i) {
      if (!equals_lower(name, (*selection_)[i])) continue;
      chosen.offer(i, name, value);
      break;
    }
  }
  out.headers = chosen.headers();
  return true;
}

namespace {

constexpr SoughtFields make_body_fields() noexcept {
  SoughtFields fields;
  seek(fields, content_length_name, SoughtFields::is_content_length);
  seek(fields, transfer_encoding_name, SoughtFields::is_transfer_encoding);
  return fields;
}

/// What tells where the body ends: sought only where something stands behind the header section.
constexpr SoughtFields body_fields = make_body_fields();

/// The host that an absolute target or that of CONNECT names, whatever the Host field says.
[[gnu::noinline]] void set_host_by_target(Request& request) noexcept {
  if (const AbsoluteTarget absolute = split_absolute(request.target); !absolute.authority.empty()) {
    request.host = absolute.authority;
  } else if (request.method == "CONNECT") {
    request.host = request.target;
  }
}

/// The value of a found field, as the parser would have it.
std::string_view value_of(const char* data, const FoundField& found) noexcept {
  const char* begin = data + found.colon + 1;
  const char* end = data + found.line_end;
  // Before the end there is at least the colon, and from the beginning on at least the line's end.
  end -= end[-1] == '\r' ? 1 : 0;
  begin += *begin == ' ' ? 1 : 0;
  const std::string_view value{begin, static_cast<std::size_t>(end - begin)};
  if (is_blank(*begin) || is_behind_value(end[-1])) [[unlikely]]
    return trim_value(value);
  return value;
}

}  // namespace

/// Notes what stands behind a found head's body. @return false: the search has no say
[[gnu::noinline]] bool HttpRequests::note_next(std::string_view payload, const FoundHead& head) noexcept {
  const char* const data = payload.data();
  FoundHead of_body;
  if (!selection_->scans_->find_fields(data, head.line_end, head.end, body_fields, of_body)) return false;
  Body body;
  for (std::size_t i = 0; i < of_body.count; ++i) {
    const FoundField& found = of_body.fields[i];
    const std::string_view value = unfolded(value_of(data, found), payload.substr(found.line_end + 1));
    if (body_fields.fields[found.field].roles == SoughtFields::is_content_length)
      body.content_length(value);
    else
      body.transfer_encoding(value);
  }
  go_on_behind(payload.substr(0, head.method_end), body, payload.substr(head.end));
  return true;
}

/// Goes on behind the body, if that ends among the bytes behind the header section. Where nobody can tell
/// where it ends, every line that begins a request does from there on: a server may go on there, and a limit
/// is not to depend on which one does. So it is behind CONNECT: where no tunnel comes of it, requests may.
void HttpRequests::go_on_behind(std::string_view method, const Body& body,
                                std::string_view behind_head) noexcept {
  const std::optional<std::string_view> behind = method == "CONNECT" ? std::nullopt : body.skip(behind_head);
  lost_ = !behind;
  rest_ = behind ? *behind : from_request_line(behind_head);
}

/// What looks like a request among what may be a body tells nothing of where to go on: it has the lines
/// before the next one.
std::string_view HttpRequests::before_next_line(std::string_view rest) noexcept {
  std::string_view behind = rest;
  take_line(behind);
  rest_ = from_request_line(behind);
  return rest.substr(0, rest.size() - rest_.size());
}

/// As find(), by the parser.
[[gnu::noinline]] bool HttpRequests::find_parsing(std::string_view rest, Request& out,
                                                  std::span<Header> headers, bool& complete) noexcept {
  complete = false;
  out.host = {};
  Body body;
  if (!parse(rest, out, headers, complete, body)) return false;
  if (!out.target.starts_with('/') && selection_->host_wanted_) set_host_by_target(out);
  if (complete && !lost_) go_on_behind(out.method, body, rest);
  return true;
}

/// By the vector search, where it has a say, else by the parser.
bool HttpRequests::find(Request& request, std::span<Header> headers, bool& complete) noexcept {
  std::string_view rest = rest_;
  rest_ = {};
  if (!is_token_character(rest.front())) [[unlikely]] {
    // Empty lines before a request line are skipped, as servers do (RFC 9112 §2.2).
    while (!rest.empty() && (rest.front() == '\r' || rest.front() == '\n')) rest.remove_prefix(1);
    if (rest.empty() || !is_token_character(rest.front())) return false;
  }
  if (lost_) [[unlikely]]
    rest = before_next_line(rest);

  const char* const data = rest.data();
  const HeaderSelection& selection = *selection_;
  FoundHead head;
  if (rest.size() > std::numeric_limits<std::uint32_t>::max() ||
      !selection.scans_->find_head(data, rest.size(), selection.sought_, head) ||
      (!lost_ && head.complete && head.end != rest.size() && !note_next(rest, head)))
    return find_parsing(rest, request, headers, complete);

  const char* const target = data + head.method_end + 1;
  const std::uint32_t target_size = head.target_end - head.method_end - 1;
  request.method = {data, head.method_end};
  request.target = {target, target_size};
  request.target_shape = {head.path_normal ? target : nullptr, target_size,
                          head.path_end - head.method_end - 1, head.slashes};
  request.protocol = head.minor_zero ? protocol_1_0 : protocol_1_1;
  request.host = {};
  complete = head.complete;
  ChosenHeaders chosen(headers);
  bool host_seen = false;
  for (std::size_t i = 0; i < head.count; ++i) {
    const FoundField& found = head.fields[i];
    const SoughtFields::Field& field = selection.sought_.fields[found.field];
    const std::string_view value = value_of(data, found);
    if ((field.roles & SoughtFields::is_host) != 0) {
      if (!host_seen) request.host = host_of(value, rest.substr(found.line_end + 1));
      host_seen = true;
    }
    if ((field.roles & SoughtFields::is_chosen) != 0)
      chosen.offer(field.chosen, {data + found.colon - field.length, field.length}, value);
  }
  request.headers = chosen.headers();
  if (*target != '/' && selection.host_wanted_) [[unlikely]]
    set_host_by_target(request);
  return true;
}

}  // namespace weir
