// SPDX-License-Identifier: BSD-3-Clause
// What a worker's grants tell the controller of new keys while the worker goes on: whoever sees a key there
// finds its name in one of the two logs, whole, and each name once.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "run_threads.h"
#include "shared/grant_table.h"

namespace weir {
namespace {

constexpr std::uint32_t keys = 40'000;

std::uint64_t key_of(std::uint32_t number) { return (std::uint64_t{number} + 1) * 0x9e3779b97f4a7c15 | 1; }

// Of all lengths, so that names lie anywhere.
std::string name_of(std::uint64_t key) { return std::string(key % 37, 'n') + std::to_string(key); }

TEST(GrantNames, OfEveryKeyThatShowsAreReadWhileTheWorkerWritesOthers) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  GrantTable table(keys);
  table.touch_pages();
  // The worker takes the turn up where it reports, as it does its span tables.
  std::atomic<std::uint32_t> turn{0};
  std::atomic<std::uint32_t> taken_up{0};
  std::atomic<bool> done{false};

  std::thread worker([&] {
    std::mt19937_64 random(seed());
    const GrantWindow window(1);
    for (std::uint32_t i = 0; i < keys; ++i) {
      const std::string name = name_of(key_of(i));
      const auto place = table.insert(key_of(i), 0, std::as_bytes(std::span(name)));
      if (place != GrantTable::nowhere) table.use(place, 1, window);
      if (random() % 64 != 0) continue;
      const std::uint32_t now = turn.load(std::memory_order_acquire);
      table.write_names_to(now % 2);
      taken_up.store(now, std::memory_order_release);
    }
    done.store(true, std::memory_order_release);
  });

  std::set<std::uint64_t> known;
  const auto read = [&](NameLog& log) {
    log.read_new([&](const NewName& name) {
      ASSERT_TRUE(known.insert(name.key).second);
      const std::string text(reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size());
      ASSERT_EQ(text, name_of(name.key));
    });
  };
  const std::vector<GrantWindow> windows{GrantWindow(1)};
  std::uint64_t seen = 0;
  for (bool last = false; !last;) {
    last = done.load(std::memory_order_acquire);
    const std::uint32_t next = turn.load(std::memory_order_relaxed) + 1;
    turn.store(next, std::memory_order_release);
    while (taken_up.load(std::memory_order_acquire) != next && !done.load(std::memory_order_acquire))
      std::this_thread::yield();
    // Who is done may not have taken it up.
    const std::uint32_t running = taken_up.load(std::memory_order_acquire);
    NameLog& ended = table.names((running + 1) % 2);
    read(ended);
    ended.empty();
    std::vector<std::uint64_t> met;
    table.harvest(windows, [&](const GrantUse& use) { met.push_back(use.key); });
    read(table.names(running % 2));
    for (const std::uint64_t key : met) ASSERT_TRUE(known.contains(key));
    seen += met.size();
    turn.store(running, std::memory_order_relaxed);  // where it is, whether it took up the next one or not
  }
  worker.join();
  EXPECT_EQ(seen, table.held());
  EXPECT_EQ(known.size(), table.held());
  EXPECT_GT(seen, keys / 10 * 9);
}

}  // namespace
}  // namespace weir
