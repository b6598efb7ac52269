// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// From a request to the keys under which it is counted: which rules apply, and the bytes of each rule's key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_bytes.h"
#include "base/key_hash.h"
#include "weir/packet.h"
#include "weir/request.h"
#include "weir/rule.h"

namespace weir {

class PlainClassifier;

/// The rules of a configuration, compiled. Immutable: any number of threads may use one at once, each with
/// its own Scratch. No function but the constructor allocates.
class Classifier {
 public:
  /// @param set  what to search requests with, here and by headers(); the results are the same with all
  /// @pre `rules` have passed check_config()
  explicit Classifier(std::span<const Rule> rules, InstructionSet set = best_instruction_set());
  ~Classifier();
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;

  /// One request's normalised parts and the rules that apply to it; room for one, reused for the next.
  struct Scratch {
    /// Of a resolved path: as long as the longest request lines that servers take by default (HAProxy,
    /// Node.js). Of a longer one the first bytes are kept.
    static constexpr std::size_t max_path = 16384;
    /// Of a host: of a longer one the last bytes are kept.
    static constexpr std::size_t max_host = 256;
    std::string_view path;  ///< normalised, without query; empty where no rule looks at it
    std::string_view host;  ///< lower case, without port and trailing dot; empty where no rule looks at it
    std::uint64_t slashes = 0;  ///< of the path, as in NormalPath
    /// Of the values that a key can have those that keys find by number: method, host, and the path without a
    /// slash at its end; of the last two those that a rule looks at.
    std::array<std::string_view, 3> values;
    std::array<RuleIndex, max_rules_per_request> rules;
    std::size_t rule_count = 0;
    bool rules_cut = false;  ///< more rules applied than a request may have; the first ones count
    std::array<char, max_host> host_buffer;
    std::array<char, max_path> path_buffer;
  };

  /// Fills `scratch` with the rules that apply, in order of the configuration.
  void match(const Request& request, Scratch& scratch) const noexcept;

  /// Builds the key of one matched rule. @pre match() has filled `scratch` from this request and named `rule`
  void make_key(RuleIndex rule, const Request& request, const Scratch& scratch, KeyBytes& key) const noexcept;

  /// The number of the key of one matched rule: what `hash` says of the bytes that make_key() would build.
  /// @pre as for make_key()
  std::uint64_t hash_key(RuleIndex rule, const Request& request, const Scratch& scratch,
                         const KeyHash& hash) const noexcept;

  /// The same rules for bursts of plain frames.
  const PlainClassifier& plain() const noexcept;

  /// The headers any rule needs; not the host, where no rule looks at it.
  const HeaderSelection& headers() const noexcept;

 private:
  struct Compiled;
  std::uint64_t hash_mixed(RuleIndex rule, const Request& request, const Scratch& scratch,
                           const KeyHash& hash) const noexcept;
  std::uint64_t hash_bytes(RuleIndex rule, const Request& request, const Scratch& scratch,
                           const KeyHash& hash) const noexcept;

  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace weir
