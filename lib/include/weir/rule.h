// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What an operator may say about one limit. Plain values, immutable once a node runs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "weir/export.h"
#include "weir/time.h"

namespace weir {

/// Position of a rule in the configuration, 0-based.
using RuleIndex = std::uint16_t;
/// No rule: nothing matched, or nothing decided.
inline constexpr RuleIndex no_rule = std::numeric_limits<RuleIndex>::max();
/// Rules one configuration may hold.
inline constexpr std::size_t max_rules = 1024;
/// Rules that may apply to one request (algorithm: check all, then charge all).
inline constexpr std::size_t max_rules_per_request = 16;
/// Dimensions one rule's key may have.
inline constexpr std::size_t max_dimensions = 8;
/// The largest limit of a sliding log: it remembers every admission.
inline constexpr std::uint64_t max_sliding_log_limit = 4096;
/// The most spans of a sliding window: it remembers every span.
inline constexpr std::uint32_t max_sliding_window_spans = 100;
/// The largest part of a limit that nodes may keep back from each other.
inline constexpr double max_hold_back = 0.5;
/// Distinct header names all rules of one configuration may use.
inline constexpr std::size_t max_chosen_headers = 16;

/// What happens to a request that a rule refuses.
enum class Action : std::uint8_t {
  drop,       ///< the packet vanishes; the client's TCP retries
  reset,      ///< TCP RST to both ends
  reply_429,  ///< HTTP 429 to the client, RST to the server
  observe,    ///< computed and reported, nothing enforced
};

/// How a rule limits. README "Which algorithm should I choose?" compares them.
enum class Algorithm : std::uint8_t {
  cooldown,        ///< exceed the limit in an interval: blocked for `cooldown`
  fixed_window,    ///< at most the limit per aligned interval, then closed until it ends
  sliding_window,  ///< at most the limit in the last `spans` spans
  token_bucket,    ///< rate limit / interval, with `burst` saved up; `warmup` for a cold start
  leaky_bucket,    ///< the same rate as a meter: what overflows `burst` is refused, nothing is queued
  sliding_log,     ///< never more than the limit in any window of one interval, exact, on each node by itself
  shed,            ///< admits the fraction of the demand that makes the limit, evenly spread
  strict,          ///< quota leased from the store ahead of need: all nodes together never exceed the limit
};

/// Which refusals may come before the limit is proven to be exceeded.
enum class EarlyBlock : std::uint8_t {
  sound,       ///< only proof: what others had admitted at the last sync + own admissions since
  predictive,  ///< also the estimate: own admissions since / this node's share of the key's traffic
};

/// What a rule does while the store cannot be reached.
enum class OnStoreFailure : std::uint8_t {
  local,   ///< decide by the node's own count times the nodes seen by the key
  open,    ///< only what is proven blocks: own count plus what others had counted at the last sync
  closed,  ///< refuse everything under the rule
};

/// Form of the local rule while the store is unreachable: of OnStoreFailure::local, and of cooldown.
enum class LocalRule : std::uint8_t {
  cumulative,  ///< count in the interval so far × nodes > limit
  per_span,    ///< also: span count × nodes > limit / spans (the seed's form; false-blocks bursty clients)
};

/// One dimension of a key.
struct Dimension {
  enum class Kind : std::uint8_t {
    source_address,       ///< "src_ip", "src_ip/24", "src_ip/24/56"
    destination_address,  ///< "dst_ip…", likewise
    destination_port,     ///< "dst_port": the listener's port
    method,               ///< "method"
    host,                 ///< "host": lower case, without port
    path,                 ///< "path": normalised, without query
    path_variable,        ///< "path:id": what `{id}` of the rule's path template matched
    header,               ///< "header:x-api-key": value of the first such header
  };
  Kind kind = Kind::source_address;
  std::uint8_t ipv4_bits = 32;  ///< prefix length, 0…32; addresses only
  std::uint8_t ipv6_bits = 64;  ///< prefix length, 0…128; addresses only
  std::string name;             ///< header name (lower case) or path variable; else empty

  bool operator==(const Dimension&) const = default;
};

/// Which requests a rule applies to. Empty members match everything; all given members must match.
struct Match {
  std::vector<std::string> methods;              ///< exact, e.g. "GET"
  std::string host;                              ///< exact, lower case; or "*.example.com" for any subdomain
  std::string path;                              ///< template: "/users/{id}", "/static/**"; see README
  std::vector<std::uint16_t> destination_ports;  ///< listener ports
};

/// One limit. See README "Rules" for the meaning of every member in words.
struct Rule {
  std::string name;  ///< letters, digits, '.', '_', '-'; 1…64; unique
  Match match;
  std::vector<Dimension> key;  ///< empty: one key for the whole rule
  std::uint64_t limit = 0;     ///< ≥ 1, in units of weight per interval
  Duration interval{};         ///< 10 ms … 366 days
  std::uint32_t spans = 10;    ///< 2 … 1000; interval / spans ≥ 1 ms
  Duration cooldown{};         ///< > 0; TOML's default is the interval, a program sets it. Algorithm cooldown
  Algorithm algorithm = Algorithm::cooldown;
  std::uint64_t burst = 0;  ///< what may be saved up; 0: the limit. Token and leaky bucket
  Duration warmup{};        ///< from cold to the full rate; 0: none. Token bucket
  EarlyBlock early_block = EarlyBlock::sound;
  /// The part of the limit, 0 … 0.5, that all nodes together may leave untold within an interval: a key of
  /// which a node has counted no more than its share of it is written once per interval instead of once per
  /// span. Not with strict, whose claims must be told.
  double hold_back = 0.01;
  bool debt = false;  ///< what was admitted over the limit is taken off the next intervals; not with penalize
  Duration dephase{};  ///< blocks end up to so much later, each at a time of its own. Algorithm cooldown
  std::uint32_t weight = 1;  ///< what one request costs; ≥ 0
  bool penalize = false;     ///< count offered instead of admitted requests
  OnStoreFailure on_store_failure = OnStoreFailure::local;
  LocalRule local_rule = LocalRule::cumulative;
  Action action = Action::reply_429;
};

/// The words of the configuration for the enumerators, e.g. "reply-429".
WEIR_API std::string_view to_string(Action) noexcept;
WEIR_API std::string_view to_string(Algorithm) noexcept;
WEIR_API std::string_view to_string(EarlyBlock) noexcept;
WEIR_API std::string_view to_string(OnStoreFailure) noexcept;
WEIR_API std::string_view to_string(LocalRule) noexcept;

}  // namespace weir
