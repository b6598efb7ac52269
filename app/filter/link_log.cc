// SPDX-License-Identifier: BSD-3-Clause
#include "filter/link_log.h"

#include <algorithm>
#include <utility>

namespace weir::filter {

std::string LinkLog::line(const PortState& port, MonotonicTime now) {
  if (port.link != link_) {
    link_ = port.link;
    told_ = false;
    if (link_ == Link::down) ++losses_;
  }
  if (told_ || next_ > now + (lines_at_once - 1) * between_lines) return {};
  told_ = true;
  next_ = std::max(next_, now) + between_lines;

  const std::uint64_t losses = std::exchange(losses_, 0);
  std::string text = port_text(port.port, port.name) + ": " + link_text(port);
  // The line itself tells of one, where it is the latest.
  if (losses > (link_ == Link::down ? 1U : 0U))
    text += "; it has been lost " + (losses == 1 ? "once" : std::to_string(losses) + " times") +
            " since the last message";
  return text;
}

}  // namespace weir::filter
