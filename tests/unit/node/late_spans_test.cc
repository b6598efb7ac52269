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

/// Whoever keeps to his limit at 80 of 100 a second, whose interval's last span ends 600 ms late.
class ServedLate {
 public:
  ServedLate() {
    for (int span = 0; span < 9; ++span) {
      node.end_span();
      admitted += node.admit(0, "ann", 8);
    }
    admitted += node.admit(0, "ann", 8);
  }
  /// At the same pace, until the controller comes round.
  void go_on() {
    for (Duration since{}; since < 600ms; since += 12500us)
      admitted += node.worker().admit_key(0, "ann", 1, node.now().monotonic + 100ms + since).verdict ==
                  Verdict::admit;
    node.end_span(600ms);
  }

  testing::TimedNode node{
      "[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 100\ninterval = \"1s\"\n"
      "spans = 10\ncooldown = \"10s\"\n"};
  std::uint32_t admitted = 0;
};

TEST(LateSpans, BlockNobodyForWhatCameAfterTheInterval) {
  ServedLate late;
  ASSERT_EQ(late.admitted, 80U);
  late.go_on();
  EXPECT_EQ(late.admitted, 100U) << "there is no more until the controller says so";
  EXPECT_EQ(late.node.admit(0, "ann", 1), 1U);
}

TEST(LateSpans, BlockWhoHasExceededHisLimitBefore) {
  ServedLate late;
  ASSERT_EQ(late.node.admit(0, "ann", 21), 20U);
  late.go_on();
  EXPECT_EQ(late.node.admit(0, "ann", 1), 0U);
}

/// With so many workers, and in the test's own time; spans last 100 ms.
class SlidingNode {
 public:
  explicit SlidingNode(unsigned workers)
      : core_(parse_config(R"([[rule]]
name = "user"
key = ["header:user"]
limit = 100
interval = "1s"
spans = 10
hold_back = 0
algorithm = "sliding-window"
)",
                           "test")
                  .config,
              {.workers = workers, .hash_seed = 1, .log = {}},
              make_memory_store(std::make_shared<MemoryCounters>())),
        workers_(workers) {
    core_.advance(now_);
    for (unsigned i = 0; i < workers_; ++i) core_.worker(i).online();
    come_round(100ms);
  }
  ~SlidingNode() {
    for (unsigned i = 0; i < workers_; ++i) core_.worker(i).offline();
  }

  /// After so long the controller does, and the first workers do.
  void come_round(Duration after, unsigned workers) {
    now_ = now_ + after;
    for (int i = 0; i < 2; ++i) {
      core_.advance(now_);
      for (unsigned worker = 0; worker < workers; ++worker) core_.worker(worker).quiescent();
    }
    // Nobody waits any longer for whom it has not heard of.
    core_.advance(now_ + 20ms);
  }
  void come_round(Duration after) { come_round(after, workers_); }
  int admit(unsigned worker) {
    int admitted = 0;
    for (int i = 0; i < 200; ++i)
      admitted += core_.worker(worker).admit_key(0, "ann", 1, now_.monotonic).verdict == Verdict::admit;
    return admitted;
  }

 private:
  Instant now_{WallTime(1000s), MonotonicTime(10s)};
  NodeCore core_;
  unsigned workers_;
};

// Nobody can tell when in them it was.
TEST(LateSpans, LeaveWhatWasAdmittedInThemInASlidingWindowForAnIntervalFromTheirEndOn) {
  SlidingNode node(1);
  int admitted = node.admit(0);
  ASSERT_GE(admitted, 95);
  node.come_round(950ms);  // the last span of those that ended began 150 ms ago
  for (int span = 0; span < 9; ++span) {
    admitted += node.admit(0);
    EXPECT_LE(admitted, 100) << span;
    node.come_round(100ms);
  }
  EXPECT_GE(node.admit(0), 95);
}

TEST(LateSpans, OfOneWorkerLeaveWhatItAdmittedInASlidingWindowForAnIntervalFromTheirEndOn) {
  SlidingNode node(2);
  int admitted = node.admit(1);
  ASSERT_GE(admitted, 90);
  for (int span = 0; span < 9; ++span) node.come_round(100ms, 1);
  node.come_round(50ms);
  for (int span = 0; span < 9; ++span) {
    admitted += node.admit(0);
    EXPECT_LE(admitted, 100) << span;
    node.come_round(100ms);
  }
  EXPECT_GE(node.admit(0), 90);
}

// Who stays away for a window is forgotten with his log by the one after it.
TEST(LateSpans, LeaveWhatASlidingLogHoldsForAnInterval) {
  testing::TimedNode node(
      "[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 8\ninterval = \"1s\"\n"
      "algorithm = \"sliding-log\"\n");
  node.end_spans(10);
  const MonotonicTime at = node.now().monotonic + 104ms;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(node.worker().admit_key(0, "ann", 1, at).verdict, Verdict::admit);
  node.end_span(8ms);
  node.end_spans(10);
  ASSERT_EQ(node.now().monotonic, at + 996ms);
  EXPECT_EQ(node.admit(0, "ann", 9), 0U);
  node.end_span();
  EXPECT_EQ(node.admit(0, "ann", 9), 8U);
}

// Nothing is held as of a span that is still to come: while that runs it would be taken for what its pool
// has.
TEST(LateSpans, WhoseClockIsSetBackMeanwhileLeaveWhatWasAdmittedInThemInASlidingWindow) {
  NodeCore core(parse_config(R"([[rule]]
name = "user"
key = ["header:user"]
limit = 100
interval = "10s"
spans = 10
hold_back = 0
algorithm = "sliding-window"
[[rule]]
name = "whose-spans-are-shorter"
limit = 1000000
interval = "1s"
spans = 10
)",
                             "test")
                    .config,
                {.workers = 1, .hash_seed = 1, .log = {}},
                make_memory_store(std::make_shared<MemoryCounters>()));
  Instant now{WallTime(1000s), MonotonicTime(10s)};
  core.advance(now);
  Worker& worker = core.worker(0);
  worker.online();
  const auto come_round = [&](Duration after, Duration set = {}) {
    now = {now.wall + after + set, now.monotonic + after};
    for (int i = 0; i < 2; ++i) {
      core.advance(now);
      worker.quiescent();
    }
  };
  int admitted = 0;
  const auto admit = [&] {
    for (int i = 0; i < 200; ++i)
      admitted += worker.admit_key(0, "ann", 1, now.monotonic).verdict == Verdict::admit;
  };
  for (int span = 0; span < 5; ++span) come_round(100ms);
  admit();
  EXPECT_GE(admitted, 95);
  come_round(2200ms, -2500ms);
  for (int span = 0; span < 80; ++span) {
    come_round(100ms);
    admit();
    ASSERT_LE(admitted, 100) << span;
  }
  worker.offline();
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
