// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The script that stores one piece of a node's log exactly once, the command that calls it and the one that
/// reads the others' pieces, and what their answers say. store/exchange/exchange_group.h argues why it is
/// exactly once.
///
/// All logs of a group lie in one hash, "prefix:{partition}:x:interval in ms:ordinal": they are moved,
/// replicated, evicted, wiped, and expire together. Its fields:
///     ~seed         that ids are made under; long, so that Redis keeps the hash as a table
///     ~logs         the table of all logs: of each the name (WRITER, 24 bytes), and in six bytes each, the
///     most
///                   significant first, its generation, summaries, covered, next and largest
///     WRITER:N      piece N
///     WRITER:G.I    summary I of generation G
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/exchange/exchange_group.h"
#include "store/redis/redis_reply.h"

namespace weir {

/// Writes calls in Redis' protocol. Immutable.
class ExchangeCommand {
 public:
  /// Digits of a seed: a value of more than 64 bytes makes Redis keep a hash as a table from the first.
  static constexpr std::size_t seed_length = 72;

  /// @param prefix  first part of the names of hashes
  explicit ExchangeCommand(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The text of the script (Lua).
  static std::string_view script() noexcept;

  /// Appends one command.
  /// @param verb    "EVALSHA" or "EVAL"
  /// @param script  the script's digest, or its text
  void append(std::string& output, const OutboxBatch& batch, const ExchangeCall& call, std::string_view verb,
              std::string_view script) const;

  /// The answer, with views of the reply; nothing when it is none.
  static std::optional<ExchangeAnswer> answer(const RedisReply& reply);

  /// Appends the command that reads what is asked for. @pre something is
  void append(std::string& output, const OutboxBatch& batch, const ExchangeQuestion& question) const;
  /// Its answer, likewise.
  static std::optional<std::vector<std::optional<std::string_view>>> pieces(const RedisReply& reply);

  /// The name of the hash of a group.
  std::string hash_name(const OutboxGroupId& group) const;

 private:
  std::string prefix_;
};

}  // namespace weir
