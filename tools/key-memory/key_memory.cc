// SPDX-License-Identifier: BSD-3-Clause
// Prints what one key takes of a node's memory under each algorithm, for the README's tables and tools/bench:
// from the objects themselves, made as a node makes them and filled with keys whose names are IPv4 addresses;
// so that no figure can grow old.
//
// One line for each algorithm, of a million keys, in bytes per key: of each worker (its grants, where it has
// some, and its two span tables) when all keys stay within their grants, or little is asked of them, and when
// all are beyond, as the tables tell it; of the node's cells (three pools) likewise; of the ledger, of a
// sliding log's head, and of its log for each request of the limit. Then a line for each state that a
// worker's keys may be in, and number of them, in bytes per key and worker: as they lie in memory (the
// process has grown by them), as the tables tell it, and as they may come to at most (addresses reserved).
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "control/window_pools.h"
#include "engine/learned_names.h"
#include "engine/ledger.h"
#include "shared/grant_table.h"
#include "shared/log_pool.h"
#include "shared/span_table.h"
#include "weir/rule.h"

namespace weir {
namespace {

constexpr std::uint32_t keys = 1'000'000;
constexpr std::uint32_t fewer_keys = 100'000;
constexpr unsigned workers = 2;
/// All keys come within so many drains.
constexpr std::uint32_t drains = 20;

struct KeyMemory {
  std::size_t worker = 0;
  std::size_t worker_beyond = 0;
  std::size_t cells = 0;
  std::size_t cells_beyond = 0;
  std::size_t ledger = 0;
  std::size_t log_head = 0;
  std::size_t log_slot = 0;
};

std::size_t per_key(std::size_t bytes, std::uint32_t count = keys) { return (bytes + count / 2) / count; }

/// Bytes of this process that lie in memory.
std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t pages = 0;
  file >> all >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// The bytes of a key that is an address, as base/key_bytes.h lays them out.
using Name = std::array<std::byte, 6>;
Name name_of(std::uint32_t address) {
  Name name{std::byte{2}, std::byte{32}};
  std::memcpy(&name[2], &address, sizeof address);
  return name;
}

/// Of what a worker has for all its keys.
struct WorkerMemory {
  std::size_t resident = 0;  ///< as the kernel tells it
  std::size_t provided = 0;  ///< as the tables do
  std::size_t reserved = 0;
};

/// A worker's tables for so many keys, and what they take as these come.
class WorkerTables {
 public:
  explicit WorkerTables(std::uint32_t made_for, bool granted) : count_(made_for), before_(weir::resident()) {
    grants_.emplace(granted ? count_ : 0);
    for (unsigned i = 0; i < tables_per_worker; ++i)
      spans_.emplace_back(count_, 1, granted ? SpanTable::few_of(count_) : count_);
    reserved_ = memory();
    grants_->touch_pages();
    for (SpanTable& table : spans_) table.touch_pages();
  }

  /// All keys come, one in `beyond` is asked for more than a grant; 0: none.
  /// @param blocked  all are, once none is new any more
  WorkerMemory fill(std::uint32_t beyond, bool blocked) {
    std::mt19937_64 random(1);
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint64_t key = random() | 1;
      const auto place = grants_->insert(key, 0, name_of(i));
      if (place != GrantTable::nowhere) grants_->use(place, 1, GrantWindow(1));
      // Whoever stays beyond is met in both tables.
      for (SpanTable& table : spans_)
        if (beyond != 0 && i % beyond == 0)
          if (const auto entry = table.insert(key, 0, name_of(i)); entry != SpanTable::nowhere)
            table.open(entry);
      if ((i + 1) % (count_ / drains) == 0) drain();
    }
    // Until none is new any more.
    for (std::uint32_t i = 0; i < 4; ++i) drain();
    if (blocked) block_all();
    return {weir::resident() - before_, memory(), reserved_};
  }

 private:
  void block_all() {
    std::mt19937_64 random(1);
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint64_t key = random() | 1;
      for (SpanTable& table : spans_) {
        const auto place = table.locate(key);
        if (place == SpanTable::nowhere || table.is_open(place)) continue;
        table.open(place);
        if (!table.block(table.entry(place), {}, {})) throw std::bad_alloc();
      }
    }
    drain();
  }
  void drain() {
    const std::array<GrantWindow, 1> windows{GrantWindow(1)};
    grants_->harvest(windows, [](const GrantUse&) {});
    for (std::size_t turn = 0; turn < tables_per_worker; ++turn) {
      grants_->names(turn).read_new([](const NewName&) {});
      grants_->names(turn).empty();
    }
    for (SpanTable& table : spans_) table.close();
  }
  std::size_t memory() const {
    std::size_t bytes = grants_->memory();
    for (const SpanTable& table : spans_) bytes += table.memory();
    return bytes;
  }

  std::uint32_t count_;
  std::size_t before_;
  std::size_t reserved_ = 0;
  std::optional<GrantTable> grants_;
  std::vector<SpanTable> spans_;
};

/// @param beyond  whether all keys draw, in every window; else none does
std::size_t cells(bool beyond) {
  constexpr Duration interval = std::chrono::seconds{1};
  WindowPools pools({.interval = interval}, keys, workers);
  pools.begin();
  for (int window = 0; window < 3; ++window) {
    pools.turn_to(Instant{} + window * interval);
    std::mt19937_64 random(1);
    for (std::uint32_t i = 0; beyond && i < keys; ++i) {
      pools.running().claim(random() | 1, i % workers);
      if ((i + 1) % (keys / drains) == 0) pools.provide();
    }
  }
  return per_key(pools.memory());
}

/// Where the names of keys are found that workers tell of by their hash alone.
std::size_t learned() {
  LearnedNames names;
  std::mt19937_64 random(1);
  for (std::uint32_t i = 0; i < keys; ++i)
    if (!names.add(random() | 1, NamePool::none)) throw std::bad_alloc();
  return per_key(names.memory());
}

/// What a worker's keys may be like.
struct State {
  const char* name;
  bool granted;          ///< by their rule
  std::uint32_t beyond;  ///< one in so many; 0: none
  bool blocked = false;
};
constexpr std::array<State, 5> states{{{"within", true, 0},
                                       {"tenth", true, 10},
                                       {"beyond", true, 1},
                                       {"ungranted", false, 1},
                                       {"blocked", false, 1, true}}};

WorkerMemory of(const State& state, std::uint32_t count) {
  return WorkerTables(count, state.granted).fill(state.beyond, state.blocked);
}

}  // namespace
}  // namespace weir

int main() {
  using namespace weir;
  std::array<WorkerMemory, states.size()> memory_in;
  for (std::size_t i = 0; i < states.size(); ++i) memory_in[i] = of(states[i], keys);
  const std::size_t cells_within = cells(false);
  const std::size_t cells_beyond = cells(true);
  const std::size_t ledger = per_key(Ledger(keys).memory());
  const std::size_t ledger_granted = ledger + learned();
  for (const Algorithm algorithm :
       {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::token_bucket,
        Algorithm::leaky_bucket, Algorithm::sliding_log, Algorithm::shed, Algorithm::strict}) {
    Rule rule;
    rule.algorithm = algorithm;
    rule.key = {{}};
    const bool grants = may_be_granted(rule);
    KeyMemory memory{.worker = per_key(memory_in[grants ? 0 : 3].provided),
                     .worker_beyond = per_key(memory_in[grants ? 2 : 3].provided),
                     .cells = grants ? cells_within : cells_beyond,
                     .cells_beyond = cells_beyond,
                     .ledger = grants ? ledger_granted : ledger};
    // What keys of such a rule have from their first count on is not in an empty ledger's sum.
    if (algorithm == Algorithm::strict) memory.ledger += sizeof(KeyDetail) + sizeof(KeyLeases);
    if (algorithm == Algorithm::sliding_log) {
      // There are a few more than keys.
      constexpr std::uint32_t logged_keys = 8192;
      const auto logs_of = [](std::uint64_t limit) {
        return LogPool(limit, std::chrono::seconds{1}, logged_keys).memory() / logged_keys;
      };
      memory.log_slot = (logs_of(128) - logs_of(64)) / 64;
      memory.log_head = logs_of(64) - 64 * memory.log_slot;
    }
    std::printf("%s %zu %zu %zu %zu %zu %zu %zu\n", std::string(to_string(algorithm)).c_str(), memory.worker,
                memory.worker_beyond, memory.cells, memory.cells_beyond, memory.ledger, memory.log_head,
                memory.log_slot);
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto print = [&](std::uint32_t count, const WorkerMemory& memory) {
      std::printf("%s %u %zu %zu %zu\n", states[i].name, count, per_key(memory.resident, count),
                  per_key(memory.provided, count), per_key(memory.reserved, count));
    };
    print(fewer_keys, of(states[i], fewer_keys));
    print(keys, memory_in[i]);
  }
}
