// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The searches that every request pays for, and the choice of how they are done: byte by byte is where
/// classification spends its time, and most bytes of a request are of no interest. A vector search turns 64
/// bytes at once into masks of the few bytes that matter (line ends, spaces, slashes) and goes from bit to
/// bit.
///
/// The vector searches know the usual spelling of a request only, and say "not mine" to everything else: then
/// the portable parser has its say, whose result is the meaning of every payload. So there is one place where
/// oddities are judged, and none where the searches could disagree about them.
///
/// One file per instruction set (head_scan_*.cc) holds the code that needs it; everything else is compiled
/// for the baseline. All functions are pure and may be called by any thread. None reads a byte outside of
/// what it is given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/key_hash.h"
#include "weir/packet.h"
#include "weir/rule.h"

namespace weir {

/// A wanted header field, without initial values: there is room for many, and few are used. Positions count
/// from the payload's first byte.
struct FoundField {
  std::uint32_t colon;
  std::uint32_t line_end;  ///< its '\n'
  std::uint8_t field;      ///< index into SoughtFields::fields
};

/// A request line in its usual spelling, "METHOD target HTTP/1.x" with single spaces, and the wanted fields
/// behind it. Without initial values: a search fills them.
struct FoundHead {
  /// More wanted fields than anything honest sends, repetitions included.
  static constexpr std::size_t max_fields = 32;

  std::uint32_t method_end;  ///< the space behind the method, which begins the payload
  std::uint32_t target_end;  ///< the space behind the target, which begins behind the first one
  std::uint32_t line_end;    ///< the '\n' of the request line
  std::uint32_t path_end;    ///< of the target's path, if path_normal
  std::uint64_t slashes;     ///< bit i: a '/' at byte i of the path; all of them, if path_normal
  bool path_normal;          ///< the target lies in the first 64 bytes, its path has its normal form
  bool minor_zero;           ///< HTTP/1.0, else 1.1
  bool complete;             ///< the header section ends within the payload
  std::uint32_t end;         ///< the first byte behind the header section, if complete
  std::uint32_t count;
  std::array<FoundField, max_fields> fields;  ///< in order; left uninitialised beyond count
};

/// The plain requests of a burst. A request is plain that is all there is in its payload, in the usual
/// spelling, its target within the first 64 bytes and its path in normal form, with no more than some sixty
/// fields, the last one no shorter than a word. As nearly all are; so it takes few words to say where its
/// parts lie. Positions count from the payload's first byte. Without initial values: a search fills them.
///
/// One part of all requests lies side by side, by frame, as those want it who ask the same of several
/// requests at once.
struct PlainHeads {
  static constexpr std::size_t most_frames = 32;
  struct Value {
    std::uint16_t begin;
    std::uint16_t end;  ///< 0: there is none. An empty host is none, an empty field is one
  };
  /// Where values stand: behind these the fields sought, in their order.
  enum At : std::uint8_t { method = 0, path = 1, fields = 2 };

  /// The path without a slash at its end, if it is more than that; of each field the first one; a host
  /// without its port and trailing dot. Left uninitialised beyond SoughtFields::field_count.
  std::array<std::array<Value, most_frames>, fields + SoughtFields::max_fields> values;
  std::array<std::uint64_t, most_frames> slashes;  ///< bit i: a '/' at byte i of the path, that at its end
                                                   ///< included
  std::array<const char*, most_frames> payloads;
  std::array<std::uint32_t, most_frames> sizes;  ///< of the payloads
};

/// The texts of one rule's keys, to be hashed.
struct TextKeys {
  static constexpr std::size_t most = max_dimensions;

  /// Of each, in the key's order: where it stands in PlainHeads::values.
  std::array<std::uint8_t, most> values{};
  std::size_t count = 0;
  std::uint64_t tweak = 0;  ///< as KeyHash has it
};

/// How far a path reaches within a target, and of what shape it is.
struct PathShape {
  std::size_t length = 0;     ///< up to '?', '#' or the end
  bool normal = false;        ///< in its normal form (see normalise.h), so that it need not be copied
  std::uint64_t slashes = 0;  ///< bit i: a '/' at byte i; all of them only where length <= 64
};

/// What there is to do to a host, and how far it reaches.
struct HostShape {
  std::size_t length = 0;  ///< up to ':' or the end
  bool plain = false;  ///< at most 64 bytes in all, without '@', '[' and capitals; else length means nothing
};

/// The searches of one instruction set.
struct Scans {
  /// Finds a request at a payload's first byte, and in its header section the fields that are sought.
  /// @return false: not of the usual spelling, or more fields or lines than there is room for; nothing is
  /// known about this payload
  bool (*find_head)(const char* data, std::size_t size, const SoughtFields& sought,
                    FoundHead& found) noexcept;
  /// Finds other fields in a header section: fills complete, end, count and fields.
  /// @param line_end  the position of the request line's '\n', as found
  /// @return false: more fields or lines than there is room for
  bool (*find_fields)(const char* data, std::size_t line_end, std::size_t size, const SoughtFields& sought,
                      FoundHead& found) noexcept;
  /// Looks for plain requests in a whole burst.
  /// @param frames  at most 32; those that are not plain have no payload
  /// @param sought  of which the host is wanted for nothing but itself, see SoughtFields::Role
  /// @param heads  filled where there is a plain request
  /// @param next  the frames that come next, no more than 32: their lines are asked for meanwhile
  /// @return bit i: frames[i] is a plain request. Of the others nothing is known
  std::uint32_t (*find_plain)(const PlainFrame* frames, std::size_t count, const SoughtFields& sought,
                              PlainHeads& heads, const PlainFrame* next, std::size_t next_count) noexcept;
  /// Hashes the texts of plain requests as KeyHash::Texts does. Null: that is the fastest there is.
  /// @param requests  bit i: that in frames[i]
  /// @param hashes  room for all frames that there may be; filled for these requests, those of others may be
  /// written over
  /// @return those of them that have a text too long to be hashed so (or as long as one that just is not)
  std::uint32_t (*hash_texts)(const PlainHeads& heads, std::uint32_t requests, const TextKeys& keys,
                              const KeyHash::Words& words, std::uint64_t* hashes) noexcept;
  PathShape (*path_shape)(const char* data, std::size_t size) noexcept;
  HostShape (*host_shape)(const char* data, std::size_t size) noexcept;
};

/// Each of the first 128 byte values four times. Defined where no compiler sees it that could put it together
/// from immediate values instead of loading it.
extern const std::array<std::uint32_t, 128> byte_four_times;

/// The searches of a set. Where the build or the machine has it not, the portable ones.
const Scans& scans_of(InstructionSet set) noexcept;

#if defined(__x86_64__)
extern const Scans scans_sse2;
extern const Scans scans_avx2;
extern const Scans scans_avx512;
#endif

}  // namespace weir
