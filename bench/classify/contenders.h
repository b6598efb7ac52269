// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// From a frame to the hash of its key, once through the library, once as one would write it in C, and once
/// through each packaged parser; and the floors. All contenders of one job yield the same number for the same
/// frame, so that the results can be checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/key_hash.h"
#include "classify/classifier.h"
#include "classify/plain_classifier.h"
#include "weir/packet.h"
#include "workload.h"

namespace weir::bench {

/// The library's own path for any frame: layers, requests, rules, key, hash.
class OwnPath {
 public:
  explicit OwnPath(Wanted wanted, InstructionSet set = best_instruction_set())
      : classifier_(rules_for(wanted), set) {}

  /// @return the sum of the keys' hashes; 0 where there is no request
  std::uint64_t operator()(std::span<const std::byte> frame) noexcept;
  const PlainClassifier& plain() const noexcept { return classifier_.plain(); }

 private:
  Classifier classifier_;
  Classifier::Scratch scratch_;
  ParsedRequest parsed_;
};

/// The library's own path for plain frames in bursts, as the filter and a worker walk it: layers, requests,
/// rules, keys, hashes; what is not plain goes the way of OwnPath.
class BurstPath {
 public:
  explicit BurstPath(Wanted wanted, InstructionSet set = best_instruction_set()) : own_(wanted, set) {}
  BurstPath(const BurstPath&) = delete;
  BurstPath& operator=(const BurstPath&) = delete;

  using Frames = std::span<const std::span<const std::byte>>;

  /// @param frames  at most PlainKeys::most_frames
  /// @param next  the frames that come next, if any: their first lines are looked at, the others asked for.
  /// Then the next call's `frames` are these
  /// @return the sum of the keys' hashes
  std::uint64_t operator()(Frames frames, Frames next = {}) noexcept;

 private:
  /// A burst that has been looked through.
  struct Burst {
    std::array<PlainFrame, PlainKeys::most_frames> plain;
    std::size_t plain_count = 0;
    std::uint64_t sum = 0;  // of the frames that are not plain
  };
  void look_through(Frames frames, Burst& burst) noexcept;

  OwnPath own_;
  PlainKeys keys_;
  std::array<Burst, 2> bursts_;
  std::size_t current_ = 0;
  bool looked_through_ = false;
};

/// Layers by the library, HTTP by another parser, then the same normal forms and hash as OwnPath's.
/// One request per frame is read: none of them tells where the next one begins without being asked again.
class PeerPath {
 public:
  using Parse = bool (*)(std::string_view payload, Wanted wanted, Request& request,
                         std::span<Header, 2> headers);
  PeerPath(Wanted wanted, Parse parse) noexcept : wanted_(wanted), parse_(parse) {}
  std::uint64_t operator()(std::span<const std::byte> frame) noexcept;

 private:
  Wanted wanted_;
  Parse parse_;
};

/// What one would write in C: memchr from one separator to the next, names compared as they come; and no more
/// of the request is looked at than is wanted.
bool parse_with_memchr(std::string_view payload, Wanted wanted, Request& request,
                       std::span<Header, 2> headers);
#ifdef WEIR_BENCH_HTTP_PARSER
/// The parser of Node.js before version 12, packaged as libhttp-parser.
bool parse_with_http_parser(std::string_view payload, Wanted wanted, Request& request,
                            std::span<Header, 2> headers);
#endif
#ifdef WEIR_BENCH_PICOHTTPPARSER
/// picohttpparser as h2o brings it along, in libh2o.
bool parse_with_picohttpparser(std::string_view payload, Wanted wanted, Request& request,
                               std::span<Header, 2> headers);
#endif

/// Floor: one word of each of the frame's first three cache lines.
std::uint64_t touch_three_lines(std::span<const std::byte> frame) noexcept;
/// Floor: one vector pass over the payload, by the C library's memchr for a byte that is not there.
std::uint64_t pass_over_payload(std::span<const std::byte> frame) noexcept;
/// Floor: the payload's lines by memchr, one call for each; nothing of them is read.
std::uint64_t count_lines(std::span<const std::byte> frame) noexcept;

}  // namespace weir::bench
