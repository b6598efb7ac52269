// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_url.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/whole_number.h"

namespace weir {
namespace {

constexpr std::string_view memory_scheme = "memory://";
constexpr std::string_view unix_scheme = "redis+unix://";
constexpr std::size_t max_path = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t max_host = 253;
constexpr std::size_t max_endpoints = 64;
constexpr std::uint16_t sentinel_port = 26379;

struct Scheme {
  std::string_view text;
  RedisUrl::Mode mode;
  bool tls;
};
constexpr std::array schemes{
    Scheme{"redis://", RedisUrl::Mode::single, false},
    Scheme{"rediss://", RedisUrl::Mode::single, true},
    Scheme{"redis+sentinel://", RedisUrl::Mode::sentinel, false},
    Scheme{"rediss+sentinel://", RedisUrl::Mode::sentinel, true},
    Scheme{"redis+cluster://", RedisUrl::Mode::cluster, false},
    Scheme{"rediss+cluster://", RedisUrl::Mode::cluster, true},
};

std::string_view scheme_of(const RedisUrl& url) {
  return std::ranges::find_if(
             schemes, [&](const Scheme& scheme) { return scheme.mode == url.mode && scheme.tls == url.tls; })
      ->text;
}

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

std::string parse_credentials(std::string_view text, RedisUrl& url) {
  const std::size_t colon = text.find(':');
  const bool with_password = colon != std::string_view::npos;
  const auto user = percent_decoded(text.substr(0, colon));
  const std::string_view encoded_password = with_password ? text.substr(colon + 1) : std::string_view{};
  if (encoded_password.find(':') != std::string_view::npos)
    return "a ':' within the user or the password must be written %3A";
  const auto password = percent_decoded(encoded_password);
  if (!user || !password)
    return "a '%' in the user or the password must be followed by two hexadecimal digits";
  if (with_password && password->empty()) return "the password before '@' is empty";
  if (!with_password && user->empty())
    return "before '@' there must be \"user:password\", \":password\" or \"user\"";
  url.user = *user;
  url.password = *password;
  return {};
}

bool is_host_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

bool is_ipv6_character(char c) { return hex_digit(c) >= 0 || c == ':' || c == '.'; }

/// "host[:port]"
std::string parse_endpoint(std::string_view text, RedisEndpoint& endpoint) {
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
  endpoint.host = host;
  if (rest.empty()) return {};
  const auto port = whole_number<std::uint16_t>(rest.substr(1));
  if (!port || *port == 0) return "the port must be a number from 1 to 65535";
  endpoint.port = *port;
  return {};
}

/// "host[:port]", in modes other than single several of them, with commas between.
std::string parse_authority(std::string_view text, RedisUrl& url) {
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    if (more && url.mode == RedisUrl::Mode::single)
      return "several hosts are for redis+sentinel:// and redis+cluster://; redis:// has one";
    if (url.endpoints.size() == max_endpoints)
      return "there are more than " + std::to_string(max_endpoints) + " hosts; name some of them";
    RedisEndpoint endpoint;
    if (url.mode == RedisUrl::Mode::sentinel) endpoint.port = sentinel_port;
    if (std::string error = parse_endpoint(text.substr(0, comma), endpoint); !error.empty()) return error;
    url.endpoints.push_back(std::move(endpoint));
    if (more) text.remove_prefix(comma + 1);
  }
  return {};
}

bool is_master_character(char c) { return is_host_character(c) || c == ':'; }

/// What follows the sentinels: "/master[/database]".
std::string parse_master(std::string_view& text, RedisUrl& url) {
  const std::size_t slash = text.find('/');
  const std::string_view name = text.substr(0, slash);
  if (name.empty()) return "the master's name is missing: redis+sentinel://host,host,host/mymaster";
  if (!std::ranges::all_of(name, is_master_character))
    return "the master's name may only have letters, digits, '.', '-', '_' and ':'";
  url.master = name;
  text.remove_prefix(slash == std::string_view::npos ? text.size() : slash + 1);
  return {};
}

std::string parse_database(std::string_view text, RedisUrl& url) {
  const auto database = whole_number<std::uint32_t>(text);
  if (!database || *database > 1'000'000) return "the database must be a number from 0 to 1000000";
  url.database = *database;
  return {};
}

RedisUrlResult parse_tcp(std::string_view text, const Scheme& scheme) {
  RedisUrl url;
  url.mode = scheme.mode;
  url.tls = scheme.tls;
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
  text.remove_prefix(slash == std::string_view::npos ? text.size() : slash + 1);
  if (url.mode == RedisUrl::Mode::sentinel)
    if (std::string error = parse_master(text, url); !error.empty()) return failure(std::move(error));
  if (!text.empty() && url.mode == RedisUrl::Mode::cluster)
    return failure("a cluster has no databases: nothing may follow the hosts");
  if (!text.empty())
    if (std::string error = parse_database(text, url); !error.empty()) return failure(std::move(error));
  return {std::move(url), {}};
}

RedisUrlResult parse_unix(std::string_view text) {
  RedisUrl url;
  url.mode = RedisUrl::Mode::single;
  RedisEndpoint& endpoint = url.endpoints.emplace_back();
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
  endpoint.path = *path;
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
  if (text.starts_with(unix_scheme)) return parse_unix(text.substr(unix_scheme.size()));
  for (const Scheme& scheme : schemes)
    if (text.starts_with(scheme.text)) return parse_tcp(text.substr(scheme.text.size()), scheme);
  return failure(
      "the URL must begin with memory://, redis://, rediss:// (TLS), redis+unix://, redis+sentinel:// or "
      "redis+cluster://");
}

std::string RedisEndpoint::describe() const {
  std::string text = path;
  if (!host.empty())
    text = (host.find(':') == std::string::npos ? host : '[' + host + ']') + ':' + std::to_string(port);
  std::ranges::replace_if(
      text, [](char c) { return !is_plain(c); }, '?');
  return text;
}

std::string RedisUrl::describe() const {
  if (mode == Mode::memory) return std::string(memory_scheme);
  const bool unix_socket = endpoints.front().host.empty();
  std::string text(unix_socket ? unix_scheme : scheme_of(*this));
  for (const RedisEndpoint& endpoint : endpoints) {
    if (&endpoint != endpoints.data()) text += ',';
    text += endpoint.describe();
  }
  if (mode == Mode::sentinel) text.append("/").append(master);
  if (database != 0) text.append(unix_socket ? "?db=" : "/").append(std::to_string(database));
  return text;
}

}  // namespace weir
