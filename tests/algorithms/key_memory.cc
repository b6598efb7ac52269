// SPDX-License-Identifier: BSD-3-Clause
// Prints what one key takes of a node's memory under each algorithm, for the table of the README: from the
// objects themselves, made as a node makes them for a million keys and filled with as many, whose names are
// IPv4 addresses; so that no figure can grow old.
//
// One line each: the algorithm, then bytes per key: of each worker (its grants, where it has some, and its
// two span tables), of the node's cells (three pools), of the ledger, of a sliding log's head, and of its log
// for each request of the limit. Last two lines of a worker's bytes, as they are reserved at most and as the
// process has grown by them: of a key with a standing grant, and of one without.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "control/window_pools.h"
#include "engine/ledger.h"
#include "shared/grant_table.h"
#include "shared/log_pool.h"
#include "shared/span_table.h"
#include "weir/rule.h"

namespace weir {
namespace {

constexpr std::uint32_t rule_spans = 10;  // the default of a rule
constexpr std::uint32_t keys = 1'000'000;
/// What has been inserted in between two drains.
constexpr std::uint32_t keys_of_a_span = keys / 20;

struct KeyMemory {
  std::size_t worker = 0;
  std::size_t cells = 0;
  std::size_t ledger = 0;
  std::size_t log_head = 0;
  std::size_t log_slot = 0;
};

std::size_t per_key(std::size_t bytes) { return (bytes + keys / 2) / keys; }

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

/// Of what a worker has for each key.
struct WorkerMemory {
  std::size_t reserved = 0;
  std::size_t filled = 0;    ///< as the tables tell it
  std::size_t resident = 0;  ///< as the kernel does

  WorkerMemory operator+(const WorkerMemory& other) const {
    return {reserved + other.reserved, filled + other.filled, resident + other.resident};
  }
};

WorkerMemory of_grants() {
  std::mt19937_64 random(1);
  const std::size_t before = resident();
  GrantTable grants(keys);
  const std::size_t reserved = grants.memory();
  grants.touch_pages();
  const std::array<GrantWindow, 1> windows{GrantWindow(1)};
  for (std::uint32_t i = 0; i < keys; ++i) {
    const auto place = grants.insert(random() | 1, 0, name_of(i));
    if (place != GrantTable::nowhere) grants.use(place, 1, windows[0]);
    if (i % keys_of_a_span == 0) {
      grants.harvest(windows, [](const GrantUse&) {});
      grants.provide_for_names();
    }
  }
  grants.harvest(windows, [](const GrantUse&) {});
  return {reserved, grants.memory(), resident() - before};
}

WorkerMemory of_span_tables(std::uint32_t counted) {
  std::mt19937_64 random(1);
  const std::size_t before = resident();
  SpanTable table(counted, 1);
  const std::size_t reserved = table.memory();
  table.touch_pages();
  for (std::uint32_t i = 0; i < counted; ++i) {
    const auto place = table.insert(random() | 1, 0, name_of(i));
    if (place != SpanTable::nowhere) table.open(place);
    if (i % keys_of_a_span == 0) table.close();
  }
  return {tables_per_worker * reserved, tables_per_worker * table.memory(),
          tables_per_worker * (resident() - before)};
}

std::size_t cells() {
  return per_key(WindowPools(WindowTerms{.interval = std::chrono::seconds{1}}, keys).memory());
}

void print(const char* of, const WorkerMemory& memory) {
  std::printf("%s %zu %zu\n", of, per_key(memory.reserved), per_key(memory.resident));
}

}  // namespace
}  // namespace weir

int main() {
  using namespace weir;
  const WorkerMemory counted = of_span_tables(keys);
  const WorkerMemory granted = of_grants() + counted;
  const std::size_t ledger = per_key(Ledger(keys).memory());
  for (const Algorithm algorithm :
       {Algorithm::cooldown, Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::token_bucket,
        Algorithm::leaky_bucket, Algorithm::sliding_log, Algorithm::shed, Algorithm::strict}) {
    Rule rule;
    rule.algorithm = algorithm;
    rule.key = {{}};
    const bool grants = may_be_granted(rule);
    KeyMemory memory{
        .worker = per_key(grants ? granted.filled : counted.filled), .cells = cells(), .ledger = ledger};
    // What keys of these rules have from their first count on is not in an empty ledger's sum.
    if (algorithm == Algorithm::sliding_window)
      memory.ledger += sizeof(KeyDetail) + rule_spans * sizeof(SpanCounts);
    if (algorithm == Algorithm::strict) memory.ledger += sizeof(KeyDetail) + sizeof(KeyLeases);
    if (algorithm == Algorithm::sliding_log) {
      memory.log_slot = sizeof(SlidingLogSlot);
      memory.log_head = sizeof(SlidingLogHead) + sizeof(std::uint32_t);  // and its place among the free ones
    }
    std::printf("%s %zu %zu %zu %zu %zu\n", std::string(to_string(algorithm)).c_str(), memory.worker,
                memory.cells, memory.ledger, memory.log_head, memory.log_slot);
  }
  print("granted", granted);
  print("counted", counted);
}
