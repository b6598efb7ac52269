// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the controller tells the workers: an immutable snapshot, read through RCU. A worker loads it once per
/// burst; the controller builds the next one beside it, swaps the pointer, and reuses the old one after a
/// grace period.
///
/// A grace period lasts as long as a worker does not come round, which may be for ever, and what is published
/// of a million keys takes 80 MB. So workers also say which publication they have taken up. Of all
/// others the controller takes back, without waiting for anyone, everything but their windows and what they
/// are called: a worker looks at no more of those.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/huge_allocator.h"
#include "base/key_filter.h"
#include "base/prefetch.h"
#include "base/span_clock.h"
#include "shared/allowance_pool.h"
#include "shared/blocked_keys.h"
#include "shared/refused_keys.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// Workers are given other tables, and theirs are drained, at least this often, also where spans last for
/// minutes: so that a block shows, a refusal is judged, and what a worker drew and did not use goes back to
/// the others. The store still hears at the spans' ends only.
inline constexpr Duration longest_between_flips = std::chrono::seconds{1};

/// What workers may admit of a key on this node, all together.
struct KeyTerms {
  /// Weight in the running window; 0: nothing at all.
  std::uint64_t allowance = 0;
  /// Buckets: a TokenPrice. Shedding: an AdmitFraction. See limit/share.h.
  std::uint64_t factor = 0;

  bool operator==(const KeyTerms&) const = default;
};
/// One key that differs from its rule's default. One cache line.
struct alignas(64) KeyState {
  std::uint64_t key = 0;  ///< keyed hash
  KeyTerms terms{};
  MonotonicTime blocked_until = never;
  /// When a key whose allowance is used up may have some again, and at least how much, if that is known.
  MonotonicTime opens_at = never;
  std::uint64_t opens_by = 0;
  /// The first interval (WindowState::interval_number) in which no worker has had a grant of this key; or,
  /// where `reserved`, in which what grants come to has been kept all the time. See control/grant_terms.h.
  std::uint64_t ungranted_since = granted;
  RuleIndex rule = no_rule;
  /// Where windows slide: nobody has grants of the key, but what they come to is kept for those to come. For
  /// the controller, which makes the next publication.
  bool reserved = false;

  static constexpr std::uint64_t granted = std::numeric_limits<std::uint64_t>::max();
};
static_assert(sizeof(KeyState) == 64);

/// Rules with the same windows share their pools. One cache line: workers write copies of their own.
struct alignas(64) WindowState {
  MonotonicTime ends{};
  AllowancePool* running = nullptr;
  AllowancePool* ended = nullptr;  ///< of the window before: what it knows holds until it has been judged
  bool settled = true;             ///< what was counted in the window before is in the terms
  /// Windows are the spans of one that slides. Else they are intervals.
  bool slides = false;
  /// Name the windows: pools are used again, and again for a window that runs when another one's worker
  /// returns.
  std::uint64_t running_number = 0;
  std::uint64_t ended_number = 0;
  /// The like, of the interval that the running window lies in, for which grants hold.
  std::uint64_t interval_number = 0;
};
static_assert(sizeof(WindowState) == 64);

/// Written by the controller before it is published, by nobody after.
class Publication {
 public:
  std::uint64_t generation = 0;
  Instant began{};     ///< when the running span began: names the ordinals of what is counted in it
  bool judged = true;  ///< false: the span before has ended, but has not been decided upon yet
  std::vector<WindowState> windows;
  std::vector<KeyTerms> defaults;  ///< by rule
  /// By window: keys under sliding windows that have used a little; and, by rule, what they may be admitted
  /// unless find() knows better, instead of the default: see engine/light_keys.h.
  std::vector<KeyFilter> light_keys;
  std::vector<std::uint64_t> light_allowances;
  /// Likewise of others that have cells of their own.
  std::vector<std::uint64_t> unknown_allowances;
  std::vector<std::uint8_t> table_of_worker;  ///< which of its two tables each worker counts in
  /// Of so many new keys each worker may tell in a span; see control/new_key_limit.h.
  std::uint32_t new_keys = all_new_keys;
  static constexpr std::uint32_t all_new_keys = std::numeric_limits<std::uint32_t>::max();
  /// What a worker may admit of each key in an interval without asking (shared/grant_table.h), by rule; at
  /// most GrantTable::most. Not of keys that ungranted() names.
  std::vector<std::uint32_t> grants;
  /// What all workers' grants come to at most, by rule: not to be drawn from cells of keys that are granted.
  std::vector<std::uint64_t> reserves;
  std::vector<std::uint64_t> reserves_before;  ///< in the interval before, which a worker may still count for
  /// Odd: the worker is to leave its grants alone; idle keys are forgotten before the next even one.
  std::vector<std::uint32_t> grant_turn_of_worker;
  /// What was taken from this or a later generation still holds, but for keys that set_changed() named.
  std::uint64_t holds_since = nothing_holds;
  static constexpr std::uint64_t nothing_holds = std::numeric_limits<std::uint64_t>::max();

  /// For how many publications before this one nothing has changed of what workers keep of a key's terms:
  /// they need not notice that there is a new one.
  std::uint64_t same_for = 0;

  /// Stands, in 32 bits, for the generation from which on terms are as they are; 0 stands for none.
  std::uint32_t mark() const noexcept { return mark_of(terms_since()); }

  /// The keys whose terms have changed since `holds_since`.
  void set_changed(std::span<const std::uint64_t> keys) { changed_.assign(keys); }
  /// Whether a key's terms are as they were in an earlier publication. False where it cannot be told.
  /// @param mark  of that publication, at most 2^31 before this one
  /// @param key   or the low 32 bits of it
  bool still_holds(std::uint32_t mark, std::uint32_t key) const noexcept {
    if (holds_since > terms_since() || this->mark() - mark > terms_since() - holds_since) return false;
    return !changed_.may_hold(key);
  }

  /// Keys of which nothing else is to be said yet than that they are blocked. nullptr: there are none.
  /// @param at  now: of keys whose blocks have ended by then all that is to be said is said elsewhere
  void set_blocked(std::shared_ptr<const BlockedKeys> keys, MonotonicTime at) {
    blocked_ = std::move(keys);
    blocked_at_ = at;
  }
  /// When a key's block ends, or has ended since this was published; `never`: it has none.
  /// @param state  find() of the key
  MonotonicTime blocked_until(std::uint64_t key, const KeyState* state) const noexcept {
    if (state != nullptr && state->blocked_until != never) return state->blocked_until;
    if (!may_be_blocked(key)) return never;
    const MonotonicTime until = blocked_->find(key);
    return until > blocked_at_ ? until : never;
  }

  /// Keys whose requests are not to be admitted out of grants, beside the blocked ones that have been set:
  /// they are blocked, too, or their shares or demand are known to be such that each request is to be looked
  /// at.
  void set_ungranted(std::span<const std::uint64_t> keys) {
    if (blocked_ != nullptr)
      blocked_->fill(ungranted_, keys.size());
    else
      ungranted_.empty(keys.size());
    for (const std::uint64_t key : keys) ungranted_.add(key);
    ungranted_keys_ = keys.size();
  }
  /// How many, but for the blocked ones that have been set.
  std::size_t ungranted_keys() const noexcept { return ungranted_keys_; }
  /// Says yes of all, the blocked ones that have been set among them.
  const KeyFilter& ungranted() const noexcept { return ungranted_; }
  /// By rule: whether ungranted() is to be asked of its keys, as there is one that it names on purpose. (It
  /// names others, too; and keys whose blocks have ended.)
  std::vector<std::uint8_t> some_ungranted;
  /// Others of which the same holds: refused in the span before, which has not been judged yet.
  RefusedKeys refused;

  /// What workers may have used of a key in a window without drawing it, all together; 0: nobody had a grant;
  /// or windows slide: then it is off what is published.
  /// @param state   find() of the key
  /// @param window  of the rule: index into `windows`
  /// @param number  of the interval that the worker counts for, as WindowState::interval_number
  std::uint64_t reserve_of(const KeyState* state, RuleIndex rule, std::uint16_t window,
                           std::uint64_t number) const noexcept {
    if (windows[window].slides || (state != nullptr && state->ungranted_since <= number)) return 0;
    return number == windows[window].interval_number ? reserves[rule]
                                                     : std::max(reserves[rule], reserves_before[rule]);
  }
  /// What of an allowance may be drawn from the key's cell: not what is granted, but half in any case.
  std::uint64_t drawable(std::uint64_t allowance, const KeyState* state, RuleIndex rule, std::uint16_t window,
                         std::uint64_t number) const noexcept {
    return allowance - std::min(reserve_of(state, rule, window, number), allowance / 2);
  }
  /// Whether there are grants of the key, and all that they come to is kept from being drawn: then who does
  /// not use up his own may draw the rest of it. (Where windows slide it is kept for spans to come.)
  bool reserves_all(const KeyState* state, RuleIndex rule, std::uint16_t window,
                    std::uint64_t number) const noexcept {
    const std::uint64_t allowance = state != nullptr ? state->terms.allowance : defaults[rule].allowance;
    const std::uint64_t reserve = reserve_of(state, rule, window, number);
    return reserve > 0 && reserve <= allowance / 2;
  }

  /// Has the other's memory in place of its own, but for that of its windows, which it goes on to tell of;
  /// it tells of no keys and no rules any more. @pre nobody has taken the other one up
  void take_memory_of(Publication& other);
  /// Bytes of that.
  std::size_t memory() const noexcept;

  /// Keys that differ from their rules' defaults.
  std::size_t keys() const noexcept { return states_.size(); }
  /// By place: in the order in which they were appended and added.
  const KeyState& key_at(std::size_t place) const noexcept { return states_[place]; }
  /// @param state  find() of a key
  std::size_t place_of(const KeyState& state) const noexcept {
    return static_cast<std::size_t>(&state - states_.data());
  }
  /// Calls visit(const KeyState&) for each of them.
  template <typename Visitor>
  void for_each_key(Visitor&& visit) const {
    for (const KeyState& state : states_) visit(state);
  }
  /// Empties the set of keys. @param likely  how many there will be, more or less
  void reset_keys(std::size_t likely);
  /// find() does not know the key before index_keys(): a million keys are indexed faster in one go.
  /// @pre each key once
  void append_key(const KeyState& state) { states_.push_back(state); }
  /// Lets find() know all keys appended. @param more  that add_key() may bring after this
  void index_keys(std::size_t more = 0);
  /// @pre no more keys than index_keys() was told of, each once
  void add_key(const KeyState& state) noexcept;
  /// Has what find() and blocked_until() read first on its way; and, once that has come, the key's entry, if
  /// it has one.
  void prefetch(std::uint64_t key) const noexcept {
    prefetch_to_read(&index_[key & mask_]);
    if (may_be_blocked(key)) blocked_->prefetch(key);
  }
  void prefetch_state(std::uint64_t key) const noexcept {
    for (std::size_t i = key & mask_; index_[i] != free; i = (i + 1) & mask_)
      if (tells_of(index_[i], key)) return prefetch_to_read(&states_[number_of(index_[i])]);
  }
  /// The key's entry, or nullptr: then its rule's default holds.
  const KeyState* find(std::uint64_t key) const noexcept {
    for (std::size_t i = key & mask_; index_[i] != free; i = (i + 1) & mask_)
      if (tells_of(index_[i], key))
        if (const KeyState& state = states_[number_of(index_[i])]; state.key == key) return &state;
    return nullptr;
  }

 private:
  // All that are have no grants; and their filter lies nearer than they do.
  bool may_be_blocked(std::uint64_t key) const noexcept {
    return blocked_ != nullptr && ungranted_.may_hold(static_cast<std::uint32_t>(key));
  }
  std::uint64_t terms_since() const noexcept { return generation - same_for; }
  static std::uint32_t mark_of(std::uint64_t generation) noexcept {
    // No two that follow each other are equal, and none is 0.
    return static_cast<std::uint32_t>(generation % 0xffffffff) + 1;
  }
  // A word of the index: a part of the key's hash, and the number of its entry, plus 1. So most keys, which
  // have no entry, are looked for in an eighth of the memory, and a controller that tells of a million keys
  // empties just that.
  using Word = std::uint64_t;
  static constexpr Word free = 0;
  static std::uint32_t number_of(Word word) noexcept { return static_cast<std::uint32_t>(word) - 1; }
  static bool tells_of(Word word, std::uint64_t key) noexcept { return (word ^ key) >> 32 == 0; }

  void index(std::size_t entry) noexcept;

  template <typename T>
  using HugeVector = std::vector<T, HugeAllocator<T>>;

  HugeVector<KeyState> states_;
  HugeVector<Word> index_ = HugeVector<Word>(1);  // open addressing, at most half full
  std::size_t mask_ = 0;
  std::shared_ptr<const BlockedKeys> blocked_;
  MonotonicTime blocked_at_{};
  KeyFilter changed_;
  KeyFilter ungranted_;
  std::size_t ungranted_keys_ = 0;
};

/// The pointer between the planes, written by the controller, read by workers that are online; and which
/// publication each worker has taken up.
///
/// Protocol of the latter. A worker says what it takes up, then looks whether that is still current; between
/// the two there is a fence, as there is one between the controller's publish() and its is_held()
/// (Quiescence::start()). So either the controller sees that the publication is held, or the worker sees that
/// there is a later one, and takes up that. The pointer cannot have come back to the same one meanwhile: none
/// that has been current since the worker's last report is published again before its next one.
class PublicationSlot {
 public:
  explicit PublicationSlot(unsigned workers) : held_(workers) {}

  /// Release: whoever sees the pointer sees what it points to.
  void publish(const Publication* next) noexcept { current_.store(next, std::memory_order_release); }
  /// Acquire: pairs with publish(). nullptr before the first publication. Of one that has not been taken up
  /// no more is to be read than its windows and its generation.
  const Publication* load() const noexcept { return current_.load(std::memory_order_acquire); }

  /// The current one, which stays whole until the worker takes up another one or lets go. A worker that is
  /// online.
  const Publication* take_up(unsigned worker) noexcept {
    for (const Publication* current = load();;) {
      // Release: what was read of the one before has been read.
      held_[worker].generation.store(current != nullptr ? current->generation : none,
                                     std::memory_order_release);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      const Publication* const announced = std::exchange(current, load());
      if (announced == current) return current;
    }
  }
  void let_go(unsigned worker) noexcept {
    held_[worker].generation.store(none, std::memory_order_release);  // as in take_up()
  }
  /// Whether a worker has taken up this publication. Once another one has been published, and a grace period
  /// has begun: that none has means that none will. The controller.
  bool is_held(const Publication& publication) const noexcept {
    // Acquire: pairs with take_up().
    return std::ranges::any_of(held_, [&](const Held& held) {
      return held.generation.load(std::memory_order_acquire) == publication.generation;
    });
  }

 private:
  static constexpr std::uint64_t none = 0;  // no publication's generation
  struct alignas(64) Held {
    std::atomic<std::uint64_t> generation{none};
  };

  alignas(64) std::atomic<const Publication*> current_{nullptr};
  std::vector<Held> held_;  // by worker
};

}  // namespace weir
