// SPDX-License-Identifier: BSD-3-Clause
#include "filter/port_state.h"

namespace weir::filter {
namespace {

/// "10 Gbit/s"; of what is no whole number of them, as exactly as a device says it.
std::string speed_text(std::uint32_t megabits) {
  constexpr std::uint32_t giga = 1000;
  if (megabits < giga) return std::to_string(megabits) + " Mbit/s";
  std::string text = std::to_string(megabits / giga);
  if (const std::uint32_t rest = megabits % giga; rest != 0)
    text += '.' + std::to_string(giga + rest).substr(1);
  while (text.find('.') != std::string::npos && text.ends_with('0')) text.pop_back();
  return text + " Gbit/s";
}

}  // namespace

std::string_view to_string(Link link) noexcept {
  switch (link) {
    case Link::unknown:
      break;
    case Link::down:
      return "down";
    case Link::up:
      return "up";
  }
  return "unknown";
}

void count_since(PortState& base, PortState& now) noexcept {
  for (const auto count :
       {&PortState::missed, &PortState::no_buffer, &PortState::errors, &PortState::unsent}) {
    if (now.*count < base.*count) base.*count = 0;
    now.*count -= base.*count;
  }
}

std::string port_text(std::uint16_t port, const std::string& name) {
  return "port " + std::to_string(port) + " (" + name + ")";
}

std::string link_text(const PortState& port) {
  std::string text = "link " + std::string(to_string(port.link));
  if (port.link == Link::up && port.megabits != 0) text += ", " + speed_text(port.megabits);
  return text;
}

}  // namespace weir::filter
