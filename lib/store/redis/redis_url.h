// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Where the store is: the value of `[store] url`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// A store's address, taken apart. Values are percent-decoded.
struct RedisUrl {
  enum class Transport : std::uint8_t {
    memory,       ///< "memory://": no Redis at all
    tcp,          ///< "redis://[user:password@]host[:port][/db]"
    unix_socket,  ///< "redis+unix://[user:password@]/path/to.sock[?db=N]"
  };
  Transport transport = Transport::memory;
  std::string host;           ///< name or address, without brackets; tcp only
  std::uint16_t port = 6379;  ///< tcp only
  std::string path;           ///< of the socket; unix_socket only
  std::string user;           ///< empty: the default user
  std::string password;       ///< empty: no AUTH
  std::uint32_t database = 0;

  bool operator==(const RedisUrl&) const = default;

  /// The address for messages: without user and password, and with nothing in it that could break a log line.
  std::string describe() const;
};

/// An address, or why there is none.
struct RedisUrlResult {
  RedisUrl url;
  std::string error;  ///< empty: `url` is good. Never contains the user or the password

  explicit operator bool() const noexcept { return error.empty(); }
};

/// Takes a URL apart. ":password@" gives a password without user. IPv6 addresses stand in brackets. Any
/// character of user, password and path may be percent-encoded; '@', ':', '/', '?', '#' and '%' in user and
/// password must be. Never throws on bad input.
RedisUrlResult parse_redis_url(std::string_view text);

}  // namespace weir
