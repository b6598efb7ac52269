// SPDX-License-Identifier: BSD-3-Clause
#include "filter/queue_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::filter {
namespace {

using Pairs = std::vector<PortPair>;
using Ids = std::vector<std::uint16_t>;

TEST(ChoosePairs, PairsWhatThereIsInOrder) {
  const PairsResult result = choose_pairs({}, Ids{0, 1, 4, 7});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.pairs, (Pairs{{0, 1}, {4, 7}}));
}

TEST(ChoosePairs, TakesTheConfiguredOnes) {
  const PairsResult result = choose_pairs(Pairs{{2, 0}}, Ids{0, 1, 2});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.pairs, (Pairs{{2, 0}}));
}

TEST(ChoosePairs, RefusesNoPortsAndAnOddNumber) {
  EXPECT_NE(choose_pairs({}, Ids{}).error.find("no ports"), std::string::npos);
  EXPECT_NE(
      choose_pairs({}, Ids{0, 1, 3}).error.find("odd number of ports cannot be paired (DPDK ports: 0, 1, 3)"),
      std::string::npos);
}

TEST(ChoosePairs, RefusesPortsThatDoNotExistOrComeTwice) {
  EXPECT_NE(
      choose_pairs(Pairs{{0, 9}}, Ids{0, 1}).error.find("port 9, which does not exist (DPDK ports: 0, 1)"),
      std::string::npos);
  EXPECT_NE(choose_pairs(Pairs{{0, 1}, {1, 2}}, Ids{0, 1, 2}).error.find("port 1 twice"), std::string::npos);
  EXPECT_NE(choose_pairs(Pairs{{1, 1}}, Ids{0, 1}).error.find("port 1 twice"), std::string::npos);
  EXPECT_NE(choose_pairs(Pairs{{0, 1}}, Ids{}).error.find("DPDK ports: none"), std::string::npos);
}

std::vector<PortQueues> ports_with(const Pairs& pairs, std::uint16_t queues) {
  std::vector<PortQueues> ports;
  for (const auto& [first, second] : pairs) {
    ports.push_back({first, queues, queues});
    ports.push_back({second, queues, queues});
  }
  return ports;
}

TEST(PlanQueues, GivesWorkerIQueueIOfEveryPair) {
  const Pairs pairs{{0, 1}, {2, 3}};
  const QueuePlan plan = plan_queues(pairs, ports_with(pairs, 8), 3, 0);
  EXPECT_FALSE(plan.distribute);
  EXPECT_EQ(plan.queues, 3);
  ASSERT_EQ(plan.workers, 3U);
  for (std::uint16_t i = 0; i < 3; ++i)
    EXPECT_EQ(plan.polled[i], (std::vector<QueueSet>{{{0, 1}, i}, {{2, 3}, i}}));
}

TEST(PlanQueues, GivesAWorkerToEachPairWhenThereIsOneQueue) {
  const Pairs pairs{{0, 1}, {2, 3}};
  const QueuePlan plan = plan_queues(pairs, ports_with(pairs, 1), 2, 0);
  EXPECT_FALSE(plan.distribute);
  ASSERT_EQ(plan.workers, 2U);
  EXPECT_EQ(plan.polled[0], (std::vector<QueueSet>{{{0, 1}, 0}}));
  EXPECT_EQ(plan.polled[1], (std::vector<QueueSet>{{{2, 3}, 0}}));
}

TEST(PlanQueues, DistributesWhereThereIsOneQueueAndMoreLcoresThanPairs) {
  const Pairs pairs{{0, 1}};
  const QueuePlan plan = plan_queues(pairs, ports_with(pairs, 1), 4, 0);
  EXPECT_TRUE(plan.distribute);
  EXPECT_EQ(plan.workers, 3U);
  EXPECT_EQ(plan.lcores(), 4U);
  EXPECT_EQ(plan.polled, (std::vector<std::vector<QueueSet>>{{{{0, 1}, 0}}}));
}

TEST(PlanQueues, OneWorkerDoesItAll) {
  const Pairs pairs{{0, 1}, {2, 3}};
  const QueuePlan plan = plan_queues(pairs, ports_with(pairs, 4), 1, 0);
  EXPECT_FALSE(plan.distribute);
  EXPECT_EQ(plan.queues, 1);
  EXPECT_EQ(plan.polled, (std::vector<std::vector<QueueSet>>{{{{0, 1}, 0}, {{2, 3}, 0}}}));
}

TEST(PlanQueues, TheWeakestPortDecides) {
  const Pairs pairs{{0, 1}};
  const std::vector<PortQueues> ports{{0, 8, 8}, {1, 8, 2}};
  EXPECT_EQ(plan_queues(pairs, ports, 4, 0).queues, 2);
  EXPECT_EQ(plan_queues(pairs, ports, 4, 0).workers, 2U);
}

TEST(PlanQueues, APortThatSaysItHasNoQueuesGetsOneAndFailsLater) {
  const Pairs pairs{{0, 1}};
  EXPECT_EQ(plan_queues(pairs, ports_with(pairs, 0), 1, 0).queues, 1);
}

TEST(PlanQueues, TheConfigurationCanOnlyTakeAway) {
  const Pairs pairs{{0, 1}};
  EXPECT_EQ(plan_queues(pairs, ports_with(pairs, 8), 4, 2).queues, 2);
  EXPECT_EQ(plan_queues(pairs, ports_with(pairs, 8), 4, 6).queues, 4);
  EXPECT_TRUE(plan_queues(pairs, ports_with(pairs, 8), 4, 1).distribute);
}

TEST(PlanQueues, EveryQueueIsPolledByExactlyOneThreadWhichHasOneQueuePerPort) {
  for (std::uint16_t pair_count = 1; pair_count <= 5; ++pair_count) {
    Pairs pairs;
    for (std::uint16_t i = 0; i < pair_count; ++i)
      pairs.emplace_back(static_cast<std::uint16_t>(2 * i), static_cast<std::uint16_t>(2 * i + 1));
    for (std::uint16_t queues = 1; queues <= 6; ++queues) {
      for (unsigned lcores = 1; lcores <= 12; ++lcores) {
        const QueuePlan plan = plan_queues(pairs, ports_with(pairs, queues), lcores, 0);
        ASSERT_LE(plan.lcores(), lcores);
        ASSERT_GE(plan.workers, 1U);
        std::set<std::pair<std::uint16_t, std::uint16_t>> polled;
        for (const std::vector<QueueSet>& thread : plan.polled) {
          std::set<std::uint16_t> ports;
          ASSERT_FALSE(thread.empty());
          for (const QueueSet& set : thread) {
            ASSERT_TRUE(ports.insert(set.ports.first).second);
            ASSERT_TRUE(ports.insert(set.ports.second).second);
            ASSERT_TRUE(polled.insert({set.ports.first, set.queue}).second);
          }
        }
        ASSERT_EQ(polled.size(), std::size_t{pair_count} * plan.queues);
      }
    }
  }
}

using Lcores = std::vector<unsigned>;

TEST(PlanText, SaysWhoPollsWhat) {
  const Pairs pairs{{0, 1}, {2, 3}};
  EXPECT_EQ(plan_text(pairs, plan_queues(pairs, ports_with(pairs, 8), 3, 0), Lcores{1, 2, 5}, 12),
            "ports 0-1 2-3; queues per port: 3; workers: 3 (lcores 1, 2, 5), each polling 4 receive queues; "
            "rules: 12");
  EXPECT_EQ(plan_text(pairs, plan_queues(pairs, ports_with(pairs, 1), 1, 0), Lcores{1}, 1),
            "ports 0-1 2-3; queues per port: 1; workers: 1 (lcore 1), polling 4 receive queues; rules: 1");
  EXPECT_EQ(
      plan_text(pairs, plan_queues(pairs, ports_with(pairs, 1), 1, 0), Lcores{}, 0),
      "ports 0-1 2-3; queues per port: 1; workers: 1 (the main lcore), polling 4 receive queues; rules: 0");
}

TEST(PlanText, SaysWhoDistributesToWhom) {
  const Pairs pairs{{0, 1}};
  EXPECT_EQ(
      plan_text(pairs, plan_queues(pairs, ports_with(pairs, 1), 3, 0), Lcores{4, 6, 7}, 1),
      "ports 0-1; queues per port: 1; workers: 2 (lcores 6, 7), and lcore 4, which polls 2 receive queues, "
      "distributes to them by flow, and sends; rules: 1");
}

TEST(PlanText, SaysWhatIsUnevenAndWhoHasNothingToDo) {
  const Pairs pairs{{0, 1}, {2, 3}, {4, 5}};
  EXPECT_EQ(
      plan_text(pairs, plan_queues(pairs, ports_with(pairs, 1), 2, 0), Lcores{1, 2}, 1),
      "ports 0-1 2-3 4-5; queues per port: 1; workers: 2 (lcores 1, 2), each polling 2 to 4 receive queues; "
      "rules: 1");
  const Pairs pair{{0, 1}};
  EXPECT_EQ(
      plan_text(pair, plan_queues(pair, ports_with(pair, 2), 4, 0), Lcores{1, 2, 3, 4}, 1),
      "ports 0-1; queues per port: 2; workers: 2 (lcores 1, 2), each polling 2 receive queues; rules: 1; "
      "lcores without work: 3, 4 (the ports have no more queues)");
}

TEST(PlanText, SaysWhetherThePortsOrTheConfigurationLeaveLcoresWithoutWork) {
  const Pairs pair{{0, 1}};
  const auto text = [&](std::uint16_t ports, std::uint16_t configured) {
    return plan_text(pair, plan_queues(pair, ports_with(pair, ports), 4, configured), Lcores{1, 2, 3, 4}, 1);
  };
  const std::string idle = "rules: 1; lcores without work: 3, 4 ";
  EXPECT_TRUE(text(8, 2).ends_with(idle + "([ports] queues = 2 leaves them none)")) << text(8, 2);
  EXPECT_TRUE(text(2, 3).ends_with(idle + "(the ports have no more queues)")) << text(2, 3);
  // More would have to be written, and be there.
  EXPECT_TRUE(text(2, 2).ends_with(idle + "(the ports have no more queues)")) << text(2, 2);
  EXPECT_TRUE(text(8, 8).ends_with("; rules: 1")) << text(8, 8);
}

}  // namespace
}  // namespace weir::filter
