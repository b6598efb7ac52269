// SPDX-License-Identifier: BSD-3-Clause
#include "wire.h"

#include <algorithm>

namespace weir::traffic {
namespace {

constexpr std::size_t ethernet_header = 14;
constexpr std::size_t ipv4_header = 20;
constexpr std::size_t tcp_header = 20;
constexpr std::size_t udp_header = 8;
constexpr std::size_t icmp_header = 8;
constexpr std::size_t arp_body = 28;
constexpr std::size_t shortest_frame = 60;
constexpr std::uint16_t ethertype_ipv4 = 0x0800;
constexpr std::uint16_t ethertype_arp = 0x0806;

using HardwareAddress = std::array<std::uint8_t, 6>;
constexpr HardwareAddress clients_side{0x02, 0, 0, 0, 0, 0x01};
constexpr HardwareAddress servers_side{0x02, 0, 0, 0, 0, 0x02};

std::uint8_t protocol_of(Kind kind) {
  switch (kind) {
    case Kind::tcp:
      return 6;
    case Kind::udp:
      return 17;
    case Kind::icmp:
      return 1;
    case Kind::arp:
      break;
  }
  return 0;
}

std::size_t header_of(Kind kind) {
  switch (kind) {
    case Kind::tcp:
      return tcp_header;
    case Kind::udp:
      return udp_header;
    case Kind::icmp:
      return icmp_header;
    case Kind::arp:
      break;
  }
  return 0;
}

void put16(std::uint8_t* at, std::uint32_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

void put32(std::uint8_t* at, std::uint32_t value) {
  put16(at, value >> 16);
  put16(at + 2, value & 0xffff);
}

std::uint16_t get16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }

std::uint32_t get32(const std::uint8_t* at) { return std::uint32_t{get16(at)} << 16 | get16(at + 2); }

std::uint64_t sum16(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += get16(bytes.data() + i);
  if (bytes.size() % 2 != 0) sum += std::uint64_t{bytes.back()} << 8;
  return sum;
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum & 0xffff);
}

/// The checksum of what an IPv4 header carries; 0 when the right one is in place already.
std::uint16_t carried_checksum(Kind kind, const std::uint8_t* ip, std::span<const std::uint8_t> carried) {
  std::uint64_t sum = sum16(carried);
  if (kind != Kind::icmp) sum += sum16({ip + 12, 8}) + protocol_of(kind) + carried.size();
  return fold(sum);
}

void put_link(Frame& frame, const Packet& packet, std::uint16_t type) {
  const HardwareAddress& from = packet.from_clients ? clients_side : servers_side;
  const HardwareAddress& to = packet.from_clients ? servers_side : clients_side;
  std::copy(to.begin(), to.end(), frame.begin());
  std::copy(from.begin(), from.end(), frame.begin() + 6);
  put16(frame.data() + 12, type);
}

Frame build_arp(const Packet& packet) {
  Frame frame(shortest_frame);
  put_link(frame, packet, ethertype_arp);
  std::uint8_t* at = frame.data() + ethernet_header;
  put16(at, 1);
  put16(at + 2, ethertype_ipv4);
  at[4] = 6;
  at[5] = 4;
  put16(at + 6, packet.from_clients ? 1 : 2);
  std::copy_n(frame.begin() + 6, 6, at + 8);
  put32(at + 14, packet.source);
  // A request leaves the address it asks for open; the identification makes each one different.
  put16(at + 18, packet.from_clients ? 0 : packet.identification);
  put32(at + 24, packet.destination);
  return frame;
}

}  // namespace

Frame build(const Packet& packet) {
  if (packet.kind == Kind::arp) return build_arp(packet);

  const std::size_t header = header_of(packet.kind);
  const std::size_t length = ipv4_header + header + packet.payload.size();
  Frame frame(std::max(shortest_frame, ethernet_header + length));
  put_link(frame, packet, ethertype_ipv4);

  std::uint8_t* ip = frame.data() + ethernet_header;
  ip[0] = 0x45;
  put16(ip + 2, static_cast<std::uint32_t>(length));
  put16(ip + 4, packet.identification);
  put16(ip + 6, 0x4000);
  ip[8] = 64;
  ip[9] = protocol_of(packet.kind);
  put32(ip + 12, packet.source);
  put32(ip + 16, packet.destination);
  put16(ip + 10, fold(sum16({ip, ipv4_header})));

  std::uint8_t* carried = ip + ipv4_header;
  const std::size_t carried_length = header + packet.payload.size();
  std::copy(packet.payload.begin(), packet.payload.end(), carried + header);
  std::uint8_t* checksum = nullptr;
  if (packet.kind == Kind::icmp) {
    carried[0] = packet.from_clients ? 8 : 0;
    put16(carried + 4, packet.source_port);
    put16(carried + 6, packet.sequence);
    checksum = carried + 2;
  } else {
    put16(carried, packet.source_port);
    put16(carried + 2, packet.destination_port);
    if (packet.kind == Kind::udp) {
      put16(carried + 4, static_cast<std::uint32_t>(carried_length));
      checksum = carried + 6;
    } else {
      put32(carried + 4, packet.sequence);
      put32(carried + 8, packet.acknowledgment);
      carried[12] = 0x50;
      carried[13] = packet.flags;
      put16(carried + 14, 0xfaf0);
      checksum = carried + 16;
    }
  }
  put16(checksum, carried_checksum(packet.kind, ip, {carried, carried_length}));
  return frame;
}

std::optional<Packet> read(std::span<const std::uint8_t> frame, bool& checksums_good) {
  checksums_good = false;
  if (frame.size() < ethernet_header) return std::nullopt;
  Packet packet;
  packet.from_clients = std::equal(clients_side.begin(), clients_side.end(), frame.begin() + 6);
  const std::uint16_t type = get16(frame.data() + 12);
  if (type == ethertype_arp) {
    if (frame.size() < ethernet_header + arp_body) return std::nullopt;
    packet.kind = Kind::arp;
    packet.source = get32(frame.data() + ethernet_header + 14);
    packet.destination = get32(frame.data() + ethernet_header + 24);
    checksums_good = true;
    return packet;
  }
  if (type != ethertype_ipv4 || frame.size() < ethernet_header + ipv4_header) return std::nullopt;

  const std::uint8_t* ip = frame.data() + ethernet_header;
  const std::size_t ip_header = std::size_t{ip[0]} % 16 * 4;
  const std::size_t length = get16(ip + 2);
  if (ip[0] >> 4 != 4 || ip_header < ipv4_header || length < ip_header ||
      length > frame.size() - ethernet_header)
    return std::nullopt;
  if (ip[9] == protocol_of(Kind::tcp))
    packet.kind = Kind::tcp;
  else if (ip[9] == protocol_of(Kind::udp))
    packet.kind = Kind::udp;
  else if (ip[9] == protocol_of(Kind::icmp))
    packet.kind = Kind::icmp;
  else
    return std::nullopt;

  const std::span<const std::uint8_t> carried(ip + ip_header, length - ip_header);
  std::size_t header = header_of(packet.kind);
  if (carried.size() < header) return std::nullopt;
  packet.identification = get16(ip + 4);
  packet.source = get32(ip + 12);
  packet.destination = get32(ip + 16);
  if (packet.kind == Kind::icmp) {
    packet.source_port = get16(carried.data() + 4);
    packet.sequence = get16(carried.data() + 6);
  } else {
    packet.source_port = get16(carried.data());
    packet.destination_port = get16(carried.data() + 2);
  }
  if (packet.kind == Kind::tcp) {
    header = std::size_t{carried[12]} / 16 * 4;
    if (header < tcp_header || header > carried.size()) return std::nullopt;
    packet.sequence = get32(carried.data() + 4);
    packet.acknowledgment = get32(carried.data() + 8);
    packet.flags = carried[13];
  }
  packet.payload = {reinterpret_cast<const char*>(carried.data()) + header, carried.size() - header};
  checksums_good = fold(sum16({ip, ip_header})) == 0 && carried_checksum(packet.kind, ip, carried) == 0;
  return packet;
}

std::uint64_t fingerprint(std::span<const std::uint8_t> frame) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint8_t byte : frame) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace weir::traffic
