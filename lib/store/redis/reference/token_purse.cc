// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/reference/token_purse.h"

#include <algorithm>

namespace weir {

HeldTokens* TokenPurse::find(std::string_view key, TimePoint now) {
  const auto found = held_.find(std::string(key));
  return found == held_.end() || found->second.until <= now ? nullptr : &found->second;
}

bool TokenPurse::has_room(std::string_view key, TimePoint now) {
  if (held_.size() < most_ || held_.contains(std::string(key))) return true;
  // All of a full purse is looked at only when something in it has expired: rarely, however many keys come.
  if (now < next_sweep_) return false;
  std::erase_if(held_, [&](const auto& entry) { return entry.second.until <= now; });
  next_sweep_ = TimePoint::max();
  for (const auto& [name, held] : held_) next_sweep_ = std::min(next_sweep_, held.until);
  return held_.size() < most_;
}

void TokenPurse::put(std::string_view key, const HeldTokens& held) {
  held_[std::string(key)] = held;
  next_sweep_ = std::min(next_sweep_, held.until);
}

void TokenPurse::forget(std::string_view key) { held_.erase(std::string(key)); }

}  // namespace weir
