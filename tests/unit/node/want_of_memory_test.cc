// SPDX-License-Identifier: BSD-3-Clause
// Who asks for something to be made, and there is no memory for it, gets told so and nothing is thrown at
// him: whichever of the allocations it was that failed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <string_view>

#include "weir/limiter.h"
#include "weir/store_limiter.h"
#include "weir/throttle.h"

namespace {

constexpr unsigned none = std::numeric_limits<unsigned>::max();
/// Allocations of this thread that are still granted before one is refused.
thread_local unsigned granted = none;

bool is_refused() noexcept {
  if (granted == none) return false;
  if (granted > 0) return --granted, false;
  granted = none;
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (is_refused()) return nullptr;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

}  // namespace

// What the standard library has besides these comes down to them.
void* operator new(std::size_t bytes) {
  void* const memory = allocate(bytes, alignof(std::max_align_t));
  return memory != nullptr ? memory : throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* const memory = allocate(bytes, static_cast<std::size_t>(alignment));
  return memory != nullptr ? memory : throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace weir {
namespace {

using namespace std::chrono_literals;

/// Refuses the first allocation, then only the second, and so on, until there are no more of them.
/// @return how many there were
template <typename Make>
unsigned refused_in_turn(const Make& make) {
  for (unsigned before = 0;; ++before) {
    granted = before;
    const auto made = make();
    const bool refused = granted == none;
    granted = none;
    EXPECT_EQ(static_cast<bool>(made), made.error.empty());
    if (!refused) {
      EXPECT_TRUE(made) << made.error;
      return before;
    }
    // Some can be done without: who has no room to sort in sorts in place.
    if (!made) {
      EXPECT_NE(made.error.find("memory"), std::string::npos) << made.error;
    }
  }
}

Config config_with(std::string_view url) {
  const ConfigResult read = parse_config(R"(
[node]
keys = 64

[[rule]]
name = "user"
match = { method = "GET", host = "*.example.com", path = "/users/{id}" }
key = ["src_ip", "path:id"]
limit = 1000
interval = "1s"

[[rule]]
name = "log"
key = ["header:x-api-key"]
limit = 10
interval = "1m"
algorithm = "sliding-log"
)",
                                         "test");
  EXPECT_TRUE(read);
  Config config = read.config;
  config.store.url = url;
  return config;
}

TEST(WantOfMemory, OfAThrottleIsAnError) {
  const Config config = config_with("memory://");
  EXPECT_GT(
      refused_in_turn([&] { return Throttle::create(config, {.workers = 2, .hash_seed = 1, .log = {}}); }),
      100U);
}

TEST(WantOfMemory, OfAThrottleWithAStoreIsAnError) {
  const Config config = config_with("redis+unix:///nowhere/redis.sock");
  EXPECT_GT(
      refused_in_turn([&] { return Throttle::create(config, {.workers = 2, .hash_seed = 1, .log = {}}); }),
      100U);
}

TEST(WantOfMemory, OfALimiterIsAnError) {
  const LimiterTerms terms{.algorithm = Algorithm::sliding_log, .limit = 9, .interval = 1s};
  EXPECT_GT(refused_in_turn([&] { return Limiter::create(terms); }), 1U);
}

TEST(WantOfMemory, OfALimiterInTheStoreIsAnError) {
  const std::string url = "redis+unix:///nowhere/redis.sock";
  StoreLimiterTerms terms;
  terms.name = "a-name-that-is-too-long-to-lie-in-the-string-itself";
  terms.limit = 9;
  terms.interval = 1s;
  EXPECT_GT(refused_in_turn([&] { return StoreLimiter::create(url, terms); }), 3U);
}

}  // namespace
}  // namespace weir
