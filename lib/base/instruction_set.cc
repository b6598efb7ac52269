// SPDX-License-Identifier: BSD-3-Clause
// Which instructions this machine has.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstddef>

#include "weir/packet.h"

namespace weir {
namespace {

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
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2")};
#endif
  return available;
}

}  // namespace

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

}  // namespace weir
