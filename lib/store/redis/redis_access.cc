// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_access.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace weir {
namespace {

constexpr std::size_t max_password = 4096;
constexpr std::size_t max_shown = 200;

/// What can be said before any file is read; empty: nothing.
std::string contradiction(const RedisUrl& url, const StoreConfig& config) {
  const int passwords = !url.password.empty() + !config.password_file.empty() + !config.password_env.empty();
  if (passwords > 1)
    return "the password is given more than once: keep one of url, password_file and password_env";
  if (!url.user.empty() && passwords == 0)
    return "the URL names a user, but there is no password: set password_file or password_env";
  if (config.certificate_file.empty() != config.private_key_file.empty())
    return "certificate_file and private_key_file belong together: set both or neither";
  const bool tls_terms =
      !config.ca_file.empty() || !config.certificate_file.empty() || !config.server_name.empty();
  if (!url.tls && tls_terms)
    return "ca_file, certificate_file and server_name are for TLS: begin the URL with \"rediss\"";
  if (url.tls && !tls_available()) return "this build of weir has no TLS: it was made without OpenSSL";
  if (config.layout == StoreLayout::plain && url.mode == RedisUrl::Mode::cluster)
    return "layout = \"plain\" spreads a batch over all slots, which a cluster does not apply in one piece: "
           "use layout = \"hash\" or \"exchange\"";
  return {};
}

std::string read_password_file(const std::string& path, RedisAccess& access) {
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "re"));
  if (file == nullptr)
    return "password_file: cannot read \"" + path + "\": " + std::generic_category().message(errno);
  std::string text(max_password + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return "password_file: cannot read \"" + path + "\"";
  if (text.size() > max_password)
    return "password_file: \"" + path + "\" is longer than " + std::to_string(max_password) + " bytes";
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return "password_file: \"" + path + "\" is empty";
  access.password = std::move(text);
  return {};
}

}  // namespace

RedisAccess read_access(const RedisUrl& url, const StoreConfig& config) {
  RedisAccess access{
      .user = url.user, .password = url.password, .tls = {}, .error = contradiction(url, config)};
  if (access.error.empty() && !config.password_file.empty())
    access.error = read_password_file(config.password_file, access);
  if (access.error.empty() && !config.password_env.empty()) {
    const char* value = std::getenv(config.password_env.c_str());
    if (value == nullptr || *value == '\0')
      access.error = "password_env: there is no variable " + config.password_env + " in the environment";
    else
      access.password = value;
  }
  if (access.error.empty() && url.tls) {
    TlsContext::Result tls = TlsContext::make({.ca_file = config.ca_file,
                                               .certificate_file = config.certificate_file,
                                               .private_key_file = config.private_key_file,
                                               .server_name = config.server_name});
    access.tls = std::move(tls.context);
    access.error = std::move(tls.error);
  }
  return access;
}

std::string presentable(std::string text, const std::string& secret) {
  if (!secret.empty())
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += 3)
      text.replace(at, secret.size(), "***");
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > max_shown) text.resize(max_shown);
  return text;
}

}  // namespace weir
