// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which of many rules apply to a request, without holding it against all of them: a gateway has one rule and
/// more for each of its routes, and their paths begin with segments of their own. So only the rules of the
/// path's first segment are looked at, and those that say nothing of it.
///
/// Segments are told apart by their first eight bytes, as numbers: that is all that most comparisons need.
/// For the room's own use.
#pragma once

#include <algorithm>
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
    std::size_t at = place_of(segment);
    if (at == groups_.size() || groups_[at].segment != segment) {
      at = static_cast<std::size_t>(std::ranges::lower_bound(words_, word_of(segment)) - words_.begin());
      words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(at), word_of(segment));
      groups_.insert(groups_.begin() + static_cast<std::ptrdiff_t>(at), Group{std::string(segment), {}});
    }
    groups_[at].rules.push_back(rule);
  }

  /// Calls visit(rule) for each rule that applies, in order of the configuration, until it returns false.
  /// @param rules  all there are
  template <typename Visit>
  void for_each_applying(std::span<const CompiledRule> rules, std::string_view method,
                         std::uint16_t destination_port, std::string_view host, const PathSegments& segments,
                         Visit&& visit) const noexcept {
    // Only the rules in these two lists can apply.
    std::span<const RuleIndex> grouped;
    if (segments.count() != 0) grouped = beginning_with(segments[0]);
    std::span<const RuleIndex> others = others_;
    // Limits of one route stand side by side: what was found out for one holds for the next with the same
    // match.
    RuleIndex judged = no_rule;
    bool applies = false;
    const auto goes_on = [&](RuleIndex rule) {
      const CompiledRule& compiled = rules[rule];
      if (compiled.first_alike != judged) {
        judged = compiled.first_alike;
        applies = compiled.applies_always || compiled.matches(method, destination_port, host, segments);
      }
      return !applies || visit(rule);
    };
    while (!grouped.empty() || !others.empty()) {
      const bool is_grouped = others.empty() || (!grouped.empty() && grouped.front() < others.front());
      std::span<const RuleIndex>& list = is_grouped ? grouped : others;
      if (!goes_on(list.front())) return;
      list = list.subspan(1);
    }
  }

 private:
  /// Rules whose paths begin with the same literal segment.
  struct Group {
    std::string segment;
    std::vector<RuleIndex> rules;  ///< in order of the configuration
  };

  static std::uint64_t word_of(std::string_view segment) noexcept {
    std::uint64_t word;
    if (segment.size() < sizeof word) return word_of_short_text(segment.data(), segment.size());
    std::memcpy(&word, segment.data(), sizeof word);
    return word;
  }
  /// Of the group, or of one behind all that begin as the segment does.
  std::size_t place_of(std::string_view segment) const noexcept {
    const std::uint64_t word = word_of(segment);
    auto at = static_cast<std::size_t>(std::ranges::lower_bound(words_, word) - words_.begin());
    while (at < words_.size() && words_[at] == word && groups_[at].segment != segment) ++at;
    return at;
  }
  std::span<const RuleIndex> beginning_with(std::string_view segment) const noexcept {
    const std::size_t at = place_of(segment);
    if (at == words_.size() || groups_[at].segment != segment) return {};
    return groups_[at].rules;
  }

  std::vector<std::uint64_t> words_;  ///< in order, of the groups: what their segments begin with
  std::vector<Group> groups_;
  std::vector<RuleIndex> others_;  ///< rules that say nothing of the first segment
};

}  // namespace weir
