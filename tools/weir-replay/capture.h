// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Reads captures: pcap and pcapng, with nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "link_layer.h"
#include "weir/time.h"

struct pcap;

namespace weir::replay {

/// One packet, as an Ethernet frame of the length it had on the wire.
struct Packet {
  WallTime time;
  /// What was not captured of it reads as zeroes, so that lengths in its headers still agree with it.
  std::span<const std::byte> frame;
  std::size_t captured = 0;  ///< how many bytes of `frame` are real
};

class Capture {
 public:
  Capture();
  ~Capture();
  Capture(Capture&&) noexcept;
  Capture& operator=(Capture&&) noexcept;

  /// @param path  "-" for the standard input
  /// @return empty, or why it cannot be read ("FILE: …")
  std::string open(const std::string& path);

  /// The next packet, valid until the next call; none at the end, and where the capture is broken: see
  /// error().
  std::optional<Packet> next();

  /// What is wrong with the capture ("FILE: packet 7: …"); empty: nothing.
  const std::string& error() const noexcept { return error_; }

 private:
  struct Close {
    void operator()(pcap* handle) const noexcept;
  };
  void fail(const std::string& what);

  std::unique_ptr<pcap, Close> handle_;
  std::string path_;
  std::optional<LinkLayer> link_;
  std::vector<std::byte> frame_;
  std::uint64_t number_ = 0;  ///< of the last packet asked for, 1-based
  std::string error_;
};

}  // namespace weir::replay
