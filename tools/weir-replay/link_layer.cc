// SPDX-License-Identifier: BSD-3-Clause
#include "link_layer.h"

#include <pcap/pcap.h>

namespace weir::replay {
namespace {

constexpr std::size_t ethernet_addresses = 12;
constexpr std::byte not_ip{0xff};

}  // namespace

std::optional<LinkLayer> LinkLayer::of(int type) noexcept {
  switch (type) {
    case DLT_EN10MB:
      return LinkLayer(0, Protocol::in_frame, 0);
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
      return LinkLayer(0, Protocol::version_of_ip, 0);
    case DLT_NULL:
    case DLT_LOOP:
      return LinkLayer(4, Protocol::version_of_ip, 4);
    case DLT_LINUX_SLL:
      return LinkLayer(16, Protocol::ethertype, 14);
    case DLT_LINUX_SLL2:
      return LinkLayer(20, Protocol::ethertype, 0);
    default:
      return std::nullopt;
  }
}

void LinkLayer::to_ethernet(std::span<const std::byte> packet, std::vector<std::byte>& frame) const {
  frame.clear();
  if (protocol_ == Protocol::in_frame) {
    frame.assign(packet.begin(), packet.end());
    return;
  }
  if (packet.size() <= header_) return;
  frame.resize(ethernet_addresses);
  if (protocol_ == Protocol::ethertype) {
    frame.push_back(packet[protocol_at_]);
    frame.push_back(packet[protocol_at_ + 1]);
  } else {
    const auto version = std::to_integer<unsigned>(packet[protocol_at_]) >> 4;
    frame.push_back(version == 4 ? std::byte{0x08} : version == 6 ? std::byte{0x86} : not_ip);
    frame.push_back(version == 4 ? std::byte{0x00} : version == 6 ? std::byte{0xdd} : not_ip);
  }
  frame.insert(frame.end(), packet.begin() + static_cast<std::ptrdiff_t>(header_), packet.end());
}

}  // namespace weir::replay
