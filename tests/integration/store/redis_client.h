// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The tests' own view of a server: plain commands over a connection of their own, without weir's help.
#pragma once

#include <hiredis.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir {

/// What a server answered, as plainly as tests need it.
struct Answer {
  int type = 0;
  std::string text;
  long long integer = 0;
  std::vector<std::string> elements;  ///< one level of arrays within arrays laid flat; numbers as text

  bool is_error() const { return type == REDIS_REPLY_ERROR; }
};

/// One connection, made when it is needed and made again when it is lost. One thread at a time.
class RedisClient {
 public:
  /// @param socket  the server's unix socket
  explicit RedisClient(std::filesystem::path socket) : socket_(std::move(socket)) {}
  /// @param port  on 127.0.0.1
  explicit RedisClient(std::uint16_t port) : port_(port) {}

  /// Runs a command. Fails the test when the server does not answer within a minute.
  Answer command(std::initializer_list<std::string> words) {
    return command(std::vector<std::string>(words));
  }
  Answer command(const std::vector<std::string>& words);
  /// Several at once. Fails the test when the server does not answer; then there are no answers.
  std::vector<Answer> commands(const std::vector<std::vector<std::string>>& all);
  /// As command(), but a server that does not answer is no failure: `type` is then 0.
  Answer try_command(const std::vector<std::string>& words);

  /// After SUBSCRIBE: what the server tells next. When nothing comes for so long, `type` is 0, and the
  /// connection is given up.
  Answer next(std::chrono::milliseconds at_most);

  /// The words to send first, such as AUTH and a password.
  void log_in_as(std::vector<std::string> words) {
    login_ = std::move(words);
    context_.reset();
  }
  void disconnect() { context_.reset(); }

  /// All names that match, sorted.
  std::vector<std::string> names(const std::string& pattern);

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { redisFree(context); }
  };
  bool connect();
  bool ask(const std::vector<std::vector<std::string>>& all, std::vector<Answer>& answers);
  std::string where() const;

  std::filesystem::path socket_;
  std::uint16_t port_ = 0;
  std::vector<std::string> login_;
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace weir
