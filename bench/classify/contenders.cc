// SPDX-License-Identifier: BSD-3-Clause
#include "contenders.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "classify/normalise.h"

#ifdef WEIR_BENCH_HTTP_PARSER
#include <http_parser.h>
#endif

#ifdef WEIR_BENCH_PICOHTTPPARSER
// libh2o exports it, but installs no header for it.
extern "C" {
struct phr_header {
  const char* name;
  std::size_t name_len;
  const char* value;
  std::size_t value_len;
};
int phr_parse_request(const char* buffer, std::size_t length, const char** method, std::size_t* method_length,
                      const char** path, std::size_t* path_length, int* minor_version, phr_header* headers,
                      std::size_t* header_count, std::size_t last_length);
}
#endif

namespace weir::bench {
namespace {

constexpr std::size_t headers_before_payload = 54;  // of all frames here, Ethernet's to TCP's

const KeyHash key_hash({0x0123456789abcdefULL, 0xfedcba9876543210ULL});

/// Takes a header field if it is one of the three.
void take_field(std::string_view name, std::string_view value, Request& request,
                std::span<Header, 2> headers) {
  const auto is = [&](std::string_view other) {
    return name.size() == other.size() && strncasecmp(name.data(), other.data(), other.size()) == 0;
  };
  if (is("host")) {
    request.host = value;
  } else if (is("authorization")) {
    headers[0] = {name, value};
  } else if (is("x-api-key")) {
    headers[1] = {name, value};
  }
}

/// The payload of a frame if it may be a request's, found as weir-filter finds it. @return empty: it is none
std::string_view request_payload(std::span<const std::byte> bytes) noexcept {
  const PlainPayload plain = plain_payload(bytes);
  const std::string_view payload =
      plain.offset != 0
          ? std::string_view(reinterpret_cast<const char*>(bytes.data()) + plain.offset, plain.length)
          : tcp_payload(bytes, parse_frame(bytes));
  return payload.empty() || !can_begin_request(payload.front()) ? std::string_view{} : payload;
}

}  // namespace

std::uint64_t OwnPath::operator()(std::span<const std::byte> bytes) noexcept {
  std::uint64_t sum = 0;
  // No rule here looks at addresses or ports, so nobody sets them.
  HttpRequests requests(request_payload(bytes), classifier_.headers());
  while (requests.next(parsed_)) {
    classifier_.match(parsed_.request, scratch_);
    for (std::size_t i = 0; i < scratch_.rule_count; ++i) {
      sum += classifier_.hash_key(scratch_.rules[i], parsed_.request, scratch_, key_hash);
    }
  }
  return sum;
}

void BurstPath::look_through(Frames frames, Burst& burst) noexcept {
  burst.plain_count = 0;
  burst.sum = 0;
  for (const std::span<const std::byte> bytes : frames) {
    const PlainPayload payload = plain_payload(bytes);
    if (payload.offset == 0) {
      burst.sum += own_(bytes);
    } else if (payload.length != 0 && can_begin_request(static_cast<char>(bytes[payload.offset]))) {
      burst.plain[burst.plain_count++] = {bytes.data(), payload};
    }
  }
}

std::uint64_t BurstPath::operator()(Frames frames, Frames next) noexcept {
  const Burst& burst = bursts_[current_];
  Burst& later = bursts_[current_ ^ 1];
  if (!looked_through_) look_through(frames, bursts_[current_]);
  looked_through_ = !next.empty();
  if (looked_through_) {
    look_through(next, later);
    current_ ^= 1;
  }
  const auto& [plain, plain_count, other_frames] = burst;
  std::uint64_t sum = other_frames;
  if (plain_count == 0) return sum;
  own_.plain().classify(std::span(plain).first(plain_count), key_hash, keys_,
                        std::span(later.plain).first(looked_through_ ? later.plain_count : 0));
  for (std::size_t i = 0; i < keys_.rule_count; ++i)
    for (std::uint32_t rest = keys_.rules[i].requests & keys_.requests; rest != 0; rest &= rest - 1)
      sum += keys_.rules[i].hashes[static_cast<std::size_t>(std::countr_zero(rest))];
  for (std::size_t i = 0; i < plain_count; ++i)
    if ((keys_.requests >> i & 1) == 0)
      sum += own_({plain[i].bytes, std::size_t{plain[i].payload.offset} + plain[i].payload.length});
  return sum;
}

std::uint64_t PeerPath::operator()(std::span<const std::byte> bytes) noexcept {
  const std::string_view payload = request_payload(bytes);
  Request request;
  std::array<Header, 2> headers;
  if (payload.empty() || !parse_(payload, wanted_, request, headers)) return 0;
  std::array<char, 2048> path;
  std::array<char, 256> host;
  // What follows the parsing is ours, and as fast as ours is.
  const Scans& scans = scans_of(best_instruction_set());
  std::array<std::string_view, 5> values;
  std::size_t count = 0;
  values[count++] = request.method;
  values[count++] = normal_path(request.target, path, scans).text;
  if (wanted_ != Wanted::request_line) values[count++] = normalise_host(request.host, host, scans);
  if (wanted_ == Wanted::three_headers) {
    for (const Header& header : headers) values[count++] = header.value;
  }
  // From where the values lie, as the classifier does. None of the workload's is so long that it would be
  // digested; if one were, the sums would differ and the run would fail.
  KeyHash::Fields fields(key_hash);
  for (const std::string_view value : std::span(values).first(count)) {
    if (value.size() > max_value_bytes) return 0;
    fields.add_text(value);
  }
  return fields.value(0);
}

namespace {

/// Cuts off what comes before a byte, and the byte. @return false where there is none
bool cut(std::string_view& rest, char at, std::string_view& part) {
  const void* const found = std::memchr(rest.data(), at, rest.size());
  if (found == nullptr) return false;
  part = rest.substr(0, static_cast<std::size_t>(static_cast<const char*>(found) - rest.data()));
  rest.remove_prefix(part.size() + 1);
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char byte) { return byte == ' ' || byte == '\t' || byte == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

bool parse_with_memchr(std::string_view payload, Wanted wanted, Request& request,
                       std::span<Header, 2> headers) {
  std::string_view line;
  if (!cut(payload, '\n', line) || !cut(line, ' ', request.method) || !cut(line, ' ', request.target) ||
      !line.starts_with("HTTP/1."))
    return false;
  if (wanted == Wanted::request_line) return true;
  while (cut(payload, '\n', line)) {
    if (line.empty() || line == "\r") return true;
    std::string_view name;
    if (!cut(line, ':', name)) return false;
    take_field(name, trimmed(line), request, headers);
  }
  return false;
}

#ifdef WEIR_BENCH_HTTP_PARSER
namespace {

struct Fields {
  Request& request;
  std::span<Header, 2> headers;
  bool wanted;
  std::string_view name;
};

Fields& fields_of(http_parser* parser) noexcept { return *static_cast<Fields*>(parser->data); }

http_parser_settings make_settings() noexcept {
  http_parser_settings settings;
  http_parser_settings_init(&settings);
  settings.on_url = [](http_parser* parser, const char* at, std::size_t length) {
    fields_of(parser).request.target = {at, length};
    return 0;
  };
  settings.on_header_field = [](http_parser* parser, const char* at, std::size_t length) {
    fields_of(parser).name = {at, length};
    return 0;
  };
  settings.on_header_value = [](http_parser* parser, const char* at, std::size_t length) {
    Fields& fields = fields_of(parser);
    if (fields.wanted) take_field(fields.name, {at, length}, fields.request, fields.headers);
    return 0;
  };
  return settings;
}

}  // namespace

bool parse_with_http_parser(std::string_view payload, Wanted wanted, Request& request,
                            std::span<Header, 2> headers) {
  static const http_parser_settings settings = make_settings();
  http_parser parser;
  http_parser_init(&parser, HTTP_REQUEST);
  Fields fields{request, headers, wanted != Wanted::request_line, {}};
  parser.data = &fields;
  http_parser_execute(&parser, &settings, payload.data(), payload.size());
  if (parser.http_errno != HPE_OK) return false;
  request.method = http_method_str(static_cast<http_method>(parser.method));
  return true;
}
#endif

#ifdef WEIR_BENCH_PICOHTTPPARSER
bool parse_with_picohttpparser(std::string_view payload, Wanted wanted, Request& request,
                               std::span<Header, 2> headers) {
  const char* method = nullptr;
  const char* path = nullptr;
  std::size_t method_length = 0;
  std::size_t path_length = 0;
  int minor = 0;
  std::array<phr_header, 64> found;
  std::size_t count = found.size();
  const int length = phr_parse_request(payload.data(), payload.size(), &method, &method_length, &path,
                                       &path_length, &minor, found.data(), &count, 0);
  if (length <= 0) return false;
  request.method = {method, method_length};
  request.target = {path, path_length};
  if (wanted != Wanted::request_line) {
    for (std::size_t i = 0; i < count; ++i)
      take_field({found[i].name, found[i].name_len}, {found[i].value, found[i].value_len}, request, headers);
  }
  return true;
}
#endif

std::uint64_t touch_three_lines(std::span<const std::byte> frame) noexcept {
  std::uint64_t sum = 0;
  for (const std::size_t at : {std::size_t{0}, std::size_t{64}, std::size_t{128}}) {
    std::uint64_t word = 0;
    std::memcpy(&word, &frame[at], sizeof word);
    sum += word;
  }
  return sum;
}

std::uint64_t pass_over_payload(std::span<const std::byte> frame) noexcept {
  return std::memchr(frame.data() + headers_before_payload, 0x01, frame.size() - headers_before_payload) ==
                 nullptr
             ? 0
             : 1;
}

std::uint64_t count_lines(std::span<const std::byte> frame) noexcept {
  std::uint64_t lines = 0;
  auto rest = frame.subspan(headers_before_payload);
  while (const void* const found = std::memchr(rest.data(), '\n', rest.size())) {
    rest = rest.subspan(static_cast<std::size_t>(static_cast<const std::byte*>(found) - rest.data()) + 1);
    ++lines;
  }
  return lines;
}

}  // namespace weir::bench
