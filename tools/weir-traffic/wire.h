// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Frames as bytes: built and read back here, without weir's own parser, so that what weir-traffic finds is a
/// second opinion. Addresses, ports and numbers are in host byte order. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weir::traffic {

using Frame = std::vector<std::uint8_t>;

/// What kind of frame, as far as the play tells them apart.
enum class Kind : std::uint8_t { tcp, udp, icmp, arp };

enum Flag : std::uint8_t { fin = 1, syn = 2, rst = 4, psh = 8, ack = 16 };

/// One frame in words. Members that the kind does not have are zero.
struct Packet {
  Kind kind = Kind::tcp;
  std::uint32_t source = 0;       ///< IPv4
  std::uint32_t destination = 0;  ///< IPv4
  std::uint16_t source_port = 0;  ///< ICMP: the identifier
  std::uint16_t destination_port = 0;
  std::uint32_t sequence = 0;  ///< ICMP: the sequence number
  std::uint32_t acknowledgment = 0;
  std::uint8_t flags = 0;
  std::uint16_t identification = 0;  ///< of the IP header
  std::string_view payload;
  bool from_clients = true;  ///< which side's hardware address sends
};

/// Builds the frame, checksums included.
Frame build(const Packet& packet);

/// Reads a frame of a kind that build() makes; `payload` points into it.
/// @param checksums_good  whether the checksums of IP and of what it carries are right
/// @return nothing where the frame is of no such kind, or contradicts itself
std::optional<Packet> read(std::span<const std::uint8_t> frame, bool& checksums_good);

/// FNV-1a, 64 bits: tells frames apart that are all of our own making.
std::uint64_t fingerprint(std::span<const std::uint8_t> frame);

}  // namespace weir::traffic
