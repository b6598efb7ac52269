// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Makes, publishes and reclaims publications: built whole, one release store of the pointer, a grace period
/// started, reused on a later round, never waited for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "shared/publication.h"
#include "shared/quiescence.h"

namespace weir {

/// The controller's alone.
class Publisher {
 public:
  /// Publications that may wait for a stalled worker; beyond, none is published until it reports again.
  static constexpr std::size_t max_retired = 4096;

  Publisher(PublicationSlot& slot, Quiescence& quiescence) : slot_(slot), quiescence_(quiescence) {}

  /// Whether publish() may be called: fewer than max_retired publications are waiting.
  bool ready() {
    reclaim();
    return retired_.size() < max_retired;
  }

  /// A publication to fill: reused memory where there is some.
  std::unique_ptr<Publication> blank() {
    if (spare_.empty()) return std::make_unique<Publication>();
    auto reused = std::move(spare_.back());
    spare_.pop_back();
    return reused;
  }

  /// Numbers and publishes. @return the token of the grace period after which all workers have it
  std::uint64_t publish(std::unique_ptr<Publication> next) {
    next->generation = ++generation_;
    slot_.publish(next.get());
    const std::uint64_t token = quiescence_.start();
    if (current_) retired_.push_back({std::move(current_), token});
    current_ = std::move(next);
    return token;
  }

  const Publication* current() const noexcept { return current_.get(); }
  std::uint64_t generation() const noexcept { return generation_; }
  std::size_t waiting() const noexcept { return retired_.size(); }

 private:
  void reclaim() {
    while (!retired_.empty() && quiescence_.all_passed(retired_.front().token)) {
      if (spare_.size() < 4) spare_.push_back(std::move(retired_.front().publication));
      retired_.pop_front();
    }
  }

  struct Retired {
    std::unique_ptr<Publication> publication;
    std::uint64_t token;
  };
  PublicationSlot& slot_;
  Quiescence& quiescence_;
  std::unique_ptr<Publication> current_;
  std::deque<Retired> retired_;
  std::vector<std::unique_ptr<Publication>> spare_;
  std::uint64_t generation_ = 0;
};

}  // namespace weir
