// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Redis' protocol by hand, so that a layout's measurement contains as little of a client library as can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/redis_url.h"

namespace weir::bench {

/// Appends the head of a command: its number of words …
void append_head(std::string& output, std::size_t words);
/// … and each of them.
void append_word(std::string& output, std::string_view word);
void append_word(std::string& output, std::int64_t number);
void append_command(std::string& output, std::initializer_list<std::string_view> words);

/// What has been answered so far.
struct Answered {
  std::uint64_t replies = 0;  ///< whole ones
  std::int64_t sum = 0;       ///< of all integers in them, and of all strings that are integers
  std::uint64_t errors = 0;
  std::string error;  ///< the latest
};

/// A blocking connection. Throws whatever goes wrong with it.
class Wire {
 public:
  explicit Wire(const RedisUrl& url);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void send(std::string_view bytes);
  /// Reads what has come; waits for some.
  void receive();
  const Answered& answered() const noexcept { return answered_; }
  /// Begins to count anew. @pre nothing is awaited
  void reset() noexcept { answered_ = {}; }
  /// Sends a command and waits for its reply, which is to be no error. @return the reply as it came
  std::string ask(std::initializer_list<std::string_view> words);

  std::uint64_t bytes_sent() const noexcept { return sent_; }
  std::uint64_t bytes_received() const noexcept { return received_; }

 private:
  void fill();
  void count();
  void finish_reply() noexcept;

  int descriptor_ = -1;
  std::vector<char> incoming_;
  std::string buffer_;
  std::size_t at_ = 0;              // in the buffer: what is before has been read
  std::vector<std::int64_t> open_;  // elements that are to come, of each array that is not whole yet
  Answered answered_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace weir::bench
