// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/batch_command.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/whole_number.h"
#include "store/redis/message_pack.h"
#include "store/redis/words.h"

namespace weir {
namespace {

// Both scripts: what is to become of a counter is 5 (add), -5 (take off), 0 (only read) or ">5" (raise to
// it). The answer has an element for each: its value, or the error it gave. Errors of single counters (of
// another type, overflow) are answers, not failures. A counter that more is taken off than it holds (the
// store was wiped in between) is 0 afterwards. What Redis refuses as a whole, it refuses with the first
// writing command, before any counter is touched. Lua's numbers are doubles: sums that might not be exact in
// them are left to Redis.

// KEYS: the hash. ARGV: the batch's number; the hash's life in milliseconds; packed, what is to become of
// each counter; packed, the marker's field and the counters' fields. The answer is packed; false for an
// error.
//
// All is read in one command and written in one: what costs is Redis' way from Lua to a command and back. The
// first PEXPIRE finds out whether it is allowed, before there is anything that would live for ever without
// the second.
constexpr std::string_view hash_script = R"(
local key, sequence = KEYS[1], ARGV[1]
local changes, fields = cmsgpack.unpack(ARGV[3]), cmsgpack.unpack(ARGV[4])
local had = redis.call('HMGET', key, unpack(fields))
local marker = had[1]
local again = marker and tonumber(marker) >= tonumber(sequence)
local set, at, later, format = {fields[1], sequence}, 2, {}, string.format
local function add()
  for i = 1, #changes do
    local value, change = had[i + 1], changes[i]
    local total = change
    if value then total = value + change end
    if not (total < 1e15 and total > -1e15 and total % 1 == 0) then error('careful') end
    if total < 0 then total = 0 end
    if change ~= 0 then
      set[at + 1], set[at + 2] = fields[i + 1], format('%d', total)
      at = at + 2
    end
    changes[i] = total
  end
end
if again or not pcall(add) then
  changes, set, at = cmsgpack.unpack(ARGV[3]), {fields[1], sequence}, 2
  for i = 1, #changes do
    local change, value = changes[i], had[i + 1]
    if again or change == 0 then
      if value then
        local number = #value > 15 and value or tonumber(value)
        changes[i] = type(number) == 'number' and number % 1 ~= 0 and false or number or false
      else
        changes[i] = 0
      end
    elseif type(change) == 'number' and (not value or #value <= 15) then
      local old = 0
      if value then old = tonumber(value) end
      if old and old % 1 == 0 then
        local total = math.max(old + change, 0)
        set[at + 1], set[at + 2] = fields[i + 1], format('%d', total)
        at = at + 2
        changes[i] = total
      else
        changes[i] = false
      end
    else
      later[#later + 1] = i
    end
  end
end
if at > 2 or #later > 0 then
  local life = ARGV[2]
  local short = not marker and redis.call('PTTL', key) < tonumber(life)
  redis.call('HSET', key, unpack(set))
  if short then redis.call('PEXPIRE', key, life) end
  for _, i in ipairs(later) do
    local change, value, field = changes[i], had[i + 1], fields[i + 1]
    if type(change) == 'number' then change = format('%d', change) end
    if change:byte(1) == 62 then
      local least, old = tonumber(change:sub(2)), tonumber(value or '0')
      if old and least > old then
        local done = redis.pcall('HSET', key, field, change:sub(2))
        old = type(done) == 'number' and least
      end
      changes[i] = old or false
    else
      local total = redis.pcall('HINCRBY', key, field, change)
      if type(total) == 'number' and total < 0 then redis.pcall('HSET', key, field, '0') end
      local text = redis.pcall('HGET', key, field)
      changes[i] = type(total) == 'number' and (type(text) == 'string' and text or total)
    end
  end
end
return cmsgpack.pack(changes)
)";

// KEYS: the marker, then the counters. ARGV: the batch's number, the marker's life in milliseconds, the
// counters' life, then what is to become of each.
constexpr std::string_view plain_script = R"(
local applied = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
local again = applied >= tonumber(ARGV[1])
if not again then
  redis.call('SET', KEYS[1], '0', 'PX', ARGV[2])
  redis.call('INCRBY', KEYS[1], ARGV[1])
end
local totals = {}
for i = 2, #KEYS do
  local change = ARGV[2 + i]
  local raise = change:byte(1) == 62
  local total
  if again or change == '0' then
    total = redis.pcall('GET', KEYS[i])
  else
    total = redis.pcall('SET', KEYS[i], '0', 'PX', ARGV[3], 'NX')
    if type(total) ~= 'table' or not total.err then
      if raise then
        local old = redis.pcall('GET', KEYS[i])
        old = type(old) == 'string' and tonumber(old) or 0
        change = string.format('%d', math.max(0, tonumber(change:sub(2)) - old))
      end
      total = redis.pcall('INCRBY', KEYS[i], change)
      if type(total) == 'number' and total < 0 then
        total = redis.pcall('INCRBY', KEYS[i], redis.call('GET', KEYS[i]):sub(2))
      end
      if type(total) == 'number' and total >= 9007199254740992 then
        total = redis.pcall('GET', KEYS[i])
      end
    end
  end
  totals[i - 1] = total
end
return totals
)";

/// What a marker of its own outlives its batch by: more than any difference in the pace of two clocks.
constexpr Duration marker_margin = std::chrono::minutes{1};

/// Below it every integer is one in Lua too, and so is the sum of two.
constexpr std::int64_t exact_in_lua = 1'000'000'000'000'000;

/// What is to become of a counter: the plain script takes it as a word, the other packed.
std::string_view change_text(NumberText& text, const OutboxEntry& entry) {
  if (entry.raised_to > 0) {
    text[0] = '>';
    return {text.data(), std::to_chars(text.data() + 1, text.data() + text.size(), entry.raised_to).ptr};
  }
  // The difference fits: both are at most 2^63 - 1.
  return to_text(text, static_cast<std::int64_t>(entry.delta) - static_cast<std::int64_t>(entry.returned));
}

void pack_change(std::string& output, const OutboxEntry& entry) {
  NumberText text;
  if (entry.raised_to > 0) return pack_string(output, change_text(text, entry));
  const std::int64_t change =
      static_cast<std::int64_t>(entry.delta) - static_cast<std::int64_t>(entry.returned);
  // A script's number would not be exact.
  if (change > -exact_in_lua && change < exact_in_lua) return pack_integer(output, change);
  pack_string(output, change_text(text, entry));
}

/// Whether a counter is of no rule, for no rule's name begins so, but of the nodes that share a prefix: those
/// of another one would be taken for some of them.
bool is_of_nodes(std::string_view name) noexcept { return name.starts_with('~'); }

// As others may have left it, or a version that let it fall below 0. That is no count.
std::uint64_t total_of(std::int64_t value) { return value < 0 ? 0 : static_cast<std::uint64_t>(value); }

/// Nothing when the reply is none the plain script gives.
std::optional<OutboxOutcome> outcome(const RedisReply& reply) {
  switch (reply.type) {
    case RedisReply::Type::nil:
      return OutboxOutcome{true, 0};
    case RedisReply::Type::integer:
      return OutboxOutcome{true, total_of(reply.integer)};
    case RedisReply::Type::string: {
      const auto value = whole_number<std::int64_t>(reply.text);
      return OutboxOutcome{value.has_value(), total_of(value.value_or(0))};
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

BatchCommand::BatchCommand(StoreLayout layout, std::string prefix, const std::string& instance)
    : layout_(layout), prefix_(std::move(prefix)), marker_("~applied:" + instance), instance_(instance) {}

std::string_view BatchCommand::script() const noexcept {
  return layout_ == StoreLayout::plain ? plain_script : hash_script;
}

std::string partition_tag(std::uint32_t partition) { return std::to_string(partition); }

std::string BatchCommand::hash_name(const OutboxGroupId& group) const {
  return prefix_ + ":{" + partition_tag(group.partition) + "}:" + std::to_string(group.interval.count()) +
         ':' + std::to_string(group.ordinal);
}

void BatchCommand::append(std::string& output, const OutboxBatch& batch, std::string_view verb,
                          std::string_view script) const {
  if (layout_ == StoreLayout::plain)
    append_plain(output, batch, verb, script);
  else
    append_hash(output, batch, verb, script);
}

void BatchCommand::append_hash(std::string& output, const OutboxBatch& batch, std::string_view verb,
                               std::string_view script) const {
  append_header(output, '*', 8);
  append_word(output, verb);
  append_word(output, script);
  append_word(output, "1");
  append_word(output, hash_name(batch.group));
  append_word(output, static_cast<std::int64_t>(batch.sequence));
  append_word(output, whole_milliseconds(batch.time_to_live));
  std::string packed;
  packed.reserve(64 + 32 * batch.entries.size());
  pack_array(packed, batch.entries.size());
  for (const OutboxEntry& entry : batch.entries) pack_change(packed, entry);
  append_word(output, packed);
  packed.clear();
  pack_array(packed, 1 + batch.entries.size());
  pack_string(packed, marker_);
  for (const OutboxEntry& entry : batch.entries) pack_string(packed, batch.name(entry));
  append_word(output, packed);
}

void BatchCommand::append_plain(std::string& output, const OutboxBatch& batch, std::string_view verb,
                                std::string_view script) const {
  append_header(output, '*', 7 + 2 * batch.entries.size());
  append_word(output, verb);
  append_word(output, script);
  append_word(output, static_cast<std::int64_t>(1 + batch.entries.size()));
  // A marker of its own for each partition: their numbers are not answered in order.
  append_word(output, prefix_ + ":{" + partition_tag(batch.group.partition) +
                          "}:" + std::to_string(batch.group.interval.count()) + ':' +
                          std::to_string(batch.group.ordinal) + ":applied:" + instance_);
  NumberText text;
  const std::string ordinal = ':' + std::string(to_text(text, batch.group.ordinal));
  for (const OutboxEntry& entry : batch.entries) {
    const std::string_view name = batch.name(entry);
    if (is_of_nodes(name))
      append_word(output, prefix_ + ':' + std::string(name), ordinal);
    else
      append_word(output, name, ordinal);
  }
  append_word(output, static_cast<std::int64_t>(batch.sequence));
  append_word(output, whole_milliseconds(batch.time_to_live + marker_margin));
  append_word(output, whole_milliseconds(batch.time_to_live));
  for (const OutboxEntry& entry : batch.entries) append_word(output, change_text(text, entry));
}

std::optional<std::vector<OutboxOutcome>> BatchCommand::outcomes(const RedisReply& reply,
                                                                 std::size_t entries) const {
  std::vector<OutboxOutcome> outcomes;
  outcomes.reserve(entries);
  if (layout_ == StoreLayout::plain) {
    if (reply.type != RedisReply::Type::array || reply.elements.size() != entries) return std::nullopt;
    for (const RedisReply& element : reply.elements) {
      const auto one = outcome(element);
      if (!one) return std::nullopt;
      outcomes.push_back(*one);
    }
    return outcomes;
  }
  if (reply.type != RedisReply::Type::string) return std::nullopt;
  PackedReader reader(reply.text);
  if (reader.array() != entries) return std::nullopt;
  for (std::size_t i = 0; i < entries; ++i) {
    const auto element = reader.next();
    if (!element) return std::nullopt;
    const auto value = element->type == Packed::Type::integer  ? std::optional(element->integer)
                       : element->type == Packed::Type::string ? whole_number<std::int64_t>(element->text)
                                                               : std::nullopt;
    outcomes.push_back({value.has_value(), total_of(value.value_or(0))});
  }
  return reader.at_end() ? std::optional(std::move(outcomes)) : std::nullopt;
}

}  // namespace weir
