// SPDX-License-Identifier: BSD-3-Clause
// Whatever instruction set a burst is looked at with, plain_payload() and can_begin_request() say what is
// found: on every oddity a header can have, on random ones, and in memory that ends where the frame does.
// WEIR_TEST_SEED begins elsewhere.
#include "filter/burst_look.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "frame_builder.h"

namespace weir::filter {
namespace {

using test::Bytes;
using test::FrameBuilder;

std::uint64_t seed() {
  const char* const given = std::getenv("WEIR_TEST_SEED");
  return given == nullptr ? 20261123 : std::strtoull(given, nullptr, 10);
}

std::vector<InstructionSet> sets() {
  std::vector<InstructionSet> all;
  for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
    if (has_instruction_set(set)) all.push_back(set);
  return all;
}

/// Mbufs of frames, each of which ends where its page does; behind it there is nothing that may be read.
class Burst {
 public:
  Burst() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* const memory =
        mmap(nullptr, 2 * page_ * burst_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < burst_size; ++i) mprotect(memory_ + (2 * i + 1) * page_, page_, PROT_NONE);
  }
  ~Burst() { munmap(memory_, 2 * page_ * burst_size); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  void clear() { pointers_.clear(); }
  rte_mbuf& add(const Bytes& frame) {
    constexpr std::uint16_t headroom = 100;  // no multiple of anything
    const std::size_t i = pointers_.size();
    std::byte* const bytes = memory_ + (2 * i + 1) * page_ - frame.size();
    if (!frame.empty()) std::memcpy(bytes, frame.data(), frame.size());
    rte_mbuf& mbuf = mbufs_[i];
    mbuf = {};
    mbuf.buf_addr = bytes - headroom;
    mbuf.data_off = headroom;
    mbuf.data_len = static_cast<std::uint16_t>(frame.size());
    mbuf.pkt_len = static_cast<std::uint32_t>(frame.size());
    mbuf.nb_segs = 1;
    pointers_.push_back(&mbuf);
    return mbuf;
  }

  std::span<rte_mbuf* const> all() const { return pointers_; }

  /// Looks at it with every set there is, and holds what is found against what each frame says by itself.
  void expect_what_frames_say() const {
    for (const InstructionSet set : sets()) {
      SCOPED_TRACE(testing::Message() << "instruction set " << static_cast<int>(set));
      BurstLook look;
      burst_look_of(set)(pointers_, look);
      std::uint32_t odd = 0;
      std::uint32_t opening = 0;
      for (std::size_t i = 0; i < pointers_.size(); ++i) {
        const auto* const bytes = rte_pktmbuf_mtod(pointers_[i], const std::byte*);
        const PlainPayload payload = plain_payload({bytes, pointers_[i]->data_len});
        if (payload.offset == 0 || pointers_[i]->nb_segs != 1) {
          odd |= std::uint32_t{1} << i;
          continue;
        }
        EXPECT_EQ(look.bytes[i], bytes) << i;
        if (payload.length == 0) continue;
        EXPECT_EQ(look.payloads[i].offset, payload.offset) << i;
        EXPECT_EQ(look.payloads[i].length, payload.length) << i;
        if (can_begin_request(static_cast<char>(bytes[payload.offset]))) opening |= std::uint32_t{1} << i;
      }
      EXPECT_EQ(look.odd, odd);
      EXPECT_EQ(look.opening, opening);
    }
  }

 private:
  std::size_t page_;
  std::byte* memory_;
  std::array<rte_mbuf, burst_size> mbufs_{};
  std::vector<rte_mbuf*> pointers_;
};

Bytes frame_with(const std::string& payload) { return FrameBuilder().tcp(1000, 80).payload(payload).build(); }

/// Each alone is what makes a frame another one than the plain one before.
std::vector<Bytes> odd_frames() {
  const auto changed = [](std::size_t at, unsigned value) {
    Bytes frame = frame_with("GET / HTTP/1.1\r\n\r\n");
    frame[at] = std::byte(value);
    return frame;
  };
  std::vector<Bytes> frames{changed(12, 0x86), changed(13, 0x06), changed(14, 0x46), changed(14, 0x65),
                            changed(16, 0x01), changed(17, 39),   changed(17, 59),   changed(20, 0x20),
                            changed(20, 0x01), changed(21, 0x01), changed(23, 17),   changed(46, 0x40),
                            changed(46, 0xf0)};
  frames.push_back(FrameBuilder().vlan(5).tcp(1000, 80).payload("GET").build());
  return frames;
}

TEST(BurstLook, EveryOddityIsSeenInEveryPlace) {
  Burst burst;
  for (const Bytes& odd : odd_frames())
    for (std::size_t place = 0; place < burst_size; ++place) {
      burst.clear();
      for (std::size_t i = 0; i < burst_size; ++i) burst.add(i == place ? odd : frame_with("GET / HTTP/1.1"));
      burst.expect_what_frames_say();
      for (const InstructionSet set : sets()) {
        BurstLook look;
        burst_look_of(set)(burst.all(), look);
        EXPECT_EQ(look.odd, std::uint32_t{1} << place);
        EXPECT_EQ(look.opening, ~(std::uint32_t{1} << place));
      }
    }
}

TEST(BurstLook, WhatTellsNothingMayBeAnything) {
  // Type of service, identification, do not fragment, time to live, checksum, addresses; ports, numbers,
  // flags.
  for (const std::size_t at : {15, 18, 19, 22, 24, 25, 26, 33, 34, 37, 38, 45, 47, 53}) {
    Bytes frame = frame_with("GET");
    frame[at] ^= std::byte{0xff};
    frame[20] ^= std::byte{0x40};
    Burst burst;
    burst.add(frame);
    for (const InstructionSet set : sets()) {
      BurstLook look;
      burst_look_of(set)(burst.all(), look);
      EXPECT_EQ(look.odd, 0U) << at;
      EXPECT_EQ(look.opening, 1U) << at;
    }
  }
}

TEST(BurstLook, AFrameInPiecesIsOddHoweverPlainItsFirstOneIs) {
  Burst burst;
  burst.add(frame_with("GET"));
  burst.add(frame_with("GET")).nb_segs = 2;
  burst.add(frame_with("GET")).nb_segs = 257;
  burst.expect_what_frames_say();
  for (const InstructionSet set : sets()) {
    BurstLook look;
    burst_look_of(set)(burst.all(), look);
    EXPECT_EQ(look.odd, 6U);
    EXPECT_EQ(look.opening, 1U);
  }
}

TEST(BurstLook, APayloadOpensARequestByItsFirstByteAlone) {
  Burst burst;
  for (unsigned first = 0; first < 256; ++first) {
    if (first % burst_size == 0) burst.clear();
    burst.add(frame_with(std::string(1, static_cast<char>(first)) + "GET"));
    burst.expect_what_frames_say();
  }
}

TEST(BurstLook, NothingIsReadBehindAFrameHoweverShort) {
  const Bytes whole = frame_with("GET / HTTP/1.1\r\n\r\n");
  Burst burst;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    if (size % burst_size == 0) burst.clear();
    burst.add(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    burst.expect_what_frames_say();
  }
}

TEST(BurstLook, RandomHeadersOfRandomBurstsAreWhatTheySay) {
  constexpr int bursts = WEIR_SANITIZED ? 3'000 : 30'000;
  std::mt19937_64 random(seed());
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  Burst burst;
  for (int turn = 0; turn < bursts && !testing::Test::HasFailure(); ++turn) {
    burst.clear();
    for (std::size_t count = below(burst_size + 1); count > 0; --count) {
      std::string payload(below(20), '\0');
      for (char& c : payload) c = static_cast<char>(random());
      Bytes frame = frame_with(payload);
      // Options, on both sides of the lie.
      if (below(2) == 0) frame[46] = std::byte(below(16) << 4);
      if (below(4) == 0) frame[16 + below(2)] = std::byte(below(256));
      if (below(8) == 0) frame[12 + below(40)] = std::byte(below(256));
      if (below(4) == 0) frame.resize(below(frame.size() + 40));  // cut off, or with padding
      rte_mbuf& mbuf = burst.add(frame);
      if (below(16) == 0) mbuf.nb_segs = static_cast<std::uint16_t>(below(4));
    }
    burst.expect_what_frames_say();
  }
}

}  // namespace
}  // namespace weir::filter
