// SPDX-License-Identifier: BSD-3-Clause
#include "control/controller.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/prefetch.h"
#include "engine/heartbeat.h"
#include "limit/bucket_rule.h"

namespace weir {
namespace {

// How soon to look again whether the workers have passed: a burst takes microseconds.
constexpr Duration drain_poll = std::chrono::microseconds{50};
constexpr std::size_t counted_together = 64;
// What a drain leaves in place is for the span after the one that has begun, and for half a span more
// (WorkerCore::begin_glances()); what is published, until there is something else. And each span may last
// longer than the one before. (A capture may have a hole of a century in it.)
constexpr int spans_kept = 4;
constexpr Duration longest_kept = std::chrono::hours{1};
// A quarter of the keys that a pool is made for, at most; the ledger holds those of two intervals.
constexpr std::uint32_t ledger_keys_per_reserved = 16;
// Where so few places for keys are to be looked at, cells are reserved in no time. Else it is done after a
// window in which there were too many keys, and as often again as makes a spray of keys that comes and goes no
// better than one that stays.
constexpr std::uint32_t always_reserved = 1024;
constexpr unsigned wary_turns = 1000;
constexpr std::size_t claimed_ahead = 16;
constexpr std::size_t taken_together = 256;
// Of so many keys nothing is set aside: a publication names each of them.
constexpr std::size_t most_heavy = 16384;
constexpr unsigned most_turns = 8;                 // to tell of blocked keys
constexpr unsigned drains_apart = most_turns / 2;  // a key's turns in the two tables
// Beyond so many keys it is cheaper to let the workers look their keys up again.
constexpr std::size_t most_compared = 65536;

// What was said of a key's grants while no more than its block was published of it; nullptr: nothing.
KeyState said_of(const LastingBlocks::Key* key) noexcept {
  return {.ungranted_since = key != nullptr ? key->ungranted_since : KeyState::granted};
}

Duration shortest_span_of(std::span<const Rule> rules) noexcept {
  Duration shortest = Duration::max();
  for (const Rule& rule : rules) shortest = std::min(shortest, rule.interval / rule.spans);
  return shortest;
}

// What all workers' grants of a key come to at most, whatever a node's part of the limit; by rule.
std::vector<std::uint64_t> greatest_grants(std::span<const Rule> rules, unsigned workers) {
  std::vector<std::uint64_t> greatest;
  for (const Rule& rule : rules) {
    const std::uint32_t most = may_be_granted(rule) ? standing_grant(rule, grantable(rule), workers) : 0;
    greatest.push_back(most < rule.weight ? 0 : std::uint64_t{most} * workers);
  }
  return greatest;
}

std::size_t room_of(std::span<const CorrectionLog> logs) noexcept {
  std::size_t bytes = 0;
  for (const CorrectionLog& log : logs) bytes += log.room();
  return bytes;
}

// Weight, ever: acknowledged, or given up.
std::uint64_t answered(const StoreFigures& store) noexcept { return store.applied + store.expired; }

}  // namespace

Controller::Controller(ControllerParts parts)
    : parts_(std::move(parts)),
      publisher_(parts_.publication, parts_.quiescence),
      new_keys_(parts_.engine.capacity(), parts_.quiescence.workers()),
      wary_(parts_.pools.size()),
      heaviest_(parts_.engine.capacity() / ledger_keys_per_reserved),
      greatest_grants_(greatest_grants(parts_.rules, parts_.quiescence.workers())),
      corrections_({parts_.rules, parts_.window_of_rule, parts_.bucket_of_rule, greatest_grants_,
                    parts_.pools, room_of(parts_.corrections), parts_.engine}),
      workers_(parts_.quiescence.workers()),
      grants_(parts_.rules.size()),
      heavy_(parts_.pools.size()),
      heavy_next_(parts_.pools.size()),
      begun_(parts_.pools.size()),
      interval_began_(parts_.pools.size()),
      lasting_blocks_(parts_.rules.size()),
      blocked_keys_(parts_.rules.size()),
      shortest_span_(shortest_span_of(parts_.rules)),
      sync_watch_(std::min(parts_.store_timeout, usual_span() / 2), usual_span()) {
  Duration shortest_interval = Duration::max();
  for (const Rule& rule : parts_.rules) {
    shortest_interval = std::min(shortest_interval, rule.interval);
    limits_.push_back(rule.limit);
  }
  lasting_ = spans_kept * usual_span();
  // By a publication, which may be a span in coming.
  parts_.engine.take_back_in_time(lasting_ - usual_span());
  // Where refused requests count, too, they count when they came.
  if (std::ranges::none_of(parts_.rules, [](const Rule& rule) { return rule.penalize; }))
    while (most_turns_ < most_turns &&
           std::min(2 * most_turns_, drains_apart) * tables_per_worker * usual_span() <= shortest_interval)
      most_turns_ *= 2;
}

WallTime Controller::next_flip_after(WallTime now) const noexcept {
  // Where spans last longer, with each heartbeat: who is always a little late would leave one out in the end.
  static_assert(heartbeat.interval() == longest_between_flips);
  WallTime next = shortest_span_ > longest_between_flips ? heartbeat.next_begin(now) : WallTime::max();
  for (std::size_t i = 0; i < parts_.rules.size(); ++i)
    next = std::min(next, parts_.engine.clock(static_cast<RuleIndex>(i)).next_begin(now));
  return next;
}

Duration Controller::usual_span() const noexcept { return std::min(shortest_span_, longest_between_flips); }

bool Controller::draining() const noexcept {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const WorkerState& worker) { return worker.draining; });
}

// A clock that was set back begins a span of its own: the old one's end would be long in coming.
bool Controller::flip_due(Instant now) const noexcept {
  return now.wall >= next_flip_ || now.wall < flipped_.wall;
}

Instant Controller::advance(Instant own) {
  if (!started_) {
    started_ = true;
    const Instant now = clock_.at(own);
    next_flip_ = next_flip_after(now.wall);
    flipped_ = now;
    for (WorkerState& worker : workers_) worker.counts_since = now.monotonic;
    quotas_at_ = now.wall;
    for (WindowPools& pools : parts_.pools) {
      pools.begin();
      pools.turn_to(now);
    }
    parts_.engine.step(now);
    for (WindowPools& pools : parts_.pools) pools.settle();
    for (std::size_t window = 0; window < parts_.pools.size(); ++window) renew_grants(window, now.monotonic);
    // At once: the sooner it is known how many nodes there are, and what time it is, the better.
    awaits_first_reply_ = parts_.engine.has_writes();
    store_log_.expect_by(now.monotonic + parts_.store_timeout);
    // Not watched: the store may still have to be connected to.
    writes_.submit(parts_.engine, parts_.store, now.monotonic);
    publish(now, true);
    const std::uint64_t token = parts_.quiescence.start();
    for (WindowPools& pools : parts_.pools) pools.retired(token, 0);
  }

  collect_replies(own);
  const Instant now = clock_.at(own);
  watch_store(now);
  drain_passed();
  // Before his table is another span's. What he has admitted meanwhile, windows that slide hold from now on.
  if (!awaiting_drain_ && !passed_.empty()) {
    take_corrections(now, false);
    dirty_ = dirty_ || std::ranges::any_of(
                           parts_.pools, [](const WindowPools& pools) { return pools.terms().spans > 1; });
  }
  // Whoever was late has told by now: others need not keep clear of what he might have drawn until the next
  // span.
  if (!awaiting_drain_ && settle_pools()) {
    holds_since_ = Publication::nothing_holds;
    dirty_ = true;
  }
  const bool waited = awaiting_drain_;
  if (awaiting_drain_ && (!draining() || now.monotonic >= drain_deadline_)) decide(now, false);
  bool decided = waited && !awaiting_drain_;
  if (!awaiting_drain_ && flip_due(now)) {
    flip(now);
    // Else at the next look: so that as many as can be are drained together.
    if (all_have_passed()) drain_passed();
    if (!draining()) decide(now, false);
    decided = decided || !awaiting_drain_;
  }
  if (decided) collect_replies(own);
  figures_.clock_offset = now.wall - own.wall;
  figures_.clock_uncertainty = clock_.uncertainty(own.monotonic);
  // An answer may have set the clock: what it brought belongs to the span that begins with the next call.
  const bool set = !awaiting_drain_ && flip_due(clock_.at(own));
  if (dirty_ && !awaiting_drain_ && !set) publish(now, true);
  clear_spare_pools(now.monotonic);
  const bool more_to_do = !awaiting_drain_ && (forget_idle_grants() || grow_a_spare_table());

  if (awaiting_drain_)
    return own + std::min<Duration>(drain_poll, std::max(Duration{1}, drain_deadline_ - now.monotonic));
  // There may be more of them, but nobody is to wait for all.
  Duration until = set || more_to_do ? Duration{} : clock_.until(next_flip_, own);
  if (sync_watch_.due() != MonotonicTime::max()) until = std::min(until, sync_watch_.due() - now.monotonic);
  return own + std::max(until, Duration{1});
}

void Controller::flip(Instant now) {
  ++figures_.spans;
  if (now.wall - next_flip_ > shortest_span_) ++figures_.span_overruns;
  note_lateness(now);
  figures_.stalled_workers = 0;

  std::vector<std::size_t> flipped;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    WorkerState& worker = workers_[i];
    if (worker.draining) {
      // It has not passed since the last flip, so its spare table is not clean yet: it goes on where it is.
      ++figures_.stalled_workers;
      continue;
    }
    // As a rule it has, see grow_a_spare_table(); not where this controller is always late.
    drained_table(i).grow();
    worker.table ^= 1;
    flipped.push_back(i);
  }
  std::vector<WindowPools*> turned;
  const bool can_publish = publisher_.ready();
  for (std::size_t window = 0; window < parts_.pools.size(); ++window) {
    // Where workers cannot be told they go on in what they know. Each third turn would clear it under them:
    // of a window that slides, and turns with each span, they would have the limit anew each time. (Of others
    // that is one limit in three windows.)
    if (!can_publish && parts_.pools[window].terms().spans > 1) continue;
    const std::uint64_t interval = parts_.pools[window].interval_number();
    if (!parts_.pools[window].turn_to(now)) continue;
    turned.push_back(&parts_.pools[window]);
    reserve_cells(window);
    if (parts_.pools[window].interval_number() == interval) continue;  // a span of a window that slides
    renew_grants(window, now.monotonic);
    heavy_[window] = std::exchange(heavy_next_[window], {});
  }
  refused_ = {};
  // What is refused later, other workers may still admit out of their grants until it is judged.
  for (const auto& grants : parts_.grants) grants->refused.add_to(refused_);

  // Until what windows that slide hold by the clock as it was has moved along, it goes by that.
  const WallTime as_it_was = flipped_.wall + (now.monotonic - flipped_.monotonic);
  quotas_at_ = now.wall < flipped_.wall || now.wall - as_it_was >= shortest_span_ ? as_it_was : now.wall;
  lasting_ = spans_kept * std::clamp(now.monotonic - flipped_.monotonic, usual_span(), longest_kept);
  keep_until_ = now.monotonic + lasting_;
  flipped_ = now;
  next_flip_ = next_flip_after(now.wall);
  const std::uint64_t before = publisher_.generation();
  holds_since_ = publisher_.generation() + 1;
  changed_.clear();
  windows_turned_ = windows_turned_ || !turned.empty();
  publish(now, false);
  const bool published = publisher_.generation() != before;
  const std::uint64_t token = parts_.quiescence.start();
  for (WindowPools* pools : turned) pools->retired(token, figures_.spans);
  for (const std::size_t i : flipped) {
    if (published) {
      workers_[i].draining = true;
      workers_[i].flip_token = token;
      workers_[i].flip = figures_.spans;
      workers_[i].counts_since = now.monotonic;
    } else {
      workers_[i].table ^= 1;
    }
  }
  awaiting_drain_ = true;
  // Long enough for any worker that runs, short enough to leave most of the span to the store.
  drain_deadline_ = now.monotonic + std::min<Duration>(shortest_span_ / 4, std::chrono::milliseconds{10});
}

// Until when what is drained has been counted, at most. Not by the clock as it was where that is ahead: none
// of it may be held as of a span that is still to come.
WallTime Controller::counted_by() const noexcept { return std::min(quotas_at_, flipped_.wall); }

void Controller::note_lateness(Instant now) {
  const std::uint64_t met = parts_.engine.met() - std::exchange(met_, parts_.engine.met());
  if (now.wall < flipped_.wall) return;  // the clock was set back
  new_keys_.span_ended(next_flip_ - flipped_.wall, now.wall - next_flip_, met);
}

// Who used much of his limit finds a cell of his own in the window that begins, however many new keys come
// first. Before any worker knows its pool: then all agree.
void Controller::reserve_cells(std::size_t window) {
  WindowPools& pools = parts_.pools[window];
  if (pools.ended().crowded())
    wary_[window] = wary_turns;
  else if (wary_[window] > 0)
    --wary_[window];
  if (wary_[window] == 0 && parts_.engine.places() > always_reserved) return;
  heaviest_.clear();
  // A worker that is granted as much need not draw it; if the key finds a place among its grants.
  const bool all_are_granted =
      std::ranges::none_of(parts_.grants, [](const auto& table) { return table->crowded(); });
  parts_.engine.for_each_key([&](const KeyView& view) {
    const RuleIndex rule = view.slot.rule;
    if (parts_.window_of_rule[rule] != window) return;
    const std::uint64_t used = std::max(view.slot.current.offered, view.past.offered);
    if (!all_are_granted || used > grants_[rule].most)
      heaviest_.add(view.slot.key, heaviness(used, limits_[rule]));
  });
  AllowancePool& pool = pools.running();
  const auto heavy = heaviest_.chosen();
  for (std::size_t i = 0; i < heavy.size(); ++i) {
    if (i + claimed_ahead < heavy.size()) pool.prefetch(heavy[i + claimed_ahead].thing);
    pool.claim(heavy[i].thing, AllowancePool::controller);
  }
  pools.reserve_for_known();
}

bool Controller::all_have_passed() const noexcept {
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].draining && !has_passed(i)) return false;
  return true;
}

bool Controller::has_passed(std::size_t worker) const noexcept {
  return parts_.quiescence.passed(static_cast<unsigned>(worker), workers_[worker].flip_token);
}

void Controller::drain_passed() {
  passed_.clear();
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].draining && has_passed(i)) passed_.push_back(i);
  if (passed_.empty()) return;
  const unsigned turns = turns_to_tell();
  for (const std::size_t worker : passed_) drain_entries(worker, turns);
  harvest_passed();
  for (const std::size_t worker : passed_) end_drain(worker);
}

void Controller::drain_entries(std::size_t index, unsigned turns) {
  WorkerState& worker = workers_[index];
  worker.draining = false;
  worker.drained_flip = worker.flip;
  SpanTable& table = drained_table(index);
  worker.grant_windows.clear();
  worker.granted = 0;
  if (!table.grant_turns.empty()) {
    worker.turns_used = table.grant_turns;
    for (const std::uint16_t window : parts_.window_of_rule)
      worker.grant_windows.emplace_back(table.grant_turns[window]);
  }
  runs_.clear();
  for (const WindowPools& pools : parts_.pools) runs_.push_back(pools.runs_at(table.began));
  const SpanTable::Turns in_turns{.count = turns, .ahead = (worker.table ^ 1U) * drains_apart};
  table.drain(limits_, keep_until_, in_turns,
              [&](std::span<const CountedKey> keys) { take_counts(index, keys); });
}

void Controller::end_drain(std::size_t index) {
  SpanTable& table = drained_table(index);
  consider_forgetting(workers_[index], *parts_.grants[index]);
  const std::span<const OverflowCount> overflows = table.overflows();
  for (std::size_t rule = 0; rule < overflows.size(); ++rule)
    if (overflows[rule].offered > 0)
      parts_.engine.count_overflow({.rule = static_cast<RuleIndex>(rule),
                                    .began = table.began.wall,
                                    .counted_by = counted_by(),
                                    .offered = overflows[rule].offered,
                                    .admitted = overflows[rule].admitted});
  table.renew();
}

// @param keys  of the worker's drained table
void Controller::take_counts(std::size_t index, std::span<const CountedKey> keys) {
  const WallTime began = drained_table(index).began.wall;
  // Keys come in no order, so all that they touch is fetched for many at once.
  for (const CountedKey& key : keys) {
    if (key.cell != nullptr) prefetch_to_write(key.cell);
    if (key.lent > 0) parts_.grants[index]->prefetch_lent(key.key);
  }
  std::array<SpanCount, SpanTable::drained_together> counts;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const CountedKey& key = keys[i];
    const std::uint32_t used = key.lent > 0 ? parts_.grants[index]->take_lent(
                                                  key.key, key.lent, workers_[index].grant_windows[key.rule])
                                            : 0;
    counts[i] = {.rule = key.rule,
                 .key = key.key,
                 .key_bytes = key.name,
                 .began = began,
                 .counted_by = counted_by(),
                 .offered = key.offered + used,
                 .admitted = key.admitted + used,
                 .refused_at = key.refused_at};
  }
  parts_.engine.count(std::span(counts).first(keys.size()));
  for (const CountedKey& key : keys) {
    note_heavy(key);
    if (key.credit != 0) give_back(key);
  }
}

void Controller::give_back(const CountedKey& key) {
  const std::uint16_t window = parts_.window_of_rule[key.rule];
  WindowPools& pools = parts_.pools[window];
  if (is_bucket(parts_.rules[key.rule].algorithm)) {
    pools.give_back(key.key, *key.cell, key.credit, key.allowance, parts_.bucket_of_rule[key.rule]);
  } else if (runs_[window]) {
    if (pools.running().is_own_cell(key.cell, key.key)) key.cell->give_back(key.credit);
  }
}

// When the oldest of the spans began that workers count in. As a rule it is the one that runs; but who takes
// up a span only just before it ends counts on in that one's table when it has.
MonotonicTime Controller::uncounted_since() const noexcept {
  return std::ranges::min(workers_, {}, &WorkerState::counts_since).counts_since;
}

// After all that the span has counted: what is handed back was charged in it, as a rule, or before.
// @param end_all  nothing more will be counted
void Controller::take_corrections(Instant now, bool end_all) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    CorrectionLog& log = parts_.corrections[drained_index(i)];
    if (workers_[i].draining || log.empty()) continue;
    corrections_.take(log, {drained_table(i).began, counted_by()}, {quotas_at_, now.monotonic});
    // Who only looks whether anything is left, and is charged afterwards, never uses up a grant.
    for (const auto& [key, rule] : corrections_.emptied()) {
      if (greatest_grants_[rule] == 0) continue;
      const std::uint16_t window = parts_.window_of_rule[rule];
      want_all_of(key, rule, heavy_[window]);
      want_all_of(key, rule, heavy_next_[window]);
    }
  }
  corrections_.settle({quotas_at_, now.monotonic},
                      {.all_drained = !draining(),
                       .uncounted = end_all ? MonotonicTime::max() : uncounted_since(),
                       .running = flipped_});
}

// A power of two. By all workers, however many of them are drained together.
unsigned Controller::turns_to_tell() noexcept {
  std::size_t left_open = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) left_open += drained_table(i).left_open();
  unsigned turns = 1;
  while (turns < most_turns_ && left_open / turns > parts_.most_told) turns *= 2;
  return turns;
}

SpanTable& Controller::drained_table(std::size_t index) noexcept {
  return parts_.tables[drained_index(index)];
}

std::size_t Controller::drained_index(std::size_t index) const noexcept {
  return index * tables_per_worker + (workers_[index].table ^ 1);
}

// What workers admitted out of their grants in the windows that their spans lay in. What they have admitted
// since in the same windows is of the next span, but comes to the same sums.
void Controller::harvest_passed() {
  auto first = std::partition(passed_.begin(), passed_.end(),
                              [&](std::size_t worker) { return workers_[worker].grant_windows.empty(); });
  // Of spans that began at the same time a key's uses are one count. As a rule all did.
  while (first != passed_.end()) {
    const WallTime began = drained_table(*first).began.wall;
    const auto last = std::partition(
        first, passed_.end(), [&](std::size_t worker) { return drained_table(worker).began.wall == began; });
    harvest(std::span(first, last));
    first = last;
  }
}

// @param workers  whose spans began at the same time
void Controller::harvest(std::span<const std::size_t> workers) {
  const WallTime began = drained_table(workers.front()).began.wall;
  for (const std::size_t worker : workers) {
    NameLog& ended = parts_.grants[worker]->names(workers_[worker].table ^ 1);
    learn_new(ended);
    ended.empty();
  }
  std::array<SpanCount, counted_together> counts;
  std::size_t count = 0;
  const auto take_some = [&] {
    // Keys that have come since the flip are among them.
    for (const std::size_t worker : workers) learn_new(parts_.grants[worker]->names(workers_[worker].table));
    parts_.engine.count(std::span(counts).first(std::exchange(count, 0)));
  };
  const auto add = [&](const GrantUse& use) {
    counts[count++] = {.rule = use.rule,
                       .key = use.key,
                       .learned = true,
                       .began = began,
                       .counted_by = counted_by(),
                       .offered = use.admitted,
                       .admitted = use.admitted};
    if (count == counts.size()) take_some();
  };
  if (workers.size() == 1) {
    WorkerState& worker = workers_[workers.front()];
    worker.granted = parts_.grants[workers.front()]->harvest(worker.grant_windows, add);
  } else {
    harvest_side_by_side(workers, add);
  }
  take_some();
}

// All tables have as many lines, and keys their homes in the same ones.
template <typename Visitor>
void Controller::harvest_side_by_side(std::span<const std::size_t> workers, Visitor&& visit) {
  const std::size_t groups = parts_.grants[workers.front()]->groups();
  for (std::size_t group = 0; group < groups; ++group) {
    for (const std::size_t worker : workers)
      workers_[worker].granted += parts_.grants[worker]->harvest_group(
          group, workers_[worker].grant_windows,
          [&](std::size_t line, const GrantUse& use) { grant_sums_.add(line, use); });
    grant_sums_.take(visit);
  }
}

void Controller::learn_new(NameLog& names) {
  if (!names.has_new()) return;
  std::array<LearnedKey, counted_together> keys;
  std::size_t count = 0;
  const auto learn_some = [&] { parts_.engine.learn(std::span(keys).first(std::exchange(count, 0))); };
  names.read_new([&](const NewName& name) {
    keys[count++] = {.rule = name.rule, .key = name.key, .key_bytes = name.bytes};
    if (count == keys.size()) learn_some();
  });
  learn_some();
}

void Controller::consider_forgetting(WorkerState& worker, const GrantTable& grants) {
  ++worker.drains_since_forgetting;
  // Told at the drain before this one: by now the worker knows.
  worker.leaves_grants_alone = worker.grant_turn % 2 != 0 && !worker.turns_used.empty();
  const bool needs_room =
      (grants.crowded() || parts_.engine.learned_crowded()) && worker.granted < grants.held() / 2;
  if (worker.drains_since_forgetting == few_drains && worker.grant_turn != 0) {
    const auto most = static_cast<std::uint32_t>(
        std::clamp<Duration::rep>(longest_between_forgetting / shortest_span_,
                                  least_drains_between_forgetting, most_drains_between_forgetting));
    worker.drains_until_forgetting =
        needs_room ? std::min(2 * worker.drains_until_forgetting, most) : least_drains_between_forgetting;
  }
  if (worker.grant_turn % 2 == 0 && needs_room &&
      worker.drains_since_forgetting >= worker.drains_until_forgetting)
    ++worker.grant_turn;
}

// Of one worker that leaves them alone. After all that others wait for, as it may take its time.
// @return whether there was one: then another one may be, and this one is to know
bool Controller::forget_idle_grants() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    WorkerState& worker = workers_[i];
    if (!std::exchange(worker.leaves_grants_alone, false)) continue;
    recent_turns_.clear();
    for (std::size_t rule = 0; rule < grants_.size(); ++rule)
      // Buckets' windows may last for days: that is long enough.
      recent_turns_.push_back({.turn = worker.turns_used[parts_.window_of_rule[rule]],
                               .and_before = !is_bucket(parts_.rules[rule].algorithm)});
    std::array<std::uint64_t, counted_together> keys;
    std::size_t count = 0;
    const auto unlearn_some = [&] {
      parts_.engine.unlearn(std::span(keys).first(std::exchange(count, 0)));
    };
    parts_.grants[i]->forget_idle(recent_turns_, [&](std::uint64_t key) {
      keys[count++] = key;
      if (count == keys.size()) unlearn_some();
    });
    unlearn_some();
    ++worker.grant_turn;
    worker.drains_since_forgetting = 0;
    dirty_ = true;
    return true;
  }
  return false;
}

// Last, as it may take its time, and nobody is to wait for his block meanwhile. Where grants do not hold now,
// all of a worker's keys that used theirs will come to its tables.
// @return whether one has grown: then another one may be to
bool Controller::grow_a_spare_table() {
  const Publication* const published = publisher_.current();
  bool grants_hold = true;
  for (std::size_t rule = 0; published != nullptr && rule < grants_.size(); ++rule)
    grants_hold = grants_hold && (!may_be_granted(parts_.rules[rule]) ||
                                  published->grants[rule] >= parts_.rules[rule].weight);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const WorkerState& worker = workers_[i];
    if (worker.draining) continue;
    // One of which no table has been drained may be about to touch its pages for the first time.
    const bool known = !worker.turns_used.empty();
    const bool left_alone = worker.grant_turn % 2 != 0;
    if (drained_table(i).grow(known && (left_alone || !grants_hold) ? parts_.grants[i]->held() : 0))
      return true;
  }
  return false;
}

// Of a key that uses up half of its limit, or asks a worker for that much and may not have it, all is wanted:
// from the next window on nothing is set aside for workers that may not ask for it.
void Controller::note_heavy(const CountedKey& counted) {
  // (Where windows slide the allowance says it. A bucket never has what is set aside for grants.)
  if (grants_[counted.rule].reserve == 0 || counted.cell == nullptr ||
      parts_.pools[parts_.window_of_rule[counted.rule]].terms().spans > 1 ||
      is_bucket(parts_.rules[counted.rule].algorithm))
    return;
  // What they are a part of: where nodes divide the limit, this one's.
  const std::uint64_t limit = grants_[counted.rule].allowance;
  // Relaxed: whoever owns the cell by now, it is only about what is set aside.
  if (counted.cell->key.load(std::memory_order_relaxed) != counted.key ||
      (counted.offered <= limit / 2 && counted.cell->left_of(limit) > limit / 2))
    return;
  const std::uint16_t window = parts_.window_of_rule[counted.rule];
  want_all_of(counted.key, counted.rule, heavy_next_[window]);
  // Of the window before, whose last span this was.
  if (!runs_[window]) want_all_of(counted.key, counted.rule, heavy_[window]);
}

void Controller::want_all_of(std::uint64_t key, RuleIndex rule, Keys& keys) {
  if (keys.size() < most_heavy) keys.emplace(key, rule);
}

void Controller::renew_grants(std::size_t window, MonotonicTime now) {
  const WindowTerms& terms = parts_.pools[window].terms();
  const Duration lasted = now - std::exchange(interval_began_[window], now);
  // Where windows slide. The clock has been set, so that a window reaches the interval before as well.
  const bool was_short = terms.spans > 1 && lasted < terms.interval / terms.spans * (terms.spans - 1);
  for (std::size_t i = 0; i < grants_.size(); ++i) {
    if (parts_.window_of_rule[i] != window) continue;
    RuleGrant& grant = grants_[i];
    if (parts_.pools[window].interval_number() <= begun_[window]) {
      // The clock has come back to an interval that had begun: what was granted then may have been used, and
      // who had no grant is forgotten.
      std::swap(grant.reserve, grant.before);
      grant.most = 0;
      continue;
    }
    const bool reaches_before = was_short && grant.before > 0;
    grant.before = grant.reserve;
    const KeyOverride usual = parts_.engine.default_of(static_cast<RuleIndex>(i));
    grant.allowance = grantable(parts_.rules[i], usual.allowance, usual.factor);
    grant.most = may_be_granted(parts_.rules[i])
                     ? standing_grant(parts_.rules[i], grant.allowance, parts_.quiescence.workers())
                     : 0;
    // One that no request may use would be kept in vain.
    if (grant.most < parts_.rules[i].weight || reaches_before) grant.most = 0;
    grant.reserve = std::uint64_t{grant.most} * parts_.quiescence.workers();
  }
}

// Whether what a worker drew in the window before the running one has been counted. (One that has not passed
// since before that window began has drawn nothing in it.)
bool Controller::has_told(const WorkerState& worker, const WindowPools& pools) noexcept {
  return worker.drained_flip >= pools.retired_flip() ||
         (worker.draining && worker.flip <= pools.ended_since());
}

// @return whether any has been whose window slides: workers look at these alone
bool Controller::settle_pools() {
  bool any = false;
  for (WindowPools& pools : parts_.pools) {
    if (pools.settled()) continue;
    if (!std::ranges::all_of(workers_, [&](const WorkerState& worker) { return has_told(worker, pools); }))
      continue;
    pools.settle();
    any = any || pools.terms().spans > 1;
  }
  return any;
}

void Controller::decide(Instant now, bool end_all) {
  awaiting_drain_ = false;
  take_corrections(now, end_all);
  // The span that runs is the one the flip began, also when draining has taken us beyond its end.
  settle_pools();
  parts_.engine.step({flipped_.wall, now.monotonic}, end_all, !draining(), flipped_.monotonic);
  quotas_at_ = flipped_.wall;
  for (const PardonedKey& pardoned : parts_.engine.pardoned()) {
    parts_.pools[parts_.window_of_rule[pardoned.rule]].pardon(pardoned.key);
    changed_.push_back(pardoned.key);
  }
  // A window that has turned was looked at as one that has not been judged.
  if (std::exchange(windows_turned_, false)) holds_since_ = Publication::nothing_holds;
  publish(now, true);
  parts_.engine.tell_blocks(now);
  submit(now);
  // Last: after a span of new keys it takes its time, and nobody is to wait for his block meanwhile.
  for (WindowPools& pools : parts_.pools) pools.provide();
}

void Controller::publish(Instant now, bool judged) {
  if (!publisher_.ready()) return;
  dirty_ = false;
  auto next = publisher_.blank();
  next->began = flipped_;
  next->judged = judged;
  next->windows.clear();
  for (WindowPools& pools : parts_.pools) next->windows.push_back(pools.state(now));
  usual_.clear();
  next->defaults.clear();
  for (std::size_t rule = 0; rule < parts_.rules.size(); ++rule) {
    const KeyOverride& usual = usual_.emplace_back(parts_.engine.default_of(static_cast<RuleIndex>(rule)));
    next->defaults.push_back({usual.allowance, usual.factor});
  }
  next->table_of_worker.clear();
  for (const WorkerState& worker : workers_) next->table_of_worker.push_back(worker.table);
  next->new_keys = new_keys_.of_each_worker();
  find_intervals(*next);
  publish_grants(*next);
  publish_unnamed_keys(*next);
  publish_keys(*next, now);
  tell_changes(*next);
  publisher_.publish(std::move(next));
  figures_.generation = publisher_.generation();
}

void Controller::find_intervals(const Publication& next) {
  const Publication* const before = publisher_.current();
  grant_intervals_.clear();
  for (std::size_t i = 0; i < next.windows.size(); ++i) {
    const std::uint64_t number = next.windows[i].interval_number;
    grant_intervals_.push_back({.number = number,
                                // Nobody has been in one that is told of for the first time.
                                .whole = number > begun_[i] ? number : begun_[i] + 1,
                                .turned = before == nullptr || before->windows[i].interval_number != number,
                                .judged = next.judged,
                                .slides = next.windows[i].slides,
                                .keeps_all = parts_.pools[i].terms().monotonic});
  }
}

// What workers may draw of a key in a window that slides, by what is left in it and what is kept for grants.
std::uint64_t Controller::drawable(const KeyOverride& quota, const GrantTerms& terms, RuleIndex rule) const {
  const std::uint64_t kept =
      terms.kept(greatest_grants_[rule], grant_intervals_[parts_.window_of_rule[rule]].number);
  return std::min(quota.allowance, quota.left - std::min(quota.left, kept));
}

// Where windows slide: what holds for keys that are not named. Those that have used a little a filter names.
// Of others nothing is known; and while there are some of which nothing can be known, each that has a cell of
// its own is to have no more in all spans of a window than it might have in one. (Those that share one have
// that all together in each: who was here before is not to be refused for what they are.)
void Controller::publish_unnamed_keys(Publication& next) {
  next.light_allowances.assign(parts_.rules.size(), 0);
  next.unknown_allowances.assign(parts_.rules.size(), 0);
  for (std::size_t i = 0; i < parts_.rules.size(); ++i) {
    const auto rule = static_cast<RuleIndex>(i);
    if (!next.windows[parts_.window_of_rule[i]].slides) continue;
    next.light_allowances[i] = drawable(parts_.engine.light_quota_of(rule), {}, rule);
    std::uint64_t& usual = next.defaults[i].allowance;
    usual = drawable(usual_[rule], {}, rule);
    std::uint64_t& unknown = next.unknown_allowances[i];
    unknown = usual;
    if (!parts_.engine.has_strays(rule, quotas_at_)) continue;
    // The rest, too, is divided among an interval's spans.
    const std::uint32_t spans = parts_.rules[i].spans;
    const std::uint32_t index = parts_.engine.clock(rule).span(flipped_.wall).index;
    const std::uint64_t rest = usual % spans;
    unknown = usual / spans + (rest * (index + 1) / spans - rest * index / spans);
  }
  next.light_keys.resize(parts_.pools.size());
  for (std::size_t window = 0; window < parts_.pools.size(); ++window)
    for (std::size_t rule = 0; rule < parts_.rules.size(); ++rule) {
      const auto index = static_cast<RuleIndex>(rule);
      if (parts_.window_of_rule[rule] != window || !parts_.engine.has_light_keys(index)) continue;
      parts_.engine.copy_light_keys(index, quotas_at_, next.light_keys[window]);
      break;
    }
}

void Controller::publish_grants(Publication& next) {
  next.refused = next.judged ? RefusedKeys() : refused_;
  next.grant_turn_of_worker.clear();
  for (const WorkerState& worker : workers_) next.grant_turn_of_worker.push_back(worker.grant_turn);
  next.grants.clear();
  next.reserves.clear();
  next.reserves_before.clear();
  for (std::size_t rule = 0; rule < grants_.size(); ++rule) {
    const RuleGrant& grant = grants_[rule];
    const KeyTerms& usual = next.defaults[rule];
    const bool holds = grantable(parts_.rules[rule], usual.allowance, usual.factor) >= grant.allowance / 2;
    next.grants.push_back(holds ? grant.most : 0);
    next.reserves.push_back(grant.reserve);
    next.reserves_before.push_back(grant.before);
  }
}

void Controller::publish_keys(Publication& next, Instant now) {
  const Publication* const before = publisher_.current();
  next.reset_keys(before != nullptr ? before->keys() : 0);
  keys_before_.begin(before);
  ungranted_keys_.clear();
  next.some_ungranted.assign(parts_.rules.size(), false);
  const auto name_ungranted = [&](std::uint64_t key, RuleIndex rule) {
    ungranted_keys_.push_back(key);
    next.some_ungranted[rule] = true;
  };
  blocked_keys_.assign(parts_.rules.size(), 0);
  for (const LastingBlocks::Key& ending : lasting_blocks_.begin(now.monotonic, lasting_))
    parts_.engine.take_back(ending.slot);
  const auto window = [&](RuleIndex rule) { return parts_.window_of_rule[rule]; };
  const auto append = [&](const KeyOverride& override) {
    const RuleIndex rule = override.rule;
    const GrantInterval& interval = grant_intervals_[window(rule)];
    // Keys that cannot have grants are met, too: else the order would be lost at each of them.
    const KeyState* known = keys_before_.meet(override.key);
    const KeyState lasted = said_of(lasting_blocks_.meet(override.slot, override.key));
    if (lasted.ungranted_since != KeyState::granted) known = &lasted;
    GrantTerms terms;
    if (interval.slides ? greatest_grants_[rule] > 0 : grants_[rule].reserve > 0) {
      const KeyOverride& usual = usual_[rule];
      const bool wants_all = override.blocked_until != never || override.factor != usual.factor ||
                             override.allowance < usual.allowance / 2 ||
                             heavy_[window(rule)].contains(override.key);
      terms = next_grant_terms(known, wants_all, interval);
    }
    if (lasting_blocks_.lasts(override.blocked_until)) {
      parts_.engine.set_aside(override.slot);
      lasting_blocks_.add({override.key, terms.ungranted_since, override.slot, rule}, override.blocked_until);
      return;
    }
    if (override.blocked_until != never) ++blocked_keys_[rule];
    const std::uint64_t allowance = interval.slides ? drawable(override, terms, rule) : override.allowance;
    next.append_key({.key = override.key,
                     .terms = {allowance, override.factor},
                     .blocked_until = override.blocked_until,
                     .opens_at = override.opens_at,
                     .opens_by = override.opens_by,
                     .ungranted_since = terms.ungranted_since,
                     .rule = rule,
                     .reserved = terms.reserved});
    if (!terms.granted()) name_ungranted(override.key, rule);
  };
  // Ordinals are those of the running span, not of a moment that may already lie beyond its end.
  parts_.engine.for_each_override({flipped_.wall, now.monotonic}, quotas_at_, append);

  const std::span<const LastingBlocks::Key> ended = lasting_blocks_.unmet();
  const std::shared_ptr<const BlockedKeys> blocked = lasting_blocks_.keys();
  std::size_t more = keys_before_.others() + ended.size();
  for (const Keys& heavy : heavy_) more += heavy.size();
  next.index_keys(more);
  const auto add = [&](std::uint64_t key, RuleIndex rule, const KeyState* known, bool wants_all) {
    const GrantInterval& interval = grant_intervals_[window(rule)];
    const GrantTerms terms = next_grant_terms(known, wants_all, interval);
    if (terms.granted() || next.find(key) != nullptr) return;
    if (blocked != nullptr && blocked->find(key) > now.monotonic) return;
    KeyTerms usual = next.defaults[rule];
    // It may be a light key: of one that is named nobody asks whether it is.
    if (interval.slides) usual.allowance = drawable(parts_.engine.light_quota_of(rule), terms, rule);
    next.add_key({.key = key,
                  .terms = usual,
                  .ungranted_since = terms.ungranted_since,
                  .rule = rule,
                  .reserved = terms.reserved});
    name_ungranted(key, rule);
  };
  for (const Keys& heavy : heavy_)
    for (const auto& [key, rule] : heavy) add(key, rule, keys_before_.find(key), true);
  keys_before_.for_each_other([&](const KeyState& state) { add(state.key, state.rule, &state, false); });
  for (const LastingBlocks::Key& key : ended)
    if (const KeyState state = said_of(&key); state.ungranted_since != KeyState::granted)
      add(key.key, key.rule, &state, false);

  for (std::size_t rule = 0; rule < blocked_keys_.size(); ++rule) {
    blocked_keys_[rule] += lasting_blocks_.of_rule()[rule];
    if (lasting_blocks_.ends()[rule] > now.monotonic) next.some_ungranted[rule] = true;
  }
  next.set_blocked(blocked, now.monotonic);
  next.set_ungranted(ungranted_keys_);
  for (std::size_t i = 0; i < begun_.size(); ++i)
    begun_[i] = std::max(begun_[i], next.windows[i].interval_number);
}

// What a worker took from an earlier publication of this span it need not look up again, but for the keys
// that have changed since: few, as a rule, where only the store's answers make a new publication.
void Controller::tell_changes(Publication& next) {
  const Publication* const before = publisher_.current();
  const std::uint64_t generation = publisher_.generation() + 1;
  const bool comparable = before != nullptr && before->defaults == next.defaults &&
                          before->light_allowances == next.light_allowances &&
                          before->unknown_allowances == next.unknown_allowances &&
                          next.keys() <= most_compared && before->keys() <= most_compared &&
                          lasting_blocks_.added().size() <= most_compared && changed_.size() <= most_compared;
  next.same_for = 0;
  if (!comparable || holds_since_ > generation) {
    changed_.clear();
    holds_since_ = generation;
  } else if (holds_since_ < generation) {
    const auto collect = [&](const Publication& from, const Publication& to) {
      from.for_each_key([&](const KeyState& state) {
        const KeyState* const other = to.find(state.key);
        if (other == nullptr || other->terms != state.terms || other->blocked_until != state.blocked_until)
          changed_.push_back(state.key);
      });
    };
    collect(next, *before);
    collect(*before, next);
    for (const KeyBlock& added : lasting_blocks_.added()) changed_.push_back(added.key);
    if (changed_.size() == told_changed_) next.same_for = before->same_for + 1;
  }
  told_changed_ = changed_.size();
  next.holds_since = holds_since_;
  next.set_changed(changed_);
}

void Controller::submit(Instant now) {
  writes_.submit(parts_.engine, parts_.store, now.monotonic);
  // Also without writes: a rule that refuses everything while the store is away must learn that it is back.
  const StoreFigures store = parts_.store.figures();
  sync_watch_.begin(now.monotonic, answered(store) + store.pending, answered(store));
}

void Controller::end_spans(Instant own) {
  decide(clock_.at(own), true);
  collect_replies(own);
}

void Controller::collect_replies(Instant own) {
  // Before the answers: what they say of is what the store's clock calls now.
  if (const std::optional<StoreTime> told = parts_.store.time())
    clock_.learn(*told, std::max(told->answered, own.monotonic));
  const Instant now = clock_.at(own);
  replies_.clear();
  parts_.store.collect(replies_);
  if (replies_.empty()) return;
  awaits_first_reply_ = false;
  std::array<EngineReply, taken_together> some;
  for (std::size_t i = 0; i < replies_.size(); i += taken_together) {
    const std::size_t count = std::min(taken_together, replies_.size() - i);
    for (std::size_t j = 0; j < count; ++j) {
      const CounterReply& reply = replies_[i + j];
      some[j] = {.key = reply.key,
                 .use = static_cast<CounterUse>(reply.tag),
                 .ordinal = reply.ordinal,
                 .delta = reply.delta,
                 .total = reply.total};
    }
    parts_.engine.take_replies(std::span(some).first(count), now);
  }
  parts_.engine.learn();
  charge_buckets(now);
  dirty_ = true;
}

void Controller::charge_buckets(Instant now) {
  for (const BucketCharge& charge : parts_.engine.charges())
    parts_.pools[parts_.window_of_rule[charge.rule]].charge(
        charge.key, charge.tokens, charge.scale, parts_.bucket_of_rule[charge.rule], now.monotonic);
  parts_.engine.clear_charges();
}

void Controller::watch_store(Instant now) {
  sync_watch_.look(now.monotonic);
  if (now.monotonic < sync_watch_.due()) return;
  const StoreFigures store = parts_.store.figures();
  const bool reached = sync_watch_.judge(now.monotonic, store.up, answered(store));
  if (!reached) ++figures_.store_late;
  if (parts_.log)
    if (const std::string line = store_log_.line(reached, store.error, now.monotonic); !line.empty())
      parts_.log(line);
  if (reached == store_up_) return;
  store_up_ = reached;
  dirty_ = true;
  parts_.engine.sync_result(reached, now);
}

void Controller::clear_spare_pools(MonotonicTime now) {
  for (WindowPools& pools : parts_.pools) {
    if (!pools.wants_clearing() || !parts_.quiescence.all_passed(pools.retired_token())) continue;
    if (std::all_of(workers_.begin(), workers_.end(),
                    [&](const WorkerState& worker) { return worker.flip >= pools.retired_flip(); }))
      pools.clear_spare(now);
  }
}

void Controller::finish(Instant own) {
  advance(own);
  const Instant now = clock_.at(own);
  if (!awaiting_drain_) flip(now);
  keep_until_ = SpanTable::keep_none;  // so that nothing waits for its turn
  drain_passed();
  // What a flip handed over belongs to the engine now; what has been counted since is in the other table.
  decide(now, true);
  collect_replies(own);
  flip(now);
  keep_until_ = SpanTable::keep_none;
  drain_passed();
  decide(now, true);
  collect_replies(own);
}

}  // namespace weir
