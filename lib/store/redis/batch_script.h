// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The script that applies one batch exactly once, what it is called with, and what its answer says.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/outbox.h"
#include "store/redis/redis_reply.h"

namespace weir {

/// The text of the script (Lua). redis_store.h argues why it counts exactly once.
std::string_view batch_script() noexcept;

/// The words of a command, and the strings they are made of.
class BatchCommand {
 public:
  /// @param script       the script's text (for EVAL) or its digest (for EVALSHA)
  /// @param prefix       first part of every name
  /// @param instance     of the store object
  /// @param marker_life  how long the marker is to be kept
  BatchCommand(std::string_view verb, std::string_view script, const OutboxBatch& batch,
               std::string_view prefix, std::string_view instance, Duration marker_life);

  std::vector<std::string_view> words() const { return {words_.begin(), words_.end()}; }

 private:
  std::vector<std::string> words_;
};

/// The answer of the script, entry by entry; nothing when it is no answer to a batch of this size.
std::optional<std::vector<OutboxOutcome>> batch_outcomes(const RedisReply& reply, std::size_t entries);

}  // namespace weir
