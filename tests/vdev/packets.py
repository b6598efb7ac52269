# SPDX-License-Identifier: BSD-3-Clause
"""Ethernet, IP and TCP frames, made and taken apart without any of weir's own code, and pcap files of them."""
import ipaddress
import struct
from dataclasses import dataclass, field

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
CLIENT_MAC = bytes.fromhex("020000000001")
SERVER_MAC = bytes.fromhex("020000000002")


def checksum(data):
    """RFC 1071; 0 over data that carries its right checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def link(payload, ethertype, vlans=(), source=CLIENT_MAC, destination=SERVER_MAC):
    """An Ethernet frame; `vlans` are tags from the outside in."""
    tags = b""
    for position, tag in enumerate(vlans):
        tags += struct.pack("!HH", 0x88A8 if position + 1 < len(vlans) else 0x8100, tag)
    return destination + source + tags + struct.pack("!H", ethertype) + payload


def ip(payload, source, destination, protocol=6, ttl=57, fragment=0, identification=0x1234):
    """(ethertype, packet) for either family."""
    source, destination = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if source.version == 4:
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), identification, fragment, ttl, protocol, 0,
                           source.packed, destination.packed)
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        return 0x0800, head + payload
    return 0x86DD, struct.pack("!IHBB16s16s", 6 << 28, len(payload), protocol, ttl, source.packed,
                               destination.packed) + payload


def pseudo_header(source, destination, protocol, length):
    source, destination = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    return source.packed + destination.packed + (struct.pack("!BBH", 0, protocol, length) if source.version == 4
                                                 else struct.pack("!II", length, protocol))


def tcp(source, destination, source_port, destination_port, payload=b"", sequence=1000, acknowledgment=5000,
        flags=PSH | ACK, options=b"", vlans=(), **link_arguments):
    """A TCP segment in a frame, with right checksums. `options` is padded to whole words."""
    options += b"\0" * (-len(options) % 4)
    segment = struct.pack("!HHIIBBHHH", source_port, destination_port, sequence, acknowledgment,
                          (5 + len(options) // 4) << 4, flags, 4096, 0, 0) + options + payload
    value = checksum(pseudo_header(source, destination, 6, len(segment)) + segment)
    segment = segment[:16] + struct.pack("!H", value) + segment[18:]
    ethertype, packet = ip(segment, source, destination)
    return link(packet, ethertype, vlans, **link_arguments)


def udp(source, destination, source_port, destination_port, payload):
    datagram = struct.pack("!HHHH", source_port, destination_port, 8 + len(payload), 0) + payload
    value = checksum(pseudo_header(source, destination, 17, len(datagram)) + datagram) or 0xFFFF
    datagram = datagram[:6] + struct.pack("!H", value) + datagram[8:]
    ethertype, packet = ip(datagram, source, destination, protocol=17)
    return link(packet, ethertype)


def arp():
    return link(struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + CLIENT_MAC + bytes([10, 0, 0, 1]) + bytes(6) +
                bytes([10, 0, 0, 2]), 0x0806, destination=b"\xff" * 6)


def timestamps(value, echo):
    return struct.pack("!BBBBII", 1, 1, 8, 10, value, echo)


@dataclass
class Decoded:
    destination_mac: bytes
    source_mac: bytes
    vlans: list
    source: str
    destination: str
    ttl: int
    source_port: int
    destination_port: int
    sequence: int
    acknowledgment: int
    flags: int
    options: bytes
    payload: bytes
    frame: bytes = field(repr=False)


def decode(frame):
    """A TCP frame's fields. Raises ValueError when a checksum or length is wrong."""
    at, vlans = 12, []
    (ethertype,) = struct.unpack_from("!H", frame, at)
    while ethertype in (0x8100, 0x88A8):
        vlans.append(struct.unpack_from("!H", frame, at + 2)[0])
        at += 4
        (ethertype,) = struct.unpack_from("!H", frame, at)
    packet = frame[at + 2:]
    if ethertype == 0x0800:
        head = 4 * (packet[0] & 15)
        if checksum(packet[:head]) != 0:
            raise ValueError("wrong IP checksum")
        (total,) = struct.unpack_from("!H", packet, 2)
        if total != len(packet):
            raise ValueError("IP length %d, frame has %d" % (total, len(packet)))
        ttl, protocol, source, destination = packet[8], packet[9], packet[12:16], packet[16:20]
    elif ethertype == 0x86DD:
        head = 40
        (length,) = struct.unpack_from("!H", packet, 4)
        if length != len(packet) - 40:
            raise ValueError("IP length %d, frame has %d" % (length, len(packet) - 40))
        ttl, protocol, source, destination = packet[7], packet[6], packet[8:24], packet[24:40]
    else:
        raise ValueError("not IP: %#x" % ethertype)
    if protocol != 6:
        raise ValueError("not TCP: %d" % protocol)
    source, destination = str(ipaddress.ip_address(source)), str(ipaddress.ip_address(destination))
    segment = packet[head:]
    if checksum(pseudo_header(source, destination, 6, len(segment)) + segment) != 0:
        raise ValueError("wrong TCP checksum")
    source_port, destination_port, sequence, acknowledgment, offset, flags = struct.unpack_from("!HHIIBB", segment)
    data = 4 * (offset >> 4)
    return Decoded(frame[:6], frame[6:12], vlans, source, destination, ttl, source_port, destination_port, sequence,
                   acknowledgment, flags, segment[20:data], segment[data:], frame)


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 1_700_000_000, number % 1_000_000, len(frame), len(frame)) + frame)


def read_pcap(path):
    with open(path, "rb") as file:
        data = file.read()
    (magic,) = struct.unpack_from("<I", data)
    if magic not in (0xA1B2C3D4, 0xA1B23C4D):
        raise ValueError("not a pcap file: %s" % path)
    frames, at = [], 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames
