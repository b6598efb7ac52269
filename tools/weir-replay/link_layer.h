// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Captures come from many kinds of interfaces; the classification knows Ethernet. Here the others become
/// Ethernet.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace weir::replay {

/// Turns the packets of one kind of interface into Ethernet frames.
class LinkLayer {
 public:
  /// @param type  a DLT_ value of libpcap
  /// @return none when the type is none of Ethernet, raw IP, Linux cooked (v1 and v2) and BSD loopback
  static std::optional<LinkLayer> of(int type) noexcept;

  /// Writes a packet as an Ethernet frame; one that is too short for its link header becomes the empty frame.
  void to_ethernet(std::span<const std::byte> packet, std::vector<std::byte>& frame) const;

 private:
  /// Where a packet says what it carries.
  enum class Protocol { in_frame, ethertype, version_of_ip };

  constexpr LinkLayer(std::size_t header, Protocol protocol, std::size_t protocol_at) noexcept
      : header_(header), protocol_(protocol), protocol_at_(protocol_at) {}

  std::size_t header_;  ///< bytes to be replaced by an Ethernet header
  Protocol protocol_;
  std::size_t protocol_at_;
};

}  // namespace weir::replay
