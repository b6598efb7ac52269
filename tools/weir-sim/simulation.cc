// SPDX-License-Identifier: BSD-3-Clause
#include "simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "base/key_bytes.h"
#include "base/span_clock.h"
#include "demand_source.h"
#include "event_queue.h"
#include "limit/cooldown_bound.h"
#include "network.h"
#include "node/node_core.h"
#include "node_clock.h"
#include "ordinal_counts.h"
#include "router.h"
#include "streams.h"

namespace weir::sim {
namespace {

/// A controller that wants to be called again this soon waits for its workers.
constexpr Duration soon = std::chrono::microseconds{100};
constexpr int most_rounds = 8;
/// A bucket of the curve is about as wide as a point on a screen.
constexpr std::int64_t curve_points = 300;
/// Beyond it, no node is looked at alone: the table would be too large.
constexpr std::size_t most_node_keys = 16'000'000;

/// A moment that begins an interval of every rule, some decades after 1970.
WallTime common_epoch(const std::vector<Rule>& rules) {
  constexpr std::int64_t about = 1'700'000'000'000'000'000;
  std::int64_t common = 1;
  for (const Rule& rule : rules) {
    const std::int64_t interval = rule.interval.count();
    const std::int64_t times = interval / std::gcd(common, interval);
    // Where no moment is common to all, the first rules have it.
    if (common > about / times) break;
    common *= times;
  }
  return WallTime(Duration(about / common * common));
}

/// One life of one node's process.
struct Incarnation {
  std::uint32_t node = 0;
  std::unique_ptr<NodeCore> core;  // none: the process is gone
  StoreClient* store = nullptr;    // the core's
  Duration timer_at = Duration::max();
  Duration due = Duration::max();
  Duration paused_until{};
  std::vector<Ordinal> ordinals;      // by rule: of the span that runs
  std::vector<OrdinalCounts> by_key;  // by key of all rules
  std::int64_t counted = 0;           // under all rules that do not lease
  std::int64_t expired = 0;           // of these, and of what was claimed: given up by its store
  bool crashed = false;
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, const std::vector<Rule>& rules)
      : scenario_(scenario),
        rules_(rules),
        network_(scenario.store, events_),
        demand_(scenario),
        router_(scenario.spread, scenario.nodes, scenario.keys_of(scenario.measured),
                Random(scenario.seed, stream_of(RandomStream::spread))),
        cores_random_(scenario.seed, stream_of(RandomStream::cores)) {
    config_.node.name = "node";
    config_.node.keys = scenario.node_keys;
    config_.store.timeout = scenario.store.timeout;
    config_.store.reconnect = scenario.store.reconnect;
    config_.rules = rules;
    for (const Rule& rule : rules) clocks_of_rules_.emplace_back(rule.interval, rule.spans);
    set_clocks();
    name_keys();
    worst_node_.resize(rules.size());
    make_meters();
    schedule_scenario();
  }

  RunResult run() {
    const Duration end = scenario_.duration;
    for (;;) {
      const Duration event_at = events_.empty() ? Duration::max() : events_.top().at;
      const Duration request_at = demand_.next_at();
      if (std::min(event_at, request_at) >= end) break;
      if (event_at <= request_at) {
        const EventQueue::Event event = events_.pop();
        network_.now = event.at;
        handle(event);
      } else {
        network_.now = request_at;
        request(request_at);
      }
    }
    network_.now = end;
    operations_ = network_.server().operations();
    network_.heal();
    for (Incarnation& incarnation : incarnations_) finish(incarnation);
    return result();
  }

 private:
  void set_clocks() {
    Random random(scenario_.seed, stream_of(RandomStream::clocks));
    const WallTime epoch = common_epoch(rules_);
    const ClockSpec& spec = scenario_.clocks;
    for (std::uint32_t node = 0; node < scenario_.nodes; ++node) {
      const double spread = 2 * random.unit() - 1;
      const double drift = (2 * random.unit() - 1) * spec.drift_ppm_max;
      const Duration offset =
          node < spec.offsets.size()
              ? spec.offsets[node]
              : Duration(static_cast<std::int64_t>(spread * static_cast<double>(spec.offset_max.count())));
      const double ppm = node < spec.drifts_ppm.size() ? spec.drifts_ppm[node] : drift;
      std::vector<NodeClock::Jump> jumps;
      for (const ClockJump& jump : spec.jumps)
        if (jump.node == node) jumps.push_back({jump.at, jump.by});
      clocks_.emplace_back(epoch, offset, static_cast<std::int64_t>(std::llround(ppm * 1000)),
                           std::move(jumps));
    }
  }

  /// Two nodes' wall clocks differ by at most this, at any time.
  Duration skew() const {
    std::vector<Duration> moments{Duration{}, scenario_.duration};
    for (const ClockJump& jump : scenario_.clocks.jumps) {
      moments.push_back(jump.at);
      moments.push_back(std::max(jump.at - Duration{1}, Duration{}));
    }
    Duration worst{};
    for (const Duration moment : moments) {
      const auto [least, most] =
          std::ranges::minmax(clocks_, {}, [&](const NodeClock& clock) { return clock.at(moment).wall; });
      worst = std::max(worst, most.at(moment).wall - least.at(moment).wall);
    }
    return worst;
  }

  // The store's names of all keys, rule by rule: their numbers are known without looking them up. Those of
  // leases come last, because what the server has of them is not what has been counted.
  void name_keys() {
    first_key_.resize(rules_.size());
    for (const bool leased : {false, true}) {
      for (std::size_t rule = 0; rule < rules_.size(); ++rule)
        if (leases(rule) == leased) name_keys_of(rule);
      if (!leased) network_.server().set_counted(static_cast<Server::NameId>(network_.server().names()));
    }
    all_keys_ = network_.server().names();
    watch_nodes_ = all_keys_ * scenario_.nodes <= most_node_keys;
    by_name_ = rules_.size() == 1 && scenario_.spaces_of_rule[0].size() == 1;
    for (const KeySpace& space : scenario_.keys) headers_.push_back({space.header, {}});
  }

  void name_keys_of(std::size_t rule) {
    first_key_[rule] = network_.server().names();
    KeyBytes bytes;
    for (std::size_t key = 0; key < scenario_.keys_of(rule); ++key) {
      bytes.clear();
      std::size_t rest = scenario_.keys_of(rule);
      std::size_t place = key;
      for (const std::size_t space : scenario_.spaces_of_rule[rule]) {
        const std::vector<std::string>& values = scenario_.keys[space].values;
        rest /= values.size();
        bytes.add_text(values[place / rest]);
        place %= rest;
      }
      network_.server().intern(key_name(rules_[rule].name, bytes.bytes()));
    }
  }

  void make_meters() {
    const Duration bucket =
        scenario_.plot_bucket > Duration{}
            ? scenario_.plot_bucket
            : std::max<Duration>(scenario_.duration / curve_points,
                                 rules_[scenario_.measured].interval / rules_[scenario_.measured].spans);
    // The blind time depends on the worst sync, which only the run tells: compare_with_bound() checks this
    // guess.
    slowest_sync_ = slowest_round_trip(scenario_.store.round_trip);
    for (const Region& region : scenario_.regions)
      slowest_sync_ = std::max(slowest_sync_, slowest_round_trip(region.round_trip));
    for (std::size_t i = 0; i < rules_.size(); ++i)
      meters_.emplace_back(rules_[i], scenario_.keys_of(i), scenario_.duration,
                           cooldown_blind_time(rules_[i].interval, rules_[i].spans, slowest_sync_, skew()),
                           bucket);
  }

  /// Once more than the way itself, for what waits behind a round; a sync that takes longer than the timeout
  /// fails.
  Duration slowest_round_trip(const RoundTrip& round_trip) const noexcept {
    switch (round_trip.kind) {
      case RoundTrip::Kind::constant:
        return std::min(2 * round_trip.least, scenario_.store.timeout);
      case RoundTrip::Kind::uniform:
        return std::min(2 * round_trip.most, scenario_.store.timeout);
      case RoundTrip::Kind::lognormal:
        break;
    }
    return scenario_.store.timeout;
  }

  enum class Step : std::uint8_t { begin, wipe, event, resume };
  struct Scheduled {
    Step step = Step::event;
    std::size_t event = 0;
  };

  void schedule(Duration at, Scheduled scheduled) {
    steps_.push_back(scheduled);
    events_.push(at, EventQueue::Kind::scenario, static_cast<std::uint32_t>(steps_.size() - 1));
  }

  void schedule_scenario() {
    incarnation_of_node_.assign(scenario_.nodes, none);
    std::vector<bool> seen(scenario_.nodes);
    for (const ScenarioEvent& event : scenario_.events) {
      for (const std::uint32_t node : event.nodes) {
        if (!seen[node] && event.kind == ScenarioEvent::Kind::join) {
          router_.set(node, Router::State::closed);
          absent_.push_back(node);
        }
        seen[node] = true;
      }
    }
    schedule(Duration{}, {Step::begin, 0});
    for (const Duration wipe : scenario_.store.wipes) schedule(wipe, {Step::wipe, 0});
    for (std::size_t i = 0; i < scenario_.events.size(); ++i) {
      schedule(scenario_.events[i].at, {Step::event, i});
      if (scenario_.events[i].kind == ScenarioEvent::Kind::pause)
        schedule(scenario_.events[i].at + scenario_.events[i].length, {Step::resume, i});
    }
  }

  const RoundTrip& round_trip_of(std::uint32_t node) const {
    std::uint32_t first = 0;
    for (const Region& region : scenario_.regions) {
      if (node < first + region.nodes) return region.round_trip;
      first += region.nodes;
    }
    return scenario_.store.round_trip;
  }

  void start_node(std::uint32_t node) {
    const auto index = static_cast<std::uint32_t>(incarnations_.size());
    incarnation_of_node_[node] = index;
    std::vector<Period> cuts;
    for (const ScenarioEvent& event : scenario_.events)
      if (event.kind == ScenarioEvent::Kind::cut && std::ranges::find(event.nodes, node) != event.nodes.end())
        cuts.push_back({event.at, event.at + event.length});
    auto store =
        std::make_unique<StoreClient>(network_, index, clocks_[node], round_trip_of(node), std::move(cuts),
                                      Random(scenario_.seed, stream_of(RandomStream::links, index)));
    Incarnation& made = incarnations_.emplace_back();
    made.node = node;
    made.store = store.get();
    made.ordinals.resize(rules_.size());
    if (watch_nodes_) made.by_key.resize(all_keys_);
    Random hashes(scenario_.seed, stream_of(RandomStream::hashes, index));
    made.core = std::make_unique<NodeCore>(
        config_, ThrottleOptions{.workers = scenario_.cores, .hash_seed = hashes.next(), .log = {}},
        std::move(store));
    made.core->advance(clocks_[node].at(network_.now));
    for (unsigned i = 0; i < scenario_.cores; ++i) made.core->worker(i).online();
    drive(index);
  }

  void handle(const EventQueue::Event& event) {
    switch (event.kind) {
      case EventQueue::Kind::controller: {
        Incarnation& incarnation = incarnations_[event.subject];
        if (incarnation.core == nullptr || deferred(event, incarnation)) return;
        incarnation.timer_at = Duration::max();
        if (event.at < incarnation.due)
          set_timer(event.subject);
        else
          drive(event.subject);
        return;
      }
      case EventQueue::Kind::store_timer: {
        Incarnation& incarnation = incarnations_[event.subject];
        if (incarnation.core == nullptr || deferred(event, incarnation)) return;
        if (incarnation.store->timer(event.at)) drive(event.subject);
        return;
      }
      case EventQueue::Kind::arrival:
        network_.arrive(event.subject, event.at);
        return;
      case EventQueue::Kind::answer: {
        // What reaches a stopped process waits in its socket.
        const StoreClient* client = network_.round(event.subject).client;
        if (client != nullptr && deferred(event, incarnations_[client->sender()])) return;
        if (const StoreClient* awake = network_.answer(event.subject, event.at); awake != nullptr)
          drive(awake->sender());
        return;
      }
      case EventQueue::Kind::scenario:
        step(steps_[event.subject]);
        return;
    }
  }

  bool deferred(const EventQueue::Event& event, const Incarnation& incarnation) {
    if (event.at >= incarnation.paused_until) return false;
    events_.push(incarnation.paused_until, event.kind, event.subject);
    return true;
  }

  void step(const Scheduled& scheduled) {
    switch (scheduled.step) {
      case Step::begin:
        for (std::uint32_t node = 0; node < scenario_.nodes; ++node)
          if (std::ranges::find(absent_, node) == absent_.end()) start_node(node);
        return;
      case Step::wipe:
        network_.server().wipe();
        return;
      case Step::event:
        for (const std::uint32_t node : scenario_.events[scheduled.event].nodes)
          begin(scenario_.events[scheduled.event], node);
        return;
      case Step::resume:
        for (const std::uint32_t node : scenario_.events[scheduled.event].nodes) resume(node);
        return;
    }
  }

  void resume(std::uint32_t node) {
    const std::uint32_t index = incarnation_of_node_[node];
    if (index == none || network_.now < incarnations_[index].paused_until) return;
    router_.set(node, Router::State::open);
  }

  void begin(const ScenarioEvent& event, std::uint32_t node) {
    const std::uint32_t index = incarnation_of_node_[node];
    const bool there = index != none;
    const Router::State away = event.traffic_lost ? Router::State::losing : Router::State::closed;
    switch (event.kind) {
      case ScenarioEvent::Kind::crash:
        if (!there) return;
        incarnations_[index].crashed = true;
        end(incarnations_[index]);
        incarnation_of_node_[node] = none;
        router_.set(node, away);
        return;
      case ScenarioEvent::Kind::leave:
        if (!there) return;
        finish(incarnations_[index]);
        incarnation_of_node_[node] = none;
        router_.set(node, away);
        return;
      case ScenarioEvent::Kind::restart:
      case ScenarioEvent::Kind::join:
        if (there) return;
        ++arrivals_of_nodes_;
        start_node(node);
        router_.set(node, Router::State::open);
        return;
      case ScenarioEvent::Kind::pause:
        if (!there) return;
        incarnations_[index].paused_until =
            std::max(incarnations_[index].paused_until, network_.now + event.length);
        router_.set(node, away);
        return;
      case ScenarioEvent::Kind::cut:
        return;  // the client knows
    }
  }

  void set_timer(std::uint32_t index) {
    Incarnation& incarnation = incarnations_[index];
    if (incarnation.due >= incarnation.timer_at) return;
    incarnation.timer_at = incarnation.due;
    events_.push(incarnation.due, EventQueue::Kind::controller, index);
  }

  /// Lets a controller do what is due, its workers passing in between.
  void drive(std::uint32_t index) {
    Incarnation& incarnation = incarnations_[index];
    const Duration at = network_.now;
    const NodeClock& clock = clocks_[incarnation.node];
    const Instant now = clock.at(at);
    Instant next{};
    for (int round = 0; round < most_rounds; ++round) {
      next = incarnation.core->advance(now);
      for (unsigned i = 0; i < scenario_.cores; ++i) incarnation.core->worker(i).quiescent();
      if (next.monotonic - now.monotonic > soon) break;
    }
    for (std::size_t rule = 0; rule < rules_.size(); ++rule)
      incarnation.ordinals[rule] = clocks_of_rules_[rule].ordinal(incarnation.core->time(now).wall);
    incarnation.due = std::max(clock.when(next.monotonic), at + Duration{1});
    set_timer(index);
  }

  /// A clean end: what is left is sent.
  void finish(Incarnation& incarnation) {
    if (incarnation.core == nullptr) return;
    for (unsigned i = 0; i < scenario_.cores; ++i) incarnation.core->worker(i).offline();
    // What the store could not take dies with the process.
    if (!incarnation.core->finish(clocks_[incarnation.node].at(network_.now), std::chrono::seconds{1}))
      incarnation.crashed = !network_.healed();
    end(incarnation);
  }

  static void end(Incarnation& incarnation) {
    incarnation.expired = static_cast<std::int64_t>(incarnation.store->figures().expired);
    incarnation.core.reset();
  }

  void request(Duration at) {
    const DemandSource::Offer offer = demand_.take();
    const std::vector<std::uint32_t>& values = *offer.values;
    const std::size_t measured = key_of(scenario_.measured, values);
    const std::uint32_t node =
        offer.node >= 0 ? static_cast<std::uint32_t>(offer.node) : router_.route(measured, at, offer.regular);
    if (node == Router::nowhere || incarnation_of_node_[node] == none) return;
    Incarnation& incarnation = incarnations_[incarnation_of_node_[node]];
    if (at < incarnation.paused_until) return;
    const unsigned core =
        scenario_.cores == 1 ? 0 : static_cast<unsigned>(cores_random_.below(scenario_.cores));
    Worker& worker = incarnation.core->worker(core);
    const MonotonicTime now = clocks_[node].monotonic(at);
    const Decision decision =
        by_name_ ? worker.admit_key(0, scenario_.keys[scenario_.spaces_of_rule[0][0]].values[measured],
                                    offer.weight, now)
                 : worker.admit(request_of(offer), now);
    ++requests_;
    count(incarnation, at, offer, decision);
  }

  Request request_of(const DemandSource::Offer& offer) {
    for (std::size_t i = 0; i < headers_.size(); ++i)
      headers_[i].value = scenario_.keys[i].values[(*offer.values)[i]];
    Request request;
    request.headers = headers_;
    request.weight = offer.weight;
    return request;
  }

  std::size_t key_of(std::size_t rule, const std::vector<std::uint32_t>& values) const noexcept {
    std::size_t key = 0;
    for (const std::size_t space : scenario_.spaces_of_rule[rule])
      key = key * scenario_.keys[space].values.size() + values[space];
    return key;
  }

  void count(Incarnation& incarnation, Duration at, const DemandSource::Offer& offer,
             const Decision& decision) {
    const bool admitted = decision.verdict == Verdict::admit;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      Sample sample;
      sample.at = at;
      sample.key = key_of(rule, *offer.values);
      sample.node = incarnation.node;
      sample.units = std::uint64_t{offer.weight} * rules_[rule].weight;
      sample.admitted = admitted;
      sample.refused_here = !admitted && decision.rule == rule;
      sample.ordinal = incarnation.ordinals[rule];
      meters_[rule].add(sample);
      const auto units = static_cast<std::int64_t>(sample.units);
      if (!leases(rule) && (admitted || rules_[rule].penalize)) incarnation.counted += units;
      if (admitted && watch_nodes_) {
        std::int64_t& sum = incarnation.by_key[first_key_[rule] + sample.key][sample.ordinal];
        sum += units;
        worst_node_[rule] = std::max(worst_node_[rule], sum);
      }
    }
  }

  struct Balance {
    std::int64_t lost = 0;
    std::int64_t doubled = 0;
    std::int64_t stranded = 0;
  };

  /// The server's ledger of one rule against what the workers counted, counter by counter.
  Balance balance_of(std::size_t rule) const {
    Balance balance;
    for (std::size_t key = 0; key < meters_[rule].keys(); ++key) {
      const OrdinalCounts& counted = meters_[rule].counted(key);
      const OrdinalCounts& stored =
          network_.server().ledger(static_cast<Server::NameId>(first_key_[rule] + key));
      for (const OrdinalCounts::Count& count : counted)
        balance.lost += std::max<std::int64_t>(count.value - stored.of(count.ordinal), 0);
      for (const OrdinalCounts::Count& count : stored)
        (leases(rule) ? balance.stranded : balance.doubled) +=
            std::max<std::int64_t>(count.value - counted.of(count.ordinal), 0);
    }
    return balance;
  }

  bool leases(std::size_t rule) const noexcept { return rules_[rule].algorithm == Algorithm::strict; }

  void settle_accounts(std::vector<Summary>& summaries) const {
    std::int64_t expired = 0;
    std::int64_t crashed = 0;
    std::int64_t lost = 0;
    std::int64_t doubled = 0;
    // Node by node, so that what died with one, or was given up by it, cannot hide what another has lost.
    for (std::size_t i = 0; i < incarnations_.size(); ++i) {
      const Incarnation& node = incarnations_[i];
      const std::int64_t more = node.counted - network_.server().added_by(i);
      expired += node.expired;
      doubled += std::max<std::int64_t>(-more, 0);
      (node.crashed ? crashed : lost) += std::max<std::int64_t>(more - node.expired, 0);
    }
    std::vector<Balance> balances;
    std::int64_t lost_by_counter = 0;
    std::int64_t doubled_by_counter = 0;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      balances.push_back(balance_of(rule));
      lost_by_counter += balances.back().lost;
      doubled_by_counter += balances.back().doubled;
    }
    lost = std::max(lost, lost_by_counter - crashed - expired);
    doubled = std::max(doubled, doubled_by_counter);
    // Batches carry the counts of all rules: what became of them is the same in every rule's summary.
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      summaries[rule].lost_counts = static_cast<double>(lost);
      summaries[rule].duplicated_counts = static_cast<double>(doubled);
      summaries[rule].crashed_counts = static_cast<double>(crashed);
      summaries[rule].expired_counts = static_cast<double>(expired);
      summaries[rule].stranded_counts = static_cast<double>(balances[rule].stranded);
    }
  }

  // The published bound, for what this run was (lib/limit/cooldown_bound.h).
  void compare_with_bound(std::size_t rule, Summary& summary) const {
    if (rules_[rule].algorithm != Algorithm::cooldown) return;
    const bool any_pause = std::ranges::any_of(scenario_.events, [](const ScenarioEvent& event) {
      return event.kind == ScenarioEvent::Kind::pause || event.kind == ScenarioEvent::Kind::crash;
    });
    const bool faulty = network_.failures > 0 || !scenario_.store.wipes.empty() || any_pause ||
                        network_.longest_sync > slowest_sync_;
    const std::uint64_t offered =
        faulty ? std::numeric_limits<std::uint64_t>::max() : meters_[rule].largest_blind_demand();
    const std::uint64_t nodes = scenario_.nodes + arrivals_of_nodes_ + scenario_.clocks.jumps.size();
    const double bound = static_cast<double>(
        cooldown_overshoot_bound(rules_[rule].limit, nodes, offered, rules_[rule].hold_back));
    summary.cooldown_bound_pct = 100 * bound / static_cast<double>(rules_[rule].limit);
    // The bound speaks of the intervals that the nodes' clocks make; those of true time are others where
    // clocks are off.
    const bool by_ordinal = !rules_[rule].penalize;
    summary.cooldown_margin_pct = summary.cooldown_bound_pct - (by_ordinal ? summary.overshoot_ordinal_max_pct
                                                                           : summary.overshoot_max_pct);
  }

  RunResult result() {
    RunResult result;
    result.rules = rules_;
    const double seconds = std::chrono::duration<double>(scenario_.duration).count();
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      Summary summary;
      meters_[rule].summarise(scenario_.settle, summary);
      const auto limit = static_cast<double>(rules_[rule].limit);
      summary.node_overshoot_max_pct =
          watch_nodes_ ? 100 * std::max(static_cast<double>(worst_node_[rule]) - limit, 0.0) / limit
                       : not_measured;
      summary.store_ops_per_s = static_cast<double>(operations_) / seconds;
      summary.store_rounds_per_s = static_cast<double>(network_.rounds_answered) / seconds;
      if (operations_ > 0)
        summary.store_saving_factor = static_cast<double>(requests_) / static_cast<double>(operations_);
      compare_with_bound(rule, summary);
      result.summaries.push_back(summary);
    }
    settle_accounts(result.summaries);
    result.meters = std::move(meters_);
    return result;
  }

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  const Scenario& scenario_;
  const std::vector<Rule> rules_;
  Config config_;
  std::vector<SpanClock> clocks_of_rules_;
  EventQueue events_;
  Network network_;
  DemandSource demand_;
  Router router_;
  Random cores_random_;
  std::vector<NodeClock> clocks_;       // by node
  std::vector<std::size_t> first_key_;  // by rule: its first key among those of all rules
  std::size_t all_keys_ = 0;
  bool watch_nodes_ = false;
  bool by_name_ = false;         // one rule with one dimension: no request need be classified
  std::vector<Header> headers_;  // by [[keys]]
  std::vector<Meter> meters_;
  std::vector<Scheduled> steps_;
  std::vector<std::uint32_t> absent_;      // nodes that join later
  std::vector<Incarnation> incarnations_;  // their stores' clients refer to network_, so they go first
  std::vector<std::uint32_t> incarnation_of_node_;
  std::vector<std::int64_t> worst_node_;  // by rule
  Duration slowest_sync_{};
  std::uint64_t arrivals_of_nodes_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace

RunResult simulate(const Scenario& scenario, const std::vector<Rule>& rules) {
  return Simulation(scenario, rules).run();
}

}  // namespace weir::sim
