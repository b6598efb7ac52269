// SPDX-License-Identifier: BSD-3-Clause
#include "stored_counters.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <ostream>

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

struct HashName {
  std::uint32_t partition;
  Duration interval;
  Ordinal ordinal;
};

/// "{partition}:interval_ms:ordinal", what follows the prefix.
std::optional<HashName> parsed(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  const std::size_t brace = text.find("}:");
  if (brace == std::string_view::npos) return std::nullopt;
  const std::size_t colon = text.find(':', brace + 2);
  if (colon == std::string_view::npos) return std::nullopt;
  const auto partition = whole_number<std::uint32_t>(text.substr(1, brace - 1));
  const auto interval = whole_number<std::int64_t>(text.substr(brace + 2, colon - brace - 2));
  const auto ordinal = whole_number<std::int64_t>(text.substr(colon + 1));
  if (!partition || !interval || !ordinal) return std::nullopt;
  return HashName{*partition, std::chrono::milliseconds{*interval}, *ordinal};
}

}  // namespace

void PrintTo(const CounterId& id, std::ostream* out) {
  *out << id.name << ':' << id.ordinal << " of " << id.interval / std::chrono::milliseconds{1} << " ms";
}

std::string StoredCounters::name_in_store(std::string_view name, Ordinal ordinal, Duration interval) const {
  return prefix_ + ":{" + std::to_string(partition_of(name)) +
         "}:" + std::to_string(interval / std::chrono::milliseconds{1}) + ':' + std::to_string(ordinal);
}

std::int64_t StoredCounters::value(const std::string& name, Ordinal ordinal, Duration interval) const {
  const std::string hash = name_in_store(name, ordinal, interval);
  for (RedisClient* client : clients_) {
    const Answer answer = client->try_command({"HGET", hash, name});
    if (answer.type == REDIS_REPLY_STRING) return std::strtoll(answer.text.c_str(), nullptr, 10);
  }
  return 0;
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
