// SPDX-License-Identifier: BSD-3-Clause
// A node that meets more new keys than it can in a span meets fewer in the next ones, and those that it knows
// do not notice.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "control/new_key_limit.h"
#include "timed_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

class BusyNode {
 public:
  BusyNode() { end_span(0ms); }

  /// @param late  after the span's end the controller comes round
  void end_span(Duration late) { node_.end_span(late); }
  std::uint64_t admit(std::uint32_t first, std::uint32_t keys) {
    std::uint64_t admitted = 0;
    for (std::uint32_t key = first; key < first + keys; ++key)
      admitted += node_.admit(0, std::to_string(key), 1);
    return admitted;
  }
  /// Requests of keys that the controller has not been told of by name.
  std::uint64_t overflowed() const { return node_.core().figures().overflowed; }

 private:
  testing::TimedNode node_{
      "[node]\nkeys = 400000\n[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 6400\n"
      "interval = \"1s\"\nspans = 10\n"};
};

constexpr std::uint32_t known = 40'000;
constexpr std::uint32_t sprayed = 100'000;

TEST(LateSpans, ThatBroughtManyNewKeysAreFollowedByOnesThatBringFewer) {
  BusyNode node;
  EXPECT_EQ(node.admit(0, known), known);
  node.end_span(0ms);
  node.end_span(300ms);  // that of their names
  EXPECT_EQ(node.overflowed(), 0U);
  EXPECT_EQ(node.admit(known, sprayed), sprayed);
  EXPECT_EQ(node.overflowed(), sprayed - NewKeyLimit::least);
  // Who was there before is counted by name, as ever.
  EXPECT_EQ(node.admit(0, known), known);
  EXPECT_EQ(node.overflowed(), sprayed - NewKeyLimit::least);
  node.end_span(0ms);
  EXPECT_EQ(node.admit(known, sprayed), sprayed);
  EXPECT_EQ(node.overflowed(), 2 * sprayed - 3 * NewKeyLimit::least);
}

TEST(LateSpans, ThatBroughtFewNewKeysLimitNobody) {
  BusyNode node;
  node.admit(0, known);
  node.end_span(0ms);
  node.end_span(0ms);
  node.admit(known, 1000);
  node.end_span(0ms);
  node.end_span(300ms);
  EXPECT_EQ(node.admit(known, sprayed), sprayed);
  EXPECT_EQ(node.overflowed(), 0U);
}

TEST(LateSpans, ThatEndInTimeAgainSoonBringAllNewKeys) {
  BusyNode node;
  node.admit(0, known);
  node.end_span(0ms);
  node.end_span(300ms);
  for (int span = 0; span < 20; ++span) {
    node.admit(known, sprayed);
    node.end_span(0ms);
  }
  const std::uint64_t before = node.overflowed();
  node.admit(known, sprayed);
  EXPECT_EQ(node.overflowed(), before);
}

// Then others go on in the windows that they know. Were a window that slides cleared under them, as its spans
// go by, they would give out the limit anew each time.
TEST(LateSpans, NoSlidingWindowIsClearedWhileNothingCanBePublishedBecauseAWorkerIsStuck) {
  const ConfigResult read = parse_config(R"([[rule]]
name = "user"
key = ["header:user"]
limit = 10
interval = "10ms"
hold_back = 0
algorithm = "sliding-window"
)",
                                         "test");
  ASSERT_TRUE(read);
  NodeCore core(read.config, {.workers = 2, .hash_seed = 1, .log = {}},
                make_memory_store(std::make_shared<MemoryCounters>()));
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  core.worker(1).online();  // and is not heard of any more
  const auto end_spans = [&](int count) {
    for (; count > 0; --count) {
      now = now + 1ms;
      for (int i = 0; i < 2; ++i) {
        core.advance(now);
        worker.quiescent();
      }
      // Nobody waits any longer for whom it has not heard of.
      core.advance(now + 500us);
    }
  };
  std::uint64_t generation = 0;
  do {
    generation = core.figures().publication_generation;
    end_spans(100);
  } while (core.figures().publication_generation != generation);
  std::uint64_t admitted = 0;
  for (int i = 0; i < 100; ++i) {
    for (int request = 0; request < 20; ++request)
      admitted += worker.admit_key(0, "ann", 1, now.monotonic).verdict == Verdict::admit;
    end_spans(1);
  }
  EXPECT_LE(admitted, 10U);
  worker.offline();
  core.worker(1).offline();
}

}  // namespace
}  // namespace weir
