// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What stands in the store, read back without weir's help. All that tests know of the layout is here.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis_client.h"
#include "store/store.h"

namespace weir {

/// Which counter.
struct CounterId {
  std::string name;
  Ordinal ordinal = 0;
  Duration interval = std::chrono::seconds{1};

  auto operator<=>(const CounterId&) const = default;
};
void PrintTo(const CounterId& id, std::ostream* out);

/// Counters of one prefix, in one server or in all masters of a cluster. Not for replicas: they would be read
/// twice.
class StoredCounters {
 public:
  /// @param names  that counters may have which nodes exchange: of those, the store holds ids alone
  explicit StoredCounters(RedisClient& client, std::string prefix = "weir",
                          std::vector<std::string> names = {})
      : StoredCounters(std::vector<RedisClient*>{&client}, std::move(prefix), std::move(names)) {}
  explicit StoredCounters(std::vector<RedisClient*> clients, std::string prefix = "weir",
                          std::vector<std::string> names = {})
      : clients_(std::move(clients)), prefix_(std::move(prefix)), names_(std::move(names)) {}

  /// 0 where there is none; less than 0 where more has been returned than claimed.
  std::int64_t value(const std::string& name, Ordinal ordinal,
                     Duration interval = std::chrono::seconds{1}) const;
  /// Every counter there is. A counter in a partition that is not its own fails the test.
  std::map<CounterId, std::int64_t> all() const;
  std::int64_t sum() const;

  /// Every name in the store under the prefix, and what is left of its life; < 0: it has none.
  std::vector<std::pair<std::string, std::chrono::milliseconds>> lives() const;
  /// Fails the test for each name that would live for ever.
  void expect_that_all_expire() const;

  /// The name in the store that holds the logs of a counter that nodes exchange.
  std::string logs_in_store(std::string_view name, Ordinal ordinal,
                            Duration interval = std::chrono::seconds{1}) const;
  /// The name in the store that holds a counter.
  std::string name_in_store(std::string_view name, Ordinal ordinal,
                            Duration interval = std::chrono::seconds{1}) const;
  /// Puts a counter there, as another node would have.
  void put(const std::string& name, Ordinal ordinal, std::int64_t value,
           std::chrono::milliseconds life = std::chrono::minutes{10}) const;

 private:
  using Fields = std::map<std::string, std::string>;

  void add(const std::string& key, const Answer& fields, std::map<CounterId, std::int64_t>& counters) const;
  /// All logs of a group added up, by id.
  static std::map<std::uint64_t, std::int64_t> exchanged(const std::string& key, const Fields& fields);
  static std::uint64_t id_of(std::string_view name, const Fields& fields);

  std::vector<RedisClient*> clients_;
  std::string prefix_;
  std::vector<std::string> names_;
};

}  // namespace weir
