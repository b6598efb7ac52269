// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The Internet checksum (RFC 1071), in software: crafted frames must be right on every device, virtual ones
/// included, and there are too few of them for offloads to pay. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/request.h"

namespace weir::filter {

/// Adds bytes, taken as big-endian 16-bit words (an odd last byte is padded with zero), to a running sum.
/// Only the last piece of a sum may have an odd length.
std::uint64_t checksum_add(std::uint64_t sum, std::span<const std::byte> bytes) noexcept;

/// Folds a sum into the checksum, in host byte order: the number to be stored big-endian.
std::uint16_t checksum_finish(std::uint64_t sum) noexcept;

/// The checksum of an IPv4 header whose checksum field is zero; 0 for a header that carries the right one.
std::uint16_t ipv4_header_checksum(std::span<const std::byte> header) noexcept;

/// The checksum of a TCP segment (header, options and payload) whose checksum field is zero, with the pseudo
/// header of the addresses' family; 0 for a segment that carries the right one.
/// @pre both addresses are of the same family, v4 or v6
std::uint16_t tcp_checksum(const IpAddress& source, const IpAddress& destination,
                           std::span<const std::byte> segment) noexcept;

}  // namespace weir::filter
