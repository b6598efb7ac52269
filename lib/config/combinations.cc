// SPDX-License-Identifier: BSD-3-Clause
#include "config/combinations.h"

#include <algorithm>
#include <span>

namespace weir {
namespace {

constexpr std::array with_blocks{Algorithm::cooldown};
constexpr std::array with_burst{Algorithm::token_bucket, Algorithm::leaky_bucket};
constexpr std::array with_warmup{Algorithm::token_bucket};
constexpr std::array with_debt{Algorithm::cooldown, Algorithm::fixed_window, Algorithm::shed};
constexpr std::array with_hold_back{
    Algorithm::cooldown,     Algorithm::fixed_window, Algorithm::sliding_window,
    Algorithm::token_bucket, Algorithm::leaky_bucket, Algorithm::sliding_log,
    Algorithm::shed};
constexpr std::array with_penalty{Algorithm::cooldown, Algorithm::fixed_window};

std::string word(Algorithm algorithm) { return std::string(to_string(algorithm)); }

bool one_of(std::span<const Algorithm> algorithms, Algorithm algorithm) {
  return std::ranges::find(algorithms, algorithm) != algorithms.end();
}

/// "the algorithm x", "the algorithms x, y and z"
std::string named(std::span<const Algorithm> algorithms) {
  std::string text = algorithms.size() == 1 ? "the algorithm " : "the algorithms ";
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    if (i > 0) text += i + 1 == algorithms.size() ? " and " : ", ";
    text += word(algorithms[i]);
  }
  return text;
}

/// Empty when the algorithm is one of `owners`.
std::string belongs_to(std::string_view key, std::span<const Algorithm> owners, Algorithm algorithm) {
  if (one_of(owners, algorithm)) return {};
  return std::string(key) + " belongs to " + named(owners) + ", and this rule has " + word(algorithm) +
         ": leave " + std::string(key) + " out, or choose " +
         (owners.size() == 1 ? "algorithm = \"" + word(owners[0]) + '"' : std::string("one of them"));
}

/// Why there is nothing that debt could take off.
std::string_view without_debt(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      return "a bucket pays back by itself what was admitted too much";
    case Algorithm::sliding_window:
      return "the window still counts what was admitted too much";
    case Algorithm::sliding_log:
    case Algorithm::strict:
      return "it never admits too much";
    case Algorithm::cooldown:
    case Algorithm::fixed_window:
    case Algorithm::shed:
      break;
  }
  return {};
}

}  // namespace

std::string foreign_key(std::string_view key, Algorithm algorithm) {
  if (key == "burst") return belongs_to(key, with_burst, algorithm);
  if (key == "hold_back" && !one_of(with_hold_back, algorithm))
    return "hold_back leaves counts untold for a while, and " + word(algorithm) +
           " is exact because all of its claims are told: leave hold_back out";
  if (key == "hold_back") return {};
  if (key == "warmup") return belongs_to(key, with_warmup, algorithm);
  return belongs_to(key, with_blocks, algorithm);
}

void check_combinations(const std::string& path, const Rule& rule, Findings& findings) {
  if (findings.faulty(path + ".algorithm")) return;
  const Algorithm algorithm = rule.algorithm;
  const auto add = [&](std::string_view key, const std::string& message) {
    if (!message.empty()) findings.add(path + '.' + std::string(key), message);
  };

  if (rule.dephase != Duration{0}) add("dephase", foreign_key("dephase", algorithm));
  if (rule.local_rule != LocalRule::cumulative) add("local_rule", foreign_key("local_rule", algorithm));
  if (rule.burst != 0) add("burst", foreign_key("burst", algorithm));
  if (rule.warmup != Duration{0}) add("warmup", foreign_key("warmup", algorithm));
  if (rule.hold_back != Rule().hold_back) add("hold_back", foreign_key("hold_back", algorithm));
  if (rule.penalize) add("penalize", belongs_to("penalize", with_penalty, algorithm));
  if (rule.debt && !one_of(with_debt, algorithm))
    add("debt", "debt belongs to " + named(with_debt) + "; " + word(algorithm) + " needs none, because " +
                    std::string(without_debt(algorithm)) + ": leave debt out");

  if (rule.debt && rule.penalize && one_of(with_debt, algorithm) && one_of(with_penalty, algorithm))
    add("debt",
        "debt is what was admitted over the limit, and with penalize nodes tell each other what was refused, "
        "too: leave one of them out");

  const bool knows_exactly = algorithm == Algorithm::sliding_log || algorithm == Algorithm::strict;
  if (rule.early_block == EarlyBlock::predictive && knows_exactly)
    add("early_block", "early_block = \"predictive\" is an estimate, and " + word(algorithm) +
                           " is exact: leave early_block out");
  if (rule.on_store_failure == OnStoreFailure::open && algorithm == Algorithm::strict)
    add("on_store_failure",
        "on_store_failure = \"open\" would let strict exceed its limit: write \"local\", which spends the "
        "leases at hand, or \"closed\", or choose another algorithm");
  if (rule.local_rule == LocalRule::per_span && rule.on_store_failure != OnStoreFailure::local)
    add("local_rule",
        "local_rule = \"per-span\" is a form of on_store_failure = \"local\", and this rule has \"" +
            std::string(to_string(rule.on_store_failure)) +
            "\": leave local_rule out, or write on_store_failure = \"local\"");

  if (algorithm == Algorithm::sliding_log && rule.limit > max_sliding_log_limit)
    add("limit", "limit must be at most " + std::to_string(max_sliding_log_limit) +
                     " with sliding-log, which remembers every admission, not " + std::to_string(rule.limit) +
                     "; sliding-window takes any limit");
  if (algorithm == Algorithm::sliding_window && rule.spans > max_sliding_window_spans)
    add("spans", "spans must be at most " + std::to_string(max_sliding_window_spans) +
                     " with sliding-window, which remembers every span, not " + std::to_string(rule.spans));
}

}  // namespace weir
