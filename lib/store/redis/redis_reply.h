// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What Redis answers, taken out of its protocol by hiredis' reader, with bounds on what a broken or hostile
/// server can make us allocate. (The reader's own reply objects would take an array's length from the wire at
/// its word.)
#pragma once

#include <hiredis.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// One reply.
struct RedisReply {
  enum class Type : std::uint8_t { nil, status, error, string, integer, array };
  Type type = Type::nil;
  std::string text;          ///< of status, error and string
  std::int64_t integer = 0;  ///< of integer
  std::vector<RedisReply> elements;

  bool is_error() const noexcept { return type == Type::error; }
  /// Whether the first word of an error is `code`, e.g. "NOSCRIPT".
  bool is_error(std::string_view code) const noexcept;
};

/// Bytes in, replies out.
class RedisReplyReader {
 public:
  /// The most elements of one reply, all its arrays together, and its most bytes. (The map of a cluster's
  /// slots can be large.)
  static constexpr std::size_t max_elements = 65536;
  static constexpr std::size_t max_bytes = std::size_t{4} << 20;
  /// The most arrays that lie in each other.
  static constexpr std::size_t max_depth = 8;

  RedisReplyReader();
  RedisReplyReader(const RedisReplyReader&) = delete;
  RedisReplyReader& operator=(const RedisReplyReader&) = delete;

  /// Takes bytes as they come from the network. False: they are not the protocol, or out of bounds.
  bool feed(std::string_view bytes);

  /// The next whole reply, if it is here. Check failed() when there is none.
  std::optional<RedisReply> next();

  /// What came is not the protocol, or out of bounds. Final.
  bool failed() const noexcept { return failed_; }

 private:
  struct Free {
    void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
  };
  std::unique_ptr<redisReader, Free> reader_;
  std::size_t elements_ = 0;  // of the reply that is being read
  bool failed_ = false;
};

}  // namespace weir
