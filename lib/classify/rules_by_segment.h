// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which of many rules apply to a request, without holding it against all of them: a gateway has one rule and
/// more for each of its routes, and their paths begin with segments of their own. So only the rules of the
/// path's first segment are looked at, and those that say nothing of it.
///
/// Nothing there depends on which route it is, as far as that can be had: requests of many routes come in no
/// order, so that a branch on it is not to be foreseen. So segments are found by a table, and not by search;
/// and compared by their first eight bytes, as a number, and their length, which is all there is to most. For
/// the room's own use.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/short_text.h"
#include "classify/compiled_rule.h"
#include "classify/path_template.h"
#include "weir/rule.h"

namespace weir {

/// Immutable once all rules have been added: any number of threads may use one at once.
class RulesBySegment {
 public:
  /// Allocates. In order of the configuration.
  void add(RuleIndex rule, const std::optional<PathTemplate>& path) {
    const std::string_view segment = path ? path->first_literal() : std::string_view{};
    if (segment.empty()) {
      others_.push_back(rule);
      return;
    }
    const Group* const found = group_of(segment);
    const auto at = found != nullptr ? static_cast<std::size_t>(found - groups_.data()) : groups_.size();
    if (found == nullptr) {
      groups_.push_back({word_of(segment), std::string(segment), {}});
      longest_ = std::max(longest_, segment.size());
      make_table();
    }
    groups_[at].rules.push_back(rule);
  }

  /// Calls visit(rule) for each rule that applies, in order of the configuration, until it returns false.
  /// @param rules  all there are
  /// @return whether it has not
  template <typename Visit>
  bool for_each_applying(std::span<const CompiledRule> rules, std::string_view method,
                         std::uint16_t destination_port, std::string_view host, RequestPath& path,
                         Visit&& visit) const noexcept {
    // Only the rules in these two lists can apply.
    std::span<const RuleIndex> grouped;
    if (const std::string_view first = path.first(); !first.empty())
      if (const Group* const group = group_of(first); group != nullptr) grouped = group->rules;
    std::span<const RuleIndex> others = others_;
    // Limits of one route stand side by side: what was found out for one holds for the next with the same
    // match.
    RuleIndex judged = no_rule;
    bool applies = false;
    const auto goes_on = [&](RuleIndex rule, std::size_t known) {
      const CompiledRule& compiled = rules[rule];
      if (compiled.first_alike != judged) {
        judged = compiled.first_alike;
        applies = compiled.applies_always || compiled.matches(method, destination_port, host, path, known);
      }
      return !applies || visit(rule);
    };
    while (!grouped.empty() || !others.empty()) {
      const bool is_grouped = others.empty() || (!grouped.empty() && grouped.front() < others.front());
      std::span<const RuleIndex>& list = is_grouped ? grouped : others;
      if (!goes_on(list.front(), is_grouped ? 1 : 0)) return false;
      list = list.subspan(1);
    }
    return true;
  }

  /// Rules that say nothing of the first segment: so many are always looked at.
  std::size_t others() const noexcept { return others_.size(); }

 private:
  /// Rules whose paths begin with the same literal segment.
  struct Group {
    std::uint64_t word;  ///< what the segment begins with
    std::string segment;
    std::vector<RuleIndex> rules;  ///< in order of the configuration
  };
  static constexpr std::uint16_t none = 0xffff;
  static_assert(max_rules < none);

  static std::uint64_t word_of(std::string_view segment) noexcept {
    std::uint64_t word;
    if (segment.size() < sizeof word) return word_of_short_text(segment.data(), segment.size());
    std::memcpy(&word, segment.data(), sizeof word);
    return word;
  }
  /// Where a segment is looked for first. All of it tells: routes have names that begin and end alike.
  std::size_t home_of(std::string_view segment) const noexcept {
    std::uint64_t hash = segment.size();
    const auto add = [&hash](std::uint64_t word) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    };
    for (; segment.size() > sizeof hash; segment.remove_prefix(sizeof hash)) add(word_of(segment));
    add(word_of(segment));
    return static_cast<std::size_t>(hash * 0x9e3779b97f4a7c15 >> shift_);
  }
  const Group* group_of(std::string_view segment) const noexcept {
    if (segment.size() > longest_) return nullptr;
    const std::uint64_t word = word_of(segment);
    for (std::size_t at = home_of(segment);; at = (at + 1) & (table_.size() - 1)) {
      if (table_[at] == none) return nullptr;
      const Group& group = groups_[table_[at]];
      if (group.word == word && group.segment.size() == segment.size() &&
          (segment.size() <= sizeof word || group.segment == segment))
        return &group;
    }
  }
  /// Of places for four times as many groups as there are, so that nearly all are in their first one.
  void make_table() {
    const unsigned bits = std::bit_width(4 * groups_.size());
    shift_ = 64 - bits;
    table_.assign(std::size_t{1} << bits, none);
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      std::size_t at = home_of(groups_[group].segment);
      while (table_[at] != none) at = (at + 1) & (table_.size() - 1);
      table_[at] = static_cast<std::uint16_t>(group);
    }
  }

  std::vector<Group> groups_;
  std::size_t longest_ = 0;  ///< segment of a group: what is longer need not be read
  std::vector<std::uint16_t> table_ = std::vector<std::uint16_t>(2, none);  ///< numbers of groups
  unsigned shift_ = 63;                                                     ///< what home_of() keeps
  std::vector<RuleIndex> others_;  ///< rules that say nothing of the first segment
};

}  // namespace weir
