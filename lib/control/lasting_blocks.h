// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Keys of which publications say no more than that they are blocked, as they will be for some time: the
/// engine is not asked for them, nor are they written anew, until their blocks are about to end. From then on
/// they are keys as any other, whose allowance is known by the time they may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/ledger.h"
#include "shared/blocked_keys.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// The controller's alone, but for the sets that are published.
class LastingBlocks {
 public:
  /// @param rules  how many
  explicit LastingBlocks(std::size_t rules) : of_rule_(rules), ends_(rules, never) {}

  struct Key {
    std::uint64_t key = 0;
    std::uint64_t ungranted_since = 0;  ///< as KeyState says it
    SlotIndex slot = no_index;          ///< in the engine
    RuleIndex rule = no_rule;
  };

  /// Begins with what the next publication says.
  /// @param margin  what is published now may have to do for so long
  /// @return those that do not last any more, by slot
  std::span<const Key> begin(MonotonicTime now, Duration margin);
  /// Of these the one with this slot and key, if there is one. @pre slots come as they rise
  const Key* meet(SlotIndex slot, std::uint64_t key);
  /// Those that have not been met. Once all have been that will be.
  std::span<const Key> unmet();

  /// Whether a block is one of those that last; with regard to the last begin().
  bool lasts(MonotonicTime until) const noexcept { return until >= lasting_from_; }
  /// @pre lasts(until), and the key is not among them
  void add(const Key& key, MonotonicTime until);
  /// Since begin().
  std::span<const KeyBlock> added() const noexcept { return added_; }

  /// All keys, for the next publication; nullptr: there are none.
  std::shared_ptr<const BlockedKeys> keys();
  /// How many, by rule.
  std::span<const std::uint64_t> of_rule() const noexcept { return of_rule_; }
  /// By rule, when the last block of all its keys ends that keys() has ever held; never: it has held none.
  /// (Those that do not last any more are there for some time.)
  std::span<const MonotonicTime> ends() const noexcept { return ends_; }
  std::size_t size() const noexcept { return size_; }
  /// Bytes of the sets, and of the keys in them.
  std::size_t memory() const noexcept;

 private:
  std::shared_ptr<BlockedKeys> blank();

  std::vector<std::uint64_t> of_rule_;
  std::vector<MonotonicTime> ends_;  // by rule
  std::size_t size_ = 0;
  std::map<std::int64_t, std::vector<Key>> by_end_;  // by slice of time
  std::vector<Key> ending_;
  std::size_t next_ = 0;  // of these, to be met
  std::vector<Key> unmet_;
  std::vector<KeyBlock> added_;
  std::vector<std::shared_ptr<BlockedKeys>> sets_;  // the last one is the latest
  MonotonicTime ended_before_{};                    // so early no block ends that lasts
  MonotonicTime lasting_from_{};
};

}  // namespace weir
