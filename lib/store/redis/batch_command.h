// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The scripts that apply one batch exactly once, one per layout; the command that calls them, and what their
/// answer says. redis_store.h argues why it is exactly once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/outbox.h"
#include "store/redis/redis_reply.h"
#include "weir/config.h"

namespace weir {

/// A field of more than 64 bytes makes Redis keep a hash as a table from its first field on. A short hash it
/// would keep as a list, and search that from its beginning for each counter: up to 512 of them.
inline constexpr std::size_t instance_length = 56;

/// Writes batches in Redis' protocol. Immutable.
class BatchCommand {
 public:
  /// @param layout    exchange as hash: what is not exchanged lies there as it would
  /// @param prefix    first part of the names of hashes, markers, and counters that are of no rule ("~…")
  /// @param instance  of the store object: no other has it. As long as instance_length says
  BatchCommand(StoreLayout layout, std::string prefix, const std::string& instance);

  /// The text of the layout's script (Lua).
  std::string_view script() const noexcept;

  /// Appends one command.
  /// @param verb    "EVALSHA" or "EVAL"
  /// @param script  the script's digest, or its text
  void append(std::string& output, const OutboxBatch& batch, std::string_view verb,
              std::string_view script) const;

  /// The answer, entry by entry; nothing when it is no answer to a batch of this size.
  std::optional<std::vector<OutboxOutcome>> outcomes(const RedisReply& reply, std::size_t entries) const;

  /// The name of the hash of a group (but for layout plain).
  std::string hash_name(const OutboxGroupId& group) const;

 private:
  void append_hash(std::string& output, const OutboxBatch& batch, std::string_view verb,
                   std::string_view script) const;
  void append_plain(std::string& output, const OutboxBatch& batch, std::string_view verb,
                    std::string_view script) const;

  StoreLayout layout_;
  std::string prefix_;
  std::string marker_;
  std::string instance_;
};

/// The tag of a partition's names, between braces: "weir:{17}:1000:1763739000".
std::string partition_tag(std::uint32_t partition);

}  // namespace weir
