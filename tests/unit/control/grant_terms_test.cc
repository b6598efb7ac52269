// SPDX-License-Identifier: BSD-3-Clause
// When keys have grants, and what is kept for grants when they have none: publication after publication.
#include "control/grant_terms.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace weir {
namespace {

constexpr bool wants_all = true;
constexpr bool wants_little = false;

/// One key, through publications.
class Key {
 public:
  explicit Key(bool slides, bool keeps_all = false) : slides_(slides), keeps_all_(keeps_all) {}

  /// The first publication of the next interval.
  GrantTerms turn(bool all, bool judged = true) {
    ++interval_;
    return publish(all, true, judged);
  }
  /// A further one of the same interval.
  GrantTerms again(bool all, bool judged = true) { return publish(all, false, judged); }
  std::uint64_t interval() const { return interval_; }

 private:
  GrantTerms publish(bool all, bool turned, bool judged) {
    const GrantInterval interval{.number = interval_,
                                 .whole = turned ? interval_ : interval_ + 1,
                                 .turned = turned,
                                 .judged = judged,
                                 .slides = slides_,
                                 .keeps_all = keeps_all_};
    const GrantTerms terms = next_grant_terms(published_.has_value() ? &*published_ : nullptr, all, interval);
    published_.reset();
    if (!terms.granted())
      published_ = KeyState{.ungranted_since = terms.ungranted_since, .reserved = terms.reserved};
    return terms;
  }

  bool slides_;
  bool keeps_all_;
  std::uint64_t interval_ = 7;
  std::optional<KeyState> published_;
};

class AnyWindow : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Grants, AnyWindow, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "slides" : "interval"; });

TEST_P(AnyWindow, AKeyOfWhichLittleIsAskedIsGranted) {
  Key key(GetParam());
  EXPECT_TRUE(key.turn(wants_little).granted());
  EXPECT_TRUE(key.again(wants_little).granted());
}

TEST_P(AnyWindow, WhoWantsAllWhenAnIntervalBeginsHasNoneInThatOne) {
  Key key(GetParam());
  const GrantTerms terms = key.turn(wants_all);
  EXPECT_EQ(terms.ungranted_since, key.interval());
  EXPECT_FALSE(terms.reserved);
}

TEST_P(AnyWindow, WhoWantsAllLaterMayHaveUsedThemUntilTheIntervalEnds) {
  Key key(GetParam());
  key.turn(wants_little);
  const GrantTerms terms = key.again(wants_all);
  EXPECT_EQ(terms.ungranted_since, key.interval() + 1);
  EXPECT_FALSE(terms.reserved);
}

TEST_P(AnyWindow, WhoGoesOnWantingAllKeepsHisNumber) {
  Key key(GetParam());
  key.turn(wants_little);
  key.again(wants_all);
  const std::uint64_t since = key.interval() + 1;
  EXPECT_EQ(key.again(wants_all).ungranted_since, since);
  EXPECT_EQ(key.turn(wants_all).ungranted_since, since);
  EXPECT_EQ(key.turn(wants_all).ungranted_since, since);
}

TEST_P(AnyWindow, WhoHadNoneWhenAnIntervalBeganHasNoneUntilItEnds) {
  Key key(GetParam());
  key.turn(wants_all);
  EXPECT_FALSE(key.again(wants_little).granted());
}

TEST(GrantsOfIntervals, ComeBackWithTheNextInterval) {
  Key key(false);
  key.turn(wants_all);
  key.again(wants_little);
  EXPECT_TRUE(key.turn(wants_little).granted());
}

// Nobody draws what they come to meanwhile.
TEST(GrantsOfABucket, ComeBackAtOnce) {
  Key key(false, true);
  EXPECT_FALSE(key.turn(wants_all).granted());
  EXPECT_FALSE(key.again(wants_all).granted());
  EXPECT_TRUE(key.again(wants_little).granted());
  EXPECT_FALSE(key.again(wants_all).granted());
}

TEST(GrantsOfAWindowThatSlides, AreKeptForAWholeIntervalBeforeTheyComeBack) {
  Key key(true);
  key.turn(wants_all);
  // Others have drawn in this interval what they would come to.
  EXPECT_TRUE(key.again(wants_little).reserved);
  GrantTerms terms = key.turn(wants_little);
  EXPECT_FALSE(terms.granted());
  EXPECT_TRUE(terms.reserved);
  terms = key.again(wants_little);
  EXPECT_FALSE(terms.granted());
  EXPECT_TRUE(terms.reserved);
  EXPECT_TRUE(key.turn(wants_little).granted());
}

TEST(GrantsOfAWindowThatSlides, AreBackAfterOneIntervalIfTheyAreKeptFromItsBeginning) {
  Key key(true);
  key.turn(wants_all);
  EXPECT_TRUE(key.turn(wants_little).reserved);
  EXPECT_TRUE(key.turn(wants_little).granted());
}

TEST(GrantsOfAWindowThatSlides, AreNotKeptForWhoWantsAllAgain) {
  Key key(true);
  key.turn(wants_all);
  key.turn(wants_little);
  const GrantTerms terms = key.again(wants_all);
  EXPECT_FALSE(terms.reserved);
  EXPECT_EQ(terms.ungranted_since, key.interval() + 1);
  EXPECT_FALSE(key.turn(wants_all).reserved);
  EXPECT_TRUE(key.again(wants_little).reserved);
  EXPECT_TRUE(key.turn(wants_little).reserved);
}

TEST(GrantsOfAWindowThatSlides, AreNotKeptForWhomTheLastSpanHasNotBeenJudgedYet) {
  Key key(true);
  key.turn(wants_all);
  const std::uint64_t since = key.interval();
  EXPECT_EQ(key.again(wants_little, false).ungranted_since, since);
  EXPECT_FALSE(key.again(wants_little, false).reserved);
  EXPECT_EQ(key.again(wants_all).ungranted_since, since);
  EXPECT_FALSE(key.turn(wants_little, false).reserved);
  EXPECT_TRUE(key.again(wants_little).reserved);
  EXPECT_TRUE(key.turn(wants_little, false).reserved);
  EXPECT_TRUE(key.turn(wants_little, false).granted());
}

TEST(GrantsOfAWindowThatSlides, AreKeptThreeTimesAndForAsLongAsTheWindowMayHoldThem) {
  const auto kept = [](std::uint64_t ungranted_since, bool reserved = false) {
    return GrantTerms{ungranted_since, reserved}.kept(10, 5);
  };
  EXPECT_EQ(kept(KeyState::granted), 30U);
  EXPECT_EQ(kept(6), 30U);
  EXPECT_EQ(kept(5), 20U);
  EXPECT_EQ(kept(4), 0U);
  EXPECT_EQ(kept(4, true), 30U);
}

}  // namespace
}  // namespace weir
