// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Makes, publishes and reclaims publications: built whole, one release store of the pointer, a grace period
/// started, reused on a later round, never waited for. While a worker does not come round, what it has taken
/// up is kept for it, and of all others the windows.
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
  /// Publications that may wait for a stalled worker; beyond, none is published until it reports again. Where
  /// spans take 100 ms, that is after an hour or two; and what has been kept of so many then takes 100 MB, or
  /// 250 where rules have twenty different windows.
  static constexpr std::size_t max_retired = std::size_t{1} << 17;

  Publisher(PublicationSlot& slot, Quiescence& quiescence) : slot_(slot), quiescence_(quiescence) {}

  /// Whether publish() may be called: fewer than max_retired publications are waiting.
  bool ready() {
    reclaim();
    return retired_.size() < max_retired;
  }

  /// A publication to fill: reused memory where there is some.
  std::unique_ptr<Publication> blank() {
    if (spare_.empty()) {
      auto made = std::make_unique<Publication>();
      take_memory_back(*made);
      return made;
    }
    auto reused = std::move(spare_.back());
    spare_.pop_back();
    return reused;
  }

  /// Numbers and publishes. @return the token of the grace period after which all workers have it
  std::uint64_t publish(std::unique_ptr<Publication> next) {
    // That there is no memory for this shows before anyone sees the publication.
    if (current_) retired_.emplace_back();
    next->generation = ++generation_;
    slot_.publish(next.get());
    const std::uint64_t token = quiescence_.start();
    if (current_) retired_.back() = {std::move(current_), token, true};
    current_ = std::move(next);
    return token;
  }

  const Publication* current() const noexcept { return current_.get(); }
  std::uint64_t generation() const noexcept { return generation_; }
  std::size_t waiting() const noexcept { return retired_.size(); }
  /// Publication::memory() of all.
  std::size_t memory() const noexcept {
    std::size_t bytes = current_ ? current_->memory() : 0;
    for (const Retired& retired : retired_) bytes += retired.publication->memory();
    for (const auto& spare : spare_) bytes += spare->memory();
    return bytes;
  }

 private:
  // In a span there may be three before a worker comes round that sleeps meanwhile.
  static constexpr std::size_t most_spare = 4;

  void reclaim() {
    while (!retired_.empty() && quiescence_.all_passed(retired_.front().token)) {
      Retired& passed = retired_.front();
      passed.publication->set_blocked(nullptr, {});  // others may go on in its memory
      if (passed.is_whole && spare_.size() < most_spare) spare_.push_back(std::move(passed.publication));
      retired_.pop_front();
    }
  }

  // From the latest one that may be had, as nearly always the only one.
  void take_memory_back(Publication& taker) {
    for (auto retired = retired_.rbegin(); retired != retired_.rend(); ++retired) {
      if (!retired->is_whole || slot_.is_held(*retired->publication)) continue;
      retired->is_whole = false;
      return taker.take_memory_of(*retired->publication);
    }
  }

  struct Retired {
    std::unique_ptr<Publication> publication;
    std::uint64_t token = 0;
    bool is_whole = false;  // its memory has not been taken back
  };
  PublicationSlot& slot_;
  Quiescence& quiescence_;
  std::unique_ptr<Publication> current_;
  std::deque<Retired> retired_;
  std::vector<std::unique_ptr<Publication>> spare_;
  std::uint64_t generation_ = 0;
};

}  // namespace weir
