// SPDX-License-Identifier: BSD-3-Clause
#include "control/store_clock.h"

#include <algorithm>

namespace weir {
namespace {

/// A moment of one clock as a duration, so that moments of two clocks can be set against each other.
template <typename Time>
constexpr Duration since_epoch(Time time) noexcept {
  return time.time_since_epoch();
}

}  // namespace

Duration StoreClock::Sample::error_at(MonotonicTime now) const noexcept {
  constexpr std::int64_t million = 1'000'000;
  return error + std::max(now - answered, Duration{}) / million * drift_ppm;
}

const StoreClock::Sample& StoreClock::best(MonotonicTime now) const noexcept {
  return *std::min_element(
      samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(count_),
      [&](const Sample& a, const Sample& b) { return a.error_at(now) < b.error_at(now); });
}

void StoreClock::learn(const StoreTime& sample, MonotonicTime now) noexcept {
  if (sample.number == 0 || sample.number == seen_ || sample.answered < sample.asked) return;
  seen_ = sample.number;
  // The store may tell whole microseconds only: one more on each side.
  const Duration error = (sample.answered - sample.asked) / 2 + std::chrono::microseconds{1};
  const MonotonicTime middle = sample.asked + (sample.answered - sample.asked) / 2;
  const Sample heard{since_epoch(sample.wall) - since_epoch(middle), error, sample.answered};

  // What cannot both be true: the store's clock has been set, or it is another server's.
  const bool contradicts = std::any_of(
      samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(count_), [&](const Sample& earlier) {
        return std::chrono::abs(earlier.offset - heard.offset) > earlier.error_at(now) + heard.error_at(now);
      });
  if (contradicts) count_ = next_ = 0;
  samples_[next_] = heard;
  next_ = (next_ + 1) % remembered;
  count_ = std::min(count_ + 1, remembered);

  const Sample& target = best(now);
  if (!known_) {
    known_ = true;
    offset_ = target.offset;
    slow_from_ = now;
    return;
  }
  // What is still being made good has been decided upon already.
  const Duration decided = offset_ - slow_left_;
  if (std::chrono::abs(target.offset - decided) > target.error_at(now))
    correct(target.offset - offset_at(now), now);
}

void StoreClock::correct(Duration by, MonotonicTime now) noexcept {
  offset_ = offset_at(now);
  slow_from_ = now;
  slow_left_ = Duration{};
  if (by >= Duration{} || by <= -smallest_step)
    offset_ += by;
  else
    slow_left_ = -by;
}

Duration StoreClock::offset_at(MonotonicTime now) const noexcept {
  return offset_ - std::clamp((now - slow_from_) / 2, Duration{}, slow_left_);
}

Instant StoreClock::at(Instant own) const noexcept {
  if (!known_) return own;
  return {WallTime(since_epoch(own.monotonic) + offset_at(own.monotonic)), own.monotonic};
}

Duration StoreClock::until(WallTime wall, Instant own) const noexcept {
  const Duration ahead = std::max(wall - at(own).wall, Duration{});
  if (!known_) return ahead;
  const Duration slow = slow_left_ - std::clamp((own.monotonic - slow_from_) / 2, Duration{}, slow_left_);
  return ahead + std::min(ahead, slow);
}

Duration StoreClock::uncertainty(MonotonicTime now) const noexcept {
  if (!known_) return Duration{};
  const Sample& sample = best(now);
  return sample.error_at(now) + std::chrono::abs(sample.offset - offset_at(now));
}

}  // namespace weir
