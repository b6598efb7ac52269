// SPDX-License-Identifier: BSD-3-Clause
// Workers read what they have taken up, for as long as they like and without coming round, while the
// controller goes on publishing in memory that it takes back meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "control/publisher.h"
#include "run_threads.h"
#include "shared/publication.h"
#include "shared/quiescence.h"

namespace weir {
namespace {

constexpr unsigned workers = 3;
constexpr std::uint64_t keys = 50;
constexpr std::uint64_t publications = 50'000;

std::uint64_t key_of(std::uint64_t number) { return number << 32 | number; }

TEST(Publications, AreWholeForWhoHasTakenThemUpWhileOthersAreTakenBack) {
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  Quiescence quiescence(workers);
  PublicationSlot slot(workers);
  Publisher publisher(slot, quiescence);
  const auto publish = [&] {
    std::unique_ptr<Publication> next = publisher.blank();
    const std::uint64_t generation = publisher.generation() + 1;
    next->windows.assign(1, WindowState{.running_number = generation});
    next->reset_keys(keys);
    for (std::uint64_t key = 1; key <= keys; ++key)
      next->append_key({.key = key_of(key), .terms = {.allowance = generation}});
    next->index_keys();
    publisher.publish(std::move(next));
  };
  publish();

  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> torn{0};
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      std::mt19937_64 random(seed() + worker);
      quiescence.online(worker);
      const Publication* held = slot.take_up(worker);
      std::uint64_t wrong = 0;
      while (!over.load(std::memory_order_relaxed)) {
        for (std::uint64_t reads = random() % 4 * keys; reads > 0; --reads) {
          const KeyState* const state = held->find(key_of(reads % keys + 1));
          wrong += state == nullptr || state->terms.allowance != held->generation;
          // As between two bursts: any that is current, but not what it says of keys.
          const Publication* const now = slot.load();
          wrong += now->windows[0].running_number != now->generation || now->generation < held->generation;
        }
        switch (random() % 8) {
          case 0:
            slot.let_go(worker);
            quiescence.offline(worker);
            quiescence.online(worker);
            held = slot.take_up(worker);
            break;
          case 1: {  // does not come round for some time
            const std::uint64_t until = held->generation + random() % 100;
            while (!over.load(std::memory_order_relaxed) && slot.load()->generation < until)
              std::this_thread::yield();
            break;
          }
          default:
            quiescence.quiescent(worker);
            held = slot.take_up(worker);
        }
      }
      slot.let_go(worker);
      quiescence.offline(worker);
      torn.fetch_add(wrong, std::memory_order_relaxed);
    });
  std::size_t most_waiting = 0;
  while (publisher.generation() < publications) {
    ASSERT_TRUE(publisher.ready());
    publish();
    most_waiting = std::max(most_waiting, publisher.waiting());
  }
  over.store(true, std::memory_order_relaxed);  // orders nothing: the threads are joined
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn.load(), 0U);
  EXPECT_GT(most_waiting, 3 * workers) << "nothing had to be taken back";
  // The current one, those of all workers, and what may be spare.
  EXPECT_LE(publisher.memory(), (workers + 8) * publisher.current()->memory() + publisher.waiting() * 64);
}

}  // namespace
}  // namespace weir
