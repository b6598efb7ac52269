// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_url.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace weir {
namespace {

constexpr std::string_view memory_scheme = "memory://";
constexpr std::string_view tcp_scheme = "redis://";
constexpr std::string_view unix_scheme = "redis+unix://";
constexpr std::size_t max_path = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t max_host = 253;

RedisUrlResult failure(std::string message) { return {{}, std::move(message)}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Nothing when a '%' is not followed by two hexadecimal digits, or stands for a NUL.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

bool is_plain(char c) { return c > ' ' && c < 0x7f; }

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string parse_credentials(std::string_view text, RedisUrl& url) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return "before '@' there must be \"user:password\", or \":password\" without a user";
  const auto user = percent_decoded(text.substr(0, colon));
  const std::string_view encoded_password = text.substr(colon + 1);
  if (encoded_password.find(':') != std::string_view::npos)
    return "a ':' within the user or the password must be written %3A";
  const auto password = percent_decoded(encoded_password);
  if (!user || !password)
    return "a '%' in the user or the password must be followed by two hexadecimal digits";
  if (password->empty()) return "the password before '@' is empty";
  url.user = *user;
  url.password = *password;
  return {};
}

bool is_host_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

bool is_ipv6_character(char c) { return hex_digit(c) >= 0 || c == ':' || c == '.'; }

std::string parse_authority(std::string_view text, RedisUrl& url) {
  std::string_view host;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return "the '[' of an IPv6 address has no ']'";
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    // A scope ("%eth0") may follow a link-local address.
    const std::string_view address = host.substr(0, host.find('%'));
    if (address.find(':') == std::string_view::npos || !std::ranges::all_of(address, is_ipv6_character))
      return "between '[' and ']' there must be an IPv6 address";
    if (!rest.empty() && rest.front() != ':') return "after ']' there may only be \":port\" or \"/database\"";
  } else {
    const std::size_t colon = text.find(':');
    host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
    if (rest.find(':', 1) != std::string_view::npos)
      return "an IPv6 address must stand in brackets: \"[::1]:6379\"";
    if (host.empty()) return "the host is missing: redis://host:port/database";
    if (!std::ranges::all_of(host, is_host_character))
      return "the host may only have letters, digits, '.', '-' and '_'";
  }
  if (host.size() > max_host) return "the host is longer than 253 characters";
  url.host = host;
  if (rest.empty()) return {};
  const auto port = number<std::uint16_t>(rest.substr(1));
  if (!port || *port == 0) return "the port must be a number from 1 to 65535";
  url.port = *port;
  return {};
}

std::string parse_database(std::string_view text, RedisUrl& url) {
  const auto database = number<std::uint32_t>(text);
  if (!database || *database > 1'000'000) return "the database must be a number from 0 to 1000000";
  url.database = *database;
  return {};
}

RedisUrlResult parse_tcp(std::string_view text) {
  RedisUrl url;
  url.transport = RedisUrl::Transport::tcp;
  // The last '@', so that one left bare in a password is told as a mistake there, and not shown as part of
  // the host.
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    if (text.substr(0, at).find_first_of("@/?#") != std::string_view::npos)
      return failure(
          "'@', '/', '?' and '#' in the user or the password must be percent-encoded (%40, %2F, %3F, %23)");
    if (std::string error = parse_credentials(text.substr(0, at), url); !error.empty())
      return failure(std::move(error));
    text.remove_prefix(at + 1);
  }
  if (text.find_first_of("?#") != std::string_view::npos)
    return failure("'?' and '#' have no meaning here: redis://[user:password@]host[:port][/database]");
  const std::size_t slash = text.find('/');
  if (std::string error = parse_authority(text.substr(0, slash), url); !error.empty())
    return failure(std::move(error));
  if (slash != std::string_view::npos && slash + 1 < text.size())
    if (std::string error = parse_database(text.substr(slash + 1), url); !error.empty())
      return failure(std::move(error));
  return {std::move(url), {}};
}

RedisUrlResult parse_unix(std::string_view text) {
  RedisUrl url;
  url.transport = RedisUrl::Transport::unix_socket;
  if (!text.starts_with('/')) {
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos)
      return failure("the socket's path must begin with '/': redis+unix:///run/redis.sock");
    if (std::string error = parse_credentials(text.substr(0, at), url); !error.empty())
      return failure(std::move(error));
    text.remove_prefix(at + 1);
    if (!text.starts_with('/'))
      return failure(
          "after '@' there must be the socket's path, which begins with '/' ('@' and '/' in the password are "
          "written "
          "%40 and %2F)");
  }
  const std::size_t query = text.find('?');
  const auto path = percent_decoded(text.substr(0, query));
  if (!path) return failure("a '%' in the socket's path must be followed by two hexadecimal digits");
  if (path->size() < 2) return failure("the socket's path is missing: redis+unix:///run/redis.sock");
  if (path->size() > max_path)
    return failure("the socket's path is longer than " + std::to_string(max_path) + " bytes");
  url.path = *path;
  if (query != std::string_view::npos) {
    const std::string_view option = text.substr(query + 1);
    if (!option.starts_with("db=")) return failure("after '?' only \"db=number\" is known");
    if (std::string error = parse_database(option.substr(3), url); !error.empty())
      return failure(std::move(error));
  }
  return {std::move(url), {}};
}

}  // namespace

RedisUrlResult parse_redis_url(std::string_view text) {
  if (!std::ranges::all_of(text, is_plain))
    return failure("a URL has no spaces, control or non-ASCII characters; write them percent-encoded");
  if (text.starts_with(memory_scheme)) {
    if (text != memory_scheme) return failure("memory:// stands alone, without host or path");
    return {};
  }
  if (text.starts_with(tcp_scheme)) return parse_tcp(text.substr(tcp_scheme.size()));
  if (text.starts_with(unix_scheme)) return parse_unix(text.substr(unix_scheme.size()));
  if (text.starts_with("rediss://"))
    return failure("rediss:// (TLS) is not in this version yet; use redis://");
  return failure("the URL must begin with memory://, redis:// or redis+unix://");
}

std::string RedisUrl::describe() const {
  std::string text;
  switch (transport) {
    case Transport::memory:
      return std::string(memory_scheme);
    case Transport::tcp:
      text = tcp_scheme;
      text += host.find(':') == std::string::npos ? host : '[' + host + ']';
      text += ':' + std::to_string(port);
      break;
    case Transport::unix_socket:
      text = unix_scheme;
      text += path;
      break;
  }
  if (database != 0) text += (transport == Transport::tcp ? "/" : "?db=") + std::to_string(database);
  std::ranges::replace_if(
      text, [](char c) { return !is_plain(c); }, '?');
  return text;
}

}  // namespace weir
