// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// How a node proves to Redis who it is: name and password, and TLS. Files are read anew for every
/// connection, so that a password or a certificate can be renewed without a restart.
#pragma once

#include <memory>
#include <string>

#include "store/redis/redis_url.h"
#include "store/redis/tls.h"
#include "weir/config.h"

namespace weir {

/// What a connection is opened with.
struct RedisAccess {
  std::string user;                       ///< empty: the default user
  std::string password;                   ///< empty: no AUTH
  std::shared_ptr<const TlsContext> tls;  ///< nullptr: none
  std::string error;                      ///< why there is none; never contains a password
};

/// Reads what `config` names. The password is of one place only: the URL, the file or the environment.
RedisAccess read_access(const RedisUrl& url, const StoreConfig& config);

/// `text` with every occurrence of `secret` replaced, without control characters, and not long: fit for a log
/// line.
std::string presentable(std::string text, const std::string& secret);

}  // namespace weir
