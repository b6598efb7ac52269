// SPDX-License-Identifier: BSD-3-Clause
// Who drives a node by a clock of his own may begin it at any time: nothing is different before 1970, or
// while it passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "timed_node.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t limit = 1000;

/// What is admitted of three times the limit, spread evenly, span by span.
std::vector<std::uint32_t> admitted_from(WallTime begin, const std::string& algorithm) {
  testing::TimedNode node(
      "[[rule]]\nname = \"r\"\nkey = [\"header:x-user\"]\nlimit = 1000\ninterval = \"1s\"\n"
      "spans = 10\nalgorithm = \"" +
          algorithm + "\"\n",
      default_most_told, begin);
  std::vector<std::uint32_t> admitted;
  for (int span = 0; span < 60; ++span) {
    admitted.push_back(node.admit(0, "ann", 3 * limit / 10));
    node.end_span();
  }
  return admitted;
}

class Epoch : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<std::uint32_t> admitted_from(WallTime begin) const {
    return weir::admitted_from(begin, GetParam());
  }
  /// Which requests are shed depends a little on the number of the span.
  void expect_alike(const std::vector<std::uint32_t>& some, const std::vector<std::uint32_t>& others) const {
    const std::int64_t most = GetParam() == std::string("shed") ? 3 : 0;
    ASSERT_EQ(some.size(), others.size());
    for (std::size_t span = 0; span < some.size(); ++span)
      EXPECT_LE(std::abs(std::int64_t{some[span]} - std::int64_t{others[span]}), most)
          << "span " << span << ": " << some[span] << " and " << others[span];
  }
};

TEST_P(Epoch, MakesNoDifferenceToWhatIsAdmitted) {
  // What a window holds when it passes depends on where in it the key was.
  for (const Duration offset : {0ms, 300ms}) {
    SCOPED_TRACE(offset.count());
    const std::vector<std::uint32_t> usual = admitted_from(WallTime(1000s) + offset);
    ASSERT_GT(*std::max_element(usual.begin(), usual.end()), 0U);
    {
      SCOPED_TRACE("before it");
      expect_alike(admitted_from(WallTime(-7200s) + offset), usual);
    }
    SCOPED_TRACE("while it passes");
    expect_alike(admitted_from(WallTime(-3s) + offset), usual);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Epoch,
                         ::testing::Values("fixed-window", "sliding-window", "sliding-log", "token-bucket",
                                           "leaky-bucket", "cooldown", "shed", "strict"));

}  // namespace
}  // namespace weir
