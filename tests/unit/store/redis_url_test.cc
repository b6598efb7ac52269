// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RedisUrl good(std::string_view text) {
  const RedisUrlResult result = parse_redis_url(text);
  EXPECT_TRUE(result) << text << ": " << result.error;
  return result.url;
}

std::string error(std::string_view text) {
  const RedisUrlResult result = parse_redis_url(text);
  EXPECT_FALSE(result) << text;
  return result.error;
}

RedisUrl tcp(std::string host, std::uint16_t port = 6379, std::uint32_t database = 0) {
  RedisUrl url;
  url.mode = RedisUrl::Mode::single;
  url.endpoints = {{.host = std::move(host), .port = port}};
  url.database = database;
  return url;
}

TEST(RedisUrl, MemoryStandsAlone) {
  EXPECT_EQ(good("memory://"), RedisUrl{});
  EXPECT_THAT(error("memory://x"), HasSubstr("stands alone"));
}

TEST(RedisUrl, NeedsOnlyAHost) {
  EXPECT_EQ(good("redis://localhost"), tcp("localhost"));
  EXPECT_EQ(good("redis://localhost/"), tcp("localhost"));
}

TEST(RedisUrl, HasPortAndDatabase) {
  EXPECT_EQ(good("redis://10.0.0.1:7000/3"), tcp("10.0.0.1", 7000, 3));
  EXPECT_EQ(good("redis://redis_1.example-a.com:65535"), tcp("redis_1.example-a.com", 65535));
}

TEST(RedisUrl, HasIpv6AddressesInBrackets) {
  EXPECT_EQ(good("redis://[::1]"), tcp("::1"));
  EXPECT_EQ(good("redis://[2001:db8::1]:7000/1"), tcp("2001:db8::1", 7000, 1));
  EXPECT_EQ(good("redis://[fe80::1%eth0]:1"), tcp("fe80::1%eth0", 1));
}

TEST(RedisUrl, HasUserAndPassword) {
  RedisUrl url = tcp("h");
  url.password = "secret";
  EXPECT_EQ(good("redis://:secret@h"), url);
  url.user = "weir";
  EXPECT_EQ(good("redis://weir:secret@h"), url);
}

TEST(RedisUrl, DecodesPercentSigns) {
  const RedisUrl url = good("redis://a%40b:%3a%2F%25%20@h");
  EXPECT_EQ(url.user, "a@b");
  EXPECT_EQ(url.password, ":/% ");
  EXPECT_EQ(good("redis+unix:///tmp/a%20b").endpoints.at(0).path, "/tmp/a b");
}

TEST(RedisUrl, NamesAUnixSocket) {
  RedisUrl url;
  url.mode = RedisUrl::Mode::single;
  url.endpoints.emplace_back().path = "/run/redis.sock";
  EXPECT_EQ(good("redis+unix:///run/redis.sock"), url);
  url.database = 4;
  EXPECT_EQ(good("redis+unix:///run/redis.sock?db=4"), url);
  url.user = "u";
  url.password = "p";
  EXPECT_EQ(good("redis+unix://u:p@/run/redis.sock?db=4"), url);
}

TEST(RedisUrl, MayNameAUserWhosePasswordComesFromElsewhere) {
  EXPECT_EQ(good("redis://weir@h").user, "weir");
  EXPECT_EQ(good("redis://weir@h").password, "");
  EXPECT_EQ(good("redis+unix://weir@/run/r.sock").user, "weir");
  EXPECT_THAT(error("redis://@h"), HasSubstr("before '@'"));
}

TEST(RedisUrl, AsksForTlsWithASecondS) {
  EXPECT_FALSE(good("redis://h").tls);
  RedisUrl url = tcp("h");
  url.tls = true;
  EXPECT_EQ(good("rediss://h"), url);
  EXPECT_TRUE(good("rediss+sentinel://h/m").tls);
  EXPECT_TRUE(good("rediss+cluster://h").tls);
}

TEST(RedisUrl, NamesSentinelsAndTheMasterTheyWatch) {
  const RedisUrl url = good("redis+sentinel://u:p@s1,s2:26380,[::1]/my-master/2");
  EXPECT_EQ(url.mode, RedisUrl::Mode::sentinel);
  ASSERT_EQ(url.endpoints.size(), 3u);
  EXPECT_EQ(url.endpoints[0], (RedisEndpoint{.host = "s1", .port = 26379}));
  EXPECT_EQ(url.endpoints[1], (RedisEndpoint{.host = "s2", .port = 26380}));
  EXPECT_EQ(url.endpoints[2], (RedisEndpoint{.host = "::1", .port = 26379}));
  EXPECT_EQ(url.master, "my-master");
  EXPECT_EQ(url.database, 2u);
  EXPECT_EQ(url.user, "u");
  EXPECT_EQ(good("redis+sentinel://s1/m").database, 0u);
}

TEST(RedisUrl, NamesSomeNodesOfACluster) {
  const RedisUrl url = good("redis+cluster://:p@a:7000,b:7001,c");
  EXPECT_EQ(url.mode, RedisUrl::Mode::cluster);
  ASSERT_EQ(url.endpoints.size(), 3u);
  EXPECT_EQ(url.endpoints[2], (RedisEndpoint{.host = "c", .port = 6379}));
}

TEST(RedisUrlErrors, TellWhatIsWrongWithSeveralHosts) {
  EXPECT_THAT(error("redis://a,b"), HasSubstr("redis:// has one"));
  EXPECT_THAT(error("redis+sentinel://a,b"), HasSubstr("master's name is missing"));
  EXPECT_THAT(error("redis+sentinel://a,b/"), HasSubstr("master's name is missing"));
  EXPECT_THAT(error("redis+sentinel://a/my$master"), HasSubstr("master's name may only have"));
  EXPECT_THAT(error("redis+sentinel://a/m/x"), HasSubstr("database must be a number"));
  EXPECT_THAT(error("redis+cluster://a,b/1"), HasSubstr("a cluster has no databases"));
  EXPECT_THAT(error("redis+cluster://a,,b"), HasSubstr("host is missing"));
  EXPECT_THAT(error("redis+cluster://a,"), HasSubstr("host is missing"));
  std::string many = "redis+cluster://h";
  for (int i = 0; i < 64; ++i) many += ",h";
  EXPECT_THAT(error(many), HasSubstr("more than 64 hosts"));
}

TEST(RedisUrlErrors, TellWhatIsWrong) {
  for (const char* text : {"", "localhost:6379", "REDIS://h", "redis+tls://h", "rediss+unix:///a"})
    EXPECT_EQ(
        error(text),
        "the URL must begin with memory://, redis://, rediss:// (TLS), redis+unix://, redis+sentinel:// or "
        "redis+cluster://")
        << text;
  EXPECT_THAT(error("redis://"), HasSubstr("the host is missing"));
  EXPECT_THAT(error("redis:///1"), HasSubstr("the host is missing"));
  EXPECT_THAT(error("redis://:6379"), HasSubstr("the host is missing"));
  for (const char* text :
       {"redis://h:", "redis://h:0", "redis://h:65536", "redis://h:x", "redis://h:-1", "redis://[::1]:"})
    EXPECT_EQ(error(text), "the port must be a number from 1 to 65535") << text;
  for (const char* text : {"redis://h/x", "redis://h/-1", "redis://h/1/2", "redis://h/1000001",
                           "redis+unix:///a?db=", "redis+unix:///a?db=x"})
    EXPECT_EQ(error(text), "the database must be a number from 0 to 1000000") << text;
  EXPECT_THAT(error("redis://::1"), HasSubstr("in brackets"));
  EXPECT_THAT(error("redis://[::1"), HasSubstr("has no ']'"));
  EXPECT_THAT(error("redis://[abc]"), HasSubstr("IPv6 address"));
  EXPECT_THAT(error("redis://[]"), HasSubstr("IPv6 address"));
  EXPECT_THAT(error("redis://[::1]x"), HasSubstr("after ']'"));
  EXPECT_THAT(error("redis://h?db=1"), HasSubstr("have no meaning here"));
  EXPECT_THAT(error("redis://h#x"), HasSubstr("have no meaning here"));
  EXPECT_THAT(error("redis://a b"), HasSubstr("no spaces"));
  EXPECT_THAT(error("redis://h\n"), HasSubstr("control"));
  EXPECT_THAT(error("redis://" + std::string(254, 'h')), HasSubstr("longer than 253"));
  EXPECT_THAT(error("redis+unix://"), HasSubstr("path must begin with '/'"));
  EXPECT_THAT(error("redis+unix://run/x"), HasSubstr("path must begin with '/'"));
  EXPECT_THAT(error("redis+unix:///"), HasSubstr("path is missing"));
  EXPECT_THAT(error("redis+unix:///a?x=1"), HasSubstr("only \"db=number\""));
  EXPECT_THAT(error("redis+unix:///a%0"), HasSubstr("'%'"));
  EXPECT_THAT(error("redis+unix:///a%00b"), HasSubstr("'%'"));
  EXPECT_THAT(error("redis+unix:///" + std::string(107, 'p')), HasSubstr("longer than 107 bytes"));
}

TEST(RedisUrlErrors, NeverShowThePassword) {
  for (const char* text :
       {"redis://u:hun@ter2@h", "redis://u:hunter2%@h", "redis://u:hunter2%zz@h", "redis://u:a:hunter2@h",
        "redis://u:hunter2@", "redis://u:hunter2@h:x", "redis://u:hunter2/@h", "redis://u:hunter2?@h",
        "redis://u:@h", "redis+unix://u:hunter2@run", "redis://u:hunter2@h/x", "rediss://u:hunter2@h/x",
        "redis+cluster://u:hunter2@h/x", "redis+sentinel://u:hunter2@h", "hunter2", "redis://u:hunter2 @h"}) {
    EXPECT_THAT(error(text), Not(HasSubstr("hun"))) << text;
    EXPECT_THAT(error(text), Not(HasSubstr("ter2"))) << text;
  }
}

TEST(RedisUrl, DescribesItselfWithoutCredentials) {
  EXPECT_EQ(good("memory://").describe(), "memory://");
  EXPECT_EQ(good("redis://u:hunter2@h/3").describe(), "redis://h:6379/3");
  EXPECT_EQ(good("redis://:hunter2@[::1]:1").describe(), "redis://[::1]:1");
  EXPECT_EQ(good("redis+unix://u:hunter2@/run/r.sock?db=1").describe(), "redis+unix:///run/r.sock?db=1");
  EXPECT_EQ(good("rediss://u:hunter2@h").describe(), "rediss://h:6379");
  EXPECT_EQ(good("redis+sentinel://u:hunter2@a,b:1/m/3").describe(), "redis+sentinel://a:26379,b:1/m/3");
  EXPECT_EQ(good("rediss+cluster://u:hunter2@a,b:1").describe(), "rediss+cluster://a:6379,b:1");
  EXPECT_EQ(good("redis+unix:///a%1bb").describe(), "redis+unix:///a?b")
      << "nothing that moves a terminal's cursor";
}

TEST(RedisUrlProperty, AnyTextGivesAUrlOrAnError) {
  std::mt19937_64 random(20240611);
  const std::string alphabet = "redis+unix://[]@:%?#=/\\ab19.-_, \x01\xff";
  const std::string schemes[] = {"redis://", "redis+unix://", "redis+sentinel://", "rediss+cluster://"};
  for (int run = 0; run < 100'000; ++run) {
    std::string text = schemes[random() % std::size(schemes)];
    for (std::size_t length = random() % 24; length > 0; --length)
      text += alphabet[random() % alphabet.size()];
    const RedisUrlResult result = parse_redis_url(text);
    ASSERT_EQ(static_cast<bool>(result), result.error.empty());
    for (const RedisEndpoint& endpoint : result.url.endpoints) {
      ASSERT_TRUE(endpoint.host.empty() ? endpoint.path.starts_with('/') : endpoint.path.empty()) << text;
      ASSERT_NE(endpoint.port, 0) << text;
    }
    ASSERT_EQ(result.url.mode == RedisUrl::Mode::memory, result.url.endpoints.empty()) << text;
  }
}

}  // namespace
}  // namespace weir
