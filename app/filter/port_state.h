// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a port's device tells of itself. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace weir::filter {

struct PortState {
  std::uint16_t port = 0;
  std::string name;  ///< of the device
  // Frames that have come to the port and not to us, since the start.
  std::uint64_t missed = 0;     ///< the queues were full: they are not emptied fast enough
  std::uint64_t no_buffer = 0;  ///< there was no memory for them
  std::uint64_t errors = 0;     ///< broken, or too long

  std::uint64_t lost() const noexcept { return missed + no_buffer + errors; }
};

/// "port 0 (0000:3b:00.0)"
inline std::string port_text(std::uint16_t port, const std::string& name) {
  return "port " + std::to_string(port) + " (" + name + ")";
}

}  // namespace weir::filter
