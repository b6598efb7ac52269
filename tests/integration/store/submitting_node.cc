// SPDX-License-Identifier: BSD-3-Clause
// A node that counts as fast as it can until it is killed: what node_killed_test.cc kills. Before it submits,
// it writes what it is about to submit to the standard output, so that the test knows the most that can have
// arrived.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "store/redis/redis_store.h"

namespace {

constexpr std::size_t names = 300;
constexpr auto time_to_live = std::chrono::minutes{10};

weir::MonotonicTime now() { return weir::MonotonicTime(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace

/// @param arguments  the store's URL; "hash" or "plain"
int main(int count, char** arguments) {
  if (count != 3) return 2;
  const weir::RedisUrlResult url = weir::parse_redis_url(arguments[1]);
  if (!url) return 2;
  weir::StoreConfig config;
  config.layout = std::string(arguments[2]) == "plain" ? weir::StoreLayout::plain : weir::StoreLayout::hash;
  config.timeout = std::chrono::seconds{1};
  config.reconnect = std::chrono::milliseconds{1};
  const auto store = weir::make_redis_store(url.url, config);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < names; ++i) all.push_back("rule|" + std::to_string(i));
  std::vector<weir::CounterReply> replies;
  for (weir::Ordinal ordinal = 0;; ++ordinal) {
    // New counters all the time: what a kill could leave half made.
    std::vector<weir::CounterWrite> writes;
    for (const std::string& name : all)
      writes.push_back({.name = name,
                        .ordinal = ordinal,
                        .interval = std::chrono::seconds{1},
                        .delta = 1,
                        .time_to_live = time_to_live,
                        .expires = now() + time_to_live});
    // One system call: a kill does not leave half a line's worth behind.
    const char told = '.';
    if (write(STDOUT_FILENO, &told, 1) != 1) return 1;
    store->submit(writes, now());
    replies.clear();
    store->collect(replies);
    if (ordinal % 8 == 7) store->flush(std::chrono::milliseconds{100});
  }
}
