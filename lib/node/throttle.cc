// SPDX-License-Identifier: BSD-3-Clause
#include "weir/throttle.h"

#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/key_bytes.h"
#include "node/node_core.h"
#include "store/memory/memory_store.h"
#include "store/redis/redis_access.h"
#include "store/redis/redis_store.h"
#include "store/redis/redis_url.h"

namespace weir {
namespace {

constexpr unsigned max_workers = 255;

std::unique_ptr<Store> make_store(const RedisUrl& url, const StoreConfig& config) {
  if (url.mode == RedisUrl::Mode::memory) return make_memory_store(std::make_shared<MemoryCounters>());
  return make_redis_store(url, config);
}

}  // namespace

void Worker::online() noexcept { core_->online(); }
void Worker::offline() noexcept { core_->offline(); }
void Worker::quiescent() noexcept { core_->quiescent(); }
Decision Worker::admit(const Request& request, MonotonicTime now) noexcept {
  return core_->admit(request, now);
}
void Worker::admit_burst(std::span<const Request> requests, MonotonicTime now, std::span<Decision> decisions,
                         Detail detail) noexcept {
  core_->admit_burst(requests, now, decisions, detail);
}
Instant Worker::span_began() const noexcept { return core_->span_began(); }
bool Worker::correct(const Key& key, std::int64_t by, Instant charged_in) noexcept {
  return core_->correct(key, by, charged_in);
}
bool Worker::correct(const Request& request, std::int64_t by, Instant charged_in) noexcept {
  return core_->correct(request, by, charged_in);
}
Key Worker::key(RuleIndex rule, std::string_view value) const noexcept { return core_->key(rule, value); }
Key Worker::key(RuleIndex rule, const Request& request, KeyRoom& room) const noexcept {
  return core_->key(rule, request, room);
}
void Worker::prefetch(std::span<const Key> keys) const noexcept { core_->prefetch_keys(keys); }
void Worker::admit_keys(std::span<const Key> keys, MonotonicTime now, std::span<Verdict> verdicts,
                        std::span<const Key> next) noexcept {
  core_->admit_keys(keys, now, verdicts, next);
}
void Worker::admit_keys(std::span<const Key> keys, std::span<Verdict> verdicts,
                        std::span<const Key> next) noexcept {
  core_->admit_keys(keys, monotonic_now, verdicts, next);
}
std::uint32_t Worker::admit_plain(std::span<const PlainFrame> frames,
                                  std::span<const PlainFrame> next) noexcept {
  return core_->admit_plain(frames, next);
}
void Worker::decide_plain(MonotonicTime now, PlainDecisions& decisions) noexcept {
  core_->decide_plain(now, decisions);
}

Decision Worker::admit_key(RuleIndex rule, std::string_view value, std::uint32_t weight,
                           MonotonicTime now) noexcept {
  return core_->admit_key(rule, value, weight, now);
}

std::string Throttle::check(const Config& config) {
  std::string wrong;
  for (const ConfigError& error : check_config(config))
    wrong += (wrong.empty() ? "" : "\n") + error.to_string();
  if (!wrong.empty()) return wrong;
  const RedisUrlResult url = parse_redis_url(config.store.url);
  if (!url) return "store.url: " + url.error;
  // Files are read again for every connection; a mistake is better told now.
  const RedisAccess access = read_access(url.url, config.store);
  return access.error.empty() ? std::string() : "store: " + access.error;
}

ThrottleResult Throttle::create(const Config& config, const ThrottleOptions& options) {
  // The rooms throw only in set-up, and only for want of memory or threads; beyond this edge errors are
  // values.
  try {
    if (std::string wrong = check(config); !wrong.empty()) return {nullptr, std::move(wrong)};
    if (options.workers == 0 || options.workers > max_workers)
      return {nullptr, "workers: " + std::to_string(options.workers) + " is not within 1 … " +
                           std::to_string(max_workers)};
    auto core = std::make_unique<NodeCore>(config, options,
                                           make_store(parse_redis_url(config.store.url).url, config.store));
    return {std::unique_ptr<Throttle>(new Throttle(std::move(core))), {}};
  } catch (const std::bad_alloc&) {
    return {nullptr, "not enough memory for node.keys = " + std::to_string(config.node.keys) +
                         " (workers: " + std::to_string(options.workers) +
                         ", corrections of each in a span: " + std::to_string(options.corrections) + ")"};
  } catch (const std::system_error& error) {
    return {nullptr, std::string("no thread or descriptor left for the store: ") + error.what()};
  }
}

Throttle::Throttle(std::unique_ptr<NodeCore> core) : core_(std::move(core)) {}
Throttle::~Throttle() = default;

Worker& Throttle::worker(unsigned index) noexcept { return core_->worker(index); }
const Config& Throttle::config() const noexcept { return core_->config(); }
const HeaderSelection& Throttle::headers() const noexcept { return core_->classifier().headers(); }
void Throttle::start() { core_->start(); }
bool Throttle::stop(Duration patience) { return core_->stop(patience); }
bool Throttle::stop(Instant now, Duration patience) { return core_->stop(now, patience); }
Instant Throttle::advance(Instant now) { return core_->advance(now); }
Figures Throttle::figures() const { return core_->figures(); }
std::vector<KeyFigures> Throttle::top(std::size_t count) const { return core_->top(count); }
std::size_t Throttle::memory() const { return core_->memory(); }

std::vector<RuleIndex> Throttle::rules_for(const Request& request) const {
  Classifier::Scratch scratch;
  core_->classifier().match(request, scratch);
  return {scratch.rules.begin(), scratch.rules.begin() + static_cast<std::ptrdiff_t>(scratch.rule_count)};
}

std::string Throttle::key_name(RuleIndex rule, const Request& request) const {
  Classifier::Scratch scratch;
  KeyBytes key;
  core_->classifier().match(request, scratch);
  core_->classifier().make_key(rule, request, scratch, key);
  return weir::key_name(core_->config().rules[rule].name, key.bytes());
}

}  // namespace weir
