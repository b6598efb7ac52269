// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One state that several threads change, each change whole.
///
/// An algorithm of this room is terms (immutable) and a state of at most 16 bytes; what a request does is a
/// pure function from the state to the next one and an answer. So one loop serves them all: read the state,
/// compute, and exchange it for the next one if nobody else has done so meanwhile. Some thread always
/// succeeds; no thread ever waits for another. An answer that changes nothing (a refusal, a peek) writes
/// nothing: refusing a flood does not move the cache line.
///
/// 16 bytes are exchanged by the processor's own instruction (cmpxchg16b), which the compiler only uses when
/// told that it exists: hence -mcx16 among this room's arguments, and the static_assert below. Every x86-64
/// processor since 2006 has it. std::atomic is not used for 16 bytes because it calls libatomic, which may
/// take a lock.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "limit/arithmetic.h"
#include "weir/limiter.h"

namespace weir {

/// A value of 8 or 16 bytes, written whole by compare-exchange. In zeroed memory it holds zeros.
///
/// Memory orders: the value is all there is to agree on, so relaxed would do for it alone. Reads acquire and
/// exchanges release all the same (the 16-byte one is a full barrier anyway): some owners publish other
/// memory with it, and on x86-64 it costs nothing.
template <typename Value>
class SharedValue {
  static_assert(std::is_trivially_copyable_v<Value> && std::has_unique_object_representations_v<Value>,
                "compared byte by byte");
  static_assert(sizeof(Value) == 8, "8 bytes, or 16: see below");

 public:
  SharedValue() noexcept = default;
  explicit SharedValue(const Value& value) noexcept : value_(value) {}

  Value read() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Sets `desired` if the value is still `expected`; else reads it into `expected`.
  bool exchange(Value& expected, const Value& desired) noexcept {
    return value_.compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

 private:
  std::atomic<Value> value_{Value{}};
  static_assert(std::atomic<Value>::is_always_lock_free);
};

template <typename Value>
requires(sizeof(Value) == 16) class alignas(16) SharedValue<Value> {
  static_assert(std::is_trivially_copyable_v<Value> && std::has_unique_object_representations_v<Value>,
                "compared byte by byte");
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
  static constexpr bool lock_free = true;
#else
  static constexpr bool lock_free = false;
#endif
  static_assert(sizeof(Value) == 0 || lock_free,
                "no 16-byte compare-exchange: compile with -mcx16 (x86-64) or for a processor that has one");

 public:
  SharedValue() noexcept : SharedValue(Value{}) {}
  explicit SharedValue(const Value& value) noexcept : words_(std::bit_cast<Words>(value)) {}

  /// The value as it stood at one moment, given that its second word never goes back: then a second word that
  /// reads the same before and after has not changed in between, and the first word belongs to it. Where the
  /// second word may go back, a mixture is possible; exchange() refuses it.
  Value read() const noexcept {
    for (;;) {
      const std::uint64_t second = __atomic_load_n(&words_[1], __ATOMIC_ACQUIRE);
      const std::uint64_t first = __atomic_load_n(&words_[0], __ATOMIC_ACQUIRE);
      if (__atomic_load_n(&words_[1], __ATOMIC_ACQUIRE) != second) continue;  // somebody else got on
      return std::bit_cast<Value>(Words{first, second});
    }
  }

  bool exchange(Value& expected, const Value& desired) noexcept {
    const Raw seen = std::bit_cast<Raw>(expected);
    const Raw found = __sync_val_compare_and_swap(reinterpret_cast<Aliased*>(words_.data()), seen,
                                                  std::bit_cast<Raw>(desired));
    if (found == seen) return true;
    expected = std::bit_cast<Value>(found);
    return false;
  }

 private:
  using Raw = unsigned __int128;
  using Words = std::array<std::uint64_t, 2>;
  typedef unsigned __int128 __attribute__((may_alias)) Aliased;

  Words words_;
};

/// An algorithm: terms with a State and pure transitions upon it.
template <typename A>
concept LimitAlgorithm = requires(const A terms, typename A::State state, Instant now, std::uint64_t weight,
                                  std::int64_t by) {
  { terms.try_acquire(state, now, weight) }
  noexcept->std::same_as<Acquisition>;
  { terms.reserve(state, now, weight) }
  noexcept->std::same_as<Reservation>;
  { terms.correct(state, now, by) }
  noexcept;
};

/// One limit of one thread.
template <LimitAlgorithm A>
class OwnedLimit {
 public:
  explicit OwnedLimit(const A& terms) noexcept : terms_(terms) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept {
    return terms_.try_acquire(state_, now, weight);
  }
  Reservation reserve(Instant now, std::uint64_t weight) noexcept {
    return terms_.reserve(state_, now, weight);
  }
  void correct(Instant now, std::int64_t by) noexcept { terms_.correct(state_, now, by); }
  void give_back(Instant now, std::uint64_t weight) noexcept { correct(now, handed_back(weight)); }

  const A& terms() const noexcept { return terms_; }

 private:
  A terms_;
  typename A::State state_{};
};

/// One limit of several threads. Lock-free; any thread, any time.
template <LimitAlgorithm A>
class SharedLimit {
 public:
  using State = typename A::State;
  explicit SharedLimit(const A& terms) noexcept : terms_(terms), state_(State{}) {}

  Acquisition try_acquire(Instant now, std::uint64_t weight) noexcept {
    return change([&](State& state) { return terms_.try_acquire(state, now, weight); });
  }
  Reservation reserve(Instant now, std::uint64_t weight) noexcept {
    return change([&](State& state) { return terms_.reserve(state, now, weight); });
  }
  void correct(Instant now, std::int64_t by) noexcept {
    change([&](State& state) {
      terms_.correct(state, now, by);
      return true;
    });
  }
  void give_back(Instant now, std::uint64_t weight) noexcept { correct(now, handed_back(weight)); }
  /// What try_acquire(now, 0) answers.
  Acquisition peek(Instant now) const noexcept {
    State state = state_.read();
    return terms_.try_acquire(state, now, 0);
  }

  /// The state as it stands, for figures that an algorithm computes from it.
  State state() const noexcept { return state_.read(); }
  const A& terms() const noexcept { return terms_; }

 private:
  template <typename Transition>
  auto change(Transition&& transition) noexcept {
    State seen = state_.read();
    for (;;) {
      State next = seen;
      const auto answer = transition(next);
      if (next == seen || state_.exchange(seen, next)) return answer;
    }
  }

  A terms_;
  SharedValue<State> state_;
};

}  // namespace weir
