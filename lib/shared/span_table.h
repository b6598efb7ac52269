// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One worker's counts of one span. The worker that owns the table alone writes it; the controller reads and
/// clears it after the flip and the grace period, when it alone owns it. So all members are plain: ownership
/// passes through RCU.
///
/// Layout: buckets of eight. A bucket's line of tags tells where a key is; the entry is one further cache
/// line with all that a decision reads and writes. A key has two buckets and is put into the emptier one, so
/// insertion is bounded and does not move others. A key that finds both full has no entry, and the caller
/// counts it under its rule's overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/allowance_pool.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// Two tables per worker, used in turns: while the worker counts in one, the controller drains the other.
inline constexpr unsigned tables_per_worker = 2;

/// One key's counts and what its worker knows of its allowance. One cache line.
struct alignas(64) SpanEntry {
  std::uint64_t offered = 0;    ///< weight
  std::uint64_t admitted = 0;   ///< weight
  std::uint64_t credit = 0;     ///< drawn from the cell and not yet used
  std::uint64_t allowance = 0;  ///< KeyTerms::allowance; of a bucket its price, 0 when closed
  union {
    MonotonicTime blocked_until = never;  ///< but for a rule that sheds, which never blocks:
    std::uint64_t fraction;               ///< what it admits, of 2^32
  };
  MonotonicTime refused_at = never;  ///< first refusal for want of allowance in this span
  AllowanceCell* cell = nullptr;
  std::uint32_t name_offset = 0;
  RuleIndex rule = no_rule;
  std::uint16_t generation =
      0;  ///< low bits of the publication that `allowance` and `blocked_until` come from
};
static_assert(sizeof(SpanEntry) == 64);

/// Counts of a rule's keys that found no entry.
struct OverflowCount {
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
};

class SpanTable {
 public:
  /// Allocates all there will ever be. @param keys entries to hold at an 80 % fill
  SpanTable(std::uint32_t keys, std::size_t rules);

  /// When the worker began to count here; names the ordinals. Worker, on taking the table up.
  Instant began{};

  void prefetch(std::uint64_t key) const noexcept {
    __builtin_prefetch(&tags_[bucket_of(key) * bucket_size], 1);
  }
  /// The key's entry, or nullptr.
  SpanEntry* find(std::uint64_t key) noexcept;
  /// A fresh entry, its name recorded; nullptr when both buckets or the room for names are full. @pre find()
  /// is nullptr
  SpanEntry* insert(std::uint64_t key, RuleIndex rule, std::span<const std::byte> name) noexcept;
  OverflowCount& overflow(RuleIndex rule) noexcept { return overflow_[rule]; }

  /// For the drain: calls visit(key, const SpanEntry&, name bytes) for each entry in the order of insertion.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for (std::uint32_t i = 0; i < used_; ++i)
      visit(tags_[order_[i]], entries_[order_[i]], name(entries_[order_[i]]));
  }
  std::span<const OverflowCount> overflows() const noexcept { return overflow_; }
  std::uint32_t size() const noexcept { return used_; }
  void clear() noexcept;

  std::size_t memory() const noexcept;

 private:
  static constexpr std::size_t bucket_size = 8;
  static constexpr std::size_t name_bytes_per_key = 64;

  std::size_t bucket_of(std::uint64_t key) const noexcept { return key & bucket_mask_; }
  std::size_t other_bucket_of(std::uint64_t key) const noexcept { return (key >> 32) & bucket_mask_; }
  std::span<const std::byte> name(const SpanEntry& entry) const noexcept;

  struct Line {
    alignas(64) std::uint64_t tags[bucket_size];
  };

  std::size_t bucket_mask_;
  std::vector<Line> lines_;
  std::uint64_t* tags_;  // the lines as one array
  std::vector<SpanEntry> entries_;
  std::vector<std::uint32_t> order_;
  std::uint32_t used_ = 0;
  std::vector<std::byte> names_;
  std::uint32_t names_used_ = 0;
  std::vector<OverflowCount> overflow_;
};

}  // namespace weir
