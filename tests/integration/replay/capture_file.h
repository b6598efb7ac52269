// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Capture files made by tests, byte by byte, so that they can be broken anywhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "frame_builder.h"
#include "weir/time.h"

namespace weir::test {

/// Little-endian integers, one after the other.
class Blob {
 public:
  Blob& u16(std::uint64_t value) { return put(value, 2); }
  Blob& u32(std::uint64_t value) { return put(value, 4); }
  Blob& bytes(std::string_view text) { return text_ += text, *this; }
  Blob& pad_to_four() { return text_.resize((text_.size() + 3) / 4 * 4, '\0'), *this; }
  const std::string& str() const { return text_; }

 private:
  Blob& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string text_;
};

inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A pcap file with nanoseconds.
class PcapFile {
 public:
  explicit PcapFile(std::uint32_t link_type = 1) {
    file_.u32(0xa1b23c4d).u16(2).u16(4).u32(0).u32(0).u32(262144).u32(link_type);
  }
  /// @param on_wire  length on the wire; 0: as captured
  PcapFile& packet(Duration time, std::string_view bytes, std::size_t on_wire = 0) {
    file_.u32(static_cast<std::uint64_t>(time.count() / 1'000'000'000))
        .u32(static_cast<std::uint64_t>(time.count() % 1'000'000'000))
        .u32(bytes.size())
        .u32(on_wire == 0 ? bytes.size() : on_wire)
        .bytes(bytes);
    return *this;
  }
  PcapFile& packet(Duration time, const FrameBuilder& frame) { return packet(time, text_of(frame.build())); }
  const std::string& str() const { return file_.str(); }

 private:
  Blob file_;
};

/// A pcapng file with nanoseconds: one section, one interface.
class PcapngFile {
 public:
  explicit PcapngFile(std::uint32_t link_type = 1) {
    file_.bytes(block(0x0a0d0d0a, Blob().u32(0x1a2b3c4d).u16(1).u16(0).u32(0xffffffff).u32(0xffffffff)));
    // Option 9, if_tsresol: 10^-9 s.
    file_.bytes(block(1, Blob().u16(link_type).u16(0).u32(0).u16(9).u16(1).u32(9).u32(0)));
  }
  PcapngFile& packet(Duration time, std::string_view bytes) {
    const auto ticks = static_cast<std::uint64_t>(time.count());
    Blob body;
    body.u32(0).u32(ticks >> 32).u32(ticks & 0xffffffff).u32(bytes.size()).u32(bytes.size()).bytes(bytes);
    file_.bytes(block(6, body.pad_to_four()));
    return *this;
  }
  PcapngFile& packet(Duration time, const FrameBuilder& frame) {
    return packet(time, text_of(frame.build()));
  }
  const std::string& str() const { return file_.str(); }

 private:
  static std::string block(std::uint32_t type, const Blob& body) {
    const std::size_t length = body.str().size() + 12;
    return Blob().u32(type).u32(length).bytes(body.str()).u32(length).str();
  }
  Blob file_;
};

}  // namespace weir::test
