// SPDX-License-Identifier: BSD-3-Clause
// What the engine makes of the store's answers: what other nodes admitted, this node's share of the traffic,
// and how many nodes there are.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "engine/engine.h"
#include "engine/heartbeat.h"

namespace weir {
namespace {

/// How much of an interval's error is made good in the next one, and how far that may go: it corrects what
/// rounding and small counts do to the shares; a real change of demand is the estimates' business.
constexpr double correction_gain = 0.5;
constexpr double correction_least = 0.8;
constexpr double correction_most = 1.25;

/// What a counter may have come to at most: there is room for no more, and no store counts so far.
constexpr std::uint64_t most_in_total = std::numeric_limits<std::int64_t>::max();

std::uint64_t others_of(const std::array<SharedCount, 2>& counts) noexcept {
  return counts[0].others() + counts[1].others();
}
std::uint64_t acknowledged_of(const std::array<SharedCount, 2>& counts) noexcept {
  return counts[0].acknowledged + counts[1].acknowledged;
}

/// What a bucket has lost of its rate in so many spans at least, because it was full: as much as if it had
/// been in the deepest debt before, and were full now.
/// @param own  drawn here meanwhile
std::uint64_t lost_of(const RuleState& rule, std::uint32_t spans, std::uint64_t own) noexcept {
  // What is drawn while it is cold costs more than it is counted for.
  if (rule.warmup > Duration{}) return 0;
  const unsigned __int128 generated = static_cast<unsigned __int128>(rule.limit) * spans / rule.spans;
  const unsigned __int128 kept = static_cast<unsigned __int128>(rule.burst) * 2 + own;
  if (generated <= kept) return 0;
  return static_cast<std::uint64_t>(std::min<unsigned __int128>(generated - kept, most_in_total));
}

}  // namespace

void Engine::take_replies(std::span<const EngineReply> replies, Instant now) {
  // As Ledger::ahead has it: index, slot, and what the slot says; of 3 * ahead keys each is on its way.
  constexpr std::size_t ahead = Ledger::ahead;
  std::array<SlotIndex, ahead> slots;  // of the ahead keys behind the next ahead
  const auto look_ahead = [&](std::size_t i) {
    if (i < replies.size()) ledger_.prefetch(replies[i].key);
    if (i < ahead) return;
    if (i >= 2 * ahead && i - 2 * ahead < replies.size())
      if (const SlotIndex slot = slots[i % ahead]; slot != Ledger::none) ledger_.prefetch_known(slot);
    if (i - ahead < replies.size()) slots[i % ahead] = ledger_.prefetch_slot(replies[i - ahead].key);
  };
  for (std::size_t i = 0; i < 3 * ahead; ++i) look_ahead(i);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    look_ahead(i + 3 * ahead);
    reply(replies[i], now);
  }
}

void Engine::reply(const EngineReply& reply, Instant now) {
  if (reply.use == CounterUse::members) {
    // Only a period that is over, and in which nobody can have been kept from the store, has been written by
    // all; any other can only show that there are more.
    // In a period from before its time this node did not count itself.
    const bool absent = reply.ordinal == absent_;
    const bool is_over = reply.ordinal < beat_;
    // The store has lost what it was told; of the period that runs, too, perhaps. Or it was away: others may
    // find it again a little later than this node.
    const bool is_forgotten = is_over && !absent && reply.total == 0;
    const bool was_away = reply.delta > 0 && (is_over || now.monotonic - beat_at_ > heartbeat_is_late);
    if (is_forgotten || was_away) whole_from_ = std::max(whole_from_, beat_ + 1);
    const bool is_whole = is_over && !absent && reply.ordinal >= whole_from_;
    const auto alive =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(reply.total + (absent ? 1 : 0), 1, most_nodes));
    cluster_.nodes = is_whole ? alive : std::max(cluster_.nodes, alive);
    share_light();
    // Nodes that begin together do not see each other in their first period: until the next one they would
    // keep back too much. But where there were none before, the n-th to begin finds n, and may have 1 / n (n
    // + 1) of what is kept back: however many there are, their parts come to less than one. (Where there were
    // some, these have all of it. And by a clock that the store's answer has set since, nobody can tell.)
    cluster_.counted = cluster_.counted || (is_over && !absent);
    if (absent) cluster_.founded = reply.total == 0;
    if (cluster_.counted)
      share_holds(cluster_.nodes);
    else if (cluster_.founded && reply.ordinal == beat_ && reply.delta > 0 &&
             heartbeat.ordinal(now.wall) == beat_)
      share_holds(std::uint64_t{alive} * (std::uint64_t{alive} + 1));
    return;
  }
  const SlotIndex index = reply.key == 0 ? Ledger::none : ledger_.find(reply.key);
  if (index == Ledger::none) return;
  KeySlot& slot = ledger_[index];
  const RuleState& rule = rules_[slot.rule];
  if (reply.use == CounterUse::lease) {
    if (Lease* lease = own_detail(slot).leases->of(reply.ordinal); lease != nullptr) {
      lease->answered(reply.delta, reply.total, rule.limit);
    } else if (reply.delta > 0) {
      // It came too late for its interval: nobody can have drawn on it.
      Lease late;
      late.begin(reply.ordinal);
      late.owed = reply.delta;
      write_lease(rule, slot, late, 0);
    }
    return;
  }
  if (reply.use == CounterUse::blocked) {
    using std::chrono::milliseconds;
    if (reply.total > 0 && reply.total < std::uint64_t{1} << 43)
      take_over_block(rule, slot, WallTime(milliseconds(static_cast<std::int64_t>(reply.total))), now);
    return;
  }
  const bool running = reply.ordinal == slot.current.ordinal;
  if (!rule.hears() || (!running && reply.ordinal != slot.previous_ordinal())) return;
  KeyPast& past = ledger_.past(slot);
  if (reply.ordinal < rule.span.ordinal && !slot.read_due && others_made_full(rule, slot, reply))
    ask_blocks_again(rule, slot, now);
  const bool answers_first_question = past.asked_before && reply.use == CounterUse::counted &&
                                      reply.ordinal < last_counted(slot) &&
                                      offered_in(slot, reply.ordinal) == 0;
  const bool tells_of_before = reply.use == CounterUse::counted && is_before(rule, slot, reply.ordinal);
  if (answers_first_question || tells_of_before) past.asked_before = false;
  const bool looks_back =
      past.looks_back && !answers_first_question && !tells_of_before && reply.use != CounterUse::held;
  if (looks_back) past.looks_back = false;
  if (slot.detail == no_index && tells_nothing(rule, slot, reply)) {
    past.alone[running ? 0 : 1] += reply.delta;
    return;
  }
  KeyDetail& detail = own_detail(slot);
  if (past.reading && reply.use == CounterUse::counted && reply.ordinal == rule.reads_ordinal) {
    past.reading = false;
    begin_reading(slot, reply.ordinal);
  }
  SharedCount& counted = detail.counted[running ? 0 : 1];
  if (answers_first_question) {
    counted.total = std::min(reply.total, most_in_total);
    if (counted.others() > 0) let_differ(slot);
    hear_before(rule, slot, reply.ordinal, counted.others());
    return;
  }
  SharedCount& shared = reply.use == CounterUse::refused ? detail.refused[running ? 0 : 1] : counted;
  const std::uint64_t known = shared.others();
  const bool is_first = shared.total == 0;
  shared.acknowledged += reply.delta;
  shared.total = std::min(reply.total, most_in_total);
  const std::uint64_t news = shared.others() > known ? shared.others() - known : 0;
  if (shared.others() > 0) let_differ(slot);
  // What was light in its interval says nothing of this one, nor does what is added to it later.
  if (reply.use == CounterUse::held) {
    shared.was_light = shared.was_light || is_first;
    // The rest of one that was told of is learned with its sum, or with what is heard next.
    if (!shared.was_light) {
      add_news(slot, reply, news);
      detail.others_admitted += news;
    }
    return;
  }
  if (looks_back && reply.delta == 0) detail.looked_back = true;
  if (tells_of_before) {
    if (shared.others() > 0) hear_before(rule, slot, reply.ordinal, shared.others());
  } else if (!shared.was_light || reply.ordinal >= told_ordinal(rule)) {
    shared.was_light = false;
    add_news(slot, reply, news);
    hear(rule, slot, reply.ordinal, news, reply.use == CounterUse::counted);
  }
  if (rule.by_shares()) {
    if (reply.use == CounterUse::counted) settle_interval(rule, slot, running);
    return;
  }

  // Step 4. Our own part is what we counted, whether or not all of it has reached the store yet; and with
  // what has been given back since the store was told, for others' parts have that, too.
  if (detail.reading && detail.reading_ordinal == reply.ordinal) {
    const std::uint64_t own_counts = rule.counted(running ? slot.current : previous(slot));
    if (const std::uint64_t own = std::max(own_counts, counted.acknowledged); own > 0)
      detail.nodes = NodesRatio(own, counted.others());
    settle_interval(rule, slot, running);
  }
  // Step 2. Of an interval that is over only what this node has added to it counts.
  const std::uint64_t refunded = running ? std::min(detail.refunded, reply.total) : 0;
  if ((reply.delta > 0 || reply.ordinal == rule.span.ordinal) &&
      reply.total - refunded > rule.limit_of(detail))
    begin_block(rule, slot, now.monotonic);
}

// Whether only this answer tells that others, too, have brought the key near its limit in an interval.
bool Engine::others_made_full(const RuleState& rule, const KeySlot& slot,
                              const EngineReply& reply) const noexcept {
  if (reply.use == CounterUse::refused) return false;
  const std::size_t of = reply.ordinal == slot.current.ordinal ? 0 : 1;
  const bool has_detail = slot.detail != no_index;
  const SharedCount& known = ledger_.detail(slot).counted[of];
  const std::uint64_t own = reply.delta + (has_detail ? known.acknowledged : ledger_.past(slot).alone[of]);
  return reply.total > own && may_have_begun_blocks(rule, slot, reply.total) &&
         !(has_detail && known.others() > 0 && may_have_begun_blocks(rule, slot, known.total));
}

// Whether an answer leaves a key without detail as it is: nobody else has counted anything, and the key is
// far from its limit, and what it would add to the key's share is nothing, or as little as is usually kept
// back. And where what was kept back is told of an interval that is over: all together counted no more than
// may be kept back. (Nobody learns from such an answer, and none of it bears on the interval that runs.)
bool Engine::tells_nothing(const RuleState& rule, const KeySlot& slot,
                           const EngineReply& reply) const noexcept {
  const KeyPast& past = ledger_.past(slot);
  const bool running = reply.ordinal == slot.current.ordinal;
  if (reply.use == CounterUse::held && reply.ordinal < rule.span.ordinal && is_light(rule, reply.total))
    return true;
  if (reply.total != past.alone[running ? 0 : 1] + reply.delta) return false;
  if (reply.use == CounterUse::held) return true;
  if (reply.use != CounterUse::counted || rule.needs_detail() || rule.early_block == EarlyBlock::predictive)
    return false;
  return is_far(rule, slot) &&
         (past.first_nodes == 1 || offered_in(slot, reply.ordinal) <= rule.hold_of(cluster_.nodes));
}

// Whether an interval was over before the span that has ended last, and this node, which has told of the key
// in none before, counted so little of it then that it kept it back, if anything, and heard nothing: what
// others counted in all of it is no news of the interval that runs, on which it bears all the same.
bool Engine::is_before(const RuleState& rule, const KeySlot& slot, Ordinal ordinal) const noexcept {
  const KeyDetail& detail = ledger_.detail(slot);
  const bool is_new = slot.fresh || ledger_.past(slot).asked_before;
  return is_new && rule.outlives_intervals() && ordinal < told_ordinal(rule) &&
         is_light(rule, offered_in(slot, ordinal)) &&
         !detail.heard.any_of(rule.first_of(ordinal), rule.last_of(ordinal));
}

// What others admitted in such an interval; heard once.
void Engine::hear_before(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t others) {
  KeyDetail& detail = own_detail(slot);
  detail.heard.add(rule.first_of(ordinal), rule.last_of(ordinal));
  detail.was_full = static_cast<double>(others) > 0.9 * static_cast<double>(rule.limit);
  if (detail.was_full) hear(slot);
  if (detail.spans.empty()) return;
  if (is_by_clock_before(rule, rule.number({ordinal, rule.spans - 1}))) {
    held_as_of_now(rule, detail).others += others;
    return;
  }
  for (std::uint32_t i = 0; i < rule.spans; ++i) {
    const std::int64_t number = rule.number({ordinal, i});
    SpanCounts& span = detail.spans[rule.place_of(number)];
    if (span.number < number) span = {.number = number};
    // As in learn(): in the last ones rather than the first.
    if (span.number == number)
      span.others += others / rule.spans + (rule.spans - 1 - i < others % rule.spans ? 1 : 0);
  }
}

// What an answer tells of an interval: how much of this node's it has counted, and what others have since the
// answer before. Both are of the same time, however long it took; so their ratio is this node's part. To it
// comes what had been answered while nobody else was known to count anything.
void Engine::add_news(KeySlot& slot, const EngineReply& reply, std::uint64_t others) {
  std::uint64_t& alone = ledger_.past(slot).alone[reply.ordinal == slot.current.ordinal ? 0 : 1];
  slot.own_since_heard += reply.delta + std::exchange(alone, 0);
  own_detail(slot).others_since_heard += others;
}

void Engine::hear(const RuleState& rule, KeySlot& slot, Ordinal ordinal, std::uint64_t others,
                  bool admitted) {
  KeyDetail& detail = own_detail(slot);
  if (admitted) {
    const Ordinal told = told_ordinal(rule);
    detail.others_admitted += others;
    detail.heard_ended = detail.heard_ended || ordinal < told;
    detail.heard_running = detail.heard_running || ordinal == told;
  }
  hear(slot);
}

void Engine::hear(KeySlot& slot) {
  if (slot.heard) return;
  slot.heard = true;
  heard_.push_back(ledger_.index_of(slot));
}

// Once for each interval that has ended, when its whole sum is known.
void Engine::settle_interval(const RuleState& rule, KeySlot& slot, bool running) {
  KeyDetail& detail = own_detail(slot);
  const IntervalCounts ended = running ? slot.current : previous(slot);
  if (!detail.settling || detail.reading_ordinal != ended.ordinal) return;
  detail.settling = false;
  const std::uint64_t others = detail.counted[running ? 0 : 1].others();
  const std::uint64_t sum = rule.counted(ended) + others;
  const std::uint64_t limit = rule.limit_of(detail);
  if (rule.by_shares()) {
    double missing = static_cast<double>(limit) - static_cast<double>(sum);
    // What others may have kept back is not.
    if (missing > 0) missing = std::max(0.0, missing - static_cast<double>(rule.hold) * (cluster_.nodes - 1));
    const double error = missing / static_cast<double>(std::max<std::uint64_t>(limit, 1));
    // A bucket may admit more than the rate for once: what it had saved up.
    const double least = rule.is_bucket() ? -0.05 : -0.5;
    // A node that is alone has all of the limit, whatever chance did.
    if ((running ? slot.contended : slot.was_contended) && others > 0)
      detail.correction =
          std::clamp(detail.correction * (1 + correction_gain * std::clamp(error, least, 0.5)),
                     correction_least, correction_most);
  }
  if (rule.debt) book_debt(slot, ended.ordinal, sum);
}

// Takes from what has been heard the spans that it is news of, and what was counted here in the same time.
// The span that has just ended is the last that the store was told of.
Engine::News Engine::take_news(const RuleState& rule, KeySlot& slot, KeyDetail& detail) noexcept {
  const bool ended = detail.heard_ended;
  const bool running = detail.heard_running;
  detail.heard_ended = detail.heard_running = false;
  const Ordinal ordinal = told_ordinal(rule);
  const std::int64_t begin = rule.first_of(ordinal);
  const std::int64_t told = rule.passed(rule.span) - 1;
  News news{.last = told};

  HeardSpans& heard = detail.heard;
  const bool knew_ended = heard.any_of(begin - rule.spans, begin - 1);
  const bool lately = heard.any_of(told - rule.spans, told);
  // Of an interval that is over, and known in part, nothing is learned by itself while the answer about the
  // running one is due: the rest of the one stands for what others have yet to tell of the other, where a
  // node is answered before them.
  const bool is_due = slot.told && slot.current.ordinal == ordinal;
  if (!running && (!ended || (is_due && knew_ended))) {
    detail.heard_ended = ended;
    news.last = begin - 1;
    return news;
  }
  const std::int64_t in_ended = ended ? heard.add(begin - rule.spans, begin - 1) : 0;
  if (in_ended == 0 && lately) {
    // As a rule each span is heard of in its turn.
    news.spans = static_cast<std::uint32_t>(heard.add(heard.last() + 1, told));
  } else {
    // Where some have been left out, each interval is learned by itself: what others counted in one that
    // nothing has been heard of is not known.
    if (!lately) {
      const std::uint64_t admitted = others_of(detail.counted);
      detail.others_admitted = std::min(detail.others_admitted, admitted);
      detail.others_since_heard = std::min(detail.others_since_heard, admitted + others_of(detail.refused));
      slot.own_since_heard =
          std::min(slot.own_since_heard, acknowledged_of(detail.counted) + acknowledged_of(detail.refused));
    }
    news.spans = static_cast<std::uint32_t>(in_ended);
    if (running)
      news.spans += static_cast<std::uint32_t>(heard.add(begin, told));
    else
      news.last = begin - 1;
  }
  if (news.spans > 0) news.own = std::exchange(slot.own_since_heard, 0);
  return news;
}

void Engine::learn() {
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (i + Ledger::ahead < heard_.size()) ledger_.prefetch_slot(heard_[i + Ledger::ahead]);
    if (i + Ledger::ahead / 2 < heard_.size()) ledger_.prefetch_detail(heard_[i + Ledger::ahead / 2]);
    KeySlot& slot = ledger_[heard_[i]];
    if (!slot.heard) continue;  // forgotten meanwhile, or another key's by now
    slot.heard = false;
    const RuleState& rule = rules_[slot.rule];
    KeyDetail& detail = own_detail(slot);
    const News news = take_news(rule, slot, detail);
    const bool looked_back = std::exchange(detail.looked_back, false);
    bool learned = true;
    if (looked_back)
      detail.demand.look_back(detail.others_since_heard, news.spans, rule.spans);
    else if (news.spans > 0)
      detail.demand.learn(news.own, detail.others_since_heard, news.spans, rule.spans, cluster_.nodes,
                          rule.weight);
    else if ((detail.others_since_heard > 0 || slot.own_since_heard > 0) &&
             detail.heard.last() >= rule.passed(rule.span) - 1 && detail.demand.can_revise())
      detail.demand.revise(std::exchange(slot.own_since_heard, 0), detail.others_since_heard, cluster_.nodes,
                           rule.weight);
    else
      // By itself it would be a part of what was offered: it waits for the answer that is due.
      learned = false;
    if (learned) detail.others_since_heard = 0;
    // What others have admitted, spread over the spans that it may have happened in.
    if (detail.others_admitted > 0 && !detail.spans.empty()) {
      const std::uint32_t over = std::max<std::uint32_t>(news.spans, 1);
      for (std::uint32_t back = 0; back < over; ++back) {
        const std::int64_t number = news.last + rule.set_by - back;
        SpanCounts& span = detail.spans[rule.place_of(number)];
        if (span.number < number) span = {.number = number};
        if (span.number != number) continue;
        span.others += detail.others_admitted / over + (back < detail.others_admitted % over ? 1 : 0);
      }
    }
    if (contended(rule, detail)) let_differ(slot);
    if (rule.is_bucket()) charge_bucket(rule, slot, detail, news);
    detail.others_admitted = 0;
  }
  heard_.clear();
}

void Engine::charge_bucket(const RuleState& rule, const KeySlot& slot, KeyDetail& detail, const News& news) {
  const bool is_estimated = rule.early_block == EarlyBlock::predictive && detail.demand.share() < 1;
  // A price paid while the key was known to be contended, or its share is estimated in any case, has others'
  // part in it already. A bucket that others had emptied before is not full here: what was taken from it is
  // owed, as far as they are known to have taken it.
  if (std::exchange(detail.was_full, false)) {
    charges_.push_back({.key = slot.key,
                        .rule = slot.rule,
                        .tokens = std::min(rule.burst, others_of(detail.counted))});
  } else if (detail.price == 0 && !is_estimated) {
    // Had it been known at once, others would have taken what has been lost meanwhile: a small bucket cannot
    // save up in a span what all of them use in one. (While the store is away tokens are dearer, too.)
    const std::uint64_t lost = cluster_.store_reached ? lost_of(rule, news.spans, news.own) : 0;
    if (detail.others_admitted > lost)
      charges_.push_back({.key = slot.key, .rule = slot.rule, .tokens = detail.others_admitted - lost});
  }

  const TokenPrice before = detail.price;
  detail.price = contended(rule, detail) ? token_price(rule, ledger_.view(slot), cluster_) : 0;
  const TokenPrice now = detail.price == 0 ? full_price : detail.price;
  if (before != 0 && before != now)
    charges_.push_back({.key = slot.key,
                        .rule = slot.rule,
                        .tokens = 0,
                        .scale = static_cast<double>(now) / static_cast<double>(before)});
}

}  // namespace weir
