// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#include <array>

namespace weir {
namespace {

/// What the vector searches find, found byte by byte.
PathShape portable_path_shape(const char* data, std::size_t size) noexcept {
  PathShape shape;
  shape.normal = size != 0 && data[0] == '/';
  char previous = 0;
  for (; shape.length < size; ++shape.length) {
    const char c = data[shape.length];
    if (c == '?' || c == '#') break;
    if (c == '%' || (previous == '/' && (c == '/' || c == '.'))) shape.normal = false;
    if (c == '/' && shape.length < 64) shape.slashes |= std::uint64_t{1} << shape.length;
    previous = c;
  }
  return shape;
}

/// No host is plain: normalise_host() goes through its bytes itself.
HostShape portable_host_shape(const char*, std::size_t size) noexcept { return {size, false}; }

// No head is of the usual spelling: the parser has its say on all.
bool no_head(const char*, std::size_t, const SoughtFields&, FoundHead&) noexcept { return false; }
bool no_fields(const char*, std::size_t, std::size_t, const SoughtFields&, FoundHead&) noexcept {
  return false;
}

std::uint32_t no_plain(const PlainFrame*, std::size_t, const SoughtFields&, PlainHeads&, const PlainFrame*,
                       std::size_t) noexcept {
  return 0;
}

constexpr Scans scans_portable{no_head, no_fields,           no_plain,
                               nullptr, portable_path_shape, portable_host_shape};

constexpr std::array<std::uint32_t, 128> make_byte_four_times() noexcept {
  std::array<std::uint32_t, 128> words{};
  for (std::uint32_t byte = 0; byte < words.size(); ++byte) words[byte] = byte * 0x01010101U;
  return words;
}

}  // namespace

constinit const std::array<std::uint32_t, 128> byte_four_times = make_byte_four_times();

const Scans& scans_of(InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (has_instruction_set(set)) {
    switch (set) {
      case InstructionSet::portable:
        break;
      case InstructionSet::sse2:
        return scans_sse2;
      case InstructionSet::avx2:
        return scans_avx2;
      case InstructionSet::avx512:
        return scans_avx512;
    }
  }
#else
  static_cast<void>(set);
#endif
  return scans_portable;
}

}  // namespace weir
