// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// All streams of a scenario, merged into one, request by request.
#pragma once

#include <cstdint>
#include <vector>

#include "arrivals.h"
#include "random.h"
#include "scenario.h"

namespace weir::sim {

/// The same scenario and seed offer the same requests, whatever becomes of them.
class DemandSource {
 public:
  explicit DemandSource(const Scenario& scenario);

  /// When the next request comes; Duration::max() when none comes any more.
  Duration next_at() const noexcept { return next_at_; }

  struct Offer {
    std::uint32_t weight = 1;
    std::int32_t node = -1;  ///< -1: as the spread says
    bool regular = false;
    /// By [[keys]]: which of its values. A view that the next take() ends.
    const std::vector<std::uint32_t>* values = nullptr;
  };
  /// @pre next_at() is not Duration::max()
  Offer take();

 private:
  struct Stream {
    const Demand* demand;
    Arrivals arrivals;
    Random random;
    Duration next;
    std::size_t recorded = 0;  // next line of the recording
    std::uint64_t taken = 0;
  };
  void advance(Stream& stream);
  void find_next() noexcept;

  Duration duration_;
  std::vector<Chooser> popularity_;  // by [[keys]]
  std::vector<bool> uniform_;
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> values_;
  std::size_t next_stream_ = 0;
  Duration next_at_ = Duration::max();
};

}  // namespace weir::sim
