// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What the publication before says of the keys that the next one names.
///
/// The problem: a publication may name a hundred thousand keys, and what it says of a key depends on what the
/// one before said. To look each of them up there is a miss in its index and one in its entries; and to find
/// those that only the one before names, as many in the next one. But both name their keys in the same order,
/// that of the engine's slots, and nearly the same keys. So both are gone through side by side, and the index
/// is asked where they part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/prefetch.h"
#include "shared/publication.h"

namespace weir {

/// The controller's alone. Of use while one publication is being made.
class KeysBefore {
 public:
  /// @param publication  outlives the use; nullptr: there is none before
  void begin(const Publication* publication) {
    publication_ = publication;
    next_ = 0;
    met_.assign(publication != nullptr ? publication->keys() : 0, false);
    others_ = publication != nullptr ? publication->ungranted_keys() : 0;
  }

  /// What it says of a key that has no grants; nullptr: it has some, or is not named.
  const KeyState* find(std::uint64_t key) const noexcept {
    // Most keys have always been granted, and a look into a publication of a million keys comes from afar.
    if (publication_ == nullptr || !publication_->ungranted().may_hold(static_cast<std::uint32_t>(key)))
      return nullptr;
    return if_ungranted(publication_->find(key));
  }
  /// The same of a key that the next publication names; fast where these come in the order of the one before.
  const KeyState* meet(std::uint64_t key) {
    if (next_ < met_.size() && publication_->key_at(next_).key == key) {
      if (next_ + ahead < met_.size()) prefetch_to_read(&publication_->key_at(next_ + ahead));
    } else {
      const KeyState* const found = find(key);
      if (found == nullptr) return nullptr;
      next_ = publication_->place_of(*found);
    }
    met_[next_] = true;
    const KeyState* const known = if_ungranted(&publication_->key_at(next_++));
    if (known != nullptr) --others_;
    return known;
  }
  /// How many keys without grants have not been met. @pre none has been met twice
  std::size_t others() const noexcept { return others_; }
  /// Calls visit(const KeyState&) for each of them.
  template <typename Visitor>
  void for_each_other(Visitor&& visit) const {
    if (others_ == 0) return;
    for (std::size_t place = 0; place < met_.size(); ++place)
      if (!met_[place] && if_ungranted(&publication_->key_at(place)) != nullptr)
        visit(publication_->key_at(place));
  }

 private:
  static constexpr std::size_t ahead = 8;

  static const KeyState* if_ungranted(const KeyState* state) noexcept {
    return state != nullptr && state->ungranted_since != KeyState::granted ? state : nullptr;
  }

  const Publication* publication_ = nullptr;
  std::size_t next_ = 0;  // the place after that of the key met last
  std::size_t others_ = 0;
  std::vector<bool> met_;  // by place
};

}  // namespace weir
