// SPDX-License-Identifier: BSD-3-Clause
#include "layouts.h"

#include <stdexcept>
#include <string_view>

#include "store/outbox.h"
#include "store/redis/message_pack.h"

namespace weir::bench {
namespace {

constexpr std::string_view ordinal = "1763739214";
constexpr std::string_view life_in_ms = "600000";
/// Longer than hash-max-listpack-value: a hash that has it is a hash table from the first.
constexpr std::string_view long_marker = "~applied:0123456789abcdef0123456789abcdef0123456789abcdef01234567";
constexpr std::string_view short_marker = "~applied:node-1";
static_assert(long_marker.size() > 64 && short_marker.size() < 64);

// ARGV: the batch's number, the life, the marker, the fields, the counts.
constexpr std::string_view loop_script = R"(
local key, sequence, marker, call = KEYS[1], ARGV[1], ARGV[3], redis.call
local was = call('HGET', key, marker)
if was and tonumber(was) >= tonumber(sequence) then return {} end
local n, totals = (#ARGV - 3) / 2, {}
for i = 1, n do totals[i] = call('HINCRBY', key, ARGV[3 + i], ARGV[3 + n + i]) end
call('HSET', key, marker, sequence)
if not was then call('PEXPIRE', key, ARGV[2]) end
return totals
)";

// The same arguments; one command reads all, one writes all.
constexpr std::string_view bulk_script = R"(
local key, argv, sequence = KEYS[1], ARGV, ARGV[1]
local n = (#argv - 3) / 2
local had = redis.call('HMGET', key, unpack(argv, 3, 3 + n))
local was = had[1]
if was and tonumber(was) >= tonumber(sequence) then return {} end
local set, totals, format = {argv[3], sequence}, {}, string.format
for i = 1, n do
  local total = argv[3 + n + i] + (had[i + 1] or 0)
  set[2 * i + 1], set[2 * i + 2] = argv[3 + i], format('%d', total)
  totals[i] = total
end
redis.call('HSET', key, unpack(set))
if not was then redis.call('PEXPIRE', key, argv[2]) end
return totals
)";

// ARGV: the batch's number, the life; packed, the counts; packed, the marker and the fields.
constexpr std::string_view packed_script = R"(
local key, sequence = KEYS[1], ARGV[1]
local counts, fields = cmsgpack.unpack(ARGV[3]), cmsgpack.unpack(ARGV[4])
local had = redis.call('HMGET', key, unpack(fields))
local was = had[1]
if was and tonumber(was) >= tonumber(sequence) then return {} end
local set, format = {fields[1], sequence}, string.format
for i = 1, #counts do
  local total = counts[i] + (had[i + 1] or 0)
  set[2 * i + 1], set[2 * i + 2] = fields[i + 1], format('%d', total)
  counts[i] = total
end
redis.call('HSET', key, unpack(set))
if not was then redis.call('PEXPIRE', key, ARGV[2]) end
return @ANSWER
)";

// KEYS: the marker, the counters. ARGV: the batch's number, its life, then of each counter the count and the
// life.
constexpr std::string_view strings_script = R"(
local applied = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
if applied >= tonumber(ARGV[1]) then return {} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local totals = {}
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], '0', 'PX', ARGV[2 * i], 'NX')
  totals[i - 1] = redis.call('INCRBY', KEYS[i], ARGV[2 * i - 1])
end
return totals
)";

std::string hash_name(std::uint32_t partition) {
  return "weir:{" + std::to_string(partition) + "}:1000:" + std::string(ordinal);
}

std::string string_name(const KeySet& keys, std::uint32_t key) {
  return keys.names[key] + ':' + std::string(ordinal);
}

/// @return the script's digest
std::string load(Wire& wire, std::string_view script) {
  constexpr std::size_t digest_length = 40;
  const std::string reply = wire.ask({"SCRIPT", "LOAD", script});
  if (reply.size() < digest_length + 2) throw std::runtime_error("SCRIPT LOAD: " + reply);
  return reply.substr(reply.size() - digest_length - 2, digest_length);
}

std::string with_answer(std::string_view script, std::string_view answer) {
  constexpr std::string_view place = "@ANSWER";
  std::string text(script);
  return text.replace(text.find(place), place.size(), answer);
}

void append_increment(std::string& output, const KeySet& keys, std::uint32_t key) {
  append_head(output, 3);
  append_word(output, "INCRBY");
  append_word(output, string_name(keys, key));
  append_word(output, std::int64_t{keys.counts[key]});
}

void append_hash_increments(std::string& output, const KeySet& keys, const CountBatch& batch) {
  const std::string name = hash_name(batch.partition);
  for (const std::uint32_t key : batch.keys) {
    append_head(output, 4);
    append_word(output, "HINCRBY");
    append_word(output, name);
    append_word(output, keys.names[key]);
    append_word(output, std::int64_t{keys.counts[key]});
  }
}

/// What calls a script on a partition's hash begins with.
void append_call(std::string& output, const CountBatch& batch, std::string_view verb, std::string_view script,
                 std::size_t arguments) {
  append_head(output, 4 + 2 + arguments);
  append_word(output, verb);
  append_word(output, script);
  append_word(output, "1");
  append_word(output, hash_name(batch.partition));
  append_word(output, static_cast<std::int64_t>(batch.sequence));
  append_word(output, life_in_ms);
}

auto words_layout(const std::string& digest) {
  return [digest](std::string& output, const KeySet& keys, const CountBatch& batch) -> std::uint64_t {
    append_call(output, batch, "EVALSHA", digest, 1 + 2 * batch.keys.size());
    append_word(output, long_marker);
    for (const std::uint32_t key : batch.keys) append_word(output, keys.names[key]);
    for (const std::uint32_t key : batch.keys) append_word(output, std::int64_t{keys.counts[key]});
    return 1;
  };
}

auto packed_layout(std::string_view verb, const std::string& script, std::string_view marker) {
  return [=](std::string& output, const KeySet& keys, const CountBatch& batch) -> std::uint64_t {
    append_call(output, batch, verb, script, 2);
    std::string packed;
    pack_array(packed, batch.keys.size());
    for (const std::uint32_t key : batch.keys) pack_integer(packed, keys.counts[key]);
    append_word(output, packed);
    packed.clear();
    pack_array(packed, 1 + batch.keys.size());
    pack_string(packed, marker);
    for (const std::uint32_t key : batch.keys) pack_string(packed, keys.names[key]);
    append_word(output, packed);
    return 1;
  };
}

std::uint64_t append_strings_call(std::string& output, const std::string& digest, const KeySet& keys,
                                  const CountBatch& batch) {
  append_head(output, 4 + batch.keys.size() + 2 + 2 * batch.keys.size());
  append_word(output, "EVALSHA");
  append_word(output, digest);
  append_word(output, static_cast<std::int64_t>(1 + batch.keys.size()));
  const std::string partition = "weir:{" + std::to_string(batch.partition) + "}:";
  append_word(output, partition + "applied:node-1");
  for (const std::uint32_t key : batch.keys) append_word(output, partition + string_name(keys, key));
  append_word(output, static_cast<std::int64_t>(batch.sequence));
  append_word(output, life_in_ms);
  for (const std::uint32_t key : batch.keys) {
    append_word(output, std::int64_t{keys.counts[key]});
    append_word(output, life_in_ms);
  }
  return 1;
}

}  // namespace

std::vector<Layout> make_layouts(Wire& wire) {
  std::vector<Layout> layouts;
  const auto add = [&](std::string name, std::string description, auto append, std::size_t batch = 512,
                       bool answers_sums = true) {
    layouts.push_back({std::move(name), std::move(description), batch, append, answers_sums});
  };

  add("incrby", "INCRBY pipelined: no TTL, no guarantee",
      [](std::string& output, const KeySet& keys, const CountBatch& batch) -> std::uint64_t {
        for (const std::uint32_t key : batch.keys) append_increment(output, keys, key);
        return batch.keys.size();
      });
  add(
      "incrby+pexpire", "INCRBY and PEXPIRE pipelined",
      [](std::string& output, const KeySet& keys, const CountBatch& batch) -> std::uint64_t {
        for (const std::uint32_t key : batch.keys) {
          append_increment(output, keys, key);
          append_command(output, {"PEXPIRE", string_name(keys, key), life_in_ms});
        }
        return 2 * batch.keys.size();
      },
      512, false);
  add("strings script", "script: SET NX PX and INCRBY for each key, and a marker",
      [digest = load(wire, strings_script)](std::string& output, const KeySet& keys,
                                            const CountBatch& batch) {
        return append_strings_call(output, digest, keys, batch);
      });
  add("hincrby", "HINCRBY pipelined, one hash per partition: no TTL, no guarantee",
      [](std::string& output, const KeySet& keys, const CountBatch& batch) -> std::uint64_t {
        append_hash_increments(output, keys, batch);
        return batch.keys.size();
      });
  add("multi hincrby", "the same between MULTI and EXEC: atomic, but applied twice when sent twice",
      [](std::string& output, const KeySet& keys, const CountBatch& batch) -> std::uint64_t {
        append_command(output, {"MULTI"});
        append_hash_increments(output, keys, batch);
        append_command(output, {"EXEC"});
        return batch.keys.size() + 2;
      });
  add("loop script", "script: HINCRBY for each key, and a marker", words_layout(load(wire, loop_script)));
  add("bulk script", "script: one HMGET, one HSET", words_layout(load(wire, bulk_script)));
  const std::string packed = load(wire, with_answer(packed_script, "cmsgpack.pack(counts)"));
  add("packed, integers", "the same, names and counts as MessagePack; an array of integers as the answer",
      packed_layout("EVALSHA", load(wire, with_answer(packed_script, "counts")), long_marker));
  add("packed", "the same, the answer as MessagePack too", packed_layout("EVALSHA", packed, long_marker), 512,
      false);
  add("packed/128", "the same, batches of 128", packed_layout("EVALSHA", packed, long_marker), 128, false);
  add("packed/1024", "the same, batches of 1024", packed_layout("EVALSHA", packed, long_marker), 1024, false);
  add("packed, short", "\"packed\" with a marker so short that small hashes are kept as lists",
      packed_layout("EVALSHA", packed, short_marker), 512, false);
  wire.ask({"FUNCTION", "LOAD", "REPLACE",
            "#!lua name=weir_bench\nredis.register_function('weir_bench_apply', function(KEYS, ARGV)\n" +
                with_answer(packed_script, "cmsgpack.pack(counts)") + "\nend)\n"});
  add("packed function", "\"packed\" as a function of the server instead of a script",
      packed_layout("FCALL", "weir_bench_apply", long_marker), 512, false);
  return layouts;
}

std::vector<std::vector<std::uint32_t>> partitioned(const KeySet& keys) {
  std::vector<std::vector<std::uint32_t>> partitions(store_partitions);
  for (std::uint32_t key = 0; key < keys.size(); ++key)
    partitions[partition_of(keys.names[key])].push_back(key);
  return partitions;
}

}  // namespace weir::bench
