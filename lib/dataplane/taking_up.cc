// SPDX-License-Identifier: BSD-3-Clause
// A worker comes, takes up what has been published, and goes.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "dataplane/worker_core.h"

namespace weir {

void WorkerCore::online() noexcept {
  if (online_) return;
  online_ = true;
  // Before the controller may hand a table over or take one: until now they are as new.
  if (!std::exchange(pages_touched_, true)) {
    for (SpanTable& table : tables_) table.touch_pages();
    for (CorrectionLog& log : corrections_) log.touch_pages();
    grants_.touch_pages();
  }
  plane_.quiescence.online(index_);
  take_up();
}

void WorkerCore::offline() noexcept {
  if (!online_) return;
  online_ = false;
  publication_ = nullptr;
  plane_.publication.let_go(index_);
  plane_.quiescence.offline(index_);
}

void WorkerCore::take_up() noexcept {
  const Publication* const published = plane_.publication.take_up(index_);
  publication_ = published;
  last_unknown_ = 0;
  taken_up_ = published->generation;
  generation_ = published->mark();
  SpanTable* assigned = &tables_[published->table_of_worker[index_]];
  // Drained meanwhile, the same table is another one.
  const bool other_table = assigned != table_ || assigned->grant_turns.empty();
  if (other_table) {
    // What it refused before that is judged, if this span is: no table is handed over again before it has
    // been drained, and what has been drained by then is judged with the span that begins.
    if (published->judged) refused_before_ = {};
    grants_.refused.add_to(refused_before_);
    grants_.refused.clear();
    // What it leaves behind is judged before the next publication that says so; unless it comes so late that
    // the span has been judged without it: then with the next span.
    judgement_due_ = !published->judged;
  }
  if (published->judged && judgement_due_) refused_before_ = {};
  // An empty table has no counts that an older span's beginning would have to name.
  if (assigned != table_ || assigned->empty()) {
    begin_glances(*assigned, published->began.monotonic, table_->began.monotonic);
    table_ = assigned;
    new_keys_left_ = published->new_keys;
    grants_.write_names_to(published->table_of_worker[index_]);
    table_->began = published->began;
    windows_ = published->windows;
    for (std::size_t rule = 0; rule < table_->cells.size(); ++rule)
      table_->cells[rule] = windows_[plane_.terms[rule].window].running->cells();
    table_->grant_turns.clear();
    for (std::size_t window = 0; window < windows_.size(); ++window) {
      grant_clocks_[window].turn_to(windows_[window].interval_number, other_table);
      table_->grant_turns.push_back(grant_clocks_[window].turn);
    }
  }
  take_up_grants();
  forget_own_keys();
  // Before any cell is looked at: pairs with the fence in stays_drawn().
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Half a span more than a span takes, or than the last one took: an attack may make them late. (Of a worker
// that has been away nobody knows how long it was.)
// @param table   that it takes up
// @param before  when it began to count in the table that it has had until now
void WorkerCore::begin_glances(const SpanTable& table, MonotonicTime began, MonotonicTime before) noexcept {
  constexpr int most_spans = 8;
  // Else the span that it is in already is published anew.
  if (began != before) lasted_ = std::clamp(began - before, shortest_span_, most_spans * shortest_span_);
  glances_end_ = std::min(began + lasted_ + lasted_ / 2, table.kept_until());
}

void WorkerCore::GrantClock::turn_to(std::uint64_t running, bool other_table) noexcept {
  if (other_table) renewed = false;
  if (running == number) return;
  // Nothing has been used in a window that was left again in the same, empty table.
  if (!std::exchange(renewed, true)) window = GrantWindow(++turn);
  number = running;
  // One that the clock has come back to is begun anew here, so that it would be granted twice.
  if (running <= latest) since = std::max(since, running + 1);
  latest = std::max(latest, running);
}

void WorkerCore::take_up_grants() noexcept {
  refused_ = publication_->refused;
  refused_.add_all(refused_before_);
  grants_.refused.add_to(refused_);
  leaves_grants_alone_ = publication_->grant_turn_of_worker[index_] % 2 != 0;
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    GrantClock& clock = grant_clocks_[window];
    const std::uint64_t running = publication_->windows[window].interval_number;
    clock.holds = !leaves_grants_alone_ && clock.number == running && running >= clock.since;
  }
  for (std::size_t rule = 0; rule < rule_grants_.size(); ++rule) {
    const GrantClock& clock = grant_clocks_[plane_.terms[rule].window];
    Grant& grant = rule_grants_[rule];
    grant.most = clock.holds ? publication_->grants[rule] : 0;
    grant.usual = usual_of(static_cast<RuleIndex>(rule));
    grant.window = clock.window;
    grant.some_ungranted =
        publication_->some_ungranted[rule] != 0 || refused_.any_of(static_cast<RuleIndex>(rule));
    uses_[rule].portion.window = clock.window;
    tell_use(static_cast<RuleIndex>(rule));
  }
}

// Nothing is used without a look at what else is known of the rule, or of its keys.
void WorkerCore::tell_use(RuleIndex rule) noexcept {
  const Grant& grant = rule_grants_[rule];
  uses_[rule].portion.most = is_granted_first(rule) && !grant.some_ungranted ? grant.most : 0;
}

// What has been known is of the table, or of the publication, that this worker held until now.
void WorkerCore::forget_own_keys() noexcept {
  for (OfRule& of_rule : of_rules_) of_rule.own.ready = &nothing_ready_;
}

// Who has not reported for so long that his windows are over would refuse what there is allowance for; and
// what is drawn of the last span of a window that slides is not there for those who are in the next. Where a
// call begins no decision is in progress, so he can report then.
void WorkerCore::catch_up_with_windows() noexcept {
  for (std::uint16_t window = 0; window < windows_.size(); ++window)
    if (windows_[window].slides ? !window_runs(window) : !window_is_known(window)) return quiescent();
}

}  // namespace weir
