// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Where the store is: the value of `[store] url`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// Where one server listens.
struct RedisEndpoint {
  std::string host;  ///< name or address, without brackets; empty: a unix socket
  std::uint16_t port = 6379;
  std::string path = {};  ///< of the unix socket

  bool operator==(const RedisEndpoint&) const = default;
  /// "host:port", "[address]:port" or the path, with nothing in it that could break a log line.
  std::string describe() const;
};

/// A store's address, taken apart. Values are percent-decoded.
struct RedisUrl {
  enum class Mode : std::uint8_t {
    memory,    ///< "memory://": no Redis at all
    single,    ///< "redis://[user:password@]host[:port][/db]",
               ///< "redis+unix://[user:password@]/path/to.sock[?db=N]"
    sentinel,  ///< "redis+sentinel://[user:password@]host[:port][,host[:port]…]/master[/db]": the sentinels'
               ///< addresses
    cluster,  ///< "redis+cluster://[user:password@]host[:port][,host[:port]…]": some of the cluster's nodes
  };
  Mode mode = Mode::memory;
  bool tls = false;                      ///< "rediss…" instead of "redis…"; never over unix sockets
  std::vector<RedisEndpoint> endpoints;  ///< one in single mode; not empty but for memory
  std::string master;                    ///< sentinel: the name it knows the master by
  std::string user;                      ///< empty: the default user
  std::string password;                  ///< empty: none in the URL
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

/// Takes a URL apart. ":password@" gives a password without user, "user@" a user whose password is to come
/// from elsewhere. The port of a sentinel is 26379 if none is given. IPv6 addresses stand in brackets. Any
/// character of user, password and path may be percent-encoded; '@', ':', '/', '?', '#' and '%' in user and
/// password must be. Never throws on bad input.
RedisUrlResult parse_redis_url(std::string_view text);

}  // namespace weir
