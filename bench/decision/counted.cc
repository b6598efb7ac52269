// SPDX-License-Identifier: BSD-3-Clause
// A fixed piece of work for an instruction counter: bench-decision-counted WHAT
//   granted      a key of which less is asked than the worker may have of it without asking: the common case
//   granted_beside_blocks  the same, while keys of another rule are blocked, and others of it have just been
//   granted_beside_own_blocks  the same, while another key of the same rule is
//   granted_beside_spray   the same, while every other burst is of keys made up, which find no room
//   ahead        as granted, and asking for the next burst's lines meanwhile
//   renewed      the first request in a window of such a key, known from the window before
//   ready        a key of which more is asked, that has been met in this span and has credit at hand
//   first_touch  such a key's first request in a span, known from the spans before
//   sprayed      the only request of a key that finds no room, among very many like it
//   blocked      a request of a key that is blocked
//   blocked_on   the first one in a span of a key that was blocked, and refused, in the spans before, too
//   small_bucket a request of a key whose bucket is so small that each is drawn for
//   few          the same, of a limit that is so small
//   few_first, small_bucket_first  such a key's first request in a span, known from the spans before
//   dense        a key of a rule without dimensions
//   routes       keys of four such rules in turns
//   mixed        keys of two rules in turns, as granted
//   prefetch     a key that is about to be decided upon: asking for its line, no more
//   three_rules  a whole request under three rules, matched and hashed; all keys granted or ready
// Everything to be counted happens inside counted_work(), in virtual time and without a second thread; prints
// "items N". See tests/instructions.
#include <weir/throttle.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace weir;
using namespace std::chrono_literals;

constexpr std::size_t burst = 32;
constexpr std::size_t keys = 32 * burst;
constexpr std::string_view rules = R"([node]
keys = 4096
[[rule]]
name = "all"
limit = 1000000000
interval = "1s"
[[rule]]
name = "user"
key = ["header:x-user"]
limit = 1000000000
interval = "1s"
[[rule]]
name = "path"
key = ["path"]
limit = 1000000000
interval = "1s"
[[rule]]
name = "closed"
match = { method = "NONE" }
key = ["src_ip"]
limit = 1
interval = "1s"
[[rule]]
name = "small_bucket"
match = { method = "NONE" }
key = ["src_ip"]
limit = 1000000000
burst = 1000
interval = "1s"
algorithm = "token-bucket"
[[rule]]
name = "few"
match = { method = "NONE" }
key = ["src_ip"]
limit = 60
interval = "1s"
)";
enum RuleOf : RuleIndex { all = 0, user = 1, path = 2, closed = 3, small_bucket = 4, few = 5 };

/// Rules that only "routes" has: others would be matched against them.
constexpr RuleIndex first_route = 6;
constexpr std::size_t routes = 4;
std::string route_rules() {
  std::string text;
  for (std::size_t i = 0; i < routes; ++i)
    text += "[[rule]]\nname = \"route_" + std::to_string(i) + "\"\nlimit = 1000000000\ninterval = \"1s\"\n";
  return text;
}

/// What counted_work() works on: keys, or whole requests.
struct Work {
  Worker& worker;
  std::vector<Key> keys;
  std::vector<Request> requests;
  bool only_prefetch = false;
  std::size_t ahead = 0;  // bursts that the worker is told of
};

Instant at(Duration since_start) { return {WallTime(1000s) + since_start, MonotonicTime(50s) + since_start}; }

std::uint64_t decide(Work& work, MonotonicTime now) {
  std::uint64_t admitted = 0;
  std::array<Verdict, burst> verdicts;
  std::array<Decision, burst> decisions;
  const std::size_t told = work.keys.size() - work.ahead * burst;
  for (std::size_t i = 0; i < work.keys.size(); i += burst) {
    const std::span<const Key> next = std::span(work.keys).subspan((i + burst) % told, work.ahead * burst);
    work.worker.admit_keys(std::span(work.keys).subspan(i, burst), now, verdicts, next);
    for (const Verdict verdict : verdicts) admitted += verdict == Verdict::admit;
  }
  for (std::size_t i = 0; i < work.requests.size(); i += burst) {
    work.worker.admit_burst(std::span(work.requests).subspan(i, burst), now, decisions, Detail::refusals);
    for (const Decision& decision : decisions) admitted += decision.verdict == Verdict::admit;
  }
  return admitted;
}

}  // namespace

// Called by name from outside: see tests/instructions.
extern "C" [[gnu::noinline]] std::uint64_t counted_work(Work& work, MonotonicTime now) {
  if (!work.only_prefetch) return decide(work, now);
  for (std::size_t i = 0; i < work.keys.size(); i += burst)
    work.worker.prefetch(std::span(work.keys).subspan(i, burst));
  return work.keys.size();
}

namespace {

/// Decides on a burst of keys that have never come before, nor will again.
void spray(Worker& worker, MonotonicTime now) {
  static std::size_t made_up = 0;
  std::array<std::string, burst> names;
  std::array<Key, burst> made;
  std::array<Verdict, burst> verdicts;
  for (std::size_t i = 0; i < burst; ++i) {
    names[i] = std::to_string(made_up++).insert(0, "made-up-");
    made[i] = worker.key(user, names[i]);
  }
  worker.admit_keys(made, now, verdicts);
}

/// Counts every other burst.
std::uint64_t count_in_a_spray(const Work& work, MonotonicTime now) {
  std::uint64_t admitted = 0;
  for (std::size_t i = 0; i < work.keys.size(); i += burst) {
    spray(work.worker, now);
    Work part{work.worker, {work.keys.begin() + i, work.keys.begin() + i + burst}, {}};
    admitted += counted_work(part, now);
  }
  return admitted;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  const ConfigResult parsed =
      parse_config(what == "routes" ? std::string(rules) + route_rules() : std::string(rules), "counted");
  if (!parsed) {
    for (const ConfigError& error : parsed.errors) std::fprintf(stderr, "%s\n", error.to_string().c_str());
    return 1;
  }
  const ThrottleResult made = Throttle::create(parsed.config, {.workers = 1, .hash_seed = 1, .log = {}});
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error.c_str());
    return 1;
  }
  Work work{made.throttle->worker(0), {}, {}};
  const bool sprays = what == "sprayed";
  const bool beside_spray = what == "granted_beside_spray";
  const bool blocks = what == "blocked" || what == "blocked_on";
  const bool draws =
      what == "few" || what == "few_first" || what == "small_bucket" || what == "small_bucket_first";
  const std::size_t sprayed = sprays ? 64 * keys : 0;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < keys + sprayed; ++i) names.push_back("user-" + std::to_string(i));
  std::vector<Header> headers;
  for (const std::string& name : names) headers.push_back({"x-user", name});
  if (what == "three_rules") {
    for (std::size_t i = 0; i < keys; ++i) {
      Request& request = work.requests.emplace_back();
      request.method = "GET";
      request.target = "/items";
      request.source = {{10, 0, 0, static_cast<std::uint8_t>(i)}, IpAddress::Family::v4};
      request.headers = std::span(&headers[i], 1);
    }
  } else if (what.starts_with("granted") || what == "ready" || what == "first_touch" || what == "dense" ||
             blocks || what == "routes" || what == "mixed" || what == "prefetch" || what == "ahead" ||
             what == "far" || what == "renewed" || draws || sprays) {
    const RuleIndex rule = what == "dense"             ? all
                           : blocks                    ? closed
                           : what.starts_with("few")   ? few
                           : what.starts_with("small") ? small_bucket
                                                       : user;
    for (const std::string& name : names)
      work.keys.push_back(
          work.worker.key(rule, what == "dense" ? std::string_view() : std::string_view(name)));
    if (what == "mixed")
      for (std::size_t i = 0; i < keys; i += 2) work.keys[i] = work.worker.key(path, names[i]);
    if (what == "routes")
      for (std::size_t i = 0; i < keys; ++i)
        work.keys[i] = work.worker.key(static_cast<RuleIndex>(first_route + i % routes), {});
    // Dearer than any grant.
    if (what == "ready" || what == "first_touch")
      for (Key& key : work.keys) key.weight = 4096;
  } else {
    std::fprintf(
        stderr,
        "usage: %s granted|granted_beside_blocks|granted_beside_own_blocks|granted_beside_spray|ahead|far|"
        "renewed|ready|first_touch|sprayed|blocked|blocked_on|small_bucket|few|small_bucket_first|few_first|"
        "dense|routes|mixed|prefetch|three_rules\n",
        argv[0]);
    return 2;
  }

  made.throttle->advance(at(0ms));
  work.worker.online();
  // A window begins; then spans go by, until both of the worker's tables know the keys.
  Duration now{};
  // Each time others: the first request of each is within its limit, the second one exceeds it.
  std::size_t blocked = 0;
  const auto block_some = [&] {
    if (what != "granted_beside_blocks") return;
    std::vector<Key> some;
    for (std::size_t i = 0; i < burst; ++i) some.push_back(work.worker.key(closed, names[blocked++]));
    std::array<Verdict, burst> verdicts;
    for (int i = 0; i < 2; ++i) work.worker.admit_keys(some, at(now).monotonic, verdicts);
  };
  // What is heavier than the whole limit exceeds it at once.
  const auto block_one = [&] {
    if (what != "granted_beside_own_blocks") return;
    Key heavy = work.worker.key(user, "heavy");
    heavy.weight = 2'000'000'000;
    Verdict verdict{};
    work.worker.admit_keys({&heavy, 1}, at(now).monotonic, {&verdict, 1});
  };
  const auto end_span = [&] {
    now += 100ms;
    for (int i = 0; i < 3; ++i) {  // flip, drain, decide
      made.throttle->advance(at(now));
      work.worker.quiescent();
    }
  };
  for (int span = 0; span < 3 && !sprays; ++span) {
    for (int i = 0; i < 3; ++i) decide(work, at(now).monotonic);
    block_some();
    block_one();
    end_span();
  }
  if (what == "renewed")
    while (now < 1s) end_span();
  else if (what != "first_touch" && what != "blocked_on" && !what.ends_with("_first"))
    // The first time each is a key's first one in the span.
    for (int i = 0; i < 2; ++i) decide(work, at(now).monotonic);
  block_some();
  if (sprays) work.keys.erase(work.keys.begin(), work.keys.begin() + sprayed);
  if (beside_spray)
    for (std::size_t i = 0; i < 64 * keys; i += burst) spray(work.worker, at(now).monotonic);
  const std::uint64_t overflowed = made.throttle->figures().overflowed;
  work.only_prefetch = what == "prefetch";
  work.ahead = what == "ahead" ? 1 : what == "far" ? 3 : 0;
  const std::uint64_t admitted =
      beside_spray ? count_in_a_spray(work, at(now).monotonic) : counted_work(work, at(now).monotonic);
  if (admitted != (blocks ? 0 : keys)) {
    std::fprintf(stderr, "admitted %llu of %zu\n", static_cast<unsigned long long>(admitted), keys);
    return 1;
  }
  if (beside_spray && made.throttle->figures().overflowed - overflowed < keys / 2) {
    std::fprintf(stderr, "there was room\n");
    return 1;
  }
  if (sprays && made.throttle->figures().overflowed != overflowed + keys) {
    std::fprintf(stderr, "there was room\n");
    return 1;
  }
  std::printf("items %zu\n", keys);
  work.worker.offline();
  return 0;
}
