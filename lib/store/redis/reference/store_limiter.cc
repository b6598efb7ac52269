// SPDX-License-Identifier: BSD-3-Clause
#include "weir/store_limiter.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "store/redis/redis_url.h"
#include "store/redis/reference/script_client.h"
#include "store/redis/reference/scripts.h"
#include "store/redis/reference/token_purse.h"

namespace weir {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t max_name_length = 64;
constexpr Duration longest_interval = std::chrono::hours{366 * 24};
constexpr Duration shortest_timeout = std::chrono::milliseconds{1};
constexpr Duration longest_timeout = std::chrono::seconds{10};

bool is_name(std::string_view text, std::string_view also) {
  const auto good = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-' || also.find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= max_name_length && std::ranges::all_of(text, good);
}

std::string mistakes(const StoreLimiterTerms& terms) {
  std::string found;
  const auto add = [&](const std::string& message) { found += (found.empty() ? "" : "\n") + message; };
  const std::string length = std::to_string(max_name_length);
  if (!is_name(terms.name, {})) add("name: must have 1 to " + length + " letters, digits, '.', '_' and '-'");
  if (!is_name(terms.prefix, ":"))
    add("prefix: must have 1 to " + length + " letters, digits, '.', '_', '-' and ':'");
  if (terms.limit == 0 || terms.limit > max_script_number)
    add("limit: " + std::to_string(terms.limit) + " is not within 1 … " + std::to_string(max_script_number));
  else if (terms.algorithm == StoreAlgorithm::sliding_log && terms.limit > max_sliding_log_limit)
    add("limit: " + std::to_string(terms.limit) +
        " is too large for sliding-log, which remembers every admission; use at most " +
        std::to_string(max_sliding_log_limit) + ", or another algorithm");
  const bool good_interval = terms.interval >= std::chrono::milliseconds{1} &&
                             terms.interval <= longest_interval &&
                             terms.interval % std::chrono::milliseconds{1} == Duration{};
  if (!good_interval) add("interval: must be whole milliseconds, from 1 ms to 366 days");
  if (terms.algorithm != StoreAlgorithm::token_bucket) {
    if (terms.burst != 0)
      add("burst: " + std::string(to_string(terms.algorithm)) +
          " saves nothing up; leave it 0, or use token-bucket");
  } else if (terms.limit > 0 && good_interval &&
             !ScriptBucket::of(terms.limit, terms.interval, terms.burst == 0 ? terms.limit : terms.burst)
                  .exact) {
    add("burst: so many tokens at this limit and interval are more than a script can count exactly; use a "
        "smaller burst, or a limit and an interval (in microseconds) with a larger common divisor");
  }
  if (terms.batch == 0 || terms.batch > max_script_number)
    add("batch: " + std::to_string(terms.batch) + " is not within 1 … " + std::to_string(max_script_number));
  else if (terms.batch > 1 && terms.algorithm != StoreAlgorithm::token_server)
    add("batch: " + std::string(to_string(terms.algorithm)) +
        " asks for every request; leave it 1, or use token-server");
  if (terms.timeout < shortest_timeout || terms.timeout > longest_timeout)
    add("timeout: must be from 1 ms to 10 s");
  return found;
}

Duration from_microseconds(std::int64_t count) {
  return count < 0 ? forever : Duration(std::chrono::microseconds(count));
}

StoreAcquisition failed(std::string why) {
  StoreAcquisition answer;
  answer.error = std::move(why);
  return answer;
}

}  // namespace

/// One thread at a time.
class StoreLimiterCore {
 public:
  StoreLimiterCore(RedisUrl url, StoreLimiterTerms terms)
      : terms_(std::move(terms)),
        client_(std::move(url), limiter_script(terms_.algorithm)),
        purse_(StoreLimiter::max_held) {}

  StoreAcquisition try_acquire(std::string_view key, std::uint64_t weight) {
    if (key.size() > StoreLimiter::max_key)
      return failed("the key has " + std::to_string(key.size()) + " bytes; the most are " +
                    std::to_string(StoreLimiter::max_key));
    return terms_.algorithm == StoreAlgorithm::token_server ? spend(key, weight) : ask(key, weight);
  }

 private:
  using Numbers = std::array<std::int64_t, script_answer_size>;

  /// One call of the script. Nothing, and the reason in `why`, when there is no answer.
  std::optional<Numbers> call(std::string_view key, std::span<const std::string> arguments, Duration timeout,
                              std::string& why) {
    std::string name = terms_.prefix + ":{" + terms_.name + '|';
    name += key;
    name += "}:";
    name += to_string(terms_.algorithm);
    ScriptReply answer = client_.call(name, arguments, timeout);
    if (!answer) {
      why = std::move(answer.error);
      return std::nullopt;
    }
    const std::vector<RedisReply>& elements = answer.reply.elements;
    Numbers numbers{};
    const bool good =
        elements.size() == numbers.size() && std::ranges::all_of(elements, [](const RedisReply& element) {
          return element.type == RedisReply::Type::integer;
        });
    if (!good) {
      why = "the script's answer is not four numbers";
      return std::nullopt;
    }
    std::ranges::transform(elements, numbers.begin(),
                           [](const RedisReply& element) { return element.integer; });
    return numbers;
  }

  StoreAcquisition ask(std::string_view key, std::uint64_t weight) {
    std::string why;
    const std::optional<Numbers> numbers = call(key, limiter_arguments(terms_, weight), terms_.timeout, why);
    if (!numbers) return failed(std::move(why));
    const auto [admitted, remaining, retry, reset] = *numbers;
    StoreAcquisition answer;
    answer.admitted = admitted == 1;
    answer.remaining = static_cast<std::uint64_t>(std::max<std::int64_t>(remaining, 0));
    if (!answer.admitted) answer.retry_after = std::max(Duration{1}, from_microseconds(retry));
    answer.reset_after = from_microseconds(reset);
    return answer;
  }

  StoreAcquisition spend(std::string_view key, std::uint64_t weight) {
    const auto now = steady_clock::now();
    if (HeldTokens* held = purse_.find(key, now);
        held != nullptr && held->tokens >= std::max<std::uint64_t>(weight, 1)) {
      held->tokens -= weight;
      return spent(*held, true, weight, now);
    }
    // What is held may turn out to be of a window that has ended meanwhile: then asks for all of it, once
    // more.
    const auto deadline = now + terms_.timeout;
    for (int attempt = 1;; ++attempt) {
      const HeldTokens* known = purse_.find(key, now);
      const HeldTokens before = known == nullptr ? HeldTokens{} : *known;
      const std::uint64_t need = weight - std::min(weight, before.tokens);
      std::array<std::string, 5> arguments = limiter_arguments(terms_, need);
      if (!purse_.has_room(key, now)) arguments[3] = "1";
      const auto sent = steady_clock::now();
      std::string why;
      const std::optional<Numbers> numbers = call(key, arguments, deadline - sent, why);
      if (!numbers) return failed(std::move(why));
      const auto [granted, left, rest, ordinal] = *numbers;
      // The server's window ends `rest` after the script ran, which was after it was sent: never too late.
      HeldTokens held{.tokens = static_cast<std::uint64_t>(std::max<std::int64_t>(granted, 0)),
                      .left = static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0)),
                      .ordinal = ordinal,
                      .until = sent + std::chrono::microseconds(rest)};
      if (before.tokens > 0 && before.ordinal == ordinal) held.tokens += before.tokens;
      const bool lost_some = before.tokens > 0 && before.ordinal != ordinal;
      const bool enough = held.tokens >= weight && (weight > 0 || held.tokens + held.left > 0);
      if (enough) held.tokens -= weight;
      keep(key, held, now);
      if (enough || !lost_some || attempt == 2 || steady_clock::now() >= deadline)
        return spent(held, enough, weight, now);
    }
  }

  void keep(std::string_view key, const HeldTokens& held, TokenPurse::TimePoint now) {
    if (held.tokens > 0 && purse_.has_room(key, now))
      purse_.put(key, held);
    else
      purse_.forget(key);
  }

  StoreAcquisition spent(const HeldTokens& held, bool admitted, std::uint64_t weight,
                         TokenPurse::TimePoint now) const {
    StoreAcquisition answer;
    answer.admitted = admitted;
    answer.remaining = held.tokens + held.left;
    const Duration rest = std::max(Duration{1}, Duration(held.until - now));
    if (!admitted) answer.retry_after = weight > terms_.limit ? forever : rest;
    const bool used = answer.remaining < terms_.limit;
    answer.reset_after = used ? rest : Duration{};
    return answer;
  }

  StoreLimiterTerms terms_;
  ScriptClient client_;
  TokenPurse purse_;
};

StoreLimiter::StoreLimiter(std::unique_ptr<StoreLimiterCore> core) noexcept : core_(std::move(core)) {}
StoreLimiter::~StoreLimiter() = default;

StoreLimiterResult StoreLimiter::create(const std::string& url, const StoreLimiterTerms& terms) {
  try {
    RedisUrlResult parsed = parse_redis_url(url);
    std::string wrong = parsed ? std::string{} : "url: " + parsed.error;
    if (parsed && parsed.url.mode == RedisUrl::Mode::memory)
      wrong = "url: memory:// is this process alone; name a Redis, or use a weir::Limiter";
    else if (parsed && parsed.url.mode != RedisUrl::Mode::single)
      wrong = "url: a StoreLimiter talks to one server: redis://, rediss:// or redis+unix://";
    if (const std::string others = mistakes(terms); !others.empty())
      wrong += (wrong.empty() ? "" : "\n") + others;
    if (!wrong.empty()) return {nullptr, std::move(wrong)};
    auto core = std::make_unique<StoreLimiterCore>(std::move(parsed.url), terms);
    return {std::unique_ptr<StoreLimiter>(new StoreLimiter(std::move(core))), {}};
  } catch (const std::bad_alloc&) {
    return {nullptr, "out of memory"};
  }
}

StoreAcquisition StoreLimiter::try_acquire(std::string_view key, std::uint64_t weight) noexcept {
  try {
    return core_->try_acquire(key, weight);
  } catch (const std::exception&) {
    // Out of memory, then: a short text needs none.
    return failed("out of memory");
  }
}

}  // namespace weir
