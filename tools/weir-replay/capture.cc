// SPDX-License-Identifier: BSD-3-Clause
#include "capture.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace weir::replay {
namespace {

/// No packet is longer; a length on the wire beyond it is a broken capture's.
constexpr std::size_t longest_packet = 256 * 1024;
/// A wall clock of 64-bit nanoseconds ends in 2262.
constexpr std::int64_t last_second = 9'223'372'035;

}  // namespace

Capture::Capture() = default;
Capture::~Capture() = default;
Capture::Capture(Capture&&) noexcept = default;
Capture& Capture::operator=(Capture&&) noexcept = default;

void Capture::Close::operator()(pcap* handle) const noexcept { pcap_close(handle); }

std::string Capture::open(const std::string& path) {
  path_ = path == "-" ? "standard input" : path;
  std::array<char, PCAP_ERRBUF_SIZE> reason{};
  handle_.reset(
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, reason.data()));
  if (handle_ == nullptr) {
    // libpcap puts the path in front of some of its reasons.
    const std::string text = reason.data();
    return text.starts_with(path) ? text : path_ + ": " + text;
  }
  const int type = pcap_datalink(handle_.get());
  link_ = LinkLayer::of(type);
  if (link_) return {};
  const char* const name = pcap_datalink_val_to_description_or_dlt(type);
  return path_ + ": link type " + name +
         " is not supported; Ethernet, raw IP, Linux cooked (v1 and v2) and BSD loopback are";
}

void Capture::fail(const std::string& what) {
  error_ = path_ + ": packet " + std::to_string(number_) + ": " + what;
}

std::optional<Packet> Capture::next() {
  if (!error_.empty()) return std::nullopt;
  ++number_;
  pcap_pkthdr* header = nullptr;
  const unsigned char* data = nullptr;
  const int result = pcap_next_ex(handle_.get(), &header, &data);
  if (result == PCAP_ERROR_BREAK) return std::nullopt;
  if (result != 1) {
    fail(pcap_geterr(handle_.get()));
    return std::nullopt;
  }
  // With nanosecond precision, tv_usec holds nanoseconds.
  const auto seconds = static_cast<std::int64_t>(header->ts.tv_sec);
  const auto nanoseconds = static_cast<std::int64_t>(header->ts.tv_usec);
  if (seconds < 0 || seconds > last_second || nanoseconds < 0 || nanoseconds > 999'999'999) {
    fail("its time, " + std::to_string(seconds) + " s and " + std::to_string(nanoseconds) +
         " ns, is out of range");
    return std::nullopt;
  }
  const std::size_t on_wire = std::max(header->caplen, header->len);
  if (on_wire > longest_packet) {
    fail("its length, " + std::to_string(on_wire) + " bytes, is out of range");
    return std::nullopt;
  }
  const std::span captured(data, header->caplen);
  link_->to_ethernet(std::as_bytes(captured), frame_);
  const std::size_t real = frame_.size();
  if (real != 0) frame_.resize(real + on_wire - header->caplen);
  return Packet{WallTime(std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds)), frame_,
                real};
}

}  // namespace weir::replay
