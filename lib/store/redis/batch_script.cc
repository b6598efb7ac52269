// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/batch_script.h"

#include <algorithm>
#include <charconv>

namespace weir {
namespace {

// KEYS: the marker, then the counters. ARGV: the batch's number, the marker's life in milliseconds, then for
// each counter what to add (or, below zero, to take off) and its life in milliseconds. Answer: for each
// counter its value, or nil where there is none, or the error it gave.
//
// What Redis refuses must be refused before the first counter is touched, so the marker is written with the
// same commands first. Errors of single counters after that (of another type, overflow) are answers, not
// failures. Lua's numbers are doubles: a large total is read again as text.
constexpr std::string_view script = R"(
local applied = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
local again = applied >= tonumber(ARGV[1])
if not again then
  redis.call('SET', KEYS[1], '0', 'PX', ARGV[2])
  redis.call('INCRBY', KEYS[1], ARGV[1])
end
local totals = {}
for i = 2, #KEYS do
  local delta = ARGV[2 * i - 1]
  local total
  if again or delta == '0' then
    total = redis.pcall('GET', KEYS[i])
  else
    total = redis.pcall('SET', KEYS[i], '0', 'PX', ARGV[2 * i], 'NX')
    if type(total) ~= 'table' or not total.err then
      total = redis.pcall('INCRBY', KEYS[i], delta)
      if type(total) == 'number' and total >= 9007199254740992 then
        total = redis.pcall('GET', KEYS[i])
      end
    end
  end
  totals[i - 1] = total
end
return totals
)";

std::string milliseconds(Duration duration) {
  return std::to_string(
      std::max<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count(), 1));
}

std::optional<std::uint64_t> count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Nothing when the reply is none the script gives.
std::optional<OutboxOutcome> outcome(const RedisReply& reply) {
  switch (reply.type) {
    case RedisReply::Type::nil:
      return OutboxOutcome{true, 0};
    case RedisReply::Type::integer:
      // Less has been claimed than was given back: the store was wiped in between. That is no count.
      return OutboxOutcome{true, reply.integer < 0 ? 0 : static_cast<std::uint64_t>(reply.integer)};
    case RedisReply::Type::string: {
      const auto value = count(reply.text);
      return OutboxOutcome{value.has_value(), value.value_or(0)};
    }
    case RedisReply::Type::error:
      return OutboxOutcome{false, 0};
    case RedisReply::Type::status:
    case RedisReply::Type::array:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view batch_script() noexcept { return script; }

BatchCommand::BatchCommand(std::string_view verb, std::string_view script_word, const OutboxBatch& batch,
                           std::string_view prefix, std::string_view instance, Duration marker_life) {
  std::string partition(prefix);
  partition += ":{";
  partition += std::to_string(batch.partition);
  partition += "}:";

  words_.reserve(6 + 3 * batch.entries.size());
  words_.emplace_back(verb);
  words_.emplace_back(script_word);
  words_.push_back(std::to_string(1 + batch.entries.size()));
  words_.push_back(partition + "applied:" + std::string(instance));
  for (const OutboxEntry& entry : batch.entries)
    words_.push_back(partition + entry.name + ':' + std::to_string(entry.ordinal));
  words_.push_back(std::to_string(batch.sequence));
  words_.push_back(milliseconds(marker_life));
  for (const OutboxEntry& entry : batch.entries) {
    // The difference fits: both are at most 2^63 - 1.
    words_.push_back(
        std::to_string(static_cast<std::int64_t>(entry.delta) - static_cast<std::int64_t>(entry.returned)));
    words_.push_back(milliseconds(entry.time_to_live));
  }
}

std::optional<std::vector<OutboxOutcome>> batch_outcomes(const RedisReply& reply, std::size_t entries) {
  if (reply.type != RedisReply::Type::array || reply.elements.size() != entries) return std::nullopt;
  std::vector<OutboxOutcome> outcomes;
  outcomes.reserve(entries);
  for (const RedisReply& element : reply.elements) {
    const auto one = outcome(element);
    if (!one) return std::nullopt;
    outcomes.push_back(*one);
  }
  return outcomes;
}

}  // namespace weir
