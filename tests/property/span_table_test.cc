// SPDX-License-Identifier: BSD-3-Clause
// A span table against a plain map, while it grows: whatever keys come in whatever spans, what is counted by
// name is what was, each of it once, and who found no place was told so. And no key's line says that it is
// refused when its block has ended.
#include "shared/span_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::seed;

constexpr RuleIndex rules = 12;
constexpr RuleIndex own_rule = 3;  // without dimensions

struct Counts {
  RuleIndex rule = no_rule;
  std::uint64_t admitted = 0;
  std::uint64_t refused = 0;
  bool operator==(const Counts&) const = default;
};

constexpr Duration span_length = 100ms;
/// For how long what a drain leaves in place is to hold.
constexpr Duration kept_for = 4 * span_length;

std::string name_of(std::uint64_t key) { return std::to_string(key).substr(0, key % 21); }

class GrowingTables : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }
  bool one_in(std::uint64_t count) { return random_() % count == 0; }
  std::uint64_t key() {
    const std::uint64_t key = random_() | 1;
    // Some share the line they would be in.
    return one_in(50) ? (key & 0xffffffff) : key;
  }

  /// By the key's line, as a worker does. @return whether it has been
  bool refuses_by_line(SpanTable& table, std::uint64_t key, SpanTable::Place place, std::uint64_t weight) {
    if (now_ >= glances_end_) return false;
    std::uint32_t nothing = 0;
    std::uint32_t* word = &table.lines().ready_at(place, key, generation_, nothing);
    const auto still_holds = [&](std::uint32_t, std::uint32_t) { return one_in(2); };
    if (!SpanTable::Lines::refuses(*word))
      word = table.refusal_that_lasts(place, key, generation_, still_holds);
    if (word == nullptr || !SpanTable::Lines::refuse(*word, weight)) return false;
    EXPECT_LT(now_, blocked_[key]);
    table.met_again = true;
    return true;
  }

  /// Looks at a key that is open. @return whether it is refused, and counted as such
  bool refuses(SpanTable& table, std::uint64_t key, SpanTable::Place place, std::uint64_t weight) {
    table.set_aside(place, generation_, [](std::uint32_t, std::uint32_t) { return false; });
    if (one_in(30)) blocked_[key] = now_ + Duration(up_to(Duration(2s).count()));
    const bool refused = now_ < blocked_[key];
    EXPECT_TRUE(table.set_terms(
        place,
        {.allowance = 1, .blocked_until = refused ? blocked_[key] : never, .block_is_published = refused}));
    if (!refused) return false;
    table.count_refused(table.entry(place), weight);
    if (blocked_[key] >= glances_end_) table.refuse_from_now_on(place, true);
    return true;
  }

  void begin_span(const SpanTable& table) {
    now_ += span_length;
    ++generation_;
    glances_end_ = std::min(now_ + span_length + span_length / 2, table.kept_until());
  }

  /// One span. @return what was counted by name
  std::map<std::uint64_t, Counts> count(SpanTable& table, std::uint64_t requests) {
    std::map<std::uint64_t, Counts> counted;
    for (; requests > 0; --requests) {
      if (one_in(100)) ++generation_;
      if (one_in(50)) now_ += span_length / 50;
      const bool of_rule = one_in(100);
      if (known_.empty() || one_in(2)) known_.push_back(key());
      const std::uint64_t key = of_rule ? 77 : known_[up_to(known_.size() - 1)];
      const RuleIndex rule = of_rule ? own_rule : static_cast<RuleIndex>(key % own_rule);
      SpanTable::Place place = of_rule ? table.place_of_rule(own_rule) : table.locate(key);
      if (place != SpanTable::nowhere && !of_rule && !table.holds(place, key)) continue;  // a twin's
      const std::string name = name_of(key);
      const auto bytes = std::as_bytes(std::span(name));
      if (of_rule && !table.holds(place, key)) place = table.insert_rule(key, rule, bytes);
      if (place == SpanTable::nowhere) place = table.insert(key, rule, bytes);
      if (place == SpanTable::nowhere) {
        EXPECT_FALSE(counted.contains(key));  // who has been counted in this span keeps its place
        continue;
      }
      const std::uint64_t weight = 1 + up_to(3);
      if (refuses_by_line(table, key, place, weight)) {
        counted[key].rule = rule;
        counted[key].refused += weight;
        continue;
      }
      if (!table.is_open(place)) table.open(place);
      if (refuses(table, key, place, weight)) {
        counted[key].rule = rule;
        counted[key].refused += weight;
        continue;
      }
      const std::uint64_t admitted = up_to(5);
      table.add_credit(place, admitted);
      table.charge(place, admitted);
      const std::uint64_t refused = up_to(1);
      table.count_refused(table.entry(place), refused);
      Counts& counts = counted[key];
      counts = {rule, counts.admitted + admitted, counts.refused + refused};
    }
    return counted;
  }

  /// Tells of all that was counted, but for refusals that may wait for their turn.
  void drain(SpanTable& table, const std::map<std::uint64_t, Counts>& counted) {
    std::map<std::uint64_t, Counts> expected = std::exchange(untold_, {});
    for (const auto& [key, counts] : counted) {
      Counts& sum = expected[key];
      sum = {counts.rule, sum.admitted + counts.admitted, sum.refused + counts.refused};
    }
    const MonotonicTime keep_until = one_in(10) ? SpanTable::keep_none : now_ + kept_for;
    table.drain(
        std::vector<std::uint64_t>(rules, 10), keep_until, {.count = turns_, .ahead = turns_ / 2},
        [&](std::span<const CountedKey> keys) {
          for (const CountedKey& key : keys) {
            const std::string name = name_of(key.key);
            EXPECT_TRUE(std::ranges::equal(key.name, std::as_bytes(std::span(name))));
            EXPECT_EQ((Counts{key.rule, key.admitted, key.offered - key.admitted}), expected[key.key]);
            expected.erase(key.key);
          }
        });
    for (const auto& [key, counts] : expected) {
      EXPECT_EQ(counts.admitted, 0U);
      EXPECT_GE(blocked_[key], keep_until);
      EXPECT_LT(++waited_[key], turns_);
    }
    std::erase_if(waited_, [&](const auto& waited) { return !expected.contains(waited.first); });
    untold_ = std::move(expected);
    waits_ += untold_.size();
  }

  std::mt19937_64 random_{seed() + GetParam()};
  std::vector<std::uint64_t> known_;
  std::map<std::uint64_t, MonotonicTime> blocked_;  // until when
  unsigned turns_ = 1U << up_to(3);
  std::map<std::uint64_t, Counts> untold_;
  std::map<std::uint64_t, unsigned> waited_;  // for so many drains
  MonotonicTime now_ = MonotonicTime(1h);
  MonotonicTime glances_end_{};
  std::uint32_t generation_ = 1;
  std::uint64_t left_open_ = 0;  // keys, at the spans' ends
  std::uint64_t waits_ = 0;      // of keys that have been refused something
};

TEST_P(GrowingTables, CountAsAPlainMapDoesWhateverKeysComeInWhateverSpans) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  const auto keys = static_cast<std::uint32_t>(1 + up_to(20'000));
  SpanTable table(keys, rules, static_cast<std::uint32_t>(1 + up_to(keys / 4)));
  if (one_in(2)) table.touch_pages();
  for (int span = 0; span < 60; ++span) {
    begin_span(table);
    const std::uint32_t left_open = table.size();
    const std::map<std::uint64_t, Counts> counted = count(table, one_in(4) ? up_to(keys) : up_to(300));
    ASSERT_LE(counted.size(), table.size()) << span;
    ASSERT_LE(table.size(), counted.size() + left_open) << span;
    ASSERT_EQ(table.empty(), counted.empty()) << span;
    drain(table, counted);
    ASSERT_FALSE(HasFailure()) << span;
    table.renew();
    left_open_ += table.size();
    table.grow(one_in(10) ? static_cast<std::uint32_t>(up_to(2 * keys)) : 0);
    ASSERT_TRUE(table.empty());
    if (one_in(20)) {
      drain(table, {});
      ASSERT_FALSE(HasFailure()) << span;
      table.renew();
    }
    if (one_in(20)) {
      table.clear();
      untold_.clear();
      waited_.clear();
    }
    if (one_in(10)) known_.clear();
  }
  EXPECT_GT(left_open_, 0U) << "nobody has been blocked for long";
  EXPECT_TRUE(turns_ == 1 ? waits_ == 0 : waits_ > 0) << waits_;
}

INSTANTIATE_TEST_SUITE_P(Seeds, GrowingTables, ::testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace weir
