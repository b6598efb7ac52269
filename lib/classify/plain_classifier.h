// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// From a burst of frames to the numbers of its requests' keys, without a Request in between.
///
/// The problem: to lay a request out part by part for whoever may ask for it costs more than to find it, and
/// a worker asks for the key's number alone, as long as the key has enough ready. So here the work on a burst
/// goes in passes, each a loop over all its frames: one vector search finds all heads (head_scan.h), in a
/// form of a few words; then, rule by rule, the fields of a key are hashed from where they lie.
///
/// Only plain requests are found so (see PlainHeads); and where there are more rules than one request may
/// have, only as many requests of a burst as have no more than so many rules between them. Everything else is
/// HttpRequests' and Classifier's, whose results are the meaning of a request: where this class names keys
/// they are the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/key_hash.h"
#include "classify/compiled_rule.h"
#include "classify/head_scan.h"
#include "classify/rules_by_segment.h"
#include "weir/packet.h"
#include "weir/rule.h"

namespace weir {

/// The keys of a burst's plain requests. Room that is reused; nearly all without initial values.
struct PlainKeys {
  static constexpr std::size_t most_frames = PlainHeads::most_frames;
  /// What one rule counts.
  struct OfRule {
    RuleIndex rule;
    std::uint32_t requests;  ///< bit i: the rule applies to the request in frame i
    /// By frame: what Classifier::hash_key() says. Not of a rule without key.
    std::array<std::uint64_t, most_frames> hashes;
  };
  /// Bit i: frame i holds a plain request and nothing else, and there is room for its rules.
  std::uint32_t requests = 0;
  std::size_t rule_count = 0;
  /// In order of the configuration: every rule there is, or all that apply to some request.
  std::array<OfRule, max_rules_per_request> rules;
  static constexpr std::uint8_t no_column = 0xff;
  /// By rule which of these is its; none is, but while they are being found.
  std::array<std::uint8_t, max_rules> columns = [] {
    std::array<std::uint8_t, max_rules> none;
    none.fill(no_column);
    return none;
  }();
  PlainHeads heads;

  /// Of a rule, which has one from now on, as yet without requests. @return nullptr: there is no room
  OfRule* column_of(RuleIndex rule) noexcept {
    std::uint8_t& column = columns[rule];
    if (column == no_column) [[unlikely]] {
      if (rule_count == rules.size()) return nullptr;
      column = static_cast<std::uint8_t>(rule_count);
      rules[rule_count].rule = rule;
      rules[rule_count++].requests = 0;
    }
    return &rules[column];
  }
  /// Which rules have been found is not known any more, from this column on: before another burst's are.
  void forget_columns(std::size_t from = 0) noexcept {
    for (std::size_t i = from; i < rule_count; ++i) columns[rules[i].rule] = no_column;
  }
};

/// Immutable: any number of threads may use one at once, each with PlainKeys of its own.
class PlainClassifier {
 public:
  /// Allocates. What it is given must outlive the classifier.
  /// @param rules       all there are
  /// @param by_segment  the same
  PlainClassifier(std::span<const CompiledRule> rules, const RulesBySegment& by_segment,
                  const HeaderSelection& headers, InstructionSet set);

  /// Finds the plain requests of a burst and their keys.
  /// @param frames  at most PlainKeys::most_frames
  /// @param next  the frames that come next, no more than that: their lines are asked for meanwhile
  void classify(std::span<const PlainFrame> frames, const KeyHash& hash, PlainKeys& keys,
                std::span<const PlainFrame> next = {}) const noexcept;

  /// As Classifier::make_key() says, of a plain request.
  /// @param frame  which classify() found to be plain; as it was then
  /// @param heads  as classify() filled them
  /// @param at     the frame's number in its burst
  /// @pre the rule applies to the request
  void make_key(RuleIndex rule, const PlainFrame& frame, const PlainHeads& heads, std::size_t at,
                KeyBytes& key) const noexcept;

 private:
  /// Where a dimension's bytes come from.
  struct Part {
    Dimension::Kind kind;
    std::uint8_t value = 0;        ///< of a text but a path variable: index into PlainHeads::values
    std::uint8_t ipv4_bits = 0;    ///< of an address
    std::uint16_t segment = none;  ///< of a path variable; none: absent
    static constexpr std::uint16_t none = 0xffff;
  };
  struct PlainRule {
    std::vector<Part> parts;
    std::vector<std::uint8_t> texts;  ///< the parts' values, where there is nothing else; else empty
    std::optional<TextKeys> keys;     ///< the same for Scans::hash_texts, where there is one for it
  };

  template <bool few>
  void hash_texts(const PlainRule& rule, const KeyHash& hash, std::size_t column,
                  PlainKeys& keys) const noexcept;
  void choose(std::span<const PlainFrame> frames, PlainKeys& keys) const noexcept;
  static void put_in_order(PlainKeys& keys) noexcept;
  static std::string_view text_of(const Part& part, const PlainHeads& heads, std::size_t at) noexcept;
  bool hash_key(const PlainRule& rule, const PlainFrame& frame, const PlainHeads& heads, std::size_t at,
                KeyHash::Fields& fields) const noexcept;

  std::span<const CompiledRule> compiled_;
  const RulesBySegment& by_segment_;
  const SoughtFields& sought_;
  const Scans& scans_;
  std::vector<PlainRule> rules_;  ///< none where `usable_` is false
  std::uint8_t host_value_ = 0;
  bool usable_ = false;
  bool unconditional_;           ///< all rules apply to all requests, and there is room for them
  bool wants_host_ = false;      ///< some match may
  bool wants_segments_ = false;  ///< likewise
};

}  // namespace weir
