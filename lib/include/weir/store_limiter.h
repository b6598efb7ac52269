// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Limits kept in Redis alone, asked for with a round trip each: for callers off the packet path who can
/// wait, and to compare weir's own algorithms with.
///
///     weir::StoreLimiterResult made = weir::StoreLimiter::create(
///         "redis://10.0.0.5:6379", {.algorithm = weir::StoreAlgorithm::token_bucket, .name = "login",
///                                   .limit = 100, .interval = std::chrono::seconds{1}});
///     if (!made) { … made.error says what to change … }
///     const weir::StoreAcquisition answer = made.limiter->try_acquire("203.0.113.7", 1);
///     if (!answer) { … the store is away: answer.error says why; decide for yourself … }
///     if (answer.admitted) …
///
/// All clients that name the same server, prefix and name share their limits, whichever machines they run on,
/// and must have the same terms. Every decision is one script, so no two clients can admit the same thing.
/// Time is the server's: clients' clocks do not matter. A server's clock that goes back makes buckets and
/// logs stand still until it has caught up.
///
/// Names in Redis: "prefix:{name|key}:algorithm", with the window's ordinal behind it where there are
/// windows. Each has a time to live from the command that creates it on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weir/export.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

/// How the store limits.
enum class StoreAlgorithm : std::uint8_t {
  window,        ///< at most the limit per interval aligned to Unix time: INCRBY on a counter that expires
  token_bucket,  ///< rate limit / interval, with `burst` saved up: one value of tokens and time
  sliding_log,   ///< never more than the limit in any window of one interval: a sorted set of admissions
  /// At most the limit per aligned interval, granted in batches that a client then spends without asking,
  /// until the interval ends. A grant beyond what is needed takes at most half of what is left; what a client
  /// holds and does not spend is lost to the others.
  token_server,
};

/// The word for the enumerator, as it stands in names: "window", "token-bucket" …
WEIR_API std::string_view to_string(StoreAlgorithm) noexcept;

/// What to limit to, and how long to wait. Invalid values are refused by StoreLimiter::create().
struct StoreLimiterTerms {
  StoreAlgorithm algorithm = StoreAlgorithm::token_bucket;
  std::string name;         ///< of the limit: letters, digits, '.', '_', '-'; 1…64
  std::uint64_t limit = 0;  ///< weight per interval; 1 … 2^51; sliding_log: at most max_sliding_log_limit
  Duration interval{};      ///< whole milliseconds, 1 ms … 366 days
  std::uint64_t burst = 0;  ///< what may be saved up; 0: the limit. token_bucket
  std::uint64_t batch = 1;  ///< the most one grant brings beyond what is needed; ≥ 1. token_server
  std::string prefix = "weir";                       ///< first part of every name in Redis
  Duration timeout = std::chrono::milliseconds{50};  ///< for one call, connecting included; 1 ms … 10 s
};

/// The answer to one request, or why there is none.
struct StoreAcquisition : Acquisition {
  /// Empty: there is an answer. Otherwise nothing is known, `admitted` is false, and the request may have
  /// been charged all the same: a call that timed out may yet have arrived.
  std::string error;

  explicit operator bool() const noexcept { return error.empty(); }
};

struct StoreLimiterResult;
class StoreLimiterCore;  // the connection and the script

/// A client of one limit. One thread at a time; as many clients as wanted.
class WEIR_API StoreLimiter {
 public:
  /// The longest key, in bytes.
  static constexpr std::size_t max_key = 1024;
  /// Keys for which a client holds granted tokens; requests of further ones are granted one by one.
  static constexpr std::size_t max_held = 65536;

  /// Checks the address and the terms. Does not connect: the first call does.
  /// @param url  "redis://[user:password@]host[:port][/db]", "rediss://…" for TLS, or
  ///             "redis+unix://[user:password@]/path[?db=N]"
  static StoreLimiterResult create(const std::string& url, const StoreLimiterTerms& terms);
  ~StoreLimiter();
  StoreLimiter(const StoreLimiter&) = delete;
  StoreLimiter& operator=(const StoreLimiter&) = delete;

  /// Decides on one request and charges it if it is admitted. Blocks for at most `timeout` (name resolution
  /// takes its own time). After an error the next call connects anew.
  /// @param key     what the limit is per, any bytes, at most max_key
  /// @param weight  what it costs; 0: asks what a request of weight 1 would be told, and charges nothing
  StoreAcquisition try_acquire(std::string_view key, std::uint64_t weight) noexcept;

 private:
  explicit StoreLimiter(std::unique_ptr<StoreLimiterCore> core) noexcept;
  std::unique_ptr<StoreLimiterCore> core_;
};

/// A limiter, or why there is none.
struct StoreLimiterResult {
  std::unique_ptr<StoreLimiter> limiter;
  std::string error;  ///< empty when `limiter` is set; one line per mistake

  explicit operator bool() const noexcept { return limiter != nullptr; }
};

}  // namespace weir
