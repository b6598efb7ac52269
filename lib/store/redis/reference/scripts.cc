// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/reference/scripts.h"

#include <algorithm>
#include <numeric>

namespace weir {
namespace {

// Counters live longer than their windows by a second: they are named by the window's ordinal, so that no
// decision hangs on the moment at which Redis forgets one.

// ARGV: limit, interval in µs, weight.
constexpr std::string_view window_script = R"(
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local limit, interval, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local began = now - math.fmod(now, interval)
local rest = began + interval - now
local name = KEYS[1] .. ':' .. string.format('%.0f', began / interval)
local used = tonumber(redis.call('GET', name) or '0')
local asked = math.max(weight, 1)
local admitted = used + asked <= limit
if admitted and weight > 0 then
  redis.call('SET', name, '0', 'PX', string.format('%.0f', math.ceil(rest / 1000) + 1000), 'NX')
  used = redis.call('INCRBY', name, ARGV[3])
end
local retry = rest
if asked > limit then retry = -1 end
return {admitted and 1 or 0, math.max(limit - used, 0), retry, used > 0 and rest or 0}
)";

// ARGV: units of a token, units of a microsecond, units of the full bucket, µs from empty to full, weight.
constexpr std::string_view token_bucket_script = R"(
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local token, rate, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local fills_in, weight = tonumber(ARGV[4]), tonumber(ARGV[5])
local there, at = capacity, now
local state = redis.call('GET', KEYS[1])
if state then
  local units, time = string.match(state, '^(%d+) (%d+)$')
  there, at = math.min(tonumber(units), capacity), tonumber(time)
  if now - at >= fills_in then
    there, at = capacity, now
  elseif now > at then
    there, at = math.min(capacity, there + (now - at) * rate), now
  end
end
local asked = math.max(weight, 1) * token
local admitted = asked <= there
if admitted and weight > 0 then
  there = there - asked
  local life = math.ceil(((capacity - there) / rate + at - now) / 1000) + 1000
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', there, at), 'PX', string.format('%.0f', life))
end
local retry = math.max(math.ceil((asked - there) / rate), 0) + at - now
if asked > capacity then retry = -1 end
local reset = math.ceil((capacity - there) / rate)
if reset > 0 then reset = reset + at - now end
return {admitted and 1 or 0, math.floor(there / token), retry, reset}
)";

// ARGV: limit, interval in µs, weight. One member for each unit of weight, so that counting is one command;
// members of the same microsecond are told apart by how many there are already. Where the server's clock has
// gone back, the log goes on at its last moment. What is too old goes last: a script that has begun to write
// is allowed to go on where memory is full, and it is the first ZADD that must be refused there.
constexpr std::string_view sliding_log_script = R"(
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local limit, interval, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local last = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '0')
local at = math.max(now, last)
local stamp = string.format('%.0f', at)
local old = string.format('%.0f', at - interval)
local used = redis.call('ZCOUNT', KEYS[1], '(' .. old, '+inf')
local asked = math.max(weight, 1)
local admitted = used + asked <= limit
local retry = 0
if admitted and weight > 0 then
  local first = redis.call('ZCOUNT', KEYS[1], stamp, stamp)
  local pairs_of = {}
  for i = 1, weight do
    pairs_of[#pairs_of + 1] = stamp
    pairs_of[#pairs_of + 1] = stamp .. '-' .. string.format('%.0f', first + i)
    if #pairs_of == 1000 or i == weight then
      redis.call('ZADD', KEYS[1], unpack(pairs_of))
      pairs_of = {}
    end
  end
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((at + interval - now) / 1000) + 1000))
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', old)
  used = used + weight
  last = at
elseif asked > limit then
  retry = -1
elseif not admitted then
  local index = redis.call('ZCARD', KEYS[1]) + asked - limit - 1
  retry = tonumber(redis.call('ZRANGE', KEYS[1], index, index, 'WITHSCORES')[2]) + interval - now
end
return {admitted and 1 or 0, math.max(limit - used, 0), retry, used > 0 and last + interval - now or 0}
)";

// ARGV: limit, interval in µs, need, batch. Grants what is needed, or nothing; beyond that at most half of
// what is left, so that grants shrink as the window's quota goes to its end.
constexpr std::string_view token_server_script = R"(
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local limit, interval = tonumber(ARGV[1]), tonumber(ARGV[2])
local need, batch = tonumber(ARGV[3]), tonumber(ARGV[4])
local began = now - math.fmod(now, interval)
local rest = began + interval - now
local ordinal = began / interval
local name = KEYS[1] .. ':' .. string.format('%.0f', ordinal)
local left = math.max(limit - tonumber(redis.call('GET', name) or '0'), 0)
local granted = 0
if need > 0 and need <= left then
  granted = math.max(need, math.min(batch, math.floor(left / 2)))
  redis.call('SET', name, '0', 'PX', string.format('%.0f', math.ceil(rest / 1000) + 1000), 'NX')
  redis.call('INCRBY', name, string.format('%.0f', granted))
  left = left - granted
end
return {granted, left, rest, ordinal}
)";

std::uint64_t microseconds(Duration duration) {
  return static_cast<std::uint64_t>(std::chrono::floor<std::chrono::microseconds>(duration).count());
}

}  // namespace

ScriptBucket ScriptBucket::of(std::uint64_t limit, Duration interval, std::uint64_t burst) noexcept {
  const std::uint64_t period = microseconds(interval);
  const std::uint64_t divisor = std::gcd(limit, period);
  ScriptBucket bucket;
  bucket.token = period / divisor;
  bucket.rate = limit / divisor;
  const unsigned __int128 capacity = static_cast<unsigned __int128>(burst) * bucket.token;
  bucket.exact = capacity <= max_script_number && bucket.rate <= max_script_number;
  bucket.capacity = static_cast<std::uint64_t>(capacity);
  bucket.fills_in = static_cast<std::uint64_t>((capacity + bucket.rate - 1) / bucket.rate);
  return bucket;
}

std::string_view limiter_script(StoreAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case StoreAlgorithm::window:
      return window_script;
    case StoreAlgorithm::token_bucket:
      return token_bucket_script;
    case StoreAlgorithm::sliding_log:
      return sliding_log_script;
    case StoreAlgorithm::token_server:
      return token_server_script;
  }
  return {};
}

std::array<std::string, 5> limiter_arguments(const StoreLimiterTerms& terms, std::uint64_t asked) {
  if (terms.algorithm == StoreAlgorithm::token_bucket) {
    const std::uint64_t burst = terms.burst == 0 ? terms.limit : terms.burst;
    const ScriptBucket bucket = ScriptBucket::of(terms.limit, terms.interval, burst);
    // More than the bucket holds is as good as one more, and stays within what a script can count.
    return {std::to_string(bucket.token), std::to_string(bucket.rate), std::to_string(bucket.capacity),
            std::to_string(bucket.fills_in), std::to_string(std::min(asked, burst + 1))};
  }
  const std::string weight = std::to_string(std::min(asked, terms.limit + 1));
  return {std::to_string(terms.limit),
          std::to_string(microseconds(terms.interval)),
          weight,
          std::to_string(terms.batch),
          {}};
}

std::string_view to_string(StoreAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case StoreAlgorithm::window:
      return "window";
    case StoreAlgorithm::token_bucket:
      return "token-bucket";
    case StoreAlgorithm::sliding_log:
      return "sliding-log";
    case StoreAlgorithm::token_server:
      return "token-server";
  }
  return "?";
}

}  // namespace weir
