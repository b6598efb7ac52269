// SPDX-License-Identifier: BSD-3-Clause
#include "dataplane/worker_core.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "base/flatten.h"
#include "base/prefetch.h"
#include "dataplane/key_run.h"
#include "dataplane/request_bits.h"
#include "limit/arithmetic.h"
#include "limit/bucket_rule.h"
#include "shared/bucket_cell.h"

namespace weir {
namespace {

static_assert(SpanEntry::kept_lent >= GrantTable::most, "all of a grant may have been seen used before");

/// Whether of nearly all keys nothing of a window matters in the next one. (Of cooldown's that does which
/// have been refused, until that has been judged.)
bool ends_with_window(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::cooldown || algorithm == Algorithm::fixed_window ||
         algorithm == Algorithm::shed || algorithm == Algorithm::strict;
}

}  // namespace

WorkerCore::WorkerCore(const DataPlane& plane, unsigned index, std::span<SpanTable> tables,
                       std::span<CorrectionLog> corrections, GrantTable& grants)
    : plane_(plane),
      shortest_span_(longest_between_flips),
      index_(index),
      tables_(tables),
      table_(&tables[0]),
      corrections_(corrections),
      grants_(grants),
      key_hash_(plane.hash_key),
      of_rules_(plane.terms.size()) {
  std::size_t windows = 0;
  for (const RuleTerms& terms : plane.terms) windows = std::max<std::size_t>(windows, terms.window + 1U);
  windows_.reserve(windows);
  grant_clocks_.resize(windows);
  spare_logs_.resize(windows, LogPool::none);
  for (const RuleTerms& terms : plane.terms) shortest_span_ = std::min(shortest_span_, span_of(terms));
  lasted_ = shortest_span_;
  rule_grants_.resize(plane.terms.size());
  uses_.resize(plane.terms.size());
  for (std::size_t rule = 0; rule < plane.terms.size(); ++rule)
    rule_grants_[rule].weight = plane.terms[rule].weight;
  for (std::size_t rule = 0; rule < plane.terms.size(); ++rule)
    rule_keys_.push_back(key_of(static_cast<RuleIndex>(rule), {}));
  for (std::size_t rule = 0; rule < plane.terms.size(); ++rule) {
    const std::uint32_t weight = plane.terms[rule].weight;
    uses_[rule].portion.weight = weight;
    uses_[rule].used = of_rules_[rule].counters.admitted.word();
    of_rules_[rule].own = {&nothing_ready_,
                           SpanTable::Lines::is_usual(weight) ? static_cast<std::int32_t>(weight) : 1};
  }
}

std::uint64_t WorkerCore::key_of(RuleIndex rule, std::span<const std::byte> bytes) const noexcept {
  return number_of_key(key_hash_(rule, bytes));
}

void WorkerCore::plan(const Request& request, Plan& plan) noexcept {
  plane_.classifier.match(request, scratch_);
  plan.count = scratch_.rule_count;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const RuleIndex rule = scratch_.rules[i];
    if (plane_.terms[rule].dense) {
      plan.keys[i] = {rule_keys_[rule], table_->place_of_rule(rule), rule, true};
      continue;
    }
    plan.keys[i] = {number_of_key(plane_.classifier.hash_key(rule, request, scratch_, key_hash_)),
                    SpanTable::nowhere, rule, false};
  }
}

// Finds the keys' places, whose lines have come meanwhile.
void WorkerCore::look_up(Plan& plan, std::uint64_t multiplier) const noexcept {
  if (publication_ == nullptr) return;  // then the tables are the controller's
  for (std::size_t i = 0; i < plan.count; ++i) {
    PlannedKey& planned = plan.keys[i];
    if (!find_grant(planned, rule_grants_[planned.rule].weight * multiplier) && !planned.dense)
      planned.place = table_->locate(planned.key);
  }
}

// Whether what is left of the worker's grant of a key is enough for a request.
bool WorkerCore::find_grant(PlannedKey& planned, std::uint64_t weight) const noexcept {
  planned.grant = GrantTable::nowhere;
  const Grant& grant = rule_grants_[planned.rule];
  // A weight of 0 is nobody's common case, and must not pass where the key has not been looked at.
  if (weight - 1 >= grant.most) return false;
  const GrantTable::Place place = grants_.locate(planned.key);
  if (place == GrantTable::nowhere || weight > left_of(grant, place) ||
      is_ungranted(planned.rule, planned.key))
    return false;
  planned.grant = place;
  return true;
}

// Has all that keys will need beyond their lines on its way, but their entries and cells: where these are
// comes with it.
void WorkerCore::prefetch_beyond_lines(const Plan& plan, std::uint64_t multiplier) const noexcept {
  if (publication_ == nullptr) return;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const PlannedKey& planned = plan.keys[i];
    if (planned.grant == GrantTable::nowhere && !has_ready(planned, multiplier))
      prefetch_beyond_line(planned.key, planned.place, planned.rule);
  }
}

void WorkerCore::prefetch_entries(const Plan& plan) const noexcept {
  if (publication_ == nullptr) return;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const PlannedKey& planned = plan.keys[i];
    if (planned.grant == GrantTable::nowhere) prefetch_entry(planned.key, planned.place, planned.rule);
  }
}

// And the cell, of a key that is about to be looked up, or whose rule draws for each request. (Others may be
// blocked: then no worker is to take the cell from the others for each of its requests.)
void WorkerCore::prefetch_entry(std::uint64_t key, SpanTable::Place place, RuleIndex rule) const noexcept {
  const RuleTerms& terms = plane_.terms[rule];
  const WindowState& window = windows_[terms.window];
  if (place != SpanTable::nowhere) {
    table_->prefetch_to_look(place, generation_);
    if (table_->seems_settled(place, generation_)) {
      if (is_bucket(terms.algorithm)) window.running->prefetch_cell(key);
      return;
    }
  }
  window.running->prefetch_cell(key);
  if (AllowancePool* const ended = ended_matters(terms)) ended->prefetch_cell_to_look(key);
  publication_->prefetch_state(key);
}

// The pool of the window before, if nearly all keys of the rule are looked up there, too: what was drawn
// there counts until it has been settled; and some algorithms begin where it ended.
AllowancePool* WorkerCore::ended_matters(const RuleTerms& terms) const noexcept {
  return ends_with_window(terms.algorithm) ? nullptr : windows_[terms.window].ended;
}

// Has all that a key whose grant is not enough may need on its way, as far as its hash says where that is. It
// has lain idle since the span before, as a rule, so that each of these comes from afar; and were each to be
// asked for when the one before has come, they would make a burst several times as long.
void WorkerCore::prefetch_beyond_grant(std::uint64_t key, RuleIndex rule) const noexcept {
  table_->prefetch(key);
  table_->prefetch_number_of(key);
  grants_.prefetch_holder(key);
  windows_[plane_.terms[rule].window].running->prefetch_to_look(key);
}

void WorkerCore::prefetch_beyond_line(std::uint64_t key, SpanTable::Place place,
                                      RuleIndex rule) const noexcept {
  const RuleTerms& terms = plane_.terms[rule];
  if (place != SpanTable::nowhere) {
    table_->prefetch_number(place);
    // Of such a key, in a flood of what is refused as a rule, the entry says all.
    if (table_->seems_settled(place, generation_) && !is_bucket(terms.algorithm)) return;
  }
  windows_[terms.window].running->prefetch(key);
  if (AllowancePool* const ended = ended_matters(terms))
    ended->prefetch(key);
  else if (new_keys_left_ == 0 && place == SpanTable::nowhere)  // is_known() looks for it there
    windows_[terms.window].ended->prefetch_to_look(key);
  publication_->prefetch(key);
}

Decision WorkerCore::admit(const Request& request, MonotonicTime now) noexcept {
  catch_up();
  Plan& planned = plans_[0];
  plan(request, planned);
  look_up(planned, times(request));
  return decide(planned, times(request), now, Detail::full, [&](RuleIndex rule) {
    plane_.classifier.make_key(rule, request, scratch_, key_bytes_);
    return key_bytes_.bytes();
  });
}

WEIR_FLATTEN void WorkerCore::prefetch_beyond_grants(const Run& run) const noexcept {
  for (std::size_t i = 0; i < run.left; ++i) prefetch_beyond_grant(run.keys[run.at[i]].hash_, run.rule);
}

WEIR_FLATTEN void WorkerCore::prefetch_beyond_lines(const Run& run) const noexcept {
  const auto key = [&](std::size_t i) { return run.keys[run.at[i]].hash_; };
  const auto place = [&](std::size_t i) { return run.place[run.at[i]]; };
  for (std::size_t i = 0; i < run.left; ++i) prefetch_beyond_line(key(i), place(i), run.rule);
  for (std::size_t i = 0; i < run.left; ++i) prefetch_entry(key(i), place(i), run.rule);
}

// Flattened: of some twenty calls each by itself is too large to be inlined, and to make them costs as much
// as half of what they do. Each key that has used up its grant comes by here once in a span.
WEIR_FLATTEN void WorkerCore::look_closely(const Run& run, MonotonicTime now) noexcept {
  for (std::size_t i = 0; i < run.left; ++i) {
    const Key& key = run.keys[run.at[i]];
    Plan& plan = plans_[0];
    plan.count = 1;
    plan.keys[0] = {key.hash_, run.place[run.at[i]], key.rule_, key.is_of_rule()};
    const auto name_of = [&](RuleIndex) {
      if (key.form_ == Key::Form::fields) return std::as_bytes(std::span(key.value));
      key_bytes_.clear();
      if (!key.is_of_rule()) key_bytes_.add_text(key.value);
      return key_bytes_.bytes();
    };
    run.verdicts[run.at[i]] = key.weight == 0
                                  ? peek(plan.keys[0], name_of(key.rule_), now).verdict
                                  : decide(plan, key.weight, now, Detail::verdicts, name_of).verdict;
  }
}

Key WorkerCore::key(RuleIndex rule, std::string_view value) const noexcept {
  KeyBytes bytes;
  bytes.clear();
  bytes.add_text(value);
  Key key;
  key.value = value;
  key.rule_ = rule;
  if (plane_.terms[rule].dense && value.empty()) key.form_ = Key::Form::of_rule;
  key.hash_ = key.is_of_rule() ? rule_keys_[rule] : key_of(rule, bytes.bytes());
  return key;
}

// With a scratch of its own: what a burst has found out may still be needed.
Key WorkerCore::key(RuleIndex rule, const Request& request, KeyRoom& room) const noexcept {
  static_assert(std::tuple_size_v<KeyRoom> == KeyBytes::capacity);
  Classifier::Scratch scratch;
  plane_.classifier.match(request, scratch);
  const std::span<const RuleIndex> rules = std::span(scratch.rules).first(scratch.rule_count);
  if (std::ranges::find(rules, rule) == rules.end()) return {};
  Key key;
  key.rule_ = rule;
  key.weight = times(request);
  if (plane_.terms[rule].dense) {
    key.form_ = Key::Form::of_rule;
    key.hash_ = rule_keys_[rule];
    return key;
  }
  KeyBytes bytes;
  plane_.classifier.make_key(rule, request, scratch, bytes);
  std::memcpy(room.data(), bytes.bytes().data(), bytes.bytes().size());
  key.value = {room.data(), bytes.bytes().size()};
  key.form_ = Key::Form::fields;
  key.hash_ = key_of(rule, bytes.bytes());
  return key;
}

Decision WorkerCore::admit_key(RuleIndex rule, std::string_view value, std::uint32_t weight,
                               MonotonicTime now) noexcept {
  catch_up();
  key_bytes_.clear();
  Plan& planned = plans_[0];
  planned.count = 1;
  if (plane_.terms[rule].dense && value.empty()) {
    planned.keys[0] = {rule_keys_[rule], table_->place_of_rule(rule), rule, true};
  } else {
    key_bytes_.add_text(value);
    planned.keys[0] = {key_of(rule, key_bytes_.bytes()), SpanTable::nowhere, rule, false};
  }
  if (weight == 0) return peek(planned.keys[0], key_bytes_.bytes(), now);
  look_up(planned, weight);
  return decide(planned, weight, now, Detail::full, [&](RuleIndex) { return key_bytes_.bytes(); });
}

// Until the publication says otherwise, a refusal in this window, or in the one before as long as it has not
// been judged, is the beginning of a block: so no worker that looks a key up admits anything between an
// exceeding and its publication. (What another one had drawn before, it may still use up: that is within the
// limit.)
MonotonicTime WorkerCore::early_block(const AllowancePool::Place& place, std::uint64_t key,
                                      const RuleTerms& terms, const WindowState& window) const noexcept {
  std::int64_t refused_at = AllowanceCell::no_refusal;
  if (place.own) refused_at = place.cell->refused_at.load(std::memory_order_relaxed);
  if (refused_at == AllowanceCell::no_refusal && !publication_->judged && window.ended != nullptr &&
      window.ended->may_be_refused(key))
    if (const AllowanceCell* before = window.ended->find(key); before != nullptr)
      refused_at = before->refused_at.load(std::memory_order_relaxed);
  return refused_at == AllowanceCell::no_refusal
             ? never
             : MonotonicTime(Duration(refused_at)) + terms.block.length(key);
}

// Of one that has been judged nobody needs to guess; and one that has ended is none, and needs no memory.
// @param published  when the block of which the publication knows ends
MonotonicTime WorkerCore::block_of(MonotonicTime published, const AllowancePool::Place& place,
                                   std::uint64_t key, const RuleTerms& terms,
                                   MonotonicTime now) const noexcept {
  if (published > now) return published;
  if (terms.algorithm != Algorithm::cooldown) return never;  // nobody's cell tells of a refusal
  const MonotonicTime guess = early_block(place, key, terms, windows_[terms.window]);
  return guess > now ? guess : never;
}

// @param own_cell  that it is drawn from, in the running window
KeyTerms WorkerCore::terms_of(std::uint64_t key, RuleIndex rule, const KeyState* state,
                              const WindowState& window, bool own_cell) const noexcept {
  const std::uint16_t number = plane_.terms[rule].window;
  const Algorithm algorithm = plane_.terms[rule].algorithm;
  const bool slides = algorithm == Algorithm::sliding_window;
  // Who took up the span before just when it ended goes on in it, whatever is published: what is leased of
  // the next interval is not for the pool of the last one.
  if (algorithm == Algorithm::strict &&
      window.interval_number != publication_->windows[number].interval_number) [[unlikely]]
    return {};
  KeyTerms terms = state != nullptr ? state->terms : publication_->defaults[rule];
  if (slides && state == nullptr) {
    if (publication_->light_keys[number].may_hold(static_cast<std::uint32_t>(key)))
      terms.allowance = publication_->light_allowances[rule];
    else if (own_cell)
      terms.allowance = publication_->unknown_allowances[rule];
  }
  terms.allowance = publication_->drawable(terms.allowance, state, rule, number, window.interval_number);
  // What was drawn in the span before is not in this sliding window's allowance until it has been judged.
  if (slides && window.ended != nullptr && !publication_->windows[number].settled)
    if (const AllowanceCell* before = window.ended->find(key); before != nullptr)
      terms.allowance = std::min(terms.allowance, before->left_of(terms.allowance));
  return terms;
}

// Buckets and logs outlive the window of their pool.
// @param window  whose running pool the place is in
void WorkerCore::carry_over(const AllowancePool::Place& place, std::uint64_t key, const RuleTerms& terms,
                            const WindowState& window, MonotonicTime now) noexcept {
  const auto ended = [&] {
    return window.ended == nullptr ? AllowancePool::Place{nullptr, false}
                                   : window.ended->claim(key, index_, terms.section);
  };
  const auto shared_in_ended = [&] {
    return AllowancePool::Place{
        window.ended == nullptr ? nullptr : window.ended->shared_one(key, terms.section), false};
  };
  if (is_bucket(terms.algorithm)) {
    if (place.cell->drawn.load(std::memory_order_relaxed) != 0) return;
    BucketCell bucket(*place.cell);
    if (place.own)
      bucket.take_over(ended().cell, terms.bucket, now);
    else
      bucket.take_over(shared_in_ended().cell, terms.bucket, now,
                       window.ended == nullptr ? nullptr : window.ended->find(key));
  } else if (terms.algorithm == Algorithm::sliding_log) {
    if (LogCell cell(*place.cell, *terms.logs); !cell.begun())
      cell.take_over(place.own, place.own ? ended() : shared_in_ended(), spare_logs_[terms.window], now);
  }
}

// For the last worker to leave an old window: what it draws from a bucket now belongs to the next one, also
// where nobody has asked for the key there. (By the one after that it would be forgotten.)
void WorkerCore::carry_on(Touched& touched, std::uint64_t key, const RuleTerms& terms,
                          MonotonicTime now) noexcept {
  const WindowState& window = plane_.publication.load()->windows[terms.window];
  const AllowancePool::Place place = window.running->claim(key, index_, terms.section);
  carry_over(place, key, terms, window, now);
  touched.cell = place.cell;
  touched.shares = !place.own;
}

// The cell of a key of which there is no more to be said than of all its rule's; else nullptr.
WEIR_FLATTEN AllowanceCell* WorkerCore::usual_cell(std::uint64_t key, const RuleTerms& rule,
                                                   MonotonicTime now) noexcept {
  if (publication_->find(key) != nullptr || publication_->blocked_until(key, nullptr) != never)
    return nullptr;
  const WindowState& window = windows_[rule.window];
  const AllowancePool::Place pooled = window.running->claim(key, index_, rule.section);
  if (!pooled.own) return nullptr;
  carry_over(pooled, key, rule, window, now);
  return block_of(never, pooled, key, rule, now) == never ? pooled.cell : nullptr;
}

// Looks a key's terms up anew. Where its entry cannot have them, for want of memory, or of a cell in a pool
// that has been cleared under it, the key is for now as one without an entry.
WorkerCore::Touched WorkerCore::refresh(SpanTable::Place place, const PlannedKey& planned,
                                        MonotonicTime now) noexcept {
  SpanEntry& entry = table_->entry(place);
  const RuleTerms& terms = plane_.terms[planned.rule];
  const WindowState& window = windows_[terms.window];
  const AllowancePool::Place pooled = window.running->claim(planned.key, index_, terms.section);
  if (!pooled.own) [[unlikely]]
    return touch_without_entry(planned, pooled, now);
  const auto cell = static_cast<std::uint32_t>(pooled.cell - window.running->cells());
  // What was drawn from another one is another key's by now.
  if (const std::uint32_t credit = table_->credit(place); credit > 0) {
    const std::uint32_t drawn_from = table_->terms(entry).cell;
    if (drawn_from != 0 && drawn_from != cell) [[unlikely]]
      table_->drop_credit(place, credit);
  }
  carry_over(pooled, planned.key, terms, window, now);
  const KeyState* state = publication_->find(planned.key);
  KeyTerms key_terms = terms_of(planned.key, planned.rule, state, window, true);
  bool may_use_up_grant = true;
  if (is_bucket(terms.algorithm)) {
    if (key_terms.allowance > 0) key_terms.allowance = key_terms.factor;
    settle_at_price(place, planned.key, *pooled.cell, key_terms.allowance);
    // No grant goes into a bucket whose tokens cost what they did not when it was granted.
    may_use_up_grant = key_terms.factor == publication_->defaults[planned.rule].factor;
  }
  const MonotonicTime published = publication_->blocked_until(planned.key, state);
  const bool block_is_published = published > now;
  const MonotonicTime blocked_until = block_of(published, pooled, planned.key, terms, now);
  const MonotonicTime kept =
      terms.algorithm == Algorithm::shed ? EntryTerms::block_of(key_terms.factor) : blocked_until;
  if (!table_->set_terms(place, {cell, key_terms.allowance, kept, block_is_published})) [[unlikely]]
    return touch_without_entry(planned, pooled, now);
  // Of a key of which no more is said than that it is blocked, or was when that was published, nothing is
  // known of grants: others may have drawn what they come to.
  const bool is_blocked_only = published != never && state == nullptr;
  if (!is_blocked_only && may_use_up_grant &&
      publication_->reserves_all(state, planned.rule, terms.window, window.interval_number))
    use_up_grant(place, planned.key);
  return {.place = place,
          .entry = &entry,
          .cell = pooled.cell,
          .terms = key_terms,
          .blocked_until = blocked_until,
          .block_is_published = block_is_published};
}

// What a bucket's key has at hand goes back for what it cost, if it would cost something else from now on.
// Not put into its callers, as all else is there: it seldom has anything to do.
// @param price  0: none is to be had
[[gnu::noinline]] void WorkerCore::settle_at_price(SpanTable::Place place, std::uint64_t key,
                                                   AllowanceCell& cell, TokenPrice price) noexcept {
  const SpanEntry& entry = table_->entry(place);
  const TokenPrice paid = table_->terms(entry).allowance;
  if (paid == price || (table_->credit(place) == 0 && entry.lent == 0)) return;
  if (entry.lent > 0) use_up_grant(place, key);
  if (const std::uint64_t credit = take_credit(place); paid != 0)
    BucketCell(cell).give_back(credit, paid, plane_.terms[entry.rule].bucket);
}

// What is at hand of a key, for a request or beyond it, and what is left of a grant beside it.
static_assert(2 * SpanTable::most_ready + GrantTable::most <= TableLines::nothing_ready);

// What is left of the worker's grant becomes credit: from now on the key is looked at here.
void WorkerCore::use_up_grant(SpanTable::Place place, std::uint64_t key) noexcept {
  const RuleIndex rule = table_->entry(place).rule;
  const GrantWindow window = rule_grants_[rule].window;
  // Where grants have ended within the interval, what has been lent is still the worker's.
  const std::uint32_t most = rule_grants_[rule].most > 0     ? rule_grants_[rule].most
                             : table_->entry(place).lent > 0 ? granted_at_first(rule)
                                                             : 0;
  if (most == 0) return;
  const GrantTable::Place granted = grants_.locate_or_insert(key, rule, [&] { return table_->name(place); });
  if (granted == GrantTable::nowhere || !grants_.holds(granted, key)) return;
  if (grants_.used(granted, window) > GrantTable::most) return;  // it is closed
  const std::uint32_t used = grants_.close(granted, window);
  if (used < most) table_->add_credit(place, most - used);
}

// What the worker had of each key in the interval, if that still runs, whether grants have ended since or
// not.
std::uint32_t WorkerCore::granted_at_first(RuleIndex rule) const noexcept {
  const std::uint16_t window = plane_.terms[rule].window;
  if (publication_->windows[window].interval_number != windows_[window].interval_number) return 0;
  return static_cast<std::uint32_t>(publication_->reserves[rule] / plane_.quiescence.workers());
}

// The next requests of a key that has an entry with plenty ready are to be found at the first look. Not where
// that is less than half a grant: there the window's allowance goes to its end, and what one worker keeps,
// the others do without.
void WorkerCore::lend(SpanTable::Place place, std::uint64_t key, RuleIndex rule) noexcept {
  const Grant& grant = rule_grants_[rule];
  const std::uint32_t ready = table_->ready(place);
  if (grant.most < least_lent || ready < grant.most / 2 || is_ungranted(rule, key)) return;
  const GrantTable::Place granted = grants_.locate(key);
  if (granted == GrantTable::nowhere || !grants_.holds(granted, key) || !table_->holds(place, key)) return;
  const std::uint32_t room = grant.most - left_of(grant, granted);
  const std::uint32_t credit = std::min(room, ready);
  if (!grants_.may_be_filled(granted, room - credit, grant.window)) return;
  table_->lend(place, credit, grants_.fill(granted, room - credit, grant.window));
  table_->counted_beside = true;
}

WorkerCore::Touched WorkerCore::touched_at(SpanTable::Place place, const RuleTerms& terms) const noexcept {
  SpanEntry& entry = table_->entry(place);
  const EntryTerms kept = table_->terms(entry);
  const bool sheds = terms.algorithm == Algorithm::shed;
  return {.place = place,
          .entry = &entry,
          .cell = table_->cells[entry.rule] + kept.cell,
          .terms = {.allowance = kept.allowance, .factor = sheds ? kept.fraction() : kept.allowance},
          .blocked_until = sheds ? never : kept.blocked_until,
          .block_is_published = kept.block_is_published};
}

// Whether the worker has grants of the key. While they are left alone, nobody may look, as the controller may
// be making them anew: then each key that may have some is taken to have them, lest who is known be counted
// as one that found no room.
bool WorkerCore::has_grants(const PlannedKey& planned) const noexcept {
  if (leaves_grants_alone_) [[unlikely]]
    return publication_->reserves[planned.rule] > 0;
  return grants_.locate(planned.key) != GrantTable::nowhere;
}

// Whether this worker or the controller knows the key; see control/new_key_limit.h.
bool WorkerCore::is_known(const PlannedKey& planned) noexcept {
  // Who has been asked about once is asked about again where there is no grant for him.
  if (planned.key == last_unknown_) return false;
  const RuleTerms& terms = plane_.terms[planned.rule];
  // (What is strict has no other way to be admitted.)
  const bool known = terms.algorithm == Algorithm::strict || has_grants(planned) ||
                     publication_->find(planned.key) != nullptr ||
                     publication_->blocked_until(planned.key, nullptr) != never ||
                     windows_[terms.window].ended->find(planned.key) != nullptr;
  if (!known) last_unknown_ = planned.key;
  return known;
}

// As long as new ones may come, who has no grant is taken for one: more is not looked at.
bool WorkerCore::may_tell_of(const PlannedKey& planned) noexcept {
  if (tells_of_all() || planned.dense) [[likely]]
    return true;
  if (new_keys_left_ == 0) return is_known(planned);
  if (!has_grants(planned)) --new_keys_left_;
  return true;
}

template <typename NameOf>
GrantTable::Place WorkerCore::grant_of(const PlannedKey& planned, NameOf&& name_of) noexcept {
  const auto name = [&] { return name_of(planned.rule); };
  if (tells_of_all()) [[likely]]
    return grants_.locate_or_insert(planned.key, planned.rule, name);
  const GrantTable::Place place = grants_.locate(planned.key);
  if (place != GrantTable::nowhere) return place;
  if (new_keys_left_ > 0)
    --new_keys_left_;
  else if (!is_known(planned))
    return GrantTable::nowhere;
  return grants_.insert(planned.key, planned.rule, name());
}

template <typename NameOf>
WorkerCore::Touched WorkerCore::touch_unknown(const PlannedKey& planned, NameOf&& name_of,
                                              MonotonicTime now) noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  const AllowancePool::Place pooled =
      windows_[terms.window].running->claim(planned.key, index_, terms.section);
  if (pooled.own && may_tell_of(planned)) {
    const std::span<const std::byte> name = name_of(planned.rule);
    const SpanTable::Place place = planned.dense ? table_->insert_rule(planned.key, planned.rule, name)
                                                 : table_->insert(planned.key, planned.rule, name);
    if (place != SpanTable::nowhere) {
      table_->open(place);
      return look_closely(place, planned, now);
    }
  }
  return touch_without_entry(planned, pooled, now);
}

WorkerCore::Touched WorkerCore::granted(const PlannedKey& planned) const noexcept {
  Touched touched;
  touched.grant = planned.grant;
  return touched;
}

// The worker's grant of the key, if it is enough; else its entry.
template <typename NameOf>
WorkerCore::Touched WorkerCore::touch(const PlannedKey& planned, std::uint64_t weight, NameOf&& name_of,
                                      MonotonicTime now) noexcept {
  const Grant& grant = rule_grants_[planned.rule];
  if (weight - 1 < grant.most && !is_ungranted(planned.rule, planned.key)) {
    Touched touched;
    touched.grant = grant_of(planned, name_of);
    if (touched.grant != GrantTable::nowhere && grants_.holds(touched.grant, planned.key) &&
        weight <= left_of(grant, touched.grant))
      return touched;
  }
  return touch_entry(planned, name_of, now);
}

template <typename NameOf>
WorkerCore::Touched WorkerCore::touch_entry(const PlannedKey& planned, NameOf&& name_of,
                                            MonotonicTime now) noexcept {
  SpanTable::Place place = planned.place;
  // An earlier request of the burst may have inserted it, or taken its place.
  if (place == SpanTable::nowhere || !table_->holds(place, planned.key))
    place = planned.dense ? SpanTable::nowhere : table_->locate(planned.key);
  if (place == SpanTable::nowhere) [[unlikely]]
    return touch_unknown(planned, name_of, now);
  // Another key's, with the same tag: that one was here first.
  const RuleTerms& terms = plane_.terms[planned.rule];
  AllowancePool& pool = *windows_[terms.window].running;
  if (!table_->holds(place, planned.key)) [[unlikely]]
    return touch_without_entry(planned, pool.claim(planned.key, index_, terms.section), now);
  const bool is_open = table_->is_open(place);
  if (!is_open || table_->lasts(place)) {
    // Kept from an earlier span; in this window its pool may have no cell left for it.
    if (const AllowancePool::Place pooled = pool.claim(planned.key, index_, terms.section); !pooled.own)
        [[unlikely]]
      return touch_without_entry(planned, pooled, now);
    if (!is_open) table_->open(place);
  }
  return look_closely(place, planned, now);
}

// Of a key whose line has not been looked at under this publication: what it says all the same, if it says
// that the key is refused. Else nullptr. (A block that has been published is never taken back.)
std::uint32_t* WorkerCore::refusal_that_lasts(SpanTable::Place place, std::uint64_t key) noexcept {
  return table_->refusal_that_lasts(place, key, generation_, [&](std::uint32_t since, std::uint32_t other) {
    return publication_->still_holds(since, other);
  });
}

WorkerCore::Touched WorkerCore::look_closely(SpanTable::Place place, const PlannedKey& planned,
                                             MonotonicTime now) noexcept {
  table_->set_aside(place, generation_, [&](std::uint32_t since, std::uint32_t key) {
    return publication_->still_holds(since, key);
  });
  return table_->is_stale(place) ? refresh(place, planned, now)
                                 : touched_at(place, plane_.terms[planned.rule]);
}

WorkerCore::Touched WorkerCore::touch_without_entry(const PlannedKey& planned,
                                                    const AllowancePool::Place& pooled,
                                                    MonotonicTime now) noexcept {
  const RuleTerms& terms = plane_.terms[planned.rule];
  const WindowState& window = windows_[terms.window];
  overflowed_.add(1);
  Touched touched;
  touched.cell = pooled.cell;
  touched.shares = !pooled.own;
  carry_over(pooled, planned.key, terms, window, now);
  const KeyState* state = publication_->find(planned.key);
  touched.terms = terms_of(planned.key, planned.rule, state, window, pooled.own);
  touched.blocked_until =
      block_of(publication_->blocked_until(planned.key, state), pooled, planned.key, terms, now);
  return touched;
}

// A worker that has not come round for two windows may hold a pool that is about to serve a later one, or
// does so already. What it draws there would be on nobody's account.
bool WorkerCore::window_is_known(std::uint16_t window) const noexcept {
  // May be read until the next quiescent state, as any publication that was current after the last one. The
  // pool of a window that it does not name any more is not cleared before it has turned once again.
  const WindowState& now = plane_.publication.load()->windows[window];
  const std::uint64_t mine = windows_[window].running_number;
  return now.running_number == mine || now.ended_number == mine;
}

// As it was just now.
bool WorkerCore::window_runs(std::uint16_t window) const noexcept {
  return plane_.publication.load()->windows[window].running_number == windows_[window].running_number;
}

// Whether whoever counts for the window after this sliding one takes into account what has just been drawn.
// Sequentially consistent: either he has taken up that window after this fence, and so sees what was drawn
// before it, when he looks; or this worker sees that the window has been published, if no earlier.
bool WorkerCore::stays_drawn(std::uint16_t window) const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return window_runs(window);
}

// For a request that came while the span of a window that slides was about to end, and whose worker has not
// found that out before. It counts in its span, but what it needs is drawn in the next: there all see it.
bool WorkerCore::draw_in_next_span(Touched& touched, std::uint64_t key, std::uint64_t weight,
                                   std::uint16_t window) noexcept {
  const WindowState next = plane_.publication.load()->windows[window];
  if (next.ended_number != windows_[window].running_number) return false;
  const std::uint64_t allowance = touched.cell->left_of(touched.terms.allowance);
  touched.cell = next.running->claim(key, index_).cell;
  touched.drawn = touched.cell->draw(weight, allowance, 1, 0);
  touched.direct = true;
  if (touched.drawn == 0) return false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const WindowState& now = plane_.publication.load()->windows[window];
  if (now.running_number == next.running_number) return true;
  if (now.ended_number == next.running_number) touched.cell->give_back(touched.drawn);
  return false;
}

bool WorkerCore::may_admit(Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                           const RuleTerms& terms, MonotonicTime now) noexcept {
  if (touched.grant != GrantTable::nowhere) return true;
  if (!window_is_known(terms.window)) [[unlikely]]
    return false;
  if (!draw(touched, planned, weight, terms, now)) return false;
  // The processor may have been taken away between the look and the draw, for so long that the pool serves
  // another window by now. Acquire: pairs with the fence in AllowancePool::clear(); who has drawn from a
  // cleared cell sees that its window is over.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (window_is_known(terms.window)) [[likely]]
    return true;
  if (touched.entry != nullptr) take_credit(touched.place);
  touched.drawn = 0;
  return false;
}

bool WorkerCore::draw_sliding_window(Touched& touched, std::uint64_t key, std::uint64_t weight,
                                     std::uint16_t window) noexcept {
  const std::uint64_t credit = touched.entry != nullptr ? table_->credit(touched.place) : 0;
  if (!draw_window(touched, key, weight)) return false;
  const bool has_drawn =
      touched.direct || (touched.entry != nullptr && table_->credit(touched.place) != credit);
  if (!has_drawn || stays_drawn(window)) [[likely]]
    return true;
  const std::uint64_t drawn = touched.direct ? touched.drawn : take_credit(touched.place);
  // Not where it may have been cleared meanwhile.
  if (window_is_known(window)) touched.cell->give_back(drawn);
  return draw_in_next_span(touched, key, weight, window);
}

bool WorkerCore::draw(Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                      const RuleTerms& terms, MonotonicTime now) noexcept {
  switch (terms.algorithm) {
    case Algorithm::cooldown:
      if (now < touched.blocked_until) return false;
      if (draw_window(touched, planned.key, weight)) return true;
      // While the rule is closed, whatever is asked is refused: that exceeds nothing.
      if (publication_->defaults[planned.rule].allowance > 0) refuse(touched, planned, weight, now);
      return false;
    case Algorithm::shed:
      return !sheds(touched, planned, weight) && draw_window(touched, planned.key, weight);
    case Algorithm::strict:
      // What is counted under a shared name cannot be told from what a lease has left.
      return touched.entry != nullptr && draw_window(touched, planned.key, weight);
    case Algorithm::fixed_window:
      return draw_window(touched, planned.key, weight);
    case Algorithm::sliding_window:
      return draw_sliding_window(touched, planned.key, weight, terms.window);
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      return draw_bucket(touched, planned, weight, terms, now);
    case Algorithm::sliding_log:
      return draw_log(touched, planned.key, weight, terms, now);
  }
  return false;
}

bool WorkerCore::draw_window(Touched& touched, std::uint64_t key, std::uint64_t weight) noexcept {
  if (touched.terms.allowance == 0) return false;
  if (touched.entry != nullptr && weight < SpanTable::most_ready) {
    if (table_->credit(touched.place) < weight && touched.entry->lent > 0) use_up_grant(touched.place, key);
    const std::uint64_t credit = table_->credit(touched.place);
    if (credit >= weight) return true;
    const std::uint64_t drawn =
        touched.cell->draw(weight - credit, touched.terms.allowance, plane_.quiescence.workers());
    table_->add_credit(touched.place, drawn);
    return drawn > 0;
  }
  if (weight == 0) return true;
  if (touched.entry != nullptr) {
    if (touched.entry->lent > 0) use_up_grant(touched.place, key);
    touched.cell->give_back(take_credit(touched.place));
  }
  // Nothing beyond the need: there is no place to keep it in.
  touched.drawn = touched.cell->draw(weight, touched.terms.allowance, 1, 0);
  touched.direct = true;
  return touched.drawn > 0;
}

/// All the credit there is, for who gives it back.
std::uint64_t WorkerCore::take_credit(SpanTable::Place place) noexcept {
  const std::uint64_t credit = table_->credit(place);
  table_->drop_credit(place, credit);
  return credit;
}

bool WorkerCore::draw_bucket(Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                             const RuleTerms& terms, MonotonicTime now) noexcept {
  const TokenPrice price = touched.terms.factor;
  if (touched.terms.allowance == 0) return false;
  touched.direct = touched.entry == nullptr || weight >= SpanTable::most_ready;
  if (touched.entry != nullptr && touched.entry->lent > 0 &&
      (touched.direct || table_->credit(touched.place) < weight))
    use_up_grant(touched.place, planned.key);
  std::uint64_t unused = touched.direct && touched.entry != nullptr ? take_credit(touched.place) : 0;
  const std::uint64_t credit = touched.direct ? 0 : table_->credit(touched.place);
  if (credit >= weight) return true;
  const auto draw_from = [&](AllowanceCell& cell, std::uint64_t more) {
    BucketCell bucket(cell);
    // Once: the bucket may move on, with it, before there is drawn from it.
    if (unused > 0 && bucket.give_back(unused, price, terms.bucket)) unused = 0;
    return bucket.draw(planned.key, weight - credit, more, price, terms.bucket, now);
  };
  BucketCell::Draw draw{.closed = true};
  if (window_runs(terms.window)) [[likely]]
    draw = draw_from(*touched.cell, touched.direct ? 0 : std::min(terms.chunk, SpanTable::most_ready));
  if (draw.closed) [[unlikely]] {
    carry_on(touched, planned.key, terms, now);
    draw = draw_from(*touched.cell, 0);
  }
  if (touched.shares && draw.taken > 0) [[unlikely]] {
    touched.before = own_bucket_before(touched, planned.key, terms);
    if (touched.before != nullptr &&
        BucketCell(*touched.before).draw(planned.key, draw.taken, 0, price, terms.bucket, now).taken == 0) {
      BucketCell(*touched.cell).give_back(draw.taken, price, terms.bucket);
      return false;
    }
  }
  touched.drawn = draw.taken;
  if (!touched.direct) table_->add_credit(touched.place, draw.taken);
  return draw.taken > 0;
}

// Of a key that shares its cell what it had for itself in the window before, if it had: what it drew there,
// the shared one does not know, unless it began that one. (By the window after that this is forgotten. Who
// has spent all that came meanwhile, beside others who have not, finds what these have left then: once, and
// no more than a burst and what it owed.)
AllowanceCell* WorkerCore::own_bucket_before(const Touched& touched, std::uint64_t key,
                                             const RuleTerms& terms) const noexcept {
  AllowancePool* const ended = plane_.publication.load()->windows[terms.window].ended;
  AllowanceCell* const cell = touched.shares && ended != nullptr ? ended->find(key) : nullptr;
  return cell != nullptr && BucketCell(*cell).is_here() ? cell : nullptr;
}

// @pre the cell is in the window that runs; else of no more use than to tell what there may be
LogCell WorkerCore::log_of(const Touched& touched, std::uint64_t key, const RuleTerms& terms) const noexcept {
  AllowancePool* const ended = plane_.publication.load()->windows[terms.window].ended;
  const bool asks_before = LogCell::is_shared(*touched.cell) && ended != nullptr;
  return {*touched.cell, *terms.logs, asks_before ? ended->find(key) : nullptr};
}

// What is admitted by a worker that has not left the old window yet belongs to the next one: the key may not
// come there, and by the one after that it would be forgotten.
LogCell WorkerCore::running_log_of(Touched& touched, std::uint64_t key, const RuleTerms& terms,
                                   MonotonicTime now) noexcept {
  if (!window_runs(terms.window)) [[unlikely]]
    carry_on(touched, key, terms, now);
  return log_of(touched, key, terms);
}

bool WorkerCore::draw_log(Touched& touched, std::uint64_t key, std::uint64_t weight, const RuleTerms& terms,
                          MonotonicTime now) noexcept {
  if (touched.terms.allowance == 0) return false;
  touched.direct = true;
  const auto draw = [&](LogCell log) {
    const LogCell::Draw drawn = log.draw(key, now, weight);
    if (!drawn.taken && !drawn.closed) log.ask_for_log(spare_logs_[terms.window]);
    return drawn;
  };
  LogCell::Draw drawn = draw(running_log_of(touched, key, terms, now));
  if (drawn.closed) [[unlikely]] {  // the window has turned in this moment
    carry_on(touched, key, terms, now);
    drawn = draw(log_of(touched, key, terms));
  }
  touched.drawn = drawn.taken ? weight : 0;
  return drawn.taken;
}

// Error diffusion: of what has been offered so far the fraction has been admitted, to within one request.
// Where that one falls differs from key to key and from span to span, so that rare keys' rounding evens out.
// Of a key that has no entry nobody knows what has been offered: there each request has its own phase.
bool WorkerCore::sheds(const Touched& touched, const PlannedKey& planned,
                       std::uint64_t weight) const noexcept {
  const std::uint64_t fraction = touched.terms.factor;
  if (fraction >= admit_all) return false;
  const auto moment = static_cast<std::uint64_t>(table_->began.wall.time_since_epoch().count());
  const auto phase_of = [](std::uint64_t of) { return (of * 0x9e3779b97f4a7c15) >> 32; };
  if (touched.entry == nullptr)
    return phase_of((planned.key ^ moment) + table_->overflow(planned.rule).offered) >= fraction;
  const std::uint64_t phase = phase_of(planned.key ^ moment);
  const std::uint64_t admitted = table_->admitted(touched.place);
  const unsigned __int128 offered =
      static_cast<unsigned __int128>(admitted) + table_->refused(*touched.entry) + weight;
  const unsigned __int128 due = offered * fraction + static_cast<unsigned __int128>(weight) * phase;
  return static_cast<unsigned __int128>(admitted) + weight > due >> 32;
}

// The first request refused for want of allowance is the exceeding (algorithm.md §3, step 2); but as long as
// no more is refused than other workers may have been granted, or lent, and not used, the limit may not have
// been reached.
void WorkerCore::refuse(Touched& touched, const PlannedKey& planned, std::uint64_t weight,
                        MonotonicTime now) noexcept {
  if (touched.entry == nullptr) return;  // counted under a shared name: no block can follow
  const RuleTerms& terms = plane_.terms[planned.rule];
  const WindowState& window = windows_[terms.window];
  // It has no part in what exceeds that interval's limit: nobody has said yet that the next one has begun.
  if (now >= window.ends) [[unlikely]]
    return;
  const std::uint64_t reserve = publication_->reserve_of(publication_->find(planned.key), planned.rule,
                                                         terms.window, window.interval_number);
  // Nor its own grant, while that is left alone.
  const std::uint64_t own = rule_grants_[planned.rule].most > 0 ? reserve / plane_.quiescence.workers() : 0;
  if (saturated_sum(table_->refused(*touched.entry), weight) <= reserve - own) return;
  const Duration length = terms.block.length(planned.key);
  if (!table_->block(*touched.entry, now, now + length)) return;
  touched.blocked_until = now + length;
  touched.block_is_published = false;
  refused_.add(planned.rule, planned.key);
  rule_grants_[planned.rule].some_ungranted = true;
  tell_use(planned.rule);
  ++blocks_begun_;
  grants_.refused.add(planned.rule, planned.key);
  // A mark of a block that has ended is replaced; one that another worker has just set stays.
  std::int64_t mark = touched.cell->refused_at.load(std::memory_order_relaxed);
  window.running->note_refusal(planned.key);
  if (mark == AllowanceCell::no_refusal || MonotonicTime(Duration(mark)) + length <= now)
    touched.cell->refused_at.compare_exchange_strong(mark, now.time_since_epoch().count(),
                                                     std::memory_order_relaxed);
}

// The request was refused by another rule. What a worker may keep for its next request stays with its entry.
void WorkerCore::undraw(const Touched& touched, std::uint64_t key, const RuleTerms& terms,
                        MonotonicTime now) noexcept {
  if (touched.drawn == 0) return;
  if (is_bucket(terms.algorithm) && !touched.direct) table_->drop_credit(touched.place, touched.drawn);
  // Else the cell may be another key's by now.
  if (!window_is_known(terms.window)) [[unlikely]]
    return;
  if (terms.algorithm == Algorithm::sliding_log) {
    log_of(touched, key, terms).give_back(now, touched.drawn);
  } else if (is_bucket(terms.algorithm)) {
    for (AllowanceCell* const cell : {touched.cell, touched.before})
      if (cell != nullptr) BucketCell(*cell).give_back(touched.drawn, touched.terms.factor, terms.bucket);
  } else {
    touched.cell->give_back(touched.drawn);
  }
}

void WorkerCore::charge(Touched& touched, RuleIndex rule, std::uint64_t weight) noexcept {
  if (touched.grant != GrantTable::nowhere)
    use_grant(touched.grant, rule, weight);
  else if (touched.entry == nullptr)
    table_->overflow(rule).add(0, weight);
  else if (touched.direct)
    table_->count_admitted(touched.place, weight);
  else
    table_->charge(touched.place, weight);
}

void WorkerCore::use_grant(GrantTable::Place place, RuleIndex rule, std::uint64_t weight) noexcept {
  grants_.use(place, static_cast<std::uint32_t>(weight), rule_grants_[rule].window);
  table_->counted_beside = true;
}

// Whether having credit is all that the key's next requests need. Not where each must be looked at, nor while
// there is a block that credit does not know of.
bool WorkerCore::serves_ready(const Touched& touched, const RuleTerms& terms,
                              MonotonicTime now) const noexcept {
  if (touched.entry == nullptr || touched.terms.allowance == 0) return false;
  switch (terms.algorithm) {
    case Algorithm::cooldown:
      return now >= touched.blocked_until;
    case Algorithm::shed:
      return touched.terms.factor >= admit_all;
    case Algorithm::sliding_log:
      return false;
    default:
      return true;
  }
}

// What the key's next requests need a look for no more, its line says from now on.
// @return whether what is ready may serve them
bool WorkerCore::end_look(const Touched& touched, const PlannedKey& planned, MonotonicTime now) noexcept {
  const bool serves = serves_ready(touched, plane_.terms[planned.rule], now);
  if (serves)
    table_->make_ready(touched.place);
  else if (refuses_for_long(touched, planned))
    table_->refuse_from_now_on(touched.place, touched.block_is_published);
  return serves;
}

// Whether the key's line alone may refuse its next requests. Not where the block of another worker has just
// left a grant open, which would still be used.
bool WorkerCore::refuses_for_long(const Touched& touched, const PlannedKey& planned) const noexcept {
  return touched.entry != nullptr && touched.blocked_until >= glances_end_ &&
         may_refuse_at_a_glance(plane_.terms[planned.rule]) &&
         (rule_grants_[planned.rule].most == 0 || is_ungranted(planned.rule, planned.key));
}

// The common case, by the keys' lines alone: all have enough ready. What is used of a grant may have been
// counted at once, so nothing is taken before all are known to have enough.
bool WorkerCore::take_ready(const Plan& plan, std::uint64_t multiplier) noexcept {
  if (publication_ == nullptr) return plan.count == 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (!has_ready(plan.keys[i], multiplier)) return false;
    // Two keys that look alike are told apart by who looks closer.
    for (std::size_t earlier = 0; earlier < i; ++earlier)
      if (plan.keys[earlier].grant == plan.keys[i].grant && plan.keys[earlier].place == plan.keys[i].place)
          [[unlikely]]
        return false;
  }
  for (std::size_t i = 0; i < plan.count; ++i) {
    const PlannedKey& planned = plan.keys[i];
    const std::uint64_t weight = rule_grants_[planned.rule].weight * multiplier;
    if (planned.grant != GrantTable::nowhere)
      use_grant(planned.grant, planned.rule, weight);
    else
      take_from_entry(planned, weight);
    count_admitted(planned.rule, 1);
  }
  return true;
}

// @pre it has as much ready
void WorkerCore::take_from_entry(const PlannedKey& planned, std::uint64_t weight) noexcept {
  table_->take_ready(planned.place, weight);
  lend(planned.place, planned.key, planned.rule);
}

bool WorkerCore::has_ready(const PlannedKey& planned, std::uint64_t multiplier) const noexcept {
  const Grant& grant = rule_grants_[planned.rule];
  const std::uint64_t weight = grant.weight * multiplier;
  // An earlier request of the burst may have used it since it was found.
  if (planned.grant != GrantTable::nowhere) return weight <= left_of(grant, planned.grant);
  return planned.place != SpanTable::nowhere &&
         table_->has_ready(planned.place, planned.key, weight, generation_);
}

template <typename NameOf>
Decision WorkerCore::decide(const Plan& plan, std::uint64_t multiplier, MonotonicTime now, Detail detail,
                            NameOf&& name_of) noexcept {
  if (plan.count == 0 || publication_ == nullptr) return {};
  if (take_ready(plan, multiplier)) return admitted(plan, multiplier, now, detail);
  if (plan.count != 1)
    return decide_closely(std::span<const PlannedKey>(plan.keys.data(), plan.count), multiplier, now, detail,
                          name_of);
  const PlannedKey& only = plan.keys[0];
  if (may_refuse(plane_.terms[only.rule]) && only.place != SpanTable::nowhere &&
      table_->is_settled(only.place, only.key, generation_) &&
      is_known_refused(only, rule_grants_[only.rule].weight * multiplier, now))
    return refused(only, multiplier, now, detail);
  return decide_closely(std::span<const PlannedKey, 1>(plan.keys.data(), 1), multiplier, now, detail,
                        name_of);
}

// Of a plain frame's request; as decide_each() does.
void WorkerCore::decide_plain(const Plan& plan, std::size_t at, MonotonicTime now,
                              PlainDecisions& decisions) noexcept {
  const Decision decision = decide(plan, 1, now, Detail::refusals, [&](RuleIndex rule) {
    plane_.classifier.plain().make_key(rule, plain_frames_[at], plain_.heads, at, key_bytes_);
    return key_bytes_.bytes();
  });
  if (decision.verdict == Verdict::admit) {
    decisions.admitted |= std::uint32_t{1} << at;
    return;
  }
  decisions.refused |= std::uint32_t{1} << at;
  decisions.rules[at] = decision.rule;
  decisions.retry_after[at] = decision.action == Action::reply_429 ? decision.retry_after : Duration{};
}

// What decide_closely() comes to for a key that is known to be refused.
Decision WorkerCore::refused(const PlannedKey& planned, std::uint64_t multiplier, MonotonicTime now,
                             Detail detail) noexcept {
  const std::uint64_t weight = rule_grants_[planned.rule].weight * multiplier;
  table_->count_refused(table_->entry(planned.place), counts_refused(plane_.terms[planned.rule], weight));
  count_refused(planned.rule, 1);
  Decision decision;
  decision.verdict = Verdict::block;
  if (detail == Detail::verdicts)
    name_rule(decision, planned.rule, weight);
  else
    tell(decision, planned, touched_at(planned.place, plane_.terms[planned.rule]), weight, now);
  return decision;
}

// What is to be told of a request that take_ready() has admitted.
Decision WorkerCore::admitted(const Plan& plan, std::uint64_t multiplier, MonotonicTime now,
                              Detail detail) const noexcept {
  Decision decision;
  if (plan.count == 0) return decision;
  const PlannedKey& first = plan.keys[0];
  const std::uint64_t weight = rule_grants_[first.rule].weight * multiplier;
  if (detail == Detail::full)
    tell(decision, first,
         first.grant != GrantTable::nowhere ? granted(first)
                                            : touched_at(first.place, plane_.terms[first.rule]),
         weight, now);
  else
    name_rule(decision, first.rule, weight);
  return decision;
}

// Requests of a burst whose keys have been found, and which have not been admitted yet; one after the other.
void WorkerCore::decide_each(std::span<const Request> requests, std::uint32_t left, MonotonicTime now,
                             std::span<Decision> decisions, Detail detail) noexcept {
  for_each(left, [&](std::size_t at) {
    plan_found(at, plans_[at]);
    look_up(plans_[at], times(requests[at]));
  });
  for (; left != 0; left &= left - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(left));
    if (!take_ready(plans_[at], times(requests[at]))) break;
    std::construct_at(&decisions[at], admitted(plans_[at], times(requests[at]), now, detail));
  }
  for_each(left, [&](std::size_t at) { prefetch_beyond_lines(plans_[at], times(requests[at])); });
  for_each(left, [&](std::size_t at) { prefetch_entries(plans_[at]); });
  const std::uint64_t blocks = blocks_begun_;
  for_each(left, [&](std::size_t at) {
    // A block that an earlier request has begun ends the grants that were found before.
    if (blocks_begun_ != blocks) [[unlikely]]
      look_up(plans_[at], times(requests[at]));
    const auto name_of = [&](RuleIndex rule) {
      // Once per key and table: worth matching again instead of keeping 32 requests' key bytes.
      plane_.classifier.match(requests[at], scratch_);
      plane_.classifier.make_key(rule, requests[at], scratch_, key_bytes_);
      return key_bytes_.bytes();
    };
    std::construct_at(&decisions[at], decide(plans_[at], times(requests[at]), now, detail, name_of));
  });
}

// Whether of other rules nothing need be known where this one refuses: whom it blocks asks for nothing.
bool WorkerCore::settles_it(const RuleTerms& terms) noexcept {
  return terms.algorithm == Algorithm::cooldown;
}

// Of a rule that does not admit a request. @return whether it only observes that
bool WorkerCore::observes_refusal(Touched& touched, RuleIndex rule, Decision& decision) noexcept {
  touched.drawn = 0;
  of_rules_[rule].counters.blocked.add(1);
  if (plane_.terms[rule].action != Action::observe) return false;
  if (decision.observed == no_rule) decision.observed = rule;
  return true;
}

bool WorkerCore::log_has_room(Touched& touched, std::uint64_t key, std::uint64_t weight,
                              const RuleTerms& terms, MonotonicTime now) noexcept {
  if (!window_is_known(terms.window) || touched.terms.allowance == 0) return false;
  LogCell log = running_log_of(touched, key, terms, now);
  const bool has_room = weight == 0 || (weight <= terms.limit && log.retry_after(now, weight) == Duration{});
  if (!has_room) log.ask_for_log(spare_logs_[terms.window]);
  return has_room;
}

// @param extent  1: of one key, which is the common case and needs no loops
template <std::size_t extent, typename NameOf>
Decision WorkerCore::decide_closely(std::span<const PlannedKey, extent> keys, std::uint64_t multiplier,
                                    MonotonicTime now, Detail detail, NameOf&& name_of) noexcept {
  constexpr std::size_t most = extent == std::dynamic_extent ? max_rules_per_request : extent;
  Decision decision;

  // Check all…
  // Not initialised: as a rule few of them are needed, and each decision would pay for all.
  union Places {
    Places() noexcept {}
    Touched all[most];
  } places;
  Touched* const touched = places.all;
  std::size_t deciding = 0;
  std::array<bool, most> charged{};
  std::array<bool, most> exceeds{};
  bool refused = false;
  std::uint16_t closest = 0;  // of the rules that refuse
  bool any_log = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const PlannedKey& planned = keys[i];
    const RuleTerms& terms = plane_.terms[planned.rule];
    const std::uint64_t weight = terms.weight * multiplier;
    if (refused) {
      Touched& here = *std::construct_at(&touched[i]);
      if ((terms.closeness < closest && !counts_refusals(terms)) ||
          settles_it(plane_.terms[keys[deciding].rule]))
        continue;
      if (PlannedKey other = planned; find_grant(other, weight)) continue;
      here = touch_entry(planned, name_of, now);
      exceeds[i] = remaining(here, planned, now) < weight ||
                   (terms.algorithm == Algorithm::shed && sheds(here, planned, weight));
      if (exceeds[i] && may_refuse(terms)) closest = std::max(closest, terms.closeness);
      continue;
    }
    Touched& here = *std::construct_at(&touched[i], touch(planned, weight, name_of, now));
    // What has been written to a log cannot be taken out again: so not before all others have admitted it.
    const bool asks_log = extent != 1 && terms.algorithm == Algorithm::sliding_log;
    any_log = any_log || asks_log;
    charged[i] = asks_log ? log_has_room(here, planned.key, weight, terms, now)
                          : may_admit(here, planned, weight, terms, now);
    exceeds[i] = !charged[i];
    if (charged[i] || observes_refusal(here, planned.rule, decision)) continue;
    refused = true;
    deciding = i;
    closest = terms.closeness;
  }
  if (any_log && !refused)
    for (std::size_t i = 0; i < keys.size() && !refused; ++i) {
      const RuleTerms& terms = plane_.terms[keys[i].rule];
      if (terms.algorithm != Algorithm::sliding_log || !charged[i]) continue;
      // Another worker may have been quicker.
      charged[i] = may_admit(touched[i], keys[i], terms.weight * multiplier, terms, now);
      exceeds[i] = !charged[i];
      if (charged[i] || observes_refusal(touched[i], keys[i].rule, decision)) continue;
      refused = true;
      deciding = i;
      closest = terms.closeness;
    }

  // …then charge all, or none. Who has been refused has asked for nothing of what other rules would admit.
  // Nor, where a rule refuses him whose keys are closer to who he is, of what others want, too: it would be
  // taken for demand, and whoever hammers against a limit of his own would draw to his node what all share.
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const RuleTerms& terms = plane_.terms[keys[i].rule];
    const std::uint64_t weight = terms.weight * multiplier;
    Touched& here = touched[i];
    RuleCounters& counters = of_rules_[keys[i].rule].counters;
    (charged[i] && !refused ? counters.admitted : counters.others).add(1);
    if (here.grant != GrantTable::nowhere) {
      if (!refused) charge(here, keys[i].rule, weight);
      continue;
    }
    const bool counts = exceeds[i] && (terms.closeness >= closest || counts_refusals(terms));
    if (here.entry == nullptr) {
      if (counts || !refused)
        table_->overflow(keys[i].rule).add(charged[i] ? weight : counts_refused(terms, weight), 0);
    } else if (counts) {
      table_->count_refused(*here.entry, counts_refused(terms, weight));
    }
    if (charged[i]) {
      if (refused)
        undraw(here, keys[i].key, terms, now);
      else
        charge(here, keys[i].rule, weight);
    }
    if (end_look(here, keys[i], now)) lend(here.place, keys[i].key, keys[i].rule);
  }

  const PlannedKey& by = keys[deciding];
  decision.verdict = refused ? Verdict::block : Verdict::admit;
  const std::uint64_t weight = plane_.terms[by.rule].weight * multiplier;
  if (detail == Detail::full || (detail == Detail::refusals && refused))
    tell(decision, by, touched[deciding], weight, now);
  else
    name_rule(decision, by.rule, weight);
  return decision;
}

void WorkerCore::name_rule(Decision& decision, RuleIndex rule, std::uint64_t weight) const noexcept {
  const RuleTerms& terms = plane_.terms[rule];
  decision.rule = rule;
  decision.action = terms.action;
  decision.limit = terms.limit;
  decision.weight =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(weight, std::numeric_limits<std::uint32_t>::max()));
}

Decision WorkerCore::peek(const PlannedKey& planned, std::span<const std::byte> name,
                          MonotonicTime now) noexcept {
  Decision decision;
  if (publication_ == nullptr) return decision;
  const std::uint64_t weight = std::max<std::uint64_t>(plane_.terms[planned.rule].weight, 1);
  PlannedKey found = planned;
  const Touched touched = find_grant(found, weight) ? granted(found)
                                                    : touch_entry(
                                                          planned, [&](RuleIndex) { return name; }, now);
  end_look(touched, planned, now);
  if (remaining(touched, planned, now) < weight) {
    if (plane_.terms[planned.rule].action == Action::observe)
      decision.observed = planned.rule;
    else
      decision.verdict = Verdict::block;
  }
  tell(decision, planned, touched, weight, now);
  return decision;
}

}  // namespace weir
