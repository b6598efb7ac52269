// SPDX-License-Identifier: BSD-3-Clause
#include "control/store_log.h"

#include <algorithm>
#include <utility>

namespace weir {

std::string StoreLog::line(bool reached, std::string_view why, MonotonicTime now) {
  if (reached)
    expected_by_ = MonotonicTime::min();
  else if (now < expected_by_)
    return {};
  if (reached != reached_) {
    reached_ = reached;
    told_ = false;
    if (!reached) {
      ++losses_;
      why_ = why.empty() ? "no answer in time" : why;
    }
  }
  if (told_ || next_ > now + (lines_at_once - 1) * between_lines) return {};
  told_ = true;
  next_ = std::max(next_, now) + between_lines;

  const std::uint64_t losses = std::exchange(losses_, 0);
  if (!reached_) {
    const std::string times =
        losses > 1 ? " (" + std::to_string(losses) + " times since the last message)" : "";
    return "store lost" + times + ": " + why_ + "; going on locally, counts are kept";
  }
  if (losses == 0) return "store reached again";
  // Its loss, or the last of several, has not been told.
  const std::string times = losses == 1 ? "once" : std::to_string(losses) + " times";
  return "store reached again, lost " + times + " since the last message: " + why_;
}

}  // namespace weir
