// SPDX-License-Identifier: BSD-3-Clause
// Bursts of keys that their callers have made. A burst's keys of one rule go through stages (key_run.h):
// grants, entries, what is refused or drawn for without a closer look. What is left is looked at closely.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "base/flatten.h"
#include "base/prefetch.h"
#include "dataplane/key_run.h"
#include "dataplane/worker_core.h"
#include "limit/bucket_rule.h"
#include "shared/bucket_cell.h"

namespace weir {
namespace {

/// So few of a burst's keys may be looked at twice. Each costs as much as ten others save, as none of them is
/// foreseen.
bool is_few(std::size_t others, std::size_t count) noexcept { return others <= count / 16; }

template <typename Is, std::size_t... i>
bool are_all(const Is& is, std::index_sequence<i...>) noexcept {
  return (... && is(i));
}

/// Whether each request is drawn for, as a worker may keep nothing of a key's bucket, and refused where there
/// is not enough.
bool draws_for_each(const RuleTerms& terms) noexcept {
  return is_bucket(terms.algorithm) && terms.chunk == 0 && may_refuse(terms);
}

}  // namespace

void WorkerCore::prefetch_keys(std::span<const Key> keys) const noexcept {
  // The lines of rules' own keys are few, and always at hand.
  const Key* key = keys.data();
  const Key* const end = key + keys.size();
  if (publication_ == nullptr || key == end) return;
  key += own_in_front(keys);
  if (key == end) return;
  // Each key is read and its line asked for at once: keys may come from afar, too, and to go over their rules
  // first would be to wait for all of them before the first line is asked for.
  const std::array tables{table_->lines().all(), grants_.lines().all()};
  const RuleIndex rule = key->rule_;
  const auto prefetches = [&, of_rule = tables[is_granted_first(rule)]](std::size_t ahead) {
    if (key[ahead].rule_ != rule) return false;
    prefetch_home_of(key[ahead].hash_, of_rule);
    return true;
  };
  while (end - key >= 4 && prefetches(0) && prefetches(1) && prefetches(2) && prefetches(3)) key += 4;
  while (key != end && prefetches(0)) ++key;
  // Without a branch on which table it is: rules that come in turns are not to be foreseen.
  for (; key != end; ++key)
    if (!key->is_of_rule()) prefetch_home_of(key->hash_, tables[is_granted_first(key->rule_)]);
}

// All of a key that a decision depends on but its hash: weight, rule, and whether it is a dense one. In one
// word, so that to compare two keys costs no more than it must.
std::uint64_t WorkerCore::kind_of(const Key& key) noexcept {
  static_assert(std::has_unique_object_representations_v<Key>);  // there is no padding in it
  std::uint64_t kind;
  std::memcpy(&kind, reinterpret_cast<const std::byte*>(&key) + sizeof key.value, sizeof kind);
  return kind;
}

// How many keys from the first one on are of its kind: nearly always all.
std::size_t WorkerCore::alike_in_front(std::span<const Key> keys) noexcept {
  const std::uint64_t kind = kind_of(keys[0]);
  constexpr std::size_t step = 8;
  std::size_t count = 0;
  while (count + step <= keys.size() &&
         are_all([&](std::size_t i) { return kind_of(keys[count + i]) == kind; },
                 std::make_index_sequence<step>{}))
    count += step;
  while (count < keys.size() && kind_of(keys[count]) == kind) ++count;
  return count;
}

// How many keys from the first one on are the only ones of their rules, and weigh no more than one request of
// theirs: nearly always none, or all. @pre there are keys
std::size_t WorkerCore::own_in_front(std::span<const Key> keys) noexcept {
  if (!keys.front().is_of_rule()) return 0;
  Key own;
  own.form_ = Key::Form::of_rule;
  own.rule_ = 0;
  Key any;
  any.weight = 0;
  any.form_ = Key::Form{};
  any.rule_ = std::numeric_limits<RuleIndex>::max();
  const std::uint64_t wanted = kind_of(own);
  const std::uint64_t looked_at = ~kind_of(any);
  // Of all of a step's keys at once: each bit that is wanted is set in all of them, and no other is in any.
  constexpr std::size_t step = 8;
  const auto are_own = [&]<std::size_t... i>(const Key* key, std::index_sequence<i...>) {
    return ((kind_of(key[i]) & ...) & wanted) == wanted && ((kind_of(key[i]) | ...) & looked_at) == wanted;
  };
  std::size_t count = 0;
  while (count + step <= keys.size() && are_own(&keys[count], std::make_index_sequence<step>{}))
    count += step;
  while (count < keys.size() && (kind_of(keys[count]) & looked_at) == wanted) ++count;
  return count;
}

// Flattened: what the call of a function costs is to be seen beside a burst's decisions.
WEIR_FLATTEN void WorkerCore::admit_keys(std::span<const Key> keys, BurstTime now,
                                         std::span<Verdict> verdicts,
                                         const std::span<const Key>& next) noexcept {
  catch_up();
  if (publication_ == nullptr) {
    std::fill_n(verdicts.begin(), keys.size(), Verdict::admit);
    return;
  }
  if (keys.size() > burst_size) [[unlikely]]
    return admit_keys_of_bursts(keys, now, verdicts, next);
  admit_keys_of_burst(keys, now, verdicts, next);
}

// Of the keys to be decided on next, those that a burst of so many asks for.
std::span<const Key> WorkerCore::furthest_of(std::span<const Key> next, std::size_t count) noexcept {
  if (next.size() <= burst_size) return next;
  return next.first(std::min(next.size(), furthest_asked)).last(count);
}

WEIR_FLATTEN void WorkerCore::admit_keys_of_bursts(std::span<const Key> keys, BurstTime& now,
                                                   std::span<Verdict> verdicts,
                                                   const std::span<const Key>& next) noexcept {
  const auto whole_bursts = [](std::size_t count) {
    return (count + burst_size - 1) / burst_size * burst_size;
  };
  const auto burst_at = [](std::span<const Key> some, std::size_t from) {
    from = std::min(from, some.size());
    return some.subspan(from, std::min(burst_size, some.size() - from));
  };
  // As places in the row of both, where the next begin with a burst of their own.
  const std::size_t next_at = whole_bursts(keys.size());
  const std::size_t ahead =
      next.empty() ? furthest_asked : std::min(whole_bursts(next.size()), furthest_asked);
  // Who tells nothing of the next keys has not told of these.
  if (next.empty()) prefetch_keys(keys.subspan(burst_size, std::min(ahead, keys.size()) - burst_size));
  for (std::size_t at = 0, asked = ahead; at < next_at; at += burst_size, asked += burst_size)
    admit_keys_of_burst(burst_at(keys, at), now, verdicts.subspan(at),
                        asked < next_at ? burst_at(keys, asked) : burst_at(next, asked - next_at));
}

void WorkerCore::admit_keys_of_burst(std::span<const Key> keys, BurstTime& now, std::span<Verdict> verdicts,
                                     const std::span<const Key>& next) noexcept {
  if (keys.size() == burst_size) [[likely]]  // that many are stored at once
    std::fill_n(verdicts.begin(), burst_size, Verdict::admit);
  else
    std::fill_n(verdicts.begin(), keys.size(), Verdict::admit);
  if (keys.empty() || alike_in_front(keys) < keys.size()) [[unlikely]] {
    prefetch_keys(furthest_of(next, keys.size()));
    if (keys.empty()) return;
    return admit_keys_by_rule(keys, now, verdicts);
  }
  Run run(keys, keys[0].rule_, rule_grants_, now, verdicts);
  if (!next.empty()) run.next = &next;
  run.weight_of_each = run.weight(keys[0]);
  run.count = keys.size();
  admit_run<Stage::first>(run);
  finish(run);
}

// Keys of several rules, or weights, in any order: those that need no closer look, so that nothing would be
// won by looking at each rule's together. All grants lie in one table, whatever the rule; and the only key of
// its rule lies always at the same place. @return how many keys are left, in `left` which
std::size_t WorkerCore::take_of_rules(std::span<const Key> keys, std::uint8_t* left) noexcept {
  // Theirs for all keys: what the loops write cannot make the compiler read the address anew for each.
  OfRule* const of_rules = of_rules_.data();
  const Key* key = keys.data();
  for (const Key* const own_end = key + own_in_front(keys); key != own_end && take_own(of_rules[key->rule_]);)
    ++key;
  const auto own = static_cast<std::size_t>(key - keys.data());
  if (own == keys.size()) return 0;
// Conditionally supported where some members are private: by all compilers that this is for.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  static_assert(offsetof(Key, hash_) - offsetof(Key, weight) == Hashes::from_weight &&
                offsetof(Key, hash_) - offsetof(Key, rule_) == Hashes::from_rule);
#pragma GCC diagnostic pop
  const Hashes others{reinterpret_cast<const std::byte*>(&keys[own].hash_), sizeof(Key), keys.size() - own};
  const std::size_t ungranted = grants_.lines().use_of_rules(others, uses_.data(), left);
  if (ungranted < others.count) table_->counted_beside = true;
  std::size_t count = 0;
  for (std::size_t i = 0; i < ungranted; ++i) {
    const std::size_t at = own + left[i];
    const Key& other = keys[at];
    if (other.is_of_rule() && ((other.weight == 1 && take_own(of_rules[other.rule_])) || take_own(other)))
      continue;
    left[count++] = static_cast<std::uint8_t>(at);
  }
  if (rules_learned_ > 0 && ungranted < others.count) [[unlikely]]
    learn_of_granted(keys, {left, count});
  return count;
}

// Of the rules of which none of a burst's keys is left: the others learn when these are looked at.
void WorkerCore::learn_of_granted(std::span<const Key> keys, std::span<const std::uint8_t> left) noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const RuleIndex rule = keys[i].rule_;
    const auto is_of_it = [rule](const Key& key) { return key.rule_ == rule; };
    const bool is_left = std::ranges::any_of(left, [&](std::uint8_t at) { return is_of_it(keys[at]); });
    const bool has_learned = std::ranges::any_of(keys.first(i), is_of_it);
    if (!keys[i].is_of_rule() && !is_left && !has_learned) learn_entries_first(rule, false);
  }
}

// What a request of the rule's own weighs. @return whether as much was ready
bool WorkerCore::take_own(OfRule& of_rule) noexcept {
  if (!SpanTable::Lines::take_usual(*of_rule.own.ready, of_rule.own.weight)) [[unlikely]]
    return false;
  of_rule.counters.admitted.add(1);
  return true;
}

// Of a rule's only key. If it has not enough ready as far as was known, its line may hold under the
// publication since; from then on that is known: a line does not cease to hold before the next one is taken
// up.
bool WorkerCore::take_own(const Key& key) noexcept {
  OfRule& of_rule = of_rules_[key.rule_];
  const std::uint32_t rule_weight = plane_.terms[key.rule_].weight;
  std::uint32_t& ready =
      table_->lines().ready_at(table_->place_of_rule(key.rule_), key.hash_, generation_, nothing_ready_);
  if (SpanTable::Lines::is_usual(rule_weight)) of_rule.own.ready = &ready;
  if (!SpanTable::Lines::take(ready, std::uint64_t{rule_weight} * key.weight)) return false;
  of_rule.counters.admitted.add(1);
  return true;
}

// Keys of several rules, or weights, in any order: of each rule together, so that they are as many as can be.
void WorkerCore::admit_keys_by_rule(std::span<const Key> keys, BurstTime& now,
                                    std::span<Verdict> verdicts) noexcept {
  std::array<std::uint8_t, burst_size> others;
  std::size_t count = take_of_rules(keys, others.data());
  while (count > 0) {
    const Key& first = keys[others[0]];
    Run run(keys, first.rule_, rule_grants_, now, verdicts);
    std::uint64_t differs = 0;
    std::size_t remaining = 0;
    // Without branches: rules that come in turns are not to be foreseen.
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint8_t at = others[i];
      const bool is_of_it = keys[at].rule_ == first.rule_;
      run.at[run.left] = at;
      run.left += is_of_it;
      others[remaining] = at;
      remaining += !is_of_it;
      differs |= is_of_it ? kind_of(keys[at]) ^ kind_of(first) : 0;
    }
    run.weight_of_each = differs == 0 ? run.weight(first) : 0;
    run.count = run.left;
    count = remaining;
    admit_run<Stage::second>(run);
    finish(run);
  }
}

/// Which of a run's keys that no stage has decided on seem to need no more than their entries.
struct WorkerCore::Settled {
  // Not initialised: most bursts have none.
  Settled() noexcept : count(0) {}
  std::span<const std::uint8_t> keys() const noexcept { return {at.data(), count}; }

  std::size_t count;
  std::array<std::uint8_t, burst_size> at;
};

void WorkerCore::finish(Run& run) noexcept {
  if (const std::size_t admitted = run.admitted(); admitted > 0) count_admitted(run.rule, admitted);
  if (run.left == 0) return;
  const RuleTerms& terms = plane_.terms[run.rule];
  const bool draws = draws_for_each(terms);
  const bool refused = may_refuse(terms) && rule_grants_[run.rule].flood > 0;
  const Settled settled = draws || refused ? take_settled(run) : Settled();
  if (run.left > 0) prefetch_beyond_lines(run);
  for (const std::uint8_t at : settled.keys()) table_->prefetch_entry(run.place[at]);
  const MonotonicTime now = run.now();  // the clock is read while they come
  if (draws)
    draw_from_buckets(run, settled, now);
  else if (settled.count > 0)
    refuse_known(run, settled, now);
  if (run.left > 0) draw_as_usual(run, now);
  if (run.left > 0) look_closely(run, now);
  std::uint8_t& flood = rule_grants_[run.rule].flood;
  const auto is_refused = [&](std::uint8_t key) { return run.verdicts[key] == Verdict::block; };
  if ((!draws && run.refused > 0) || std::any_of(run.at.begin(), run.at.begin() + run.left, is_refused))
    flood = flood_lasts;
  else if (!may_refuse_at_a_glance(terms))
    flood = 0;
}

// They are not left then. (A weight of 0 only looks.)
WorkerCore::Settled WorkerCore::take_settled(Run& run) const noexcept {
  Settled settled;
  std::size_t others = 0;
  for (std::size_t i = 0; i < run.left; ++i) {
    const std::uint8_t at = run.at[i];
    const SpanTable::Place place = run.place[at];
    if (run.keys[at].weight != 0 && place != SpanTable::nowhere &&
        table_->seems_settled(place, generation_)) {
      table_->prefetch_number(place);
      settled.at[settled.count++] = at;
    } else {
      run.at[others++] = at;
    }
  }
  run.left = others;
  return settled;
}

// A flood of what is refused goes no further than the keys' entries, and for a limit that is used up the
// cells.
void WorkerCore::refuse_known(Run& run, const Settled& settled, MonotonicTime now) noexcept {
  if (plane_.terms[run.rule].algorithm != Algorithm::cooldown)
    for (const std::uint8_t at : settled.keys())
      prefetch_to_read(table_->cells[run.rule] + table_->terms(table_->entry(run.place[at])).cell);
  std::size_t refused = 0;
  for (const std::uint8_t at : settled.keys()) {
    const Key& key = run.keys[at];
    const SpanTable::Place place = run.place[at];
    if (table_->holds(place, key.hash_) &&
        is_known_refused({key.hash_, place, run.rule, key.is_of_rule()}, run.weight(key), now)) {
      table_->count_refused(table_->entry(place), counts_refused(plane_.terms[run.rule], run.weight(key)));
      run.verdicts[at] = Verdict::block;
      ++refused;
    } else {
      run.at[run.left++] = at;
    }
  }
  run.refused += refused;
  if (refused > 0) count_refused(run.rule, refused);
}

// Each of a bucket's requests is drawn for, where none may keep anything for the next: from the cell that the
// key's entry names, of which no more is needed.
void WorkerCore::draw_from_buckets(Run& run, const Settled& settled, MonotonicTime now) noexcept {
  const RuleTerms& rule = plane_.terms[run.rule];
  AllowanceCell* const cells = table_->cells[run.rule];
  for (const std::uint8_t at : settled.keys())
    prefetch_to_write(cells + table_->terms(table_->entry(run.place[at])).cell);
  const bool runs = window_runs(rule.window);
  // A copy that nothing drawn can be taken to change.
  const BucketTerms bucket = rule.bucket;
  Settled drawn;
  Settled refused;
  for (const std::uint8_t at : settled.keys()) {
    const Key& key = run.keys[at];
    const std::uint64_t weight = run.weight(key);
    const SpanTable::Place place = run.place[at];
    const EntryTerms terms = table_->terms(table_->entry(place));
    const bool needs_no_more = runs && table_->holds(place, key.hash_) && terms.allowance > 0 &&
                               weight - 1 < SpanTable::most_ready - 1 && table_->credit(place) == 0 &&
                               table_->entry(place).lent == 0;
    BucketCell::Draw draw{.closed = true};
    if (needs_no_more) [[likely]]
      draw = BucketCell(cells[terms.cell]).draw(key.hash_, weight, 0, terms.allowance, bucket, now);
    if (draw.closed) [[unlikely]] {
      run.at[run.left++] = at;
      continue;
    }
    Settled& where = draw.taken > 0 ? drawn : refused;
    where.at[where.count++] = at;
  }
  // As in may_admit(), with its acquire fence.
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool was_known = window_is_known(rule.window);
  const auto refuse = [&](const Settled& some) {
    for (const std::uint8_t at : some.keys()) {
      table_->count_refused(table_->entry(run.place[at]), counts_refused(rule, run.weight(run.keys[at])));
      run.verdicts[at] = Verdict::block;
    }
    if (some.count > 0) count_refused(run.rule, some.count);
  };
  refuse(refused);
  if (!was_known) [[unlikely]]
    return refuse(drawn);
  for (const std::uint8_t at : drawn.keys()) table_->count_admitted(run.place[at], run.weight(run.keys[at]));
  if (drawn.count > 0) count_admitted(run.rule, drawn.count);
}

template <WorkerCore::Stage stage>
void WorkerCore::admit_run(Run& run) noexcept {
  if (!plane_.terms[run.rule].dense) return admit_run_of_keys<stage>(run);
  if (run.next != nullptr) prefetch_keys(furthest_of(*run.next, run.count));
  take_dense<stage>(run);
}

void WorkerCore::learn_entries_first(RuleIndex rule, bool entries_first) noexcept {
  ExpectedWay& way = rule_grants_[rule].entries_first;
  const bool had_learned = way.has_learned();
  if (!entries_first && !had_learned) [[likely]]
    return;
  way.learn(entries_first);
  rules_learned_ += static_cast<std::size_t>(way.has_learned()) - static_cast<std::size_t>(had_learned);
  tell_use(rule);
}

template <WorkerCore::Stage stage>
void WorkerCore::admit_run_of_keys(Run& run) noexcept {
  Grant& grant = rule_grants_[run.rule];
  if (grant.most == 0) return take_from_entries<stage>(run);
  // Where nearly all keys have used up their grants, looking there first would be in vain. Else it is first,
  // as it is the grants' lines that have been asked for: also where they have nothing in either, as keys that
  // somebody makes up.
  if (grant.entries_first.is_other()) {
    take_from_entries<stage>(run);
    learn_entries_first(run.rule, run.left <= run.count / 8);
    if (run.left > 0) use_grants<Stage::second>(run);
  } else {
    use_grants<stage>(run);
    if (run.left == 0) return learn_entries_first(run.rule, false);
    // Of several rules' keys most may have been admitted before it was their turn.
    const std::size_t in_burst = run.in_burst<stage>();
    const std::size_t few = in_burst / 8;
    const bool few_granted = in_burst - run.left <= few;
    prefetch_beyond_grants(run);
    take_from_entries<Stage::second>(run);
    learn_entries_first(run.rule, few_granted && run.left <= few);
  }
}

/// The hashes of the keys that a stage looks at. @param room  for those of keys that lie here and there
template <WorkerCore::Stage stage>
Hashes WorkerCore::hashes_of(const Run& run, std::array<std::uint64_t, burst_size>& room) noexcept {
  if constexpr (stage == Stage::first) {
    static_assert(sizeof(Key) == Hashes::in_keys);
    return {reinterpret_cast<const std::byte*>(&run.keys[0].hash_), sizeof(Key), run.count};
  } else {
    for (std::size_t i = 0; i < run.left; ++i) room[i] = run.keys[run.at[i]].hash_;
    return Hashes::alone(room.data(), run.left);
  }
}

// @param serve  called with the hashes of a stage's keys, and room for the numbers of those that are left;
// their count
template <WorkerCore::Stage stage>
void WorkerCore::serve(Run& run, auto&& serve) noexcept {
  std::array<std::uint64_t, burst_size> room;
  const Hashes keys = hashes_of<stage>(run, room);
  if constexpr (stage == Stage::first) {
    run.left = serve(keys, run.at.data());
  } else {
    std::array<std::uint8_t, burst_size> left;
    run.left = serve(keys, left.data());
    for (std::size_t i = 0; i < run.left; ++i) run.at[i] = run.at[left[i]];
  }
}

// The keys that are to be asked for while a run's are decided upon: where they are of its rule, too, and as
// many. Whether they are shows at their ends well enough: where it is wrong, a line comes late.
Hashes WorkerCore::take_next(Run& run) const noexcept {
  const std::span<const Key>* const asked = std::exchange(run.next, nullptr);
  if (asked == nullptr) return Hashes::none();
  std::span<const Key> next = *asked;
  if (next.size() > burst_size) [[unlikely]]
    next = furthest_of(next, run.count);
  if (next.size() == run.count && next.front().rule_ == run.rule && next.back().rule_ == run.rule) [[likely]]
    return {reinterpret_cast<const std::byte*>(&next[0].hash_), sizeof(Key), next.size()};
  prefetch_keys(next);
  return Hashes::none();
}

template <WorkerCore::Stage stage>
void WorkerCore::use_grants(Run& run) noexcept {
  const Hashes next = take_next(run);
  serve<stage>(run, [&](const Hashes& keys, std::uint8_t* left) {
    if (run.weight_of_each != 0) [[likely]]
      return use_grants(run.rule, keys, next, run.weight_of_each, run.template in_burst<stage>(), left);
    return use_each_grant<Usable::some>(
        run.rule, keys, [&](std::size_t i) { return run.weight(run.keys[run.template at_of<stage>(i)]); },
        left);
  });
}

template <WorkerCore::Stage stage>
void WorkerCore::take_from_entries(Run& run) noexcept {
  // But for bursts of one rule, whose first look this is, keys are lent to.
  const bool lends = stage == Stage::second && rule_grants_[run.rule].most >= least_lent;
  const Hashes next = take_next(run);
  serve<stage>(run, [&](const Hashes& keys, std::uint8_t* left) {
    if (rule_grants_[run.rule].flood > 0 && may_refuse_at_a_glance(plane_.terms[run.rule]) &&
        run.now() < glances_end_) [[unlikely]] {
      for (std::size_t i = 0; i < next.count; ++i) table_->prefetch(next[i]);
      return take_or_refuse<stage>(run, keys, lends, left);
    }
    if (run.weight_of_each != 0) [[likely]]
      return take_from_entries(run.rule, keys, next, run.weight_of_each, lends, left);
    return take_from_each_entry(
        run.rule, keys, [&](std::size_t i) { return run.weight(run.keys[run.template at_of<stage>(i)]); },
        lends, left, refuse_none);
  });
  for (std::size_t i = 0; i < run.left; ++i) run.place[run.at[i]] = table_->locate(run.keys[run.at[i]].hash_);
}

// Whether is_ungranted() any of one rule's keys. Without branches: mostly none is, though some of the rule's
// are.
bool WorkerCore::any_ungranted(RuleIndex rule, const Hashes& keys) const noexcept {
  bool any = false;
  if (refused_.any_of(rule))
    for (std::size_t i = 0; i < keys.count; ++i) any |= refused_.may_hold(keys[i]);
  if (publication_->some_ungranted[rule] != 0) {
    const KeyFilter& published = publication_->ungranted();
    for (std::size_t i = 0; i < keys.count; ++i)
      any |= published.may_hold(static_cast<std::uint32_t>(keys[i]));
  }
  return any;
}

// Uses the same of the grants of one rule's keys. @param in_burst  how many keys of the rule there are
// @return how many are left, in `left` which
std::size_t WorkerCore::use_grants(RuleIndex rule, const Hashes& keys, const Hashes& next,
                                   std::uint64_t weight, std::size_t in_burst, std::uint8_t* left) noexcept {
  Grant& grant = rule_grants_[rule];
  const auto weight_of = [weight](std::size_t) { return weight; };
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  const bool all_may = weight - 1 < grant.most && !(grant.some_ungranted && any_ungranted(rule, keys));
  if (!all_may || grant.one_by_one.is_other()) [[unlikely]] {
    for (std::size_t i = 0; i < next.count; ++i) grants_.prefetch(next[i]);
    if (all_may) return use_each_grant<Usable::all>(rule, keys, weight_of, left);
    return use_each_grant<Usable::some>(rule, keys, weight_of, left);
  }
  const GrantPortion portion{static_cast<std::uint32_t>(weight), grant.most, grant.window};
  std::size_t others = grants_.lines().use(keys, next, portion, left);
  if (others < keys.count) table_->counted_beside = true;
  if (others == 0) [[likely]] {
    grant.one_by_one.learn(false);
    return 0;
  }
  std::array<std::uint64_t, burst_size> hashes;
  std::array<std::uint8_t, burst_size> still;
  for (std::size_t i = 0; i < others; ++i) hashes[i] = keys[left[i]];
  const std::size_t at_a_glance = keys.count - others;
  others = use_each_grant<Usable::all>(rule, Hashes::alone(hashes.data(), others), weight_of, still.data());
  grant.one_by_one.learn(!is_few(keys.count - others - at_a_glance, in_burst));
  for (std::size_t i = 0; i < others; ++i) left[i] = left[still[i]];
  return others;
}

// First all are found, then used, one after the other: without branches on what that comes to. A key may come
// twice, so what is stored of one must be known before the next is read; and a processor that waits for that
// shall not wait for a search.
template <WorkerCore::Usable usable, typename WeightOf>
std::size_t WorkerCore::use_each_grant(RuleIndex rule, const Hashes& keys, WeightOf&& weight_of,
                                       std::uint8_t* left) noexcept {
  const GrantTable::Lines lines = grants_.lines();
  const Grant grant = rule_grants_[rule];
  GrantTable::Lines::Half nothing[2] = {lines.used_up(grant.window), lines.used_up(grant.window)};
  auto* const used_up = reinterpret_cast<std::byte*>(nothing);
  std::array<std::byte*, burst_size> halves;
  lines.find(keys, used_up, halves.data());
  std::size_t others = 0;
  std::size_t renewed = 0;
  for (std::size_t i = 0; i < keys.count; ++i) {
    std::uint64_t weight = weight_of(i);
    if constexpr (usable == Usable::some) {
      const bool may = weight - 1 < grant.most && !(grant.some_ungranted && is_ungranted(rule, keys[i]));
      halves[i] = may ? halves[i] : used_up;
      weight = may ? weight : 0;
    }
    auto& half = reinterpret_cast<GrantTable::Lines::Half*>(halves[i])[grant.window.half];
    renewed += !lines.runs(half, grant.window);
    left[others] = static_cast<std::uint8_t>(i);
    others += !lines.use(half, static_cast<std::uint32_t>(weight), grant.most, grant.window);
  }
  if (grant.one_by_one.is_other()) rule_grants_[rule].one_by_one.learn(!is_few(renewed, keys.count));
  if (others < keys.count) table_->counted_beside = true;
  return others;
}

// Takes the same of what is ready in the entries of one rule's keys. @return how many are left, in `left`
// which
std::size_t WorkerCore::take_from_entries(RuleIndex rule, const Hashes& keys, const Hashes& next,
                                          std::uint64_t weight, bool lends, std::uint8_t* left) noexcept {
  if (lends || weight - 1 >= TableLines::nothing_ready - 1) [[unlikely]] {
    for (std::size_t i = 0; i < next.count; ++i) table_->prefetch(next[i]);
    return take_from_each_entry(
        rule, keys, [weight](std::size_t) { return weight; }, lends, left, refuse_none);
  }
  return table_->lines().take(keys, next, generation_, static_cast<std::uint32_t>(weight), left);
}

// @param refuse  called with the word of a key that has not enough ready, and which one it is; whether the
// key has been refused by that
template <typename WeightOf, typename Refuse>
std::size_t WorkerCore::take_from_each_entry(RuleIndex rule, const Hashes& keys, WeightOf&& weight_of,
                                             bool lends, std::uint8_t* left, Refuse&& refuse) noexcept {
  const SpanTable::Lines lines = table_->lines();
  std::uint32_t nothing = 0;
  std::array<std::byte*, burst_size> words;
  lines.find(keys, generation_, nothing, words.data());
  std::size_t others = 0;
  for (std::size_t i = 0; i < keys.count; ++i) {
    auto& ready = *reinterpret_cast<std::uint32_t*>(words[i]);
    if (lines.take(ready, weight_of(i))) {
      if (lends) lend(lines.place_of(ready), keys[i], rule);
    } else if (!refuse(ready, i)) {
      left[others++] = static_cast<std::uint8_t>(i);
    }
  }
  return others;
}

// A flood of who is blocked for long goes no further than the keys' lines.
template <WorkerCore::Stage stage>
std::size_t WorkerCore::take_or_refuse(Run& run, const Hashes& keys, bool lends,
                                       std::uint8_t* left) noexcept {
  const auto at = [&](std::size_t i) { return run.template at_of<stage>(i); };
  const auto weight = [&](std::size_t i) { return run.weight(run.keys[at(i)]); };
  // As counts_refused() has it where the limit is exceeded by whatever is heavier than that.
  const std::uint64_t most_counted = plane_.terms[run.rule].too_heavy_counts;
  std::size_t refused = 0;
  const std::size_t others =
      take_from_each_entry(run.rule, keys, weight, lends, left, [&](std::uint32_t& word, std::size_t i) {
        std::uint32_t* says = &word;
        if (!SpanTable::Lines::refuses(word)) [[unlikely]] {
          says = refusal_that_lasts(table_->locate(keys[i]), keys[i]);
          if (says == nullptr) return false;
        }
        if (!SpanTable::Lines::refuse(*says, std::min(weight(i), most_counted))) return false;
        run.verdicts[at(i)] = Verdict::block;
        ++refused;
        return true;
      });
  if (refused > 0) count_refused(run.rule, refused);
  table_->met_again = table_->met_again || refused > 0;
  run.refused += refused;
  // Who comes when it is over reads no clock for it.
  std::uint8_t& flood = rule_grants_[run.rule].flood;
  flood = refused > 0 ? flood_lasts : static_cast<std::uint8_t>(flood - 1);
  return others;
}

// Keys of a rule without dimensions: nearly always the one that is the rule's own, and enough ready for all.
template <WorkerCore::Stage stage>
void WorkerCore::take_dense(Run& run) noexcept {
  const SpanTable::Place own = table_->place_of_rule(run.rule);
  // The product of two such numbers does not wrap.
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t weight = run.weight_of_each * run.count;
  if (run.keys[run.template at_of<stage>(0)].is_of_rule() && run.weight_of_each - 1 < most &&
      table_->has_ready(own, rule_keys_[run.rule], weight, generation_)) [[likely]] {
    table_->take_ready(own, weight);
    run.left = 0;
    return;
  }
  take_each_dense<stage>(run);
}

template <WorkerCore::Stage stage>
void WorkerCore::take_each_dense(Run& run) noexcept {
  const SpanTable::Place own = table_->place_of_rule(run.rule);
  const auto at = [&](std::size_t i) { return run.template at_of<stage>(i); };
  const SpanTable::Lines lines = table_->lines();
  std::uint32_t nothing = 0;
  std::size_t left = 0;
  for (std::size_t i = 0; i < run.count; ++i) {
    const Key& key = run.keys[at(i)];
    SpanTable::Place& place = run.place[at(i)] = own;
    std::uint32_t& ready = key.is_of_rule() ? lines.ready_at(own, key.hash_, generation_, nothing)
                                            : lines.ready_of(key.hash_, generation_, nothing, place);
    if (lines.take(ready, run.weight(key))) continue;
    if (&ready != &nothing) place = lines.place_of(ready);
    run.at[left++] = static_cast<std::uint8_t>(at(i));
  }
  run.left = left;
}

}  // namespace weir
