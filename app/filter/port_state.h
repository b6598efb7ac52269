// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a port's device tells of itself. Plain data, and its texts. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::filter {

enum class Link : std::uint8_t {
  unknown,  ///< the device cannot tell
  down,
  up,
};

/// "up"
std::string_view to_string(Link link) noexcept;

struct PortState {
  std::uint16_t port = 0;
  std::string name;  ///< of the device
  Link link = Link::unknown;
  std::uint16_t mtu = 0;       ///< 0: the device does not say
  std::uint32_t megabits = 0;  ///< per second, of a link that is up; 0: the device does not say
  // Frames that have come to the port and not to us, since the start.
  std::uint64_t missed = 0;     ///< the queues were full: they are not emptied fast enough
  std::uint64_t no_buffer = 0;  ///< there was no memory for them
  std::uint64_t errors = 0;     ///< broken, or too long
  /// Frames that it has taken from us and could not send, since the start.
  std::uint64_t unsent = 0;

  /// Before they came here.
  std::uint64_t lost() const noexcept { return missed + no_buffer + errors; }
};

/// Leaves of the frames that a device has counted those since the start.
/// @param base  what it had counted by then. Where somebody sets a count back meanwhile (a telemetry client),
///              it begins anew: its base with it
/// @param now   what it has counted; afterwards since the start
void count_since(PortState& base, PortState& now) noexcept;

/// "port 0 (0000:3b:00.0)"
std::string port_text(std::uint16_t port, const std::string& name);

/// "link up, 10 Gbit/s"
std::string link_text(const PortState& port);

}  // namespace weir::filter
