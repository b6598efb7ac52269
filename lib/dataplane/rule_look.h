// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A burst under several rules: where what each request's keys have ready is, rule by rule.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "classify/plain_classifier.h"
#include "dataplane/request_bits.h"
#include "dataplane/worker_core.h"
#include "shared/grant_table.h"
#include "shared/span_table.h"

namespace weir {

/// What the keys of one rule have ready, for the requests of a burst.
struct WorkerCore::RuleLook {
  using Half = GrantTable::Lines::Half;
  /// Stands for a key's word of either table, and so is bytes.
  struct alignas(std::uint32_t) Word {
    std::array<std::byte, sizeof(std::uint32_t)> bytes;

    void set(std::uint32_t value) noexcept { std::memcpy(bytes.data(), &value, sizeof value); }
  };

  const PlainKeys::OfRule* of_rule;
  const Grant* grant;
  std::uint32_t requests;  // bit i: the rule applies to it
  std::uint32_t granted;   // bit i: its word is one of the grants'; else of the entries
  std::uint32_t lacking;   // bit i: there is not enough for it, at the second look
  std::uint32_t plenty;    // bit i: there is enough for whatever the burst may take of it, likewise
  std::uint32_t doubtful;  // bit i: it is to be asked whether there is enough for it, by who takes one by one
  std::uint32_t located;   // bit i: places has its key's
  bool dense;              // all requests' word is the first one
  std::array<std::byte*, PlainKeys::most_frames> words;  // by request: where what its key has ready is
  // The word of a key that is nowhere, or that must be looked at more closely.
  Word nothing_ready;
  Word used_up;
  std::array<Word, PlainKeys::most_frames> enough;              // see fill_up()
  std::array<SpanTable::Place, PlainKeys::most_frames> places;  // of entries, or nowhere

  std::uint64_t weight() const noexcept { return grant->weight; }
  std::byte* word(std::size_t at) const noexcept { return words[dense ? 0 : at]; }
  Half& half(std::size_t at) const noexcept { return reinterpret_cast<Half*>(word(at))[grant->window.half]; }
  std::uint32_t& ready(std::size_t at) const noexcept { return *reinterpret_cast<std::uint32_t*>(word(at)); }

  /// A word of the grants, both halves of which are this.
  static std::uint32_t of_halves(std::uint32_t half) noexcept { return half << 16 | half; }
  /// Gives the other requests of a burst words, too, that have enough: so that nobody need ask to which of
  /// them the rule applies, which is not to be foreseen.
  void fill_up(std::uint32_t others) noexcept {
    if (others == 0) return;
    const std::uint32_t word =
        granted != 0 ? of_halves(grant->window.stamp) : static_cast<std::uint32_t>(weight());
    for (Word& each : enough) each.set(word);
    for_each(others, [&](std::size_t at) { words[at] = enough[at].bytes.data(); });
  }

  /// Weight.
  static std::uint32_t left_in_grant(const std::byte* word, const Grant& grant) noexcept {
    const Half& half = reinterpret_cast<const Half*>(word)[grant.window.half];
    return grant.most - std::min(grant.most, GrantTable::Lines::used(half, grant.window));
  }
  void use_grant(std::size_t at) const noexcept {
    GrantTable::Lines::set(half(at), GrantTable::Lines::after_use(
                                         half(at), static_cast<std::uint32_t>(weight()), grant->window));
  }
  bool is_granted(std::size_t at) const noexcept { return (granted >> at & 1) != 0; }
  /// Of a request to which the rule applies.
  bool has_enough(std::size_t at) const noexcept {
    return is_granted(at) ? weight() <= left_in_grant(words[at], *grant)
                          : SpanTable::Lines::has(ready(at), weight());
  }
  /// @pre has_enough()
  void take(std::size_t at) const noexcept {
    if (is_granted(at))
      use_grant(at);
    else
      SpanTable::Lines::take(ready(at), weight());
  }
};

/// The same of all rules. Without initial values but for what is said.
struct WorkerCore::ReadyLooks {
  std::array<RuleLook, max_rules_per_request> looks;
  std::size_t count = 0;
  std::uint32_t requests = 0;  // bit i: its keys have been looked for
  std::uint32_t alike = 0;     // of these, those two of whose keys look alike in a table
  std::uint32_t taken = 0;     // of these, those that have been admitted

  std::span<RuleLook> all() noexcept { return std::span(looks).first(count); }
};

}  // namespace weir
