// SPDX-License-Identifier: BSD-3-Clause
#include "stored_counters.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <ostream>
#include <span>

#include "base/keyed_hash.h"
#include "base/whole_number.h"
#include "store/outbox.h"

namespace weir {
namespace {

/// A pattern that matches the text itself.
std::string literally(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]\\^-").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::map<std::string, std::string> fields_of(const Answer& answer) {
  std::map<std::string, std::string> fields;
  for (std::size_t i = 0; i + 1 < answer.elements.size(); i += 2)
    fields[answer.elements[i]] = answer.elements[i + 1];
  return fields;
}

struct HashName {
  bool exchanged;
  std::uint32_t partition;
  Duration interval;
  Ordinal ordinal;
};

/// "{partition}:interval_ms:ordinal", what follows the prefix; or "{partition}:x:interval_ms:ordinal".
std::optional<HashName> parsed(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  const std::size_t brace = text.find("}:");
  if (brace == std::string_view::npos) return std::nullopt;
  const bool exchanged = text.substr(brace).starts_with("}:x:");
  const std::size_t begin = brace + (exchanged ? 4 : 2);
  const std::size_t colon = text.find(':', begin);
  if (colon == std::string_view::npos) return std::nullopt;
  const auto partition = whole_number<std::uint32_t>(text.substr(1, brace - 1));
  const auto interval = whole_number<std::int64_t>(text.substr(begin, colon - begin));
  const auto ordinal = whole_number<std::int64_t>(text.substr(colon + 1));
  if (!partition || !interval || !ordinal) return std::nullopt;
  return HashName{exchanged, *partition, std::chrono::milliseconds{*interval}, *ordinal};
}

}  // namespace

void PrintTo(const CounterId& id, std::ostream* out) {
  *out << id.name << ':' << id.ordinal << " of " << id.interval / std::chrono::milliseconds{1} << " ms";
}

std::string StoredCounters::name_in_store(std::string_view name, Ordinal ordinal, Duration interval) const {
  return prefix_ + ":{" + std::to_string(partition_of(name)) +
         "}:" + std::to_string(interval / std::chrono::milliseconds{1}) + ':' + std::to_string(ordinal);
}

std::string StoredCounters::logs_in_store(std::string_view name, Ordinal ordinal, Duration interval) const {
  return prefix_ + ":{" + std::to_string(partition_of(name)) +
         "}:x:" + std::to_string(interval / std::chrono::milliseconds{1}) + ':' + std::to_string(ordinal);
}

std::int64_t StoredCounters::value(const std::string& name, Ordinal ordinal, Duration interval) const {
  const std::string hash = name_in_store(name, ordinal, interval);
  const std::string logs = logs_in_store(name, ordinal, interval);
  for (RedisClient* client : clients_) {
    const Answer answer = client->try_command({"HGET", hash, name});
    if (answer.type == REDIS_REPLY_STRING) return std::strtoll(answer.text.c_str(), nullptr, 10);
    const Fields fields = fields_of(client->try_command({"HGETALL", logs}));
    if (!fields.empty()) return exchanged(logs, fields)[id_of(name, fields)];
  }
  return 0;
}

std::uint64_t StoredCounters::id_of(std::string_view name, const Fields& fields) {
  const auto seed = fields.find("~seed");
  if (seed == fields.end()) return 0;
  const Digest128 key = digest128({}, std::as_bytes(std::span(seed->second)));
  return keyed_hash({key.low, key.high}, 0, std::as_bytes(std::span(name)));
}

std::map<std::uint64_t, std::int64_t> StoredCounters::exchanged(const std::string& key,
                                                                const Fields& fields) {
  constexpr std::size_t writer_length = 24;
  std::map<std::uint64_t, std::int64_t> sums;
  std::size_t seen = 2;  // the seed and the table of the logs
  const auto add_up = [&](const std::string& field) {
    const auto piece = fields.find(field);
    if (piece == fields.end()) {
      ADD_FAILURE() << key << " lacks " << field;
      return;
    }
    ++seen;
    const std::string& bytes = piece->second;
    for (std::size_t at = 0; at < bytes.size();) {
      std::uint64_t id = 0;
      for (int shift = 0; shift < 64; shift += 8)
        id |= std::uint64_t{static_cast<unsigned char>(bytes.at(at++))} << shift;
      std::int64_t delta = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes.at(at++));
        delta |= std::int64_t{byte & 0x7f} << shift;
        if (byte < 0x80) break;
      }
      sums[id] += delta;
    }
  };
  const auto logs = fields.find("~logs");
  if (logs == fields.end() || !fields.contains("~seed")) {
    ADD_FAILURE() << key << " has no logs";
    return sums;
  }
  for (std::size_t at = 0; at < logs->second.size();) {
    const std::string writer = logs->second.substr(at, writer_length);
    at += writer_length;
    const auto number = [&] {
      std::uint64_t value = 0;
      for (int i = 0; i < 6; ++i) value = value << 8 | static_cast<unsigned char>(logs->second.at(at++));
      return value;
    };
    const std::uint64_t generation = number();
    const std::uint64_t summaries = number();
    const std::uint64_t covered = number();
    const std::uint64_t next = number();
    at += 6;  // the largest of its pieces
    for (std::uint64_t i = 0; i < summaries; ++i)
      add_up(writer + ':' + std::to_string(generation) + '.' + std::to_string(i));
    for (std::uint64_t i = covered; i < next; ++i) add_up(writer + ':' + std::to_string(i));
  }
  EXPECT_EQ(seen, fields.size()) << key << " holds what belongs to no log";
  return sums;
}

std::map<CounterId, std::int64_t> StoredCounters::all() const {
  std::map<CounterId, std::int64_t> counters;
  for (RedisClient* client : clients_) {
    const std::vector<std::string> keys = client->names(literally(prefix_) + ":*");
    std::vector<std::vector<std::string>> questions;
    for (const std::string& key : keys) questions.push_back({"HGETALL", key});
    const std::vector<Answer> answers = client->commands(questions);
    for (std::size_t i = 0; i < answers.size(); ++i) add(keys[i], answers[i], counters);
  }
  return counters;
}

void StoredCounters::add(const std::string& key, const Answer& fields,
                         std::map<CounterId, std::int64_t>& counters) const {
  const auto hash = parsed(std::string_view(key).substr(prefix_.size() + 1));
  if (!hash || fields.type != REDIS_REPLY_ARRAY) {
    ADD_FAILURE() << key << " is no hash of counters";
    return;
  }
  if (hash->exchanged) {
    const Fields logs = fields_of(fields);
    if (logs.empty()) return;  // expired in between
    std::map<std::uint64_t, std::string> names;
    for (const std::string& name : names_)
      if (partition_of(name) == hash->partition) names[id_of(name, logs)] = name;
    for (const auto& [id, value] : exchanged(key, logs)) {
      const auto name = names.find(id);
      counters[{name == names.end() ? "id " + std::to_string(id) + " in " + key : name->second, hash->ordinal,
                hash->interval}] += value;
    }
    return;
  }
  for (std::size_t i = 0; i + 1 < fields.elements.size(); i += 2) {
    const std::string& name = fields.elements[i];
    if (name.starts_with('~')) continue;  // a marker
    EXPECT_EQ(partition_of(name), hash->partition) << name << " in " << key;
    const auto value = whole_number<std::int64_t>(fields.elements[i + 1]);
    EXPECT_TRUE(value) << name << " in " << key << " is " << fields.elements[i + 1];
    const bool first =
        counters.emplace(CounterId{name, hash->ordinal, hash->interval}, value.value_or(0)).second;
    EXPECT_TRUE(first) << name << " in " << key << " is in two servers";
  }
}

std::int64_t StoredCounters::sum() const {
  std::int64_t sum = 0;
  for (const auto& [id, value] : all()) sum += value;
  return sum;
}

std::vector<std::pair<std::string, std::chrono::milliseconds>> StoredCounters::lives() const {
  std::vector<std::pair<std::string, std::chrono::milliseconds>> result;
  for (RedisClient* client : clients_) {
    const std::vector<std::string> keys = client->names(literally(prefix_) + ":*");
    std::vector<std::vector<std::string>> questions;
    for (const std::string& key : keys) questions.push_back({"PTTL", key});
    const std::vector<Answer> answers = client->commands(questions);
    for (std::size_t i = 0; i < answers.size(); ++i) result.emplace_back(keys[i], answers[i].integer);
  }
  return result;
}

void StoredCounters::expect_that_all_expire() const {
  for (const auto& [name, life] : lives())
    // -2: it has expired in between.
    EXPECT_TRUE(life > std::chrono::milliseconds{0} || life == std::chrono::milliseconds{-2})
        << name << " never expires";
}

void StoredCounters::put(const std::string& name, Ordinal ordinal, std::int64_t value,
                         std::chrono::milliseconds life) const {
  const std::string hash = name_in_store(name, ordinal);
  clients_[0]->command({"HSET", hash, name, std::to_string(value)});
  clients_[0]->command({"PEXPIRE", hash, std::to_string(life.count())});
}

}  // namespace weir
