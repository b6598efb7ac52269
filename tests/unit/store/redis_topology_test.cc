// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "replies.h"
#include "store/outbox.h"
#include "store/redis/batch_command.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using ::testing::SizeIs;
using Type = RedisReply::Type;

const RedisEndpoint asked{.host = "10.0.0.9", .port = 7009};

TEST(ClusterSlot, IsTheSpecificationsChecksum) {
  EXPECT_EQ(cluster_slot("123456789"), 0x31c3u % cluster_slots) << "the check value of CRC-16/XMODEM";
  EXPECT_EQ(cluster_slot(""), 0u);
  EXPECT_EQ(cluster_slot("foo"), 12182u) << "as CLUSTER KEYSLOT answers";
}

TEST(ClusterSlot, PartitionsAreSpreadOverSlots) {
  std::set<std::uint32_t> slots;
  std::vector<int> thirds(3);
  for (std::uint32_t i = 0; i < store_partitions; ++i) {
    slots.insert(cluster_slot(partition_tag(i)));
    ++thirds[cluster_slot(partition_tag(i)) * 3 / cluster_slots];
  }
  EXPECT_THAT(slots, SizeIs(store_partitions));
  for (const int third : thirds) EXPECT_GT(third, 12) << "a cluster of three has something to do for each";
}

TEST(ClusterSlots, TellWhoServesWhat) {
  const auto ranges = parse_cluster_slots(
      array(
          {array({integer(0), integer(5460), array({text("127.0.0.1"), integer(7000), text("id"), array({})}),
                  array({text("127.0.0.1"), integer(7003)})}),
           array({integer(5461), integer(16383), array({text("::1"), integer(7001)})})}),
      asked);
  ASSERT_TRUE(ranges);
  ASSERT_THAT(*ranges, SizeIs(2));
  EXPECT_EQ((*ranges)[0].first, 0u);
  EXPECT_EQ((*ranges)[0].last, 5460u);
  EXPECT_EQ((*ranges)[0].master, (RedisEndpoint{.host = "127.0.0.1", .port = 7000}));
  EXPECT_EQ((*ranges)[1].master, (RedisEndpoint{.host = "::1", .port = 7001}));
}

TEST(ClusterSlots, LeaveTheirOwnAddressToWhoAsked) {
  for (const RedisReply& host : {RedisReply(), text("")}) {
    const auto ranges =
        parse_cluster_slots(array({array({integer(0), integer(1), array({host, integer(7000)})})}), asked);
    ASSERT_TRUE(ranges);
    EXPECT_EQ((*ranges)[0].master, (RedisEndpoint{.host = "10.0.0.9", .port = 7000}));
  }
}

TEST(ClusterSlots, TellTheAddressOfANodeWithoutTheNameThatIsPreferred) {
  const auto with = [](RedisReply metadata) {
    return parse_cluster_slots(
        array({array(
            {integer(0), integer(1), array({text("?"), integer(7000), text("id"), std::move(metadata)})})}),
        asked);
  };
  const auto ranges = with(array({text("ip"), text("10.0.0.3")}));
  ASSERT_TRUE(ranges);
  EXPECT_EQ((*ranges)[0].master, (RedisEndpoint{.host = "10.0.0.3", .port = 7000}));
  EXPECT_FALSE(with(array({})));
}

TEST(ClusterSlots, OfAnotherFormAreNone) {
  const auto with = [](RedisReply first, RedisReply last, RedisReply master) {
    return parse_cluster_slots(array({array({std::move(first), std::move(last), std::move(master)})}), asked);
  };
  const RedisReply good = array({text("h"), integer(1)});
  EXPECT_TRUE(with(integer(0), integer(1), good));
  EXPECT_FALSE(parse_cluster_slots(RedisReply(), asked));
  EXPECT_FALSE(parse_cluster_slots(text("ERR", Type::error), asked));
  EXPECT_FALSE(parse_cluster_slots(array({integer(1)}), asked));
  EXPECT_FALSE(with(integer(1), integer(0), good));
  EXPECT_FALSE(with(integer(-1), integer(0), good));
  EXPECT_FALSE(with(integer(0), integer(16384), good));
  EXPECT_FALSE(with(text("0"), integer(1), good));
  EXPECT_FALSE(with(integer(0), integer(1), text("h")));
  EXPECT_FALSE(with(integer(0), integer(1), array({text("h")})));
  EXPECT_FALSE(with(integer(0), integer(1), array({text("h"), integer(0)})));
  EXPECT_FALSE(with(integer(0), integer(1), array({text("h"), integer(65536)})));
  EXPECT_FALSE(with(integer(0), integer(1), array({text("h\n"), integer(1)})));
}

TEST(Redirection, IsReadFromAnError) {
  const auto moved = parse_redirection(text("MOVED 3999 127.0.0.1:6381", Type::error), asked);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->kind, Redirection::Kind::moved);
  EXPECT_EQ(moved->to, (RedisEndpoint{.host = "127.0.0.1", .port = 6381}));
  const auto ask = parse_redirection(text("ASK 3999 ::1:6381", Type::error), asked);
  ASSERT_TRUE(ask);
  EXPECT_EQ(ask->kind, Redirection::Kind::ask);
  EXPECT_EQ(ask->to, (RedisEndpoint{.host = "::1", .port = 6381}));
  EXPECT_EQ(parse_redirection(text("MOVED 1 :6381", Type::error), asked)->to,
            (RedisEndpoint{.host = "10.0.0.9", .port = 6381}));
  for (const char* other :
       {"ERR x", "MOVED", "MOVED 1", "MOVED 1 h", "MOVED 1 h:", "MOVED 1 h:0", "MOVED 1 h:70000",
        "MOVED 1 h:x", "ASKING 1 h:1", "MOVED 1:2 h", "MOVED 1 ?:7000"})
    EXPECT_FALSE(parse_redirection(text(other, Type::error), asked)) << other;
  EXPECT_FALSE(parse_redirection(text("MOVED 3999 127.0.0.1:6381"), asked)) << "no error";
}

TEST(Sentinel, NamesTheMaster) {
  EXPECT_EQ(parse_master_address(array({text("10.0.0.1"), text("6379")})),
            (RedisEndpoint{.host = "10.0.0.1", .port = 6379}));
  EXPECT_FALSE(parse_master_address(RedisReply())) << "a name it does not know";
  EXPECT_FALSE(parse_master_address(array({text("h")})));
  EXPECT_FALSE(parse_master_address(array({text("h"), text("x")})));
  EXPECT_FALSE(parse_master_address(array({text(""), text("1")})));
}

TEST(Role, IsAMastersOrNot) {
  EXPECT_TRUE(is_master(array({text("master"), integer(0), array({})})));
  EXPECT_FALSE(is_master(array({text("slave"), text("h")})));
  EXPECT_FALSE(is_master(array({})));
  EXPECT_FALSE(is_master(text("master")));
}

TEST(Time, IsSinceTheEpoch) {
  EXPECT_EQ(parse_time(array({text("1763739000"), text("250000")})), 1763739000s + 250ms);
  EXPECT_EQ(parse_time(array({text("0"), text("0")})), 0us);
  for (const char* seconds : {"", "x", "-1", "4000000001", "9223372036854775807"})
    EXPECT_FALSE(parse_time(array({text(seconds), text("0")}))) << seconds;
  EXPECT_FALSE(parse_time(array({text("1"), text("1000000")})));
  EXPECT_FALSE(parse_time(array({text("1")})));
  EXPECT_FALSE(parse_time(RedisReply()));
}

}  // namespace
}  // namespace weir
