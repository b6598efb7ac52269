// SPDX-License-Identifier: BSD-3-Clause
#include "counter_sums.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "store/exchange/records.h"
#include "store/outbox.h"

namespace weir::bench {

void expect_sum(std::string_view contender, std::uint64_t stored, std::uint64_t added) {
  if (stored != added)
    throw std::runtime_error(std::string(contender) + ": the server's counters are " +
                             std::to_string(stored) + " in all, added were " + std::to_string(added));
}

std::uint64_t sum_of_strings(RedisClient& client, const KeySet& keys, Ordinal ordinal) {
  constexpr std::size_t at_once = 1000;
  std::uint64_t sum = 0;
  for (std::size_t begin = 0; begin < keys.size(); begin += at_once) {
    std::vector<std::string> words{"MGET"};
    for (std::size_t i = begin; i < std::min(begin + at_once, keys.size()); ++i)
      words.push_back(keys.names[i] + ':' + std::to_string(ordinal));
    const Reply reply = client.command(words);
    for (std::size_t i = 0; i < reply->elements; ++i)
      if (reply->element[i]->type == REDIS_REPLY_STRING)
        sum += std::strtoull(reply->element[i]->str, nullptr, 10);
  }
  return sum;
}

std::uint64_t sum_of_hashes(RedisClient& client, const std::string& prefix, Duration interval,
                            Ordinal ordinal) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(interval).count();
  std::uint64_t sum = 0;
  for (std::uint32_t partition = 0; partition < store_partitions; ++partition) {
    const Reply reply =
        client.command({"HGETALL", prefix + ":{" + std::to_string(partition) +
                                       "}:" + std::to_string(milliseconds) + ':' + std::to_string(ordinal)});
    for (std::size_t i = 0; i + 1 < reply->elements; i += 2)
      // Markers are no counters.
      if (reply->element[i]->str[0] != '~') sum += std::strtoull(reply->element[i + 1]->str, nullptr, 10);
  }
  return sum;
}

std::uint64_t sum_of_logs(RedisClient& client, const std::string& prefix, Duration interval,
                          Ordinal ordinal) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(interval).count();
  std::uint64_t sum = 0;
  for (std::uint32_t partition = 0; partition < store_partitions; ++partition) {
    const Reply reply = client.command({"HGETALL", prefix + ":{" + std::to_string(partition) +
                                                       "}:x:" + std::to_string(milliseconds) + ':' +
                                                       std::to_string(ordinal)});
    for (std::size_t i = 0; i + 1 < reply->elements; i += 2) {
      // The others tell of the logs.
      if (std::string_view(reply->element[i]->str).find(':') == std::string_view::npos) continue;
      RecordReader reader({reply->element[i + 1]->str, reply->element[i + 1]->len});
      while (const auto record = reader.next()) sum += record->delta;
    }
  }
  return sum;
}

std::uint64_t sum_of(StoreLayout layout, RedisClient& client, const std::string& prefix, const KeySet& keys,
                     Duration interval, Ordinal ordinal) {
  switch (layout) {
    case StoreLayout::hash:
      return sum_of_hashes(client, prefix, interval, ordinal);
    case StoreLayout::plain:
      return sum_of_strings(client, keys, ordinal);
    case StoreLayout::exchange:
      break;
  }
  return sum_of_logs(client, prefix, interval, ordinal);
}

}  // namespace weir::bench
