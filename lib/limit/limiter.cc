// SPDX-License-Identifier: BSD-3-Clause
#include "weir/limiter.h"

#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "limit/bucket_rule.h"
#include "limit/cooldown_gate.h"
#include "limit/fixed_window.h"
#include "limit/leaky_bucket.h"
#include "limit/shared_state.h"
#include "limit/shed.h"
#include "limit/sliding_log.h"
#include "limit/sliding_window.h"
#include "limit/token_bucket.h"

namespace weir {

/// The face of all algorithms to Limiter.
class LimiterCore {
 public:
  virtual ~LimiterCore() = default;
  virtual Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept = 0;
  virtual Acquisition peek(Instant now) const noexcept = 0;
  virtual Reservation reserve(Instant now, std::uint64_t weight) noexcept = 0;
  virtual void correct(Instant now, std::int64_t by) noexcept = 0;
};

namespace {

/// An object that is all there is: SharedLimit, CooldownGate, Shed.
template <typename Object>
class ObjectCore final : public LimiterCore {
 public:
  template <typename... Terms>
  explicit ObjectCore(Terms&&... terms) noexcept : object_(std::forward<Terms>(terms)...) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept override {
    return object_.try_acquire(now, weight);
  }
  Acquisition peek(Instant now) const noexcept override { return object_.peek(now); }
  Reservation reserve(Instant now, std::uint64_t weight) noexcept override {
    return object_.reserve(now, weight);
  }
  void correct(Instant now, std::int64_t by) noexcept override { object_.correct(now, by); }

 private:
  Object object_;
};

class SlidingWindowCore final : public LimiterCore {
 public:
  SlidingWindowCore(std::uint64_t limit, Duration interval, std::uint32_t spans)
      : cells_(spans), window_(limit, interval, cells_) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept override {
    return window_.try_acquire(now, weight);
  }
  Acquisition peek(Instant now) const noexcept override { return window_.peek(now); }
  Reservation reserve(Instant now, std::uint64_t weight) noexcept override {
    return window_.reserve(now, weight);
  }
  void correct(Instant now, std::int64_t by) noexcept override { window_.correct(now, by); }

 private:
  std::vector<SlidingWindowCell> cells_;
  SlidingWindow window_;
};

class SlidingLogCore final : public LimiterCore {
 public:
  SlidingLogCore(std::uint64_t limit, Duration interval)
      : log_(limit, interval), slots_(limit), used_(slots_) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept override {
    return log_.try_acquire(head_, used_, now, weight);
  }
  Acquisition peek(Instant now) const noexcept override { return log_.peek(head_, used_, now); }
  Reservation reserve(Instant now, std::uint64_t weight) noexcept override {
    return log_.reserve(head_, used_, now, weight);
  }
  void correct(Instant now, std::int64_t by) noexcept override { log_.correct(head_, used_, now, by); }

 private:
  SlidingLog log_;
  SlidingLogHead head_;
  std::vector<SlidingLogSlot> slots_;
  std::span<SlidingLogSlot> used_;
};

constexpr std::uint64_t max_limit = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t min_spans = 2;
constexpr std::uint32_t max_spans = 1000;

std::string mistakes(const LimiterTerms& terms) {
  std::string found;
  const auto add = [&](const std::string& message) { found += (found.empty() ? "" : "\n") + message; };
  const std::string name(to_string(terms.algorithm));

  if (terms.algorithm == Algorithm::strict)
    add("algorithm: strict admits what it has leased from a store, which a limiter alone does not have; use "
        "a Throttle, "
        "or sliding-log for an exact limit in one process");
  if (terms.limit == 0) add("limit: 0 would admit nothing; use 1 … " + std::to_string(max_limit));
  if (terms.limit > max_limit)
    add("limit: " + std::to_string(terms.limit) + " is too large; use 1 … " + std::to_string(max_limit));
  if (terms.algorithm == Algorithm::sliding_log && terms.limit > max_sliding_log_limit)
    add("limit: " + std::to_string(terms.limit) +
        " is too large for sliding-log, which remembers every admission; use at most " +
        std::to_string(max_sliding_log_limit) + ", or sliding-window");
  if (terms.interval <= Duration{}) add("interval: must be longer than 0");
  if (terms.algorithm == Algorithm::sliding_window || terms.algorithm == Algorithm::shed) {
    if (terms.spans < min_spans || terms.spans > max_spans)
      add("spans: " + std::to_string(terms.spans) + " is not within " + std::to_string(min_spans) + " … " +
          std::to_string(max_spans));
    else if (terms.interval > Duration{} && terms.interval.count() < terms.spans)
      add("spans: an interval of " + std::to_string(terms.interval.count()) + " ns cannot be divided into " +
          std::to_string(terms.spans) + "; use fewer spans");
  }
  if (terms.burst != 0 && !is_bucket(terms.algorithm))
    add("burst: " + name + " saves nothing up; leave it 0, or use token-bucket or leaky-bucket");
  if (terms.warmup < Duration{}) add("warmup: must not be negative; 0 means none");
  if (terms.warmup > Duration{} && terms.algorithm != Algorithm::token_bucket)
    add("warmup: " + name + " has none; leave it 0, or use token-bucket");
  if (terms.warmup > WarmingTokenBucket::max_warmup) add("warmup: is longer than 3 days; use a shorter one");
  if (terms.cooldown < Duration{}) add("cooldown: must not be negative; 0 means as long as the interval");
  if (terms.cooldown > Duration{} && terms.algorithm != Algorithm::cooldown)
    add("cooldown: " + name + " blocks nothing; leave it 0, or use cooldown");
  return found;
}

std::unique_ptr<LimiterCore> make_core(const LimiterTerms& terms) {
  const std::uint64_t burst = terms.burst == 0 ? terms.limit : terms.burst;
  switch (terms.algorithm) {
    case Algorithm::cooldown:
      return std::make_unique<ObjectCore<CooldownGate>>(
          terms.limit, terms.interval, terms.cooldown == Duration{} ? terms.interval : terms.cooldown);
    case Algorithm::fixed_window:
      return std::make_unique<ObjectCore<SharedLimit<FixedWindow>>>(FixedWindow(terms.limit, terms.interval));
    case Algorithm::sliding_window:
      return std::make_unique<SlidingWindowCore>(terms.limit, terms.interval, terms.spans);
    case Algorithm::token_bucket:
      if (terms.warmup > Duration{})
        return std::make_unique<ObjectCore<SharedLimit<WarmingTokenBucket>>>(
            WarmingTokenBucket(terms.limit, terms.interval, burst, terms.warmup));
      return std::make_unique<ObjectCore<SharedLimit<TokenBucket>>>(
          TokenBucket(terms.limit, terms.interval, burst));
    case Algorithm::leaky_bucket:
      return std::make_unique<ObjectCore<SharedLimit<LeakyBucket>>>(
          LeakyBucket(terms.limit, terms.interval, burst));
    case Algorithm::sliding_log:
      return std::make_unique<SlidingLogCore>(terms.limit, terms.interval);
    case Algorithm::shed:
      return std::make_unique<ObjectCore<Shed>>(terms.limit, terms.interval, terms.spans);
    case Algorithm::strict:
      break;
  }
  return nullptr;
}

}  // namespace

Limiter::Limiter(std::unique_ptr<LimiterCore> core) noexcept : core_(std::move(core)) {}
Limiter::~Limiter() = default;

LimiterResult Limiter::create(const LimiterTerms& terms) {
  try {
    if (std::string wrong = mistakes(terms); !wrong.empty()) return {nullptr, std::move(wrong)};
    std::unique_ptr<LimiterCore> core = make_core(terms);
    if (core == nullptr)
      return {nullptr, "algorithm: " + std::to_string(static_cast<int>(terms.algorithm)) +
                           " is none; use one of weir::Algorithm"};
    return {std::make_unique<Limiter>(std::move(core)), {}};
  } catch (const std::bad_alloc&) {
    return {nullptr, "limiter: no memory; free some, or use fewer spans or a smaller sliding-log limit"};
  }
}

Acquisition Limiter::try_acquire(Instant now, std::uint64_t weight) noexcept {
  return weight == 0 ? core_->peek(now) : core_->try_acquire(now, weight);
}
Acquisition Limiter::peek(Instant now) const noexcept { return core_->peek(now); }
Reservation Limiter::reserve(Instant now, std::uint64_t weight) noexcept {
  return core_->reserve(now, weight);
}
void Limiter::correct(Instant now, std::int64_t by) noexcept { core_->correct(now, by); }

}  // namespace weir
