// SPDX-License-Identifier: BSD-3-Clause
// Prints what one key takes of a node's memory under each algorithm, for the table of the README: from the
// objects themselves, made as a node makes them with its default number of keys, so that no figure can grow
// old.
//
// One line each: the algorithm, then bytes per key: of each worker (its two span tables), of the node's cells
// (three pools), of the ledger, of a sliding log's head, and of its log for each request of the limit.
#include <cstdio>
#include <string>

#include "control/window_pools.h"
#include "engine/ledger.h"
#include "shared/grant_table.h"
#include "shared/log_pool.h"
#include "shared/span_table.h"
#include "weir/config.h"
#include "weir/rule.h"

namespace weir {
namespace {

constexpr std::uint32_t rule_spans = 10;  // the default of a rule

struct KeyMemory {
  std::size_t worker = 0;
  std::size_t cells = 0;
  std::size_t ledger = 0;
  std::size_t log_head = 0;
  std::size_t log_slot = 0;
};

/// What all algorithms take.
KeyMemory common(std::uint32_t keys) {
  const auto per_key = [&](std::size_t bytes) { return (bytes + keys / 2) / keys; };
  const std::size_t no_rules = 0;
  return {.worker = per_key(tables_per_worker * SpanTable(keys, no_rules).memory()),
          .cells = per_key(WindowPools(WindowTerms{.interval = std::chrono::seconds{1}}, keys).memory()),
          .ledger = per_key(Ledger(keys).memory())};
}

}  // namespace
}  // namespace weir

int main() {
  const std::uint32_t keys = weir::NodeConfig{}.keys;
  const weir::KeyMemory usual = weir::common(keys);
  for (const weir::Algorithm algorithm :
       {weir::Algorithm::cooldown, weir::Algorithm::fixed_window, weir::Algorithm::sliding_window,
        weir::Algorithm::token_bucket, weir::Algorithm::leaky_bucket, weir::Algorithm::sliding_log,
        weir::Algorithm::shed, weir::Algorithm::strict}) {
    weir::KeyMemory memory = usual;
    weir::Rule rule;
    rule.algorithm = algorithm;
    rule.key = {{}};
    if (weir::may_be_granted(rule)) memory.worker += weir::GrantTable(keys).memory() / keys;
    // What keys of these rules have from their first count on is not in an empty ledger's sum.
    if (algorithm == weir::Algorithm::sliding_window)
      memory.ledger += sizeof(weir::KeyDetail) + weir::rule_spans * sizeof(weir::SpanCounts);
    if (algorithm == weir::Algorithm::strict)
      memory.ledger += sizeof(weir::KeyDetail) + sizeof(weir::KeyLeases);
    if (algorithm == weir::Algorithm::sliding_log) {
      memory.log_slot = sizeof(weir::SlidingLogSlot);
      memory.log_head =
          sizeof(weir::SlidingLogHead) + sizeof(std::uint32_t);  // and its place in the list of free ones
    }
    std::printf("%s %zu %zu %zu %zu %zu\n", std::string(to_string(algorithm)).c_str(), memory.worker,
                memory.cells, memory.ledger, memory.log_head, memory.log_slot);
  }
}
