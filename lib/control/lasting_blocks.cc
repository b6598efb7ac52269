// SPDX-License-Identifier: BSD-3-Clause
#include "control/lasting_blocks.h"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

// Blocks that end within the same slice of time end together.
constexpr Duration slice{std::int64_t{1} << 27};  // 134 ms

std::int64_t slice_of(MonotonicTime time) noexcept {
  const Duration since = time.time_since_epoch();
  return since / slice - (since % slice < Duration{} ? 1 : 0);
}

// A key that would hardly be set aside before it comes back is not worth it.
constexpr int least_margins = 4;

// Keys whose blocks have ended are found in the sets, and looked at closely, until all that last are brought
// together anew: when they are a sixteenth of those, so that a span costs little more than what changes.
constexpr std::size_t most_ended_of = 16;

}  // namespace

std::span<const LastingBlocks::Key> LastingBlocks::begin(MonotonicTime now, Duration margin) {
  added_.clear();
  unmet_.clear();
  next_ = 0;
  ending_.clear();
  ended_before_ = MonotonicTime(slice * (slice_of(now + margin) + 1));
  lasting_from_ = std::max(ended_before_, now + least_margins * margin);
  const auto last = by_end_.lower_bound(slice_of(ended_before_));
  for (auto some = by_end_.begin(); some != last; ++some)
    ending_.insert(ending_.end(), some->second.begin(), some->second.end());
  by_end_.erase(by_end_.begin(), last);
  for (const Key& key : ending_) --of_rule_[key.rule];
  size_ -= ending_.size();
  std::ranges::sort(ending_, {}, &Key::slot);
  return ending_;
}

const LastingBlocks::Key* LastingBlocks::meet(SlotIndex slot, std::uint64_t key) {
  while (next_ < ending_.size() && ending_[next_].slot < slot) unmet_.push_back(ending_[next_++]);
  if (next_ == ending_.size() || ending_[next_].slot != slot || ending_[next_].key != key) return nullptr;
  return &ending_[next_++];
}

std::span<const LastingBlocks::Key> LastingBlocks::unmet() {
  unmet_.insert(unmet_.end(), ending_.begin() + static_cast<std::ptrdiff_t>(next_), ending_.end());
  next_ = ending_.size();
  return unmet_;
}

void LastingBlocks::add(const Key& key, MonotonicTime until) {
  by_end_[slice_of(until)].push_back(key);
  added_.push_back({key.key, until});
  ++of_rule_[key.rule];
  ends_[key.rule] = std::max(ends_[key.rule], until);
  ++size_;
}

std::shared_ptr<const BlockedKeys> LastingBlocks::keys() {
  if (size_ == 0) {
    sets_.clear();
    return nullptr;
  }
  if (sets_.empty()) sets_.push_back(std::make_shared<BlockedKeys>());
  const BlockedKeys& latest = *sets_.back();
  const std::size_t all = latest.size() + added_.size();
  const bool anew = all > size_ + size_ / most_ended_of || !latest.has_room(added_.size());
  if (!anew && added_.empty()) return sets_.back();
  // What has been published stays as it is.
  std::shared_ptr<BlockedKeys> next = blank();
  if (anew)
    next->assign(latest, ended_before_, added_);
  else
    next->extend(latest, added_);
  sets_.push_back(std::move(next));
  return sets_.back();
}

// One that no publication shares any more, if there is such a one; others of these are given up.
std::shared_ptr<BlockedKeys> LastingBlocks::blank() {
  std::shared_ptr<BlockedKeys> found;
  for (std::size_t i = sets_.size() - 1; i-- > 0;) {
    if (sets_[i].use_count() > 1) continue;
    found = std::move(sets_[i]);
    sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return found != nullptr ? found : std::make_shared<BlockedKeys>();
}

std::size_t LastingBlocks::memory() const noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < sets_.size(); ++i)
    bytes += i == 0 ? sets_[i]->memory() : sets_[i]->memory_beside(*sets_[i - 1]);
  for (const auto& [end, keys] : by_end_) bytes += keys.capacity() * sizeof(Key);
  return bytes;
}

}  // namespace weir
