// SPDX-License-Identifier: BSD-3-Clause
#include "redis_sentinels.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "wait_until.h"

namespace weir {
namespace {

/// The value that follows a name in an answer of names and values.
std::string field(const Answer& answer, std::string_view name) {
  for (std::size_t i = 0; i + 1 < answer.elements.size(); i += 2)
    if (answer.elements[i] == name) return answer.elements[i + 1];
  return {};
}

}  // namespace

RedisSentinels::RedisSentinels(std::vector<std::string> options,
                               const std::vector<std::string>& sentinel_options, std::string password)
    : password_(std::move(password)) {
  options.insert(options.end(), {"--repl-diskless-sync-delay", "0", "--repl-timeout", "60"});
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::string> words = options;
    if (i > 0) words.insert(words.end(), {"--replicaof", "127.0.0.1", std::to_string(servers_[0]->port())});
    servers_.push_back(std::make_unique<RedisServer>(words));
    if (!password_.empty()) servers_.back()->log_in_as({"AUTH", password_});
  }
  for (std::size_t i = 0; i < count; ++i) {
    sentinels_.push_back(std::make_unique<Sentinel>(free_port()));
    Sentinel& sentinel = *sentinels_.back();
    std::ofstream configuration(sentinel.folder.path() / "sentinel.conf");
    configuration << "port " << sentinel.port << "\nbind 127.0.0.1\ndir " << sentinel.folder.path().string()
                  << "\nlogfile " << (sentinel.folder.path() / "log").string() << "\nsentinel monitor "
                  << master_name << " 127.0.0.1 " << servers_[0]->port()
                  << " 2\nsentinel down-after-milliseconds " << master_name
                  << " 300\nsentinel failover-timeout " << master_name << " 3000\nsentinel parallel-syncs "
                  << master_name << " 2\n";
    for (const std::string& line : sentinel_options) configuration << line << '\n';
    configuration.close();
    // One that wants none answers with an error, which nobody reads.
    if (!password_.empty()) sentinel.client.log_in_as({"AUTH", password_});
    start_sentinel(i);
  }
  for (std::size_t i = 0; i < count; ++i)
    wait_until("the sentinels to know each other and the replicas", [&] {
      const Answer answer = sentinel(i).command({"SENTINEL", "MASTER", master_name});
      return field(answer, "num-slaves") == std::to_string(count - 1) &&
             field(answer, "num-other-sentinels") == std::to_string(count - 1);
    });
  for (std::size_t i = 1; i < count; ++i) wait_until_in_step(i);
}

std::string RedisSentinels::url(std::size_t sentinels) const {
  std::string text = "redis+sentinel://";
  for (std::size_t i = 0; i < sentinels; ++i)
    text += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(sentinels_[i]->port);
  return text + '/' + master_name;
}

std::size_t RedisSentinels::master() {
  std::array<std::size_t, count> votes{};
  for (const auto& sentinel : sentinels_) {
    const Answer answer = sentinel->client.try_command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master_name});
    for (std::size_t i = 0; i < count; ++i)
      if (answer.elements.size() == 2 && answer.elements[1] == std::to_string(servers_[i]->port()) &&
          2 * ++votes[i] > count)
        return i;
  }
  return count;
}

std::size_t RedisSentinels::wait_for_another_master(std::size_t than) {
  std::size_t found = than;
  wait_until("another master", [&] {
    found = master();
    if (found == than || found == count) return false;
    const Answer role = server(found).client().try_command({"ROLE"});
    return !role.elements.empty() && role.elements[0] == "master";
  });
  // A busy machine keeps it waiting for longer than a sentinel waits for one.
  for (const auto& sentinel : sentinels_)
    EXPECT_EQ(sentinel->client
                  .command({"SENTINEL", "SET", master_name, "down-after-milliseconds", "60000"})
                  .text,
              "OK");
  return found;
}

void RedisSentinels::wait_until_in_step(std::size_t replica) {
  wait_until("a replica to be in step", [&] {
    const Answer role = server(replica).client().try_command({"ROLE"});
    const std::size_t of = master();
    if (of == count || role.elements.size() != 5 || role.elements[3] != "connected" ||
        role.elements[2] != std::to_string(server(of).port()))
      return false;
    const Answer there = server(of).client().try_command({"ROLE"});
    return there.elements.size() > 1 && there.elements[0] == "master" &&
           there.elements[1] == role.elements[4];
  });
}

std::size_t RedisSentinels::fail_over() {
  const std::size_t before = master();
  wait_until("a sentinel to begin a failover", [&] {
    // Refused as long as one is under way, or no replica is good enough.
    return !sentinel(0).command({"SENTINEL", "FAILOVER", master_name}).is_error();
  });
  return wait_for_another_master(before);
}

void RedisSentinels::kill_sentinel(std::size_t index) {
  sentinels_[index]->client.disconnect();
  sentinels_[index]->process.kill();
}

void RedisSentinels::start_sentinel(std::size_t index) {
  Sentinel& sentinel = *sentinels_[index];
  sentinel.client.disconnect();
  sentinel.process = ChildProcess(
      {redis_server_program(), (sentinel.folder.path() / "sentinel.conf").string(), "--sentinel"},
      sentinel.folder.path() / "output");
  wait_until("a sentinel to come up", [&] { return sentinel.client.try_command({"PING"}).type != 0; });
  // Its own periods are made for networks and nights, not for tests.
  sentinel.client.command({"SENTINEL", "DEBUG", "INFO-PERIOD", "300", "PUBLISH-PERIOD", "200", "PING-PERIOD",
                           "100", "ASK-PERIOD", "100", "SLAVE-RECONF-TIMEOUT", "1000"});
}

}  // namespace weir
