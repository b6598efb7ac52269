// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/exchange_command.h"

#include <array>
#include <cstdint>
#include <utility>

#include "store/exchange/exchange.h"
#include "store/redis/batch_command.h"
#include "store/redis/words.h"

namespace weir {
namespace {

// KEYS: the hash. ARGV: the seed; the caller's log; its generation; what its summaries cover, or -1; the
// piece's number; the hash's life in milliseconds; the piece, empty to read only; then the summaries.
//
// Answer: 0: the caller's log is not what it should be. 2 and the seed: it is another. 1 and the table.
//
// All is written by one command first, which is also what Redis refuses first, before anything is changed.
// (HDEL comes before it, of what is not there, to find out whether it is allowed.)
// What is written is hashed by Redis' Lua as every text is, and numbers become text at the price of some
// hundred counts: which is why the script makes as few of both as can be.
constexpr std::string_view exchange_script = R"(
local key, seed, writer, piece = KEYS[1], ARGV[1], ARGV[2], ARGV[7]
local generation, covered, number = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local had = redis.call('HMGET', key, '~seed', '~logs')
if had[1] and had[1] ~= seed then return {2, had[1]} end
local logs = had[2] or ''
local place = logs:find(writer, 1, true)
while place and place % 54 ~= 1 do place = logs:find(writer, place + 1, true) end
local g, s, p, n, largest = 0, 0, 0, 0, 0
if place then g, s, p, n, largest = struct.unpack('>I6I6I6I6I6', logs, place + 24) end
local set, gone = {}, {}
if covered >= 0 and (g < generation or not place) then
  if covered ~= number and (g ~= generation - 1 or n ~= number) then return {0} end
  for i = 0, s - 1 do gone[#gone + 1] = writer .. ':' .. g .. '.' .. i end
  for i = p, math.min(covered, n) - 1 do gone[#gone + 1] = writer .. ':' .. i end
  g, s, p, n = generation, #ARGV - 7, covered, number
  for i = 1, s do
    set[#set + 1] = writer .. ':' .. g .. '.' .. (i - 1)
    set[#set + 1] = ARGV[7 + i]
    largest = math.max(largest, #ARGV[7 + i])
  end
elseif g ~= generation or n < number then
  return {0}
end
if n == number and piece ~= '' then
  set[#set + 1] = writer .. ':' .. ARGV[5]
  set[#set + 1] = piece
  n, largest = n + 1, math.max(largest, #piece)
end
if #set > 0 or #gone > 0 then
  local entry = writer .. struct.pack('>I6I6I6I6I6', g, s, p, n, largest)
  logs = place and logs:sub(1, place - 1) .. entry .. logs:sub(place + 54) or logs .. entry
  set[#set + 1] = '~logs'
  set[#set + 1] = logs
  if not had[1] then
    set[#set + 1] = '~seed'
    set[#set + 1] = seed
  end
  local short = not place and redis.call('PTTL', key) < tonumber(ARGV[6])
  if #gone > 0 then redis.call('HDEL', key, '~none') end
  redis.call('HSET', key, unpack(set))
  if short then redis.call('PEXPIRE', key, ARGV[6]) end
  for i = 1, #gone, 1000 do redis.call('HDEL', key, unpack(gone, i, math.min(i + 999, #gone))) end
end
return {1, logs}
)";

/// The table: of each log its name, and five numbers of six bytes each, the most significant first.
std::optional<std::vector<LogState>> log_states(std::string_view table) {
  constexpr std::size_t size = 6;
  constexpr std::array members{&LogState::generation, &LogState::summaries, &LogState::covered,
                               &LogState::next, &LogState::largest};
  constexpr std::size_t entry = Exchange::writer_length + members.size() * size;
  if (table.size() % entry != 0) return std::nullopt;
  std::vector<LogState> states(table.size() / entry);
  for (LogState& state : states) {
    state.writer = table.substr(0, Exchange::writer_length);
    table.remove_prefix(Exchange::writer_length);
    for (const auto member : members) {
      for (std::size_t i = 0; i < size; ++i)
        state.*member = state.*member << 8 | static_cast<unsigned char>(table[i]);
      table.remove_prefix(size);
    }
  }
  return states;
}

}  // namespace

std::string_view ExchangeCommand::script() noexcept { return exchange_script; }

std::string ExchangeCommand::hash_name(const OutboxGroupId& group) const {
  return prefix_ + ":{" + partition_tag(group.partition) + "}:x:" + std::to_string(group.interval.count()) +
         ':' + std::to_string(group.ordinal);
}

void ExchangeCommand::append(std::string& output, const OutboxBatch& batch, const ExchangeCall& call,
                             std::string_view verb, std::string_view script) const {
  append_header(output, '*', 11 + call.summaries.size());
  append_word(output, verb);
  append_word(output, script);
  append_word(output, "1");
  append_word(output, hash_name(batch.group));
  append_word(output, call.seed);
  append_word(output, call.writer);
  append_word(output, static_cast<std::int64_t>(call.generation));
  append_word(output, call.covered ? static_cast<std::int64_t>(*call.covered) : -1);
  append_word(output, static_cast<std::int64_t>(call.number));
  append_word(output, whole_milliseconds(batch.time_to_live));
  append_word(output, call.piece);
  for (const std::string& summary : call.summaries) append_word(output, summary);
}

void ExchangeCommand::append(std::string& output, const OutboxBatch& batch,
                             const ExchangeQuestion& question) const {
  append_header(output, '*', 2 + question.fields.size());
  append_word(output, "HMGET");
  append_word(output, hash_name(batch.group));
  for (const std::string& field : question.fields) append_word(output, field);
}

std::optional<ExchangeAnswer> ExchangeCommand::answer(const RedisReply& reply) {
  constexpr std::size_t longest_seed = 256;
  const std::vector<RedisReply>& parts = reply.elements;
  if (reply.type != RedisReply::Type::array || parts.empty() || parts[0].type != RedisReply::Type::integer)
    return std::nullopt;
  ExchangeAnswer answer;
  if (parts[0].integer == 0) return answer;
  if (parts.size() != 2 || parts[1].type != RedisReply::Type::string) return std::nullopt;
  if (parts[0].integer == 2) {
    if (parts[1].text.size() > longest_seed) return std::nullopt;
    answer.status = ExchangeAnswer::Status::other_seed;
    answer.seed = parts[1].text;
    return answer;
  }
  auto logs = log_states(parts[1].text);
  if (parts[0].integer != 1 || !logs) return std::nullopt;
  answer.status = ExchangeAnswer::Status::applied;
  answer.logs = std::move(*logs);
  return answer;
}

std::optional<std::vector<std::optional<std::string_view>>> ExchangeCommand::pieces(const RedisReply& reply) {
  if (reply.type != RedisReply::Type::array) return std::nullopt;
  std::vector<std::optional<std::string_view>> pieces;
  pieces.reserve(reply.elements.size());
  for (const RedisReply& piece : reply.elements) {
    if (piece.type != RedisReply::Type::string && piece.type != RedisReply::Type::nil) return std::nullopt;
    pieces.push_back(piece.type == RedisReply::Type::string ? std::optional<std::string_view>(piece.text)
                                                            : std::nullopt);
  }
  return pieces;
}

}  // namespace weir
