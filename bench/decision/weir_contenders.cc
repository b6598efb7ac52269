// SPDX-License-Identifier: BSD-3-Clause
// Ours: with the controller at work in real time, spans of 100 ms, so that flips, publications, drains and
// the first touches after each flip are in the figures; with a controller that sleeps once all keys have been
// met; and, span by span in virtual time, first touches alone.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contender.h"
#include "program/ticks.h"
#include "settling.h"
#include "verdicts.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;

// Limits out of reach: what is measured admits. A day is for a node without a controller, whose window shall
// not end.
constexpr std::string_view user_rule = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
)";
constexpr std::string_view sliding_rule = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
algorithm = "sliding-window"
)";
// Without grants: what a worker has at hand of a key it has drawn from the key's cell, in each span anew.
constexpr std::string_view bucket_rule = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
algorithm = "token-bucket"
)";
// So small that each request is drawn for; what it takes is back before the next one.
constexpr std::string_view small_bucket_rule = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
burst = 1000
interval = "1s"
algorithm = "token-bucket"
)";
// So small that nothing may be kept back of it for workers, nor drawn ahead.
constexpr std::string_view small_rule = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 60
interval = "1s"
)";
constexpr std::string_view rule_that_blocks = R"([[rule]]
name = "user"
key = ["header:x-user"]
limit = 1
interval = "1s"
cooldown = "24h"
)";
constexpr std::string_view three_rules = R"([[rule]]
name = "all"
limit = 1000000000000
interval = "1s"
[[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
[[rule]]
name = "items"
key = ["path"]
limit = 1000000000000
interval = "1s"
)";

/// Of the requests once all keys have been met one in a thousand may be dealt with otherwise in a run that
/// counts: a worker whose processor is taken away for longer than two spans refuses what it has at hand then.
/// @param as  what the others were not
void expect_few(std::uint64_t others, std::uint64_t timed, const char* as) {
  if (others > timed / 1000) expect_counted(timed - others, timed, as);
}

void tell(const Figures& figures, Result& told) {
  told["requests"] = figures.rules.front().offered;
  told["overflowed"] = figures.overflowed;
  told["spans"] = figures.spans;
  told["overruns"] = figures.span_overruns;
}

std::uint64_t refused_of(const Figures& figures) {
  std::uint64_t refused = 0;
  for (const RuleFigures& rule : figures.rules) refused += rule.offered - rule.admitted;
  return refused;
}

/// The requests before all keys had been met.
struct Beforehand {
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
};

void expect_in_order(const Figures& figures, const Asked& asked, const Beforehand& beforehand, Result& told) {
  const std::uint64_t requests = asked.requests;
  for (const RuleFigures& rule : figures.rules) {
    expect_counted(rule.offered, requests, "offered");
    expect_counted(asked.admitted, rule.admitted, "told as admitted");
  }
  const std::uint64_t refused = refused_of(figures) - beforehand.refused;
  expect_few(refused, requests - beforehand.requests, "admitted");
  told["refused"] = refused;
  told["requests_once_met"] = requests - beforehand.requests;
  tell(figures, told);
}

/// @param rules  each key is of one of so many
OnHugePages<Key> keys_of(Worker& worker, const Stream& stream, std::size_t rules) {
  OnHugePages<Key> keys;
  keys.reserve(stream.all().size());
  for (const PlainKey& key : stream.all()) {
    const std::size_t rule = std::hash<std::string_view>{}(key.name()) % rules;
    keys.push_back(worker.key(static_cast<RuleIndex>(rule), key.name()));
  }
  return keys;
}

/// Who ends a node's spans.
enum class Controller : std::uint8_t {
  at_work,  ///< its thread
  by_hand,  ///< the measuring thread, as often, in between: then nobody is beside it while it is timed
};

/// Those of all rules here: two have no more than one key.
std::size_t room_for(const Workload& workload) { return workload.keys() + 2; }

/// A node with one worker.
class Node : public Contender {
 public:
  /// @param room  for so many keys
  Node(std::size_t room, std::string_view rules, Controller controller = Controller::at_work)
      : controller_(controller), throttle_(make_throttle(rules, room, 1)), worker_(throttle_->worker(0)) {
    if (controller_ == Controller::at_work)
      throttle_->start();
    else
      advance();
  }
  void begin() override { worker().online(); }
  void between() override {
    if (controller_ == Controller::by_hand && monotonic_now() >= span_ends_) end_span();
  }
  void pause() override { worker().offline(); }
  Duration settles_in() const override { return 2 * span; }
  bool has_met_all() override {
    const Figures figures = throttle_->figures();
    settling_.look(figures, asked_.requests, unsettled(figures));
    beforehand_ = {asked_.requests, refused_of(figures)};
    return all_are_met_ = settling_.has_settled_for_an_interval();
  }
  void finish(Result& told) override {
    told["memory"] = throttle_->memory();
    throttle_->stop(1s);
    check(throttle_->figures(), told);
  }

 protected:
  static constexpr Duration span = 100ms;
  /// How many requests so far were not dealt with as those are that shall be timed.
  virtual std::uint64_t unsettled(const Figures& figures) const { return figures.overflowed; }
  /// The counters, against the number of requests.
  virtual void check(const Figures& figures, Result& told) {
    expect_in_order(figures, asked_, beforehand_, told);
  }
  /// That nearly all that were timed have been dealt with as they shall be.
  void expect_settled(const Figures& figures, const char* as) const {
    expect_few(unsettled(figures) - settling_.unsettled(), asked_.requests - settling_.requests(), as);
  }
  Worker& worker() noexcept { return worker_; }
  /// As has_met_all() has said.
  bool all_are_met() const noexcept { return all_are_met_; }
  void count(auto answers) noexcept { asked_.count(answers); }
  const Asked& asked() const noexcept { return asked_; }

 private:
  void advance() {
    const MonotonicTime now = monotonic_now();
    throttle_->advance({WallTime(now.time_since_epoch()), now});
  }
  void end_span() {
    for (int part = 0; part < 3; ++part) {  // flip, drain, decide
      advance();
      worker_.quiescent();
    }
    span_ends_ = monotonic_now() + span;
  }

  const Controller controller_;
  std::unique_ptr<Throttle> throttle_;
  Worker& worker_;
  MonotonicTime span_ends_{};
  Asked asked_;
  Settling settling_;
  Beforehand beforehand_;
  bool all_are_met_ = false;
};

/// Keys that the pipeline has at hand; the worker is told of the next bursts.
class KeysAtHand : public Node {
 public:
  /// @param told   of so many bursts
  /// @param room   for so many keys; 0: for those that there are
  /// @param count  of the rules: each key is of one of them
  KeysAtHand(Workload& workload, std::string_view rules, Controller controller, std::size_t told,
             std::size_t room = 0, std::size_t count = 1)
      : Node(room == 0 ? room_for(workload) : room, rules, controller),
        told_(told),
        keys_{keys_of(worker(), workload.stream(Drawn::uniform), count),
              keys_of(worker(), workload.stream(Drawn::zipf), count)} {}
  void decide(Drawn drawn, std::size_t at, std::size_t some) override {
    const std::span<const Key> keys = keys_[static_cast<std::size_t>(drawn)];
    each_burst(at, some, [&](std::size_t from, std::size_t few) {
      worker().admit_keys(keys.subspan(from, few), verdicts_, keys.subspan(from + few, told_ * burst));
      count(std::span<const Verdict>(verdicts_).first(few));
      worker().quiescent();
    });
  }

 private:
  const std::size_t told_;
  const std::array<OnHugePages<Key>, 2> keys_;
  std::array<Verdict, burst> verdicts_;
};

/// So many rules that differ in nothing but their names.
std::string rules_alike(std::size_t count, std::string_view terms) {
  std::string rules;
  for (std::size_t i = 0; i < count; ++i)
    rules += "[[rule]]\nname = \"route-" + std::to_string(i) + "\"\ninterval = \"1s\"\n" + std::string(terms);
  return rules;
}

/// Counted under several rules, each request under one.
void expect_in_order_together(const Figures& figures, const Asked& asked, Result& told) {
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  for (const RuleFigures& rule : figures.rules) {
    offered += rule.offered;
    admitted += rule.admitted;
  }
  expect_counted(offered, asked.requests, "offered");
  expect_counted(asked.admitted, admitted, "told as admitted");
  expect_few(offered - admitted, offered, "admitted");
  tell(figures, told);
  told["requests"] = offered;
}

/// Keys at hand, each of one of several rules, in no order: as where each route has a limit for each user.
class KeysOfRules final : public KeysAtHand {
 public:
  explicit KeysOfRules(Workload& workload)
      : KeysAtHand(workload, rules_alike(rules, "key = [\"header:x-user\"]\nlimit = 1000000000\n"),
                   Controller::at_work, 1, 0, rules) {}

 private:
  static constexpr std::size_t rules = 8;

  void check(const Figures& figures, Result& told) override {
    expect_in_order_together(figures, asked(), told);
  }
};

/// Keys that have all been blocked: what it costs to refuse.
class BlockedKeys final : public KeysAtHand {
 public:
  explicit BlockedKeys(Workload& workload) : KeysAtHand(workload, rule_that_blocks, Controller::at_work, 1) {}

 private:
  /// Only who comes twice in an interval is blocked, and a controller that meets a million at once takes
  /// seconds for it.
  std::uint64_t unsettled(const Figures& figures) const override {
    return KeysAtHand::unsettled(figures) + figures.rules.front().admitted;
  }
  void check(const Figures& figures, Result& told) override {
    tell(figures, told);
    expect_counted(figures.rules.front().offered, asked().requests, "offered");
    expect_counted(asked().admitted, figures.rules.front().admitted, "told as admitted");
    expect_settled(figures, "refused");
  }
};

/// Keys at hand, timed burst by burst. What there is room for, were others to come, is as with KeysInASpray.
class KeysByBursts : public KeysAtHand {
 public:
  explicit KeysByBursts(Workload& workload)
      : KeysAtHand(workload, user_rule, Controller::at_work, 1,
                   std::max<std::size_t>(keys_by_default, 2 * workload.keys())) {}
  void decide(Drawn drawn, std::size_t at, std::size_t some) final {
    const std::uint64_t began = ticks();
    each_burst(at, some, [&](std::size_t from, std::size_t few) {
      const std::uint64_t before = ticks();
      KeysAtHand::decide(drawn, from, few);
      const std::uint64_t took = ticks() - before;
      theirs_ += took - std::min(took, nothing_takes_);
      others_come();
    });
    all_ += ticks() - began;
  }
  double take_part() final {
    const auto theirs = static_cast<double>(std::exchange(theirs_, 0));
    return theirs / static_cast<double>(std::max<std::uint64_t>(std::exchange(all_, 0), 1));
  }

 private:
  static constexpr std::size_t keys_by_default = 65'536;  // of a node
  virtual void others_come() {}
  /// What it takes to look at the clock.
  static std::uint64_t least_ticks() {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (int i = 0; i < 10'000; ++i) {
      const std::uint64_t before = ticks();
      least = std::min(least, ticks() - before);
    }
    return least;
  }

  const std::uint64_t nothing_takes_ = least_ticks();
  std::uint64_t theirs_ = 0;  // ticks
  std::uint64_t all_ = 0;
};

/// The same, while somebody makes up keys without end, which find no room: every other burst is his.
class KeysInASpray final : public KeysByBursts {
 public:
  using KeysByBursts::KeysByBursts;
  void begin() override {
    began_ = monotonic_now();
    KeysByBursts::begin();
  }
  /// Until there is no room left.
  Duration settles_in() const override { return alone + 6 * span; }
  /// After 64 spans the controller makes room, and there are no grants meanwhile; from then on more and more
  /// seldom.
  unsigned times_as_long() const override { return 8; }

 private:
  // The known ones have come, after a pause, too, and the controller has met them.
  static constexpr Duration alone = 4 * span;

  void others_come() override {
    if (!all_are_met() || monotonic_now() - began_ < alone) return;
    std::array<std::string, burst> names;
    std::array<Key, burst> keys;
    std::array<Verdict, burst> verdicts;
    for (std::size_t i = 0; i < burst; ++i) {
      names[i] = std::to_string(made_up_++).insert(0, "made-up-");
      keys[i] = worker().key(0, names[i]);
    }
    worker().admit_keys(keys, verdicts);
    count(std::span<const Verdict>(verdicts));
    worker().quiescent();
  }
  void check(const Figures& figures, Result& told) override {
    KeysAtHand::check(figures, told);
    told["made_up"] = made_up_;
    if (figures.overflowed < made_up_ / 2) throw Worthless("most of the keys made up have found room");
  }

  MonotonicTime began_{};
  std::uint64_t made_up_ = 0;
};

/// The only keys of rules without dimensions: each request is of one of so many routes, at random.
class DenseKeys final : public Node {
 public:
  explicit DenseKeys(std::size_t routes)
      : Node(routes + 2, rules_alike(routes, "limit = 1000000000000\n"), Controller::at_work) {
    std::mt19937_64 random(44);
    for (std::size_t i = 0; i < bursts * burst; ++i)
      keys_.push_back(worker().key(static_cast<RuleIndex>(random() % routes), {}));
  }
  void decide(Drawn, std::size_t at, std::size_t some) override {
    each_burst(at, some, [&](std::size_t from, std::size_t few) {
      worker().admit_keys(std::span<const Key>(keys_).subspan(from / burst % bursts * burst, few), verdicts_);
      count(std::span<const Verdict>(verdicts_).first(few));
      worker().quiescent();
    });
  }

 private:
  static constexpr std::size_t bursts = 16;  // then the same again

  void check(const Figures& figures, Result& told) override {
    expect_in_order_together(figures, asked(), told);
  }

  std::vector<Key> keys_;
  std::array<Verdict, burst> verdicts_;
};

/// Whole requests, as a parser hands them over, matched against rules and their keys hashed: what
/// admit_burst() adds to the above.
class Requests final : public Node {
 public:
  Requests(Workload& workload, std::string_view rules)
      : Node(room_for(workload), rules), workload_(workload) {
    for (std::size_t i = 0; i < burst; ++i) {
      headers_[i].name = "x-user";
      requests_[i].method = "GET";
      requests_[i].target = "/items/17";
      requests_[i].headers = std::span(&headers_[i], 1);
    }
  }
  void decide(Drawn drawn, std::size_t at, std::size_t some) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, some, [&](std::size_t from, std::size_t few) {
      const std::span<const PlainKey> keys = stream.part(from, few);
      for (std::size_t i = 0; i < few; ++i) headers_[i].value = keys[i].name();
      worker().admit_burst(std::span(requests_).first(few), monotonic_now(), decisions_, Detail::refusals);
      count(std::span<const Decision>(decisions_).first(few));
      worker().quiescent();
    });
  }

 private:
  Workload& workload_;
  std::array<Header, burst> headers_;
  std::array<Request, burst> requests_;
  std::array<Decision, burst> decisions_;
};

/// A node whose controller is driven by hand, in virtual time: every key is decided on once, then the span
/// ends.
class FirstTouches final : public Contender {
 public:
  /// @param strangers  every key is met for the first time ever, by a node that has been made for it; else
  /// for the first time in its span
  FirstTouches(Workload& workload, std::string_view rule, bool strangers)
      : stream_(workload.stream(Drawn::once)), rule_(rule), strangers_(strangers) {
    make();
  }
  void begin() override {
    if (strangers_) {
      if (asked_.requests == 0) return;
      drop();
      make();
      return;
    }
    if (asked_.requests == 0) meet_all();
    end_span();
  }
  void decide(Drawn, std::size_t at, std::size_t some) override {
    const std::span<const Key> keys = keys_;
    each_burst(at, some, [&](std::size_t from, std::size_t few) {
      worker().admit_keys(keys.subspan(from, few), now().monotonic, verdicts_, keys.subspan(from + few, few));
      asked_.count(std::span<const Verdict>(verdicts_).first(few));
      worker().quiescent();
    });
  }
  void finish(Result& told) override {
    told["memory"] = throttle_->memory();
    drop();
    told.update(figures_);
  }

 private:
  // Both tables and the controller get to know the keys before anything is timed. A node meets so many new
  // ones in a span as let it end in time.
  void meet_all() {
    std::uint64_t overflowed = 0;
    for (int patience = 60, known = 0; known < 3; --patience) {
      if (patience == 0) throw Worthless("not all keys have been met");
      decide(Drawn::once, 0, stream_.size());
      end_span();
      const std::uint64_t before = std::exchange(overflowed, throttle_->figures().overflowed);
      known = overflowed - before <= stream_.size() / 10'000 ? known + 1 : 0;
    }
  }
  void make() {
    throttle_ = make_throttle(rule_, stream_.size(), 1);
    if (keys_.empty()) keys_ = keys_of(worker(), stream_, 1);
    throttle_->advance(now());
    worker().online();
    worker().quiescent();
    asked_ = {};
  }
  void drop() {
    worker().offline();
    throttle_->stop({});
    expect_in_order(throttle_->figures(), asked_, {}, figures_);
    throttle_.reset();
  }
  Instant now() const { return {WallTime(1000s) + since_start_, MonotonicTime(1000s) + since_start_}; }
  void end_span() {
    since_start_ += 100ms;
    for (int part = 0; part < 3; ++part) {  // flip, drain, decide
      throttle_->advance(now());
      worker().quiescent();
    }
  }
  Worker& worker() noexcept { return throttle_->worker(0); }

  const Stream& stream_;
  const std::string_view rule_;
  const bool strangers_;
  std::unique_ptr<Throttle> throttle_;
  OnHugePages<Key> keys_;  // all nodes have the same hash
  Duration since_start_{};
  Asked asked_;
  Result figures_;
  std::array<Verdict, burst> verdicts_;
};

template <const std::string_view& rules, Controller controller = Controller::at_work, std::size_t told = 1>
std::unique_ptr<Contender> keys_at_hand(Workload& workload) {
  static_assert(told <= Stream::furthest_ahead);
  return std::make_unique<KeysAtHand>(workload, rules, controller, told);
}
template <std::size_t routes>
std::unique_ptr<Contender> dense_keys(Workload&) {
  return std::make_unique<DenseKeys>(routes);
}
template <typename Keys>
std::unique_ptr<Contender> keys_under(Workload& workload) {
  return std::make_unique<Keys>(workload);
}
template <const std::string_view& rules>
std::unique_ptr<Contender> requests(Workload& workload) {
  return std::make_unique<Requests>(workload, rules);
}
template <const std::string_view& rule, bool strangers = false>
std::unique_ptr<Contender> first_touches(Workload& workload) {
  return std::make_unique<FirstTouches>(workload, rule, strangers);
}

}  // namespace

std::vector<Kind> weir_kinds() {
  const std::vector<Drawn> drawn{Drawn::uniform, Drawn::zipf};
  constexpr std::size_t most_beyond_grants = 1'000'000;
  return {{"weir_key", drawn, keys_at_hand<user_rule>},
          {"weir_key_far", drawn, keys_at_hand<user_rule, Controller::at_work, Stream::furthest_ahead>},
          {"weir_key_alone", drawn, keys_at_hand<user_rule, Controller::by_hand>},
          {"weir_key_sliding", drawn, keys_at_hand<sliding_rule>, false, most_beyond_grants},
          {"weir_key_bucket", drawn, keys_at_hand<bucket_rule>, false, most_beyond_grants},
          {"weir_key_small_bucket", drawn, keys_at_hand<small_bucket_rule>, false, most_beyond_grants},
          {"weir_key_blocked", drawn, keys_under<BlockedKeys>, false, most_beyond_grants},
          {"weir_key_of_8_rules", drawn, keys_under<KeysOfRules>},
          {"weir_key_by_bursts", drawn, keys_under<KeysByBursts>, false, most_beyond_grants},
          {"weir_key_in_spray", drawn, keys_under<KeysInASpray>, false, most_beyond_grants},
          {"weir_one_rule", drawn, requests<user_rule>},
          {"weir_three_rules", drawn, requests<three_rules>},
          {"weir_first_in_span", {Drawn::once}, first_touches<user_rule>},
          {"weir_first_small", {Drawn::once}, first_touches<small_rule>, false, most_beyond_grants},
          {"weir_first_bucket", {Drawn::once}, first_touches<bucket_rule>, false, most_beyond_grants},
          {"weir_stranger", {Drawn::once}, first_touches<user_rule, true>},
          {"weir_dense", {Drawn::uniform}, dense_keys<1>, true},
          {"weir_dense_8", {Drawn::uniform}, dense_keys<8>, true},
          {"weir_dense_64", {Drawn::uniform}, dense_keys<64>, true}};
}

double node_bytes_per_key() {
  constexpr std::size_t keys = 100'000;
  Workload workload(keys);
  FirstTouches node(workload, user_rule, false);
  node.begin();
  Result told;
  node.finish(told);
  return told["memory"].get<double>() / keys;
}

}  // namespace weir::bench
