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
#include <utility>

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

/// HAProxy takes DEL, and nginx before 1.21.1 all but these.
constexpr auto is_target_character = [](char c) noexcept { return c != '\0' && c != '\r'; };

constexpr bool is_letter(char c) noexcept { return c >= 'a' && c <= 'z'; }

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

/// "1.0" and "1.1" by their names. Of others there are none in these bytes, and receivers take them for the
/// highest they know (for minor versions RFC 9110 §2.5 says so): Apache and HAProxy take any, nginx any
/// number of zeros before a minor one, Node.js some, RTSP's and ICE's among them; Apache takes HTTP in any
/// case if it is told to be lenient. @return nothing: it is none
std::string_view protocol_name(std::string_view version, std::string_view method) noexcept {
  if (version == "HTTP/1.1") [[likely]]
    return protocol_1_1;
  const std::size_t slash = version.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view protocol = version.substr(0, slash);
  if (!equals_lower(protocol, "http") && protocol != "RTSP" && !(protocol == "ICE" && method == "SOURCE"))
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

/// What may stand in a line without a version: GET is HTTP/0.9's, and Node.js takes these, too, and reads on.
/// All others would make a request of any two words.
constexpr std::array<std::string_view, 47> known_methods{
    "GET",     "POST",     "PUT",           "HEAD",       "DELETE",        "PATCH",      "OPTIONS",
    "CONNECT", "TRACE",    "ACL",           "BIND",       "CHECKOUT",      "COPY",       "LINK",
    "LOCK",    "MERGE",    "M-SEARCH",      "MKACTIVITY", "MKCOL",         "MKCALENDAR", "MOVE",
    "NOTIFY",  "PROPFIND", "PROPPATCH",     "PURGE",      "QUERY",         "REBIND",     "REPORT",
    "SEARCH",  "SOURCE",   "SUBSCRIBE",     "UNBIND",     "UNLINK",        "UNLOCK",     "UNSUBSCRIBE",
    "PRI",     "ANNOUNCE", "DESCRIBE",      "FLUSH",      "GET_PARAMETER", "PAUSE",      "PLAY",
    "RECORD",  "REDIRECT", "SET_PARAMETER", "SETUP",      "TEARDOWN"};

/// @param target  not empty
bool goes_without_version(std::string_view method, std::string_view target) noexcept {
  // Any authority but what clients of NATS say.
  if (method == "CONNECT") return target.front() != '{';
  return (target.front() == '*' || is_path_or_url(target)) &&
         std::find(known_methods.begin(), known_methods.end(), method) != known_methods.end();
}

/// What may stand between the parts of a request line.
constexpr auto is_space = [](char c) noexcept { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; };

/// Takes the last part off a line, with the white space behind it.
std::string_view take_last_part(std::string_view& line) noexcept {
  while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
  const auto begin = std::find_if(line.rbegin(), line.rend(), is_space).base();
  const std::string_view part(begin, line.end());
  line.remove_suffix(part.size());
  return part;
}

/// White space of any kind and number between the parts, and at the end, is let through: servers do (RFC 9112
/// §3). So is a line without a version, and white space in the target of one that has a version, which nginx
/// before 1.21.1 takes for a part of it.
std::optional<RequestLine> parse_request_line(std::string_view line) noexcept {
  const auto take_part = [&] {
    const auto end = std::find_if(line.begin(), line.end(), is_space);
    const std::string_view part(line.begin(), end);
    line = {std::find_if_not(end, line.end(), is_space), line.end()};
    return part;
  };
  RequestLine out;
  out.method = take_part();
  if (!is_token(out.method)) return std::nullopt;
  std::string_view behind_method = line;
  out.target = take_part();
  std::string_view version = take_part();
  if (!line.empty()) {
    version = take_last_part(behind_method);
    while (is_space(behind_method.back())) behind_method.remove_suffix(1);
    out.target = behind_method;
  }
  if (out.target.empty() || !std::all_of(out.target.begin(), out.target.end(), is_target_character))
    return std::nullopt;
  if (version.empty())
    out.protocol = goes_without_version(out.method, out.target) ? protocol_0_9 : std::string_view();
  // What HTTP/2 begins with is none.
  else if (out.method != "PRI" || out.target != "*" || version != "HTTP/2.0")
    out.protocol = protocol_name(version, out.method);
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
/// segment. @return none: these are no chunks
std::optional<std::string_view> behind_chunks(std::string_view rest) noexcept {
  constexpr std::string_view nothing;
  for (;;) {
    const std::optional<std::string_view> line = take_line(rest);
    if (!line) return nothing;
    const std::optional<std::size_t> size = chunk_size(*line, rest.size());
    if (!size) return std::nullopt;
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

constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();

/// The longest known method with which a token ends. @return nothing: it ends with none
/// @param below  of that many bytes, and above, there is none
std::string_view known_method_at_end(std::string_view token, std::size_t below) noexcept {
  std::size_t longest = 0;
  for (const std::string_view method : known_methods)
    if (method.size() > longest && method.size() < below && token.ends_with(method)) longest = method.size();
  return token.substr(token.size() - longest);
}

/// The method that a text ends with, of which nobody can tell where it begins: the longest one that is known,
/// else all of what one may be made of.
/// @param below  as for known_method_at_end(), and if it is not any_length, there is none but known ones
std::string_view last_method(std::string_view text, std::size_t below) noexcept {
  const auto begin = std::find_if_not(text.rbegin(), text.rend(), is_token_character).base();
  const std::string_view token(begin, text.end());
  const std::string_view known = known_method_at_end(token, below);
  return known.empty() && below == any_length ? token : known;
}

/// The request line with which a line ends, wherever in it that begins: bytes without a line's end may stand
/// before it.
/// @param below  as for last_method()
std::optional<RequestLine> request_line_at_end(std::string_view line, std::size_t below) noexcept {
  std::string_view before = line;
  const std::string_view last = take_last_part(before);
  std::string_view before_target = before;
  const std::string_view target = take_last_part(before_target);
  // First what tells most lines apart, since looking for the method takes longest.
  const auto with_method = [&](std::string_view text) -> std::optional<RequestLine> {
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    const std::string_view method = last_method(text, below);
    if (method.empty()) return std::nullopt;
    return parse_request_line({method.begin(), line.end()});
  };
  if (!target.empty() && last.find('/') != std::string_view::npos) {
    if (const std::optional<RequestLine> found = with_method(before_target)) return found;
  }
  if (last.empty() || (last.front() != '*' && !is_path_or_url(last) && !target.ends_with("CONNECT")))
    return std::nullopt;
  return with_method(before);
}

/// The value of a field that tells of the body. Servers take what stands in the lines that continue it for a
/// part of it, or for nothing, or refuse it.
/// @param behind  the field's line
/// @return what is no such value, if there are such lines
std::string_view unless_continued(std::string_view value, std::string_view behind) noexcept {
  return behind.empty() || !is_blank(behind.front()) ? value : std::string_view("?");
}

/// The value of a field that a rule asks for: Apache and HAProxy take one from a line that continues it where
/// there is none in its own.
std::string_view first_of(std::string_view value, std::string_view behind) noexcept {
  while (value.empty() && !behind.empty() && is_blank(behind.front())) {
    const std::optional<std::string_view> line = take_line(behind);
    if (!line) break;
    value = trim_value(*line);
  }
  return value;
}

/// The chosen header in whose line a payload ends, as far as it goes: clients whose headers do not fit into
/// one segment are told apart by most of a long value, and would else all have the key of those without one.
/// @param line  without its end
void offer_cut_field(std::string_view line, const HeaderSelection& selection,
                     ChosenHeaders& chosen) noexcept {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = line.substr(0, colon);
  for (std::size_t i = 0; i < selection.size(); ++i)
    if (equals_lower(name, selection[i])) chosen.offer(i, name, trim_value(line.substr(colon + 1)));
}

void set_line(Request& out, const RequestLine& line) noexcept {
  out.method = line.method;
  out.target = line.target;
  out.target_shape = {};
  out.protocol = line.protocol;
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
  /// @param of_today  HTTP/1.1: some servers look at no transfer encoding in what is older, and go by the
  /// length
  std::optional<std::string_view> skip(std::string_view behind_head, bool of_today) const noexcept {
    if (chunked_ && of_today && !given_ && !unknown_) return behind_chunks(behind_head);
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

  set_line(out, *line);
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
    // to what the field's own line has: a value and its folded spellings count under few keys rather than
    // under many.
    const std::string_view name = field->substr(0, colon);
    if (!lengths.contains(name.size())) continue;
    const std::string_view value = trim_value(field->substr(colon + 1));
    if (equals_lower(name, host_name)) {
      if (!host_seen && selection_->host_wanted_) out.host = first_of(value, rest);
      host_seen = true;
    } else if (equals_lower(name, content_length_name)) {
      body.content_length(unless_continued(value, rest));
    } else if (equals_lower(name, transfer_encoding_name)) {
      body.transfer_encoding(unless_continued(value, rest));
    }
    for (std::size_t i = 0; i < selection_->size(); ++i) {
      if (!equals_lower(name, (*selection_)[i])) continue;
      chosen.offer(i, name, first_of(value, rest));
      break;
    }
  }
  if (!complete) offer_cut_field(rest, *selection_, chosen);
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

bool are_one_host(std::string_view one, std::string_view other, const Scans& scans) noexcept {
  std::array<char, 256> of_one;
  std::array<char, 256> of_other;
  return normalise_host(one, of_one, scans) == normalise_host(other, of_other, scans);
}

std::string_view protocol_of(const FoundHead& head) noexcept {
  return head.minor_zero ? protocol_1_0 : protocol_1_1;
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

/// The host that an absolute target or that of CONNECT names, whatever the Host field says. Node.js goes by
/// the field, though, and Apache where the scheme is not its own: so a request whose two hosts differ comes
/// twice.
/// @return true: once more, by the field
[[gnu::noinline]] bool HttpRequests::set_host_by_target(Request& request) noexcept {
  if (std::exchange(host_by_field_, false)) return false;
  if (AbsoluteTarget absolute = split_absolute(request.target); !absolute.authority.empty()) {
    absolute.authority.remove_prefix(absolute.authority.rfind('@') + 1);
    host_by_field_ =
        !request.host.empty() && !are_one_host(request.host, absolute.authority, *selection_->scans_);
    request.host = absolute.authority;
  } else if (request.method == "CONNECT") {
    request.host = request.target.substr(request.target.rfind('@') + 1);
  }
  return host_by_field_;
}

/// Notes what stands behind a found head's body. @return false: the search has no say
[[gnu::noinline]] bool HttpRequests::note_next(std::string_view payload, const FoundHead& head) noexcept {
  const char* const data = payload.data();
  FoundHead of_body;
  if (!selection_->scans_->find_fields(data, head.line_end, head.end, body_fields, of_body)) return false;
  Body body;
  for (std::size_t i = 0; i < of_body.count; ++i) {
    const FoundField& found = of_body.fields[i];
    const std::string_view value =
        unless_continued(value_of(data, found), payload.substr(found.line_end + 1));
    if (body_fields.fields[found.field].roles == SoughtFields::is_content_length)
      body.content_length(value);
    else
      body.transfer_encoding(value);
  }
  go_on_behind(payload.substr(0, head.method_end), protocol_of(head), body, payload.substr(head.end));
  return true;
}

/// Goes on behind the body, if that ends among the bytes behind the header section, or where nobody can tell
/// where it ends, in every way that a server may. So it is behind CONNECT: where no tunnel comes of it,
/// requests may.
void HttpRequests::go_on_behind(std::string_view method, std::string_view protocol, const Body& body,
                                std::string_view behind_head) noexcept {
  const std::optional<std::string_view> behind =
      method == "CONNECT" ? std::nullopt : body.skip(behind_head, protocol == protocol_1_1);
  if (behind) {
    place_ = Place::behind_another;
    rest_ = *behind;
  } else {
    get_lost(behind_head);
  }
}

/// From here on every line that ends as a request line does ends one: a server may go on anywhere, and a
/// limit is not to depend on which one does.
void HttpRequests::get_lost(std::string_view rest) noexcept {
  place_ = Place::lost;
  rest_ = rest.substr(0, rest.rfind('\n') + 1);
  lost_end_ = rest_.data() + rest_.size();
  lost_below_ = any_length;
  found_lost_ = 0;
  note_lost_field(rest.substr(rest_.size()), {});
  found_lost_ &= ~(std::uint32_t{1} << lost_host);  // a part of a host's name is another host's
  lost_complete_ = false;
}

/// @return true: the same request is to come once more
bool HttpRequests::set_lost_fields(Request& out, std::span<Header> headers) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < selection_->size(); ++i) {
    const LostField& field = lost_fields_[i];
    if ((found_lost_ >> i & 1) != 0)
      headers[count++] = {{field.name, (*selection_)[i].size()}, {field.value, field.size}};
  }
  out.headers = headers.first(count);
  const LostField& host = lost_fields_[lost_host];
  out.host =
      (found_lost_ >> lost_host & 1) != 0 ? std::string_view(host.value, host.size) : std::string_view();
  return !out.target.starts_with('/') && selection_->host_wanted_ && set_host_by_target(out);
}

/// @param behind  the line
void HttpRequests::note_lost_field(std::string_view line, std::string_view behind) noexcept {
  const std::string_view name = line.substr(0, line.find(':'));
  if (name.size() == line.size()) return;
  const std::string_view value = trim_value(line.substr(name.size() + 1));
  const auto note = [&](std::size_t index, std::string_view text) {
    found_lost_ |= std::uint32_t{1} << index;
    lost_fields_[index] = {name.data(), text.data(), text.size()};
  };
  if (selection_->host_wanted_ && equals_lower(name, host_name)) note(lost_host, first_of(value, behind));
  for (std::size_t i = 0; i < selection_->size(); ++i)
    if (equals_lower(name, (*selection_)[i])) note(i, first_of(value, behind));
}

/// Goes through the lines from the last one to the first, and has of each header field the one that was seen
/// last. So whatever request line stands among the header fields of another one, of which nobody can tell
/// whether it is one, both have the fields behind them; and each line is looked at once, however many there
/// are, or once for each of the few methods that it may be of: a server that goes on in the midst of
/// `PROPPATCH` answers PATCH.
bool HttpRequests::find_lost(Request& out, std::span<Header> headers, bool& complete) noexcept {
  while (!rest_.empty()) {
    std::string_view line = rest_.substr(0, rest_.size() - 1);
    const std::string_view behind(line.end() + 1, lost_end_);
    const std::string_view before = line.substr(0, line.rfind('\n') + 1);
    line.remove_prefix(before.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) {
      rest_ = before;
      found_lost_ = 0;
      lost_complete_ = true;
      continue;
    }
    const std::optional<RequestLine> request = request_line_at_end(line, lost_below_);
    if (request) {
      set_line(out, *request);
      const bool comes_once_more = set_lost_fields(out, headers);
      complete = lost_complete_;
      if (comes_once_more) return true;
      lost_below_ = request->method.size();
      if (!known_method_at_end(request->method, lost_below_).empty()) return true;
    }
    rest_ = before;
    lost_below_ = any_length;
    note_lost_field(line, behind);
    if (request) return true;
  }
  return false;
}

/// Where something else stands than a request. Behind a request it may be that a server sees the one before
/// end elsewhere; but a payload has none that does not begin with one.
bool HttpRequests::find_behind_other(std::string_view rest, Request& out, std::span<Header> headers,
                                     bool& complete) noexcept {
  if (place_ == Place::first) return false;
  get_lost(rest);
  return find_lost(out, headers, complete);
}

/// As find(), by the parser.
[[gnu::noinline]] bool HttpRequests::find_parsing(std::string_view rest, Request& out,
                                                  std::span<Header> headers, bool& complete) noexcept {
  complete = false;
  out.host = {};
  Body body;
  const std::string_view here = rest;
  if (!parse(rest, out, headers, complete, body)) return find_behind_other(here, out, headers, complete);
  if (!out.target.starts_with('/') && selection_->host_wanted_ && set_host_by_target(out))
    rest_ = here;
  else if (complete)
    go_on_behind(out.method, out.protocol, body, rest);
  return true;
}

/// By the vector search, where it has a say, else by the parser.
bool HttpRequests::find(Request& request, std::span<Header> headers, bool& complete) noexcept {
  if (place_ == Place::lost) [[unlikely]]
    return find_lost(request, headers, complete);
  const Place place = place_;
  std::string_view rest = rest_;
  rest_ = {};
  if (!is_token_character(rest.front())) [[unlikely]] {
    // Empty lines before a request line are skipped, as servers do (RFC 9112 §2.2).
    while (!rest.empty() && (rest.front() == '\r' || rest.front() == '\n')) rest.remove_prefix(1);
    if (rest.empty() || !is_token_character(rest.front()))
      return find_behind_other(rest, request, headers, complete);
  }

  const char* const data = rest.data();
  const HeaderSelection& selection = *selection_;
  FoundHead head;
  if (rest.size() > std::numeric_limits<std::uint32_t>::max() ||
      !selection.scans_->find_head(data, rest.size(), selection.sought_, head) ||
      (head.complete && head.end != rest.size() && !note_next(rest, head)))
    return find_parsing(rest, request, headers, complete);

  const char* const target = data + head.method_end + 1;
  const std::uint32_t target_size = head.target_end - head.method_end - 1;
  request.method = {data, head.method_end};
  request.target = {target, target_size};
  request.target_shape = {head.path_normal ? target : nullptr, target_size,
                          head.path_end - head.method_end - 1, head.slashes};
  request.protocol = protocol_of(head);
  request.host = {};
  complete = head.complete;
  ChosenHeaders chosen(headers);
  bool host_seen = false;
  for (std::size_t i = 0; i < head.count; ++i) {
    const FoundField& found = head.fields[i];
    const SoughtFields::Field& field = selection.sought_.fields[found.field];
    const std::string_view value = value_of(data, found);
    if ((field.roles & SoughtFields::is_host) != 0) {
      if (!host_seen) request.host = first_of(value, rest.substr(found.line_end + 1));
      host_seen = true;
    }
    if ((field.roles & SoughtFields::is_chosen) != 0)
      chosen.offer(field.chosen, {data + found.colon - field.length, field.length},
                   first_of(value, rest.substr(found.line_end + 1)));
  }
  if (!complete) [[unlikely]]
    offer_cut_field(rest.substr(rest.rfind('\n') + 1), selection, chosen);
  request.headers = chosen.headers();
  if (*target != '/' && selection.host_wanted_ && set_host_by_target(request)) [[unlikely]] {
    place_ = place;
    rest_ = rest;
  }
  return true;
}

}  // namespace weir
