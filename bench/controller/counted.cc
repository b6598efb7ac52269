// SPDX-License-Identifier: BSD-3-Clause
// A fixed piece of work for an instruction counter: bench-controller-counted HOT | workers NUMBER | idle
// RULES | away RULES With HOT, what the engine does for a key in a span: takes in its count, ends the span,
// and tells what is to be published. All keys are counted in every span; of a hundred, HOT have more than may
// be kept back from the store, the others one request each. What the store does and answers is not counted.
// Items are keys and spans. With NUMBER workers, what the controller does for each worker's each key: each of
// them counts all keys in every span, one request each, within its grants. Engine and memory store are in it,
// the latter with a tenth of the keys in each span. Items are keys, workers and spans. With idle or away
// RULES, what keys take the engine that are known and not counted, all of the first of so many rules whose
// spans end together; while the store is away publications name none of them either. Items are keys and
// spans. Everything to be counted happens inside counted_work(), over one interval in virtual time; prints
// "items N". See tests/instructions.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/key_bytes.h"
#include "control/engine_writes.h"
#include "engine/engine.h"
#include "node/node_core.h"
#include "store/memory/memory_store.h"

namespace {

using namespace weir;
using namespace std::chrono_literals;

constexpr std::size_t keys = 4096;
constexpr std::size_t burst = 32;
constexpr std::uint32_t spans = 10;
constexpr Duration span_length = 100ms;
constexpr std::uint64_t limit = 4000;
constexpr std::uint64_t hot_weight = 41;  // a hundredth of the limit may be kept back
constexpr std::uint32_t warm_up = 3 * spans;

Instant at(Duration since_start) { return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start}; }

Rule rule() {
  Rule rule;
  rule.name = "user";
  rule.limit = limit;
  rule.interval = spans * span_length;
  rule.spans = spans;
  rule.algorithm = Algorithm::fixed_window;
  return rule;
}

std::vector<KeyBytes> names() {
  std::vector<KeyBytes> names(keys);
  for (std::size_t key = 0; key < keys; ++key) {
    names[key].clear();
    names[key].add_text("user-" + std::to_string(key));
  }
  return names;
}

std::vector<SpanCount> counts(const std::vector<KeyBytes>& names, std::size_t hot) {
  std::vector<SpanCount> counts;
  for (std::size_t key = 0; key < keys; ++key) {
    const std::uint64_t weight = key % 100 < hot ? hot_weight : 1;
    counts.push_back({.rule = 0,
                      .key = (key + 1) * 0x9e3779b97f4a7c15,
                      .key_bytes = names[key].bytes(),
                      .offered = weight,
                      .admitted = weight});
  }
  return counts;
}

/// What the memory store does with all that is written, and what it answers.
void synchronize(Engine& engine, Store& store, Instant now) {
  WritesOnTheirWay().submit(engine, store, now.monotonic);
  std::vector<CounterReply> replies;
  store.collect(replies);
  for (const CounterReply& reply : replies)
    engine.reply({.key = reply.key,
                  .use = static_cast<CounterUse>(reply.tag),
                  .ordinal = reply.ordinal,
                  .delta = reply.delta,
                  .total = reply.total},
                 now);
  engine.learn();
}

std::uint64_t end_span(Engine& engine, std::vector<SpanCount>& counts, Duration& now) {
  for (SpanCount& count : counts) count.began = at(now).wall;
  for (std::size_t i = 0; i < counts.size(); i += burst) engine.count(std::span(counts).subspan(i, burst));
  now += span_length;
  engine.step(at(now));
  engine.tell_blocks(at(now));
  std::uint64_t overrides = 0;
  engine.for_each_override(at(now), [&](const KeyOverride&) { ++overrides; });
  return overrides;
}

/// What is counted. Either.
struct Work {
  Engine* engine = nullptr;
  std::vector<SpanCount>* counts = nullptr;
  NodeCore* node = nullptr;
  Duration now{};
};

}  // namespace

// Called by name from outside: see tests/instructions.
extern "C" [[gnu::noinline]] std::uint64_t counted_work(Work& work) {
  if (work.node == nullptr) return end_span(*work.engine, *work.counts, work.now);
  work.node->advance(at(work.now));
  return 0;
}

namespace {

int count_engine(std::size_t hot) {
  const std::vector<KeyBytes> all_names = names();
  std::vector<SpanCount> all_counts = counts(all_names, hot);
  const Rule user = rule();
  Engine engine(std::span(&user, 1), 2 * keys);
  const std::unique_ptr<Store> store = make_memory_store(std::make_shared<MemoryCounters>());
  Work work{.engine = &engine, .counts = &all_counts};
  engine.step(at(work.now));
  std::uint64_t overrides = 0;
  for (std::uint32_t span = 0; span < warm_up + spans; ++span) {
    overrides += span < warm_up ? end_span(engine, all_counts, work.now) : counted_work(work);
    synchronize(engine, *store, at(work.now));
  }
  if (overrides > 0) {
    std::fputs("a key is limited: that is not what is to be counted\n", stderr);
    return 1;
  }
  std::printf("items %zu\n", keys * spans);
  return 0;
}

int count_idle(std::size_t rules, bool away) {
  const std::vector<KeyBytes> all_names = names();
  std::vector<SpanCount> all_counts = counts(all_names, 0);
  std::vector<SpanCount> no_counts;
  std::vector<Rule> all_rules(rules, rule());
  for (std::size_t i = 0; i < rules; ++i) {
    all_rules[i].name += std::to_string(i);
    all_rules[i].algorithm = Algorithm::cooldown;
  }
  Engine engine(all_rules, 2 * keys);
  const std::unique_ptr<Store> store = make_memory_store(std::make_shared<MemoryCounters>());
  Work work{.engine = &engine, .counts = &no_counts};
  engine.step(at(work.now));
  for (std::uint32_t span = 0; span < warm_up; ++span) {
    end_span(engine, all_counts, work.now);
    synchronize(engine, *store, at(work.now));
  }
  if (away) engine.sync_result(false, at(work.now));
  std::uint64_t overrides = 0;
  for (std::uint32_t span = 0; span < spans; ++span) {
    overrides += counted_work(work);
    if (!away) synchronize(engine, *store, at(work.now));
  }
  if (overrides > 0 || engine.keys() != keys) {
    std::fputs("a key is limited, or forgotten: that is not what is to be counted\n", stderr);
    return 1;
  }
  std::printf("items %zu\n", keys * spans);
  return 0;
}

int count_workers(unsigned workers) {
  Config config;
  config.node.keys = keys;
  Rule user = rule();
  user.key = {{.kind = Dimension::Kind::header, .name = "x-user"}};
  user.limit = limit * workers;
  config.rules.push_back(user);
  NodeCore node(config, {.workers = workers, .hash_seed = 1, .log = {}},
                make_memory_store(std::make_shared<MemoryCounters>()));
  Work work{.node = &node};
  node.advance(at(work.now));
  for (unsigned i = 0; i < workers; ++i) node.worker(i).online();
  std::uint64_t admitted = 0;
  for (std::uint32_t span = 0; span < warm_up + spans; ++span) {
    for (unsigned i = 0; i < workers; ++i)
      for (std::size_t key = 0; key < keys; ++key)
        admitted +=
            node.worker(i).admit_key(0, "user-" + std::to_string(key), 1, at(work.now).monotonic).verdict ==
            Verdict::admit;
    work.now += span_length;
    node.advance(at(work.now));
    for (unsigned i = 0; i < workers; ++i) node.worker(i).quiescent();
    // What they have counted is taken, decided on and published; the flip before takes no time to speak of.
    if (span < warm_up)
      node.advance(at(work.now));
    else
      counted_work(work);
  }
  for (unsigned i = 0; i < workers; ++i) node.worker(i).offline();
  if (!node.finish(at(work.now), std::chrono::seconds{1}) || node.figures().counts_synced != admitted ||
      admitted != std::uint64_t{keys} * workers * (warm_up + spans)) {
    std::fputs("requests were refused, or not counted: that is not what is to be counted\n", stderr);
    return 1;
  }
  std::printf("items %zu\n", keys * workers * spans);
  return 0;
}

/// @return nothing where the words are no number from least to most
std::optional<unsigned> number(std::string_view words, unsigned least, unsigned most) {
  unsigned read = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), read);
  if (error != std::errc{} || end != words.data() + words.size() || read < least || read > most)
    return std::nullopt;
  return read;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1)
    if (const std::optional<unsigned> hot = number(arguments[0], 0, 100)) return count_engine(*hot);
  if (arguments.size() == 2 && arguments[0] == "workers")
    if (const std::optional<unsigned> workers = number(arguments[1], 1, 255)) return count_workers(*workers);
  if (arguments.size() == 2 && (arguments[0] == "idle" || arguments[0] == "away"))
    if (const std::optional<unsigned> rules = number(arguments[1], 1, max_rules))
      return count_idle(*rules, arguments[0] == "away");
  std::fputs(
      "usage: bench-controller-counted HOT (of a hundred keys: 0 to 100) | workers NUMBER (1 to 255) |\n"
      "       idle RULES | away RULES (1 to 1024)\n",
      stderr);
  return 2;
}
