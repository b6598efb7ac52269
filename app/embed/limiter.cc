// SPDX-License-Identifier: BSD-3-Clause
// One limit in one process, without rules, workers or store: a program that calls a paid service, with
// several threads, may do so 100 times a second and up to 20 times at once. Usage: weir-limiter
#include <weir/limiter.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

// The library reads no clock; a limiter is told the time of both.
weir::Instant now() noexcept {
  return {weir::WallTime(std::chrono::system_clock::now().time_since_epoch()),
          weir::MonotonicTime(std::chrono::steady_clock::now().time_since_epoch())};
}

}  // namespace

int main() {
  const weir::LimiterTerms terms{
      .algorithm = weir::Algorithm::token_bucket, .limit = 100, .interval = 1s, .burst = 20};
  const weir::LimiterResult made = weir::Limiter::create(terms);
  if (!made) {
    std::fprintf(stderr, "weir-limiter: %s\n", made.error.c_str());
    return 1;
  }

  std::atomic<unsigned> called = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (unsigned call = 0; call < 10; ++call) {
        // Whoever need not be refused paces itself; try_acquire() would answer at once.
        for (;;) {
          const weir::Reservation turn = made.limiter->reserve(now(), 1);
          std::this_thread::sleep_for(turn.wait);
          if (turn.claimed) break;
        }
        ++called;  // … the service is called here
      }
    });
  for (std::thread& thread : threads) thread.join();

  const weir::Acquisition left = made.limiter->try_acquire(now(), 1);
  std::printf("%u calls made; another one now: %s, to come back in %lld ms\n", called.load(),
              left.admitted ? "admitted" : "refused",
              static_cast<long long>(
                  std::chrono::duration_cast<std::chrono::milliseconds>(left.retry_after).count()));
}
