// SPDX-License-Identifier: BSD-3-Clause
#include "node/node_core.h"

#include <algorithm>
#include <condition_variable>
#include <random>
#include <utility>

#include "node/system_clock.h"

namespace weir {
namespace {

HashKey make_hash_key(const std::optional<std::uint64_t>& seed) {
  if (seed) return {*seed, ~*seed};
  std::random_device entropy;
  const auto word = [&] { return std::uint64_t{entropy()} << 32 | entropy(); };
  return {word(), word()};
}

/// Whether a worker may admit requests of the rule's keys without asking.
bool is_granted(const Rule& rule, unsigned workers) {
  return may_be_granted(rule) && standing_grant(rule, grantable(rule), workers) >= rule.weight;
}

/// Keys that each worker's grants are for: none where no limit is large enough to be divided so.
std::uint32_t granted_keys(const Config& config, unsigned workers) {
  return std::ranges::any_of(config.rules, [&](const Rule& rule) { return is_granted(rule, workers); })
             ? config.node.keys
             : 0;
}

/// Keys that a worker's span tables begin for: few, where those that stay within their grants need no place
/// there. (Keys of rules without dimensions have places of their own.)
std::uint32_t first_entries(const Config& config, unsigned workers) {
  return std::ranges::all_of(config.rules,
                             [&](const Rule& rule) { return rule.key.empty() || is_granted(rule, workers); })
             ? SpanTable::few_of(config.node.keys)
             : config.node.keys;
}

}  // namespace

NodeCore::NodeCore(Config config, const ThrottleOptions& options, std::unique_ptr<Store> store,
                   std::size_t most_told)
    : config_(std::move(config)),
      log_(options.log),
      classifier_(config_.rules),
      plan_(config_, options.workers),
      quiescence_(options.workers),
      publication_(options.workers),
      // Keys of two intervals are alive at once.
      engine_(config_.rules, 2 * config_.node.keys),
      store_(std::move(store)),
      controller_({.rules = config_.rules,
                   .window_of_rule = plan_.window_of_rule,
                   .bucket_of_rule = plan_.buckets,
                   .tables = [&]() -> std::span<SpanTable> {
                     tables_.reserve(options.workers * tables_per_worker);
                     for (unsigned i = 0; i < options.workers * tables_per_worker; ++i)
                       tables_.emplace_back(config_.node.keys, config_.rules.size(),
                                            first_entries(config_, options.workers));
                     return tables_;
                   }(),
                   .corrections = [&]() -> std::span<CorrectionLog> {
                     corrections_.reserve(options.workers * tables_per_worker);
                     for (unsigned i = 0; i < options.workers * tables_per_worker; ++i)
                       corrections_.emplace_back(options.corrections);
                     return corrections_;
                   }(),
                   .grants = [&]() -> std::span<const std::unique_ptr<GrantTable>> {
                     const std::uint32_t keys = granted_keys(config_, options.workers);
                     for (unsigned i = 0; i < options.workers; ++i)
                       grants_.push_back(std::make_unique<GrantTable>(keys));
                     return grants_;
                   }(),
                   .quiescence = quiescence_,
                   .publication = publication_,
                   .pools = plan_.pools,
                   .engine = engine_,
                   .store = *store_,
                   .store_timeout = config_.store.timeout,
                   .log = options.log,
                   .most_told = most_told}) {
  const DataPlane plane{classifier_, plan_.terms, publication_, quiescence_,
                        make_hash_key(options.hash_seed)};
  for (unsigned i = 0; i < options.workers; ++i) {
    cores_.push_back(std::make_unique<WorkerCore>(
        plane, i, std::span(tables_).subspan(i * tables_per_worker, tables_per_worker),
        std::span(corrections_).subspan(i * tables_per_worker, tables_per_worker), *grants_[i]));
    workers_.push_back(Worker(*cores_.back()));
  }
}

NodeCore::~NodeCore() { end_thread(); }

void NodeCore::end_thread() {
  {
    const std::lock_guard lock(control_mutex_);
    store_->on_ready({});  // before the thread it would wake goes away
  }
  thread_.reset();
}

void NodeCore::start() {
  if (thread_ != nullptr) return;
  // The first publication is there before the first worker comes online.
  advance(system_now());
  wait_for_first_answer(config_.store.timeout);
  const std::lock_guard lock(control_mutex_);
  thread_ =
      std::make_unique<ControllerThread>([this] { return advance(system_now()).monotonic; },
                                         [] { return monotonic_now(); }, config_.node.busy_controller, log_);
  store_->on_ready([thread = thread_.get()] { thread->wake(); });
}

// What a new node knows of the others (how many there are, what time it is) it should know before its first
// decision, if the store is there. If not, it goes on without.
void NodeCore::wait_for_first_answer(Duration patience) {
  std::mutex mutex;
  std::condition_variable changed;
  bool woken = false;
  // Before what it would wake goes away, also where advance() finds no memory.
  struct Unset {
    ~Unset() {
      const std::lock_guard lock(node.control_mutex_);
      node.store_->on_ready({});
    }
    NodeCore& node;
  } const unset{*this};
  {
    const std::lock_guard lock(control_mutex_);
    store_->on_ready([&] {
      const std::lock_guard waking(mutex);
      woken = true;
      changed.notify_one();
    });
  }
  const MonotonicTime deadline = monotonic_now() + patience;
  for (;;) {
    advance(system_now());
    const Duration left = deadline - monotonic_now();
    if (!controller_.awaits_first_answer() || left <= Duration{}) break;
    std::unique_lock waiting(mutex);
    changed.wait_for(waiting, left, [&] { return woken; });
    woken = false;
  }
}

bool NodeCore::stop(Duration patience) {
  end_thread();
  return finish(system_now(), patience);
}

bool NodeCore::stop(Instant now, Duration patience) {
  end_thread();
  return finish(now, patience);
}

bool NodeCore::finish(Instant now, Duration patience) {
  store_->now_is(now.monotonic);
  std::unique_lock lock(control_mutex_);
  // Who asks for figures meanwhile is not to wait for the store, but may see what it is that stop() waits for.
  const auto flush = [&](Duration left) {
    lock.unlock();
    const bool flushed = store_->flush(left);
    lock.lock();
    return flushed;
  };
  const MonotonicTime begun = monotonic_now();
  controller_.finish(now);
  flush(patience);
  controller_.collect_replies(now);
  // What the last claims have brought goes back too.
  controller_.end_spans(now);
  const bool flushed = flush(std::max(patience, Duration{}) - (monotonic_now() - begun));
  controller_.collect_replies(now);
  const bool drained =
      std::ranges::all_of(tables_, [](const SpanTable& table) { return table.empty(); }) &&
      std::ranges::all_of(corrections_, [](const CorrectionLog& log) { return log.empty(); });
  return flushed && drained;
}

Instant NodeCore::advance(Instant now) {
  // Before anything takes its time.
  store_->now_is(now.monotonic);
  const std::lock_guard lock(control_mutex_);
  advanced_ = now.monotonic;
  return controller_.advance(now);
}

Instant NodeCore::time(Instant own) const {
  const std::lock_guard lock(control_mutex_);
  return controller_.time(own);
}

Figures NodeCore::figures() const {
  Figures figures;
  figures.rules.resize(config_.rules.size());
  for (std::size_t i = 0; i < figures.rules.size(); ++i) {
    RuleFigures& rule = figures.rules[i];
    rule.name = config_.rules[i].name;
    for (const auto& core : cores_) {
      const RuleCounters& counters = core->rule_counters(static_cast<RuleIndex>(i));
      const std::uint64_t admitted = counters.admitted.read();  // once: never more than are offered
      rule.offered += admitted + counters.others.read();
      rule.admitted += admitted;
      rule.blocked += counters.blocked.read();
    }
  }
  for (const auto& core : cores_) figures.overflowed += core->overflowed();

  const std::lock_guard lock(control_mutex_);
  const std::span<const std::uint64_t> blocked_keys = controller_.blocked_keys();
  for (std::size_t i = 0; i < blocked_keys.size(); ++i) figures.rules[i].blocked_keys = blocked_keys[i];
  figures.keys = engine_.keys();
  figures.overflowed += engine_.strays();
  const ControllerFigures controller = controller_.figures();
  figures.publication_generation = controller.generation;
  figures.spans = controller.spans;
  figures.span_overruns = controller.span_overruns;
  figures.stalled_workers = controller.stalled_workers;
  figures.store_late = controller.store_late;
  StoreFigures store = store_->figures();
  figures.store_up = store.up;
  figures.store_syncs = store.batches;
  figures.store_failures = store.failures;
  figures.counts_pending = store.pending;
  figures.counts_synced = store.applied;
  figures.counts_expired = store.expired;
  figures.store_round_trip = store.round_trip;
  figures.store_error = std::move(store.error);
  figures.clock_offset = controller.clock_offset;
  figures.clock_uncertainty = controller.clock_uncertainty;
  return figures;
}

std::vector<KeyFigures> NodeCore::top(std::size_t count) const {
  std::vector<KeyFigures> keys;
  if (count == 0) return keys;
  // What is copied of a key takes the controller's time: only of those that are told.
  struct Candidate {
    std::uint64_t offered;
    const KeySlot* slot;
  };
  std::vector<Candidate> most;  // a heap: the least of them is its front
  const auto more = [](const Candidate& a, const Candidate& b) { return a.offered > b.offered; };
  {
    const std::lock_guard lock(control_mutex_);
    engine_.for_each_key([&](const KeyView& key) {
      const Candidate one{.offered = engine_.latest_counts(key.slot).offered, .slot = &key.slot};
      if (most.size() == count) {
        if (!more(one, most.front())) return;
        std::ranges::pop_heap(most, more);
        most.pop_back();
      }
      most.push_back(one);
      std::ranges::push_heap(most, more);
    });
    for (const Candidate& one : most) {
      const KeyView key = engine_.key_in(*one.slot);
      const Block& block = key.detail.block;
      const IntervalCounts counts = engine_.latest_counts(key.slot);
      keys.push_back({.name = std::string(key.name()),
                      .rule = key.slot.rule,
                      .offered = counts.offered,
                      .admitted = counts.admitted,
                      .nodes = engine_.nodes_of(key),
                      .blocked = block.active(advanced_),
                      .blocked_for = block.active(advanced_) ? block.until() - advanced_ : Duration{}});
    }
  }
  std::sort(keys.begin(), keys.end(), [](const KeyFigures& a, const KeyFigures& b) {
    return a.offered != b.offered ? a.offered > b.offered : a.name < b.name;
  });
  return keys;
}

std::size_t NodeCore::memory() const {
  const std::lock_guard lock(control_mutex_);
  std::size_t bytes = engine_.memory();
  for (const SpanTable& table : tables_) bytes += table.memory();
  for (const CorrectionLog& log : corrections_) bytes += log.memory();
  for (const auto& grants : grants_) bytes += grants->memory();
  for (const WindowPools& pools : plan_.pools) bytes += pools.memory();
  for (const auto& logs : plan_.logs)
    if (logs) bytes += logs->memory();
  return bytes;
}

std::uint32_t NodeCore::learned() const {
  const std::lock_guard lock(control_mutex_);
  return engine_.learned();
}

}  // namespace weir
