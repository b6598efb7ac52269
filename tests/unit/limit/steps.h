// SPDX-License-Identifier: BSD-3-Clause
// Random walks through time and weights, from a seed that every failure prints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "weir/limiter.h"
#include "weir/time.h"

namespace weir::testing {

inline std::uint64_t seed() {
  const char* given = std::getenv("WEIR_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

inline Instant at(std::int64_t nanoseconds) {
  return {WallTime(Duration(nanoseconds)), MonotonicTime(Duration(nanoseconds))};
}
inline Instant at(Duration since_epoch) { return at(since_epoch.count()); }
inline std::int64_t count(Instant now) { return now.monotonic.time_since_epoch().count(); }

class Steps {
 public:
  explicit Steps(std::uint64_t number) : random_(seed() + number) {}

  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(random_);
  }
  bool one_in(std::uint64_t n) { return between(1, n) == 1; }
  /// Each order of magnitude as likely as any other.
  std::uint64_t magnitude(std::uint64_t least, std::uint64_t most) {
    std::uniform_real_distribution<double> exponent(std::log2(static_cast<double>(least)),
                                                    std::log2(static_cast<double>(most) + 1));
    const double value = std::exp2(exponent(random_));
    return std::clamp(value >= 9.2e18 ? most : static_cast<std::uint64_t>(value), least, most);
  }
  /// The next moment: often the same, mostly soon, sometimes earlier, seldom after a huge gap.
  /// @param typical  time in which something happens
  std::int64_t next_time(std::int64_t now, std::int64_t typical) {
    constexpr std::int64_t latest = std::int64_t{1} << 61;
    const auto part = [&](std::int64_t most) {
      return static_cast<std::int64_t>(
          between(0, static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))));
    };
    std::int64_t next = now;
    const std::uint64_t kind = between(0, 99);
    if (kind < 30) return now;
    if (kind < 75)
      next += part(typical);
    else if (kind < 90)
      next += part(typical * 3);
    else if (kind < 94)
      next -= part(typical * 3);
    else if (kind < 97)
      next += part(typical * 100);
    else if (kind < 98)
      next -= part(typical * 100);
    else if (kind < 99)
      next += static_cast<std::int64_t>(magnitude(1, std::uint64_t{1} << 58));
    else
      next += typical;
    return std::min(next, latest);
  }
  /// Around what the limit allows; also far beyond.
  std::uint64_t weight(std::uint64_t limit) {
    const std::uint64_t kind = between(0, 99);
    if (kind < 60) return 1;
    if (kind < 65) return 0;
    if (kind < 85) return between(1, std::max<std::uint64_t>(limit / 3, 1));
    if (kind < 95) return between(1, limit);
    if (kind < 97) return limit;
    if (kind < 98) return limit + 1;
    if (kind < 99) return std::numeric_limits<std::uint32_t>::max();
    return std::numeric_limits<std::uint64_t>::max();
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

inline std::string say(const Acquisition& answer) {
  return std::string(answer.admitted ? "admitted" : "refused") + ", remaining " +
         std::to_string(answer.remaining) + ", retry after " + std::to_string(answer.retry_after.count()) +
         ", reset after " + std::to_string(answer.reset_after.count());
}
inline std::string say(const Reservation& answer) {
  return std::string(answer.claimed ? "claimed" : "not claimed") + ", wait " +
         std::to_string(answer.wait.count());
}

/// One step of a walk: what the object under test and the model say to the same call.
template <typename Object, typename Model>
void expect_same_step(Object& object, Model& model, Instant now, std::uint64_t weight,
                      std::uint64_t operation, std::int64_t by) {
  if (operation < 80) {
    EXPECT_EQ(say(object.try_acquire(now, weight)), say(model.try_acquire(now, weight)));
  } else if (operation < 90) {
    EXPECT_EQ(say(object.reserve(now, weight)), say(model.reserve(now, weight)));
  } else {
    object.correct(now, by);
    model.correct(now, by);
  }
}

}  // namespace weir::testing
