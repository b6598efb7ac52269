// SPDX-License-Identifier: BSD-3-Clause
#include "store/exchange/exchange.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir {
namespace {

constexpr std::size_t instance_digits = 16;
/// How often expire() looks again at groups that had something under way.
constexpr Duration expiry_pause = std::chrono::milliseconds{100};

std::string hexadecimal(std::uint64_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace

Exchange::Exchange(std::string instance, const std::string& seed, std::uint64_t scatter,
                   std::size_t max_counters)
    : instance_(std::move(instance)),
      scatter_(scatter),
      max_counters_(max_counters),
      most_with_others_(max_counters / 4 * 3) {
  instance_.resize(instance_digits, '0');
  seeds_.fill(seed);
}

ExchangeGroup Exchange::fresh(std::uint32_t partition) {
  return {instance_ + hexadecimal(++last_log_, writer_length - instance_digits), seeds_[partition], scatter_};
}

const ExchangeGroup& Exchange::begin(const OutboxBatch& batch) {
  const std::uint32_t partition = batch.group.partition;
  auto found = groups_.find(batch.group);
  if (found == groups_.end())
    found = groups_.emplace(batch.group, Held{fresh(partition), batch.expires}).first;
  Held& held = found->second;
  // The outbox has given up the one that was out, and nobody knows what has become of it.
  if (held.group.out() != 0 && held.group.out() != batch.sequence) {
    counters_ -= held.group.size();
    held = Held{fresh(partition), held.expires};
  }
  held.expires = std::max(held.expires, batch.expires);
  look_at_ = std::min(look_at_, held.expires);
  if (held.group.out() == 0) make_room(held, batch);
  counters_ -= held.group.size();
  held.group.begin(batch);
  counters_ += held.group.size();
  return held.group;
}

void Exchange::make_room(Held& wanted, const OutboxBatch& batch) {
  const auto short_of_room = [&] { return counters_ + batch.entries.size() > max_counters_; };
  while (short_of_room()) {
    auto first = groups_.end();
    for (auto group = groups_.begin(); group != groups_.end(); ++group)
      if (&group->second != &wanted && group->second.group.out() == 0 && group->second.group.size() > 0 &&
          (first == groups_.end() || group->second.expires < first->second.expires))
        first = group;
    if (first == groups_.end()) break;
    counters_ -= first->second.group.size();
    groups_.erase(first);
  }
  if (!short_of_room() || wanted.group.size() == 0) return;
  counters_ -= wanted.group.size();
  wanted = Held{fresh(batch.group.partition), wanted.expires};
}

Exchange::Held* Exchange::held(const OutboxBatch& batch) {
  const auto found = groups_.find(batch.group);
  return found == groups_.end() || found->second.group.out() != batch.sequence ? nullptr : &found->second;
}

const ExchangeGroup* Exchange::find(const OutboxGroupId& group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second.group;
}

void Exchange::cancel(const OutboxBatch& batch) {
  if (Held* one = held(batch)) one->group.cancel();
}

Exchange::Progress Exchange::absorb(const OutboxBatch& batch, const ExchangeAnswer& answer) {
  Held* one = held(batch);
  if (one == nullptr) return Progress::again;
  if (answer.status == ExchangeAnswer::Status::other_seed) {
    seeds_[batch.group.partition] = answer.seed;
    counters_ -= one->group.size();
    one->group.adopt(answer.seed);
    return Progress::again;
  }
  if (answer.status == ExchangeAnswer::Status::applied) seeds_[batch.group.partition] = one->group.seed();
  return one->group.absorb(answer);
}

Exchange::Progress Exchange::absorb(const OutboxBatch& batch,
                                    std::span<const std::optional<std::string_view>> pieces,
                                    std::uint64_t turn) {
  Held* one = held(batch);
  if (one == nullptr) return Progress::wait;
  const std::uint64_t damaged = one->group.damaged();
  counters_ -= one->group.size();
  const Progress progress =
      one->group.absorb(pieces, turn, most_with_others_ - std::min(most_with_others_, counters_));
  counters_ += one->group.size();
  damaged_ += one->group.damaged() - damaged;
  return progress;
}

void Exchange::expire(MonotonicTime now,
                      const std::function<bool(const OutboxGroupId&, std::uint64_t)>& is_out) {
  if (now < look_at_) return;
  look_at_ = MonotonicTime::max();
  for (auto group = groups_.begin(); group != groups_.end();) {
    const Held& held = group->second;
    const bool expired =
        held.expires <= now && (held.group.out() == 0 || !is_out(group->first, held.group.out()));
    if (!expired) look_at_ = std::min(look_at_, std::max(held.expires, now + expiry_pause));
    if (expired) counters_ -= held.group.size();
    group = expired ? groups_.erase(group) : std::next(group);
  }
}

}  // namespace weir
