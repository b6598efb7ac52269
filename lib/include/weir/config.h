// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The configuration of one node, and the reader of its TOML form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/export.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// `[node]`
struct NodeConfig {
  /// For people: weir-filter shows it, the library does not. At most 64 letters, digits, '.', '_' and '-'.
  /// Read from TOML that has none, the host's name; in a Config that a program makes, empty.
  std::string name;
  std::uint32_t keys = 65536;    ///< keys the node can hold at once, all rules together; 64 … 16 Mi
  bool busy_controller = false;  ///< poll instead of sleep in the controller's thread
  Duration idle_sleep{};  ///< weir-filter: a worker that finds nothing to do sleeps this long; 0: polls on
  Duration statistics = std::chrono::seconds{1};  ///< weir-filter: period of the statistics line; 0: none
};

/// How counts lie in the store.
enum class StoreLayout : std::uint8_t {
  hash,      ///< one Redis hash per partition, interval and ordinal: exactly once, in every mode
  plain,     ///< "rule|value:ordinal" per counter, for gateways in other languages; not with a cluster
  exchange,  ///< each node's counts, which the others read and add up: for few nodes with very many keys
};

/// As the configuration has it: "hash".
WEIR_API std::string_view to_string(StoreLayout) noexcept;

/// `[store]`
struct StoreConfig {
  /// "memory://" (this node alone), "redis://[user:password@]host[:port][/db]",
  /// "redis+unix://[user:password@]/path/to.sock[?db=N]", "redis+sentinel://host[:port],…/master[/db]" or
  /// "redis+cluster://host[:port],…"; "rediss" instead of "redis" for TLS.
  std::string url = "memory://";
  /// A sync without an answer for so long has failed, and so has a connection; 1 ms … 10 s. To look up a
  /// host's name takes what the system's resolver takes for it, beside this: the store is down meanwhile.
  Duration timeout = std::chrono::milliseconds{50};
  Duration reconnect = std::chrono::milliseconds{200};  ///< pause between attempts to connect; 10 ms … 60 s
  std::string prefix =
      "weir";  ///< first part of every name in the store, but of the rules' counters of StoreLayout::plain
  StoreLayout layout = StoreLayout::hash;
  /// The most counters that wait for a store that is away or slow, in about 100 bytes of memory for each:
  /// fewer where their names are longer than 28 bytes on average. What comes beyond is given up, and counted
  /// as expired; 1024 … 64 Mi.
  std::uint32_t backlog = 4 << 20;
  std::string password_file;     ///< holds the password, alone on its line; read anew for every connection
  std::string password_env;      ///< name of the environment's variable that holds it
  std::string ca_file;           ///< TLS: PEM of those whose signature is believed; empty: the system's
  std::string certificate_file;  ///< TLS: PEM of this node's own certificate, where the server wants one
  std::string private_key_file;  ///< TLS: PEM of its key
  std::string server_name;  ///< TLS: what the server's certificate must be made out to; empty: the URL's host
};

/// `[ports]`: weir-filter only.
struct PortsConfig {
  /// Each pair is bridged, both ways. Numbers are DPDK port ids; the default pairs 0-1, 2-3, …
  std::vector<std::pair<std::uint16_t, std::uint16_t>> pairs;
  std::uint16_t descriptors = 1024;  ///< per queue and direction; 64 … 32768, a power of two
  std::uint16_t queues = 0;          ///< queues per port; 0: one per worker, as far as the port has them
  std::uint16_t mtu = 0;             ///< of every port, in bytes; 68 … 65535; 0: what each has
};

struct Config {
  NodeConfig node;
  StoreConfig store;
  PortsConfig ports;
  std::vector<Rule> rules;
};

/// One mistake in a configuration. `line` and `column` are 1-based; 0: the file as a whole.
struct ConfigError {
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string message;  ///< what is wrong and what to do

  /// "file:line:column: message"
  WEIR_API std::string to_string() const;
};

/// A configuration, or every mistake found in it.
struct ConfigResult {
  Config config;                    ///< valid only without errors
  std::vector<ConfigError> errors;  ///< in the order of the file

  explicit operator bool() const noexcept { return errors.empty(); }
};

/// Reads a configuration from TOML text. Never throws on bad input; finds all mistakes, not just the first.
/// @param text  the TOML document
/// @param file  what to call it in messages
/// Thread-safe.
WEIR_API ConfigResult parse_config(std::string_view text, std::string_view file);

/// Reads a configuration file. A file that cannot be read is an error at line 0.
WEIR_API ConfigResult load_config(const std::string& path);

/// Checks values put together by a program rather than read from TOML. Locations are 0; empty: all good.
WEIR_API std::vector<ConfigError> check_config(const Config& config);

}  // namespace weir
