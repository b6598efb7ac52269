// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One request as rules see it. Views only: nothing here owns bytes, so a Request lives as long as its
/// packet.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weir/export.h"

namespace weir {

/// An IPv4 or IPv6 address in network byte order; IPv4 uses the first four bytes, the rest are zero.
struct IpAddress {
  enum class Family : std::uint8_t { none = 0, v4 = 4, v6 = 6 };
  std::array<std::uint8_t, 16> bytes{};
  Family family = Family::none;

  bool operator==(const IpAddress&) const = default;
  /// "203.0.113.7", "2001:db8::1", or "-" for none. Allocates: not for workers.
  WEIR_API std::string to_string() const;
};

/// One header field. Names compare without case.
struct Header {
  std::string_view name;
  std::string_view value;  ///< without surrounding white space
};

/// What weir's own parser saw of a target while it looked for its end, so that nobody need look again. Others
/// leave it as it is; and who alters the bytes of a target that was parsed, sets it back to {}.
struct TargetShape {
  const char* of = nullptr;   ///< the target's first byte; nullptr, or not that of the target: nothing known
  std::uint32_t size = 0;     ///< of the target, at most 64
  std::uint32_t path = 0;     ///< how much of it is the path, which has its normal form already
  std::uint64_t slashes = 0;  ///< bit i: a '/' at byte i of the path
};

/// One request. Members that are unknown stay empty; a dimension on them then reads as absent ("-" in key
/// names).
struct Request {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;       ///< host byte order
  std::uint16_t destination_port = 0;  ///< host byte order
  std::string_view protocol;           ///< e.g. "http/1.1"
  std::string_view method;             ///< as sent
  std::string_view host;               ///< as sent, port included if sent; compared without case and port
  std::string_view target;             ///< as sent, query included
  std::span<const Header> headers;     ///< those at hand; weir's own parser offers only those a rule names
  std::uint32_t weight = 0;            ///< cost multiplier given by the caller; 0: 1
  TargetShape target_shape;            ///< for weir's own use
};

}  // namespace weir
