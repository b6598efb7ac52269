// SPDX-License-Identifier: BSD-3-Clause
#include "classify/head_scan.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

#if defined(__x86_64__)
// Where it is missing, the same bytes are another instruction with another result; clang 14 cannot ask for it
// by name.
bool has_lzcnt() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}
#endif

using Available = std::array<bool, 4>;  // by InstructionSet

Available find_available() noexcept {
  Available available{true, false, false, false};
#if defined(__x86_64__)
  // Asked for by constructors of objects that may be global: nothing else has initialised it by then for
  // certain.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_lzcnt();
  available = {true, true, avx2,
               avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl")};
#endif
  return available;
}

/// No host is plain: normalise_host() goes through its bytes itself.
HostShape portable_host_shape(const char*, std::size_t size) noexcept { return {size, false}; }

// No head is of the usual spelling: the parser has its say on all.
bool no_head(const char*, std::size_t, const SoughtFields&, FoundHead&) noexcept { return false; }
bool no_fields(const char*, std::size_t, std::size_t, const SoughtFields&, FoundHead&) noexcept {
  return false;
}

std::uint32_t no_plain(const PlainFrame*, std::size_t, const SoughtFields&, PlainHead*) noexcept { return 0; }

constexpr Scans scans_portable{no_head, no_fields,           no_plain,
                               nullptr, portable_path_shape, portable_host_shape};

constexpr std::array<std::uint32_t, 128> make_byte_four_times() noexcept {
  std::array<std::uint32_t, 128> words{};
  for (std::uint32_t byte = 0; byte < words.size(); ++byte) words[byte] = byte * 0x01010101U;
  return words;
}

}  // namespace

constinit const std::array<std::uint32_t, 128> byte_four_times = make_byte_four_times();

bool has_instruction_set(InstructionSet set) noexcept {
  // Found out once, at the first question: asking the processor traps into the hypervisor, where there is
  // one.
  static const Available available = find_available();
  return available[static_cast<std::size_t>(set)];
}

InstructionSet best_instruction_set() noexcept {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::sse2}) {
    if (has_instruction_set(set)) return set;
  }
  return InstructionSet::portable;
}

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
