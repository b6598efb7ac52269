// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The vector searches, written once over the operations of a vector type (scan_set.h): for one head, for all
/// plain ones of a burst, for the shapes of values.
///
/// They and this are included by the head_scan_*.cc alone, in the region of each where its instruction set is
/// in force; they use no function of the standard library, because such a function, compiled there, could
/// become the copy that the linker gives to everybody.
#pragma once

#include "classify/head_scan.h"
#include "classify/one_head_kernel.h"
#include "classify/plain_heads_kernel.h"
#include "classify/value_shapes_kernel.h"

namespace weir {
namespace {

/// What the table of an instruction set points to: one of the functions above, and then what the set has to
/// do before code for every machine goes on.
template <typename Set, auto function>
struct Entry;

template <typename Set, typename Result, typename... Arguments, Result (*function)(Arguments...) noexcept>
struct Entry<Set, function> {
  static Result call(Arguments... arguments) noexcept {
    const Result result = function(arguments...);
    Set::leave();
    return result;
  }
};

/// @param hash_texts  as in Scans; null where the set has none
template <typename Set>
constexpr Scans scans_with(decltype(Scans::hash_texts) hash_texts) noexcept {
  return {Entry<Set, find_head<Set>>::call,  Entry<Set, find_fields<Set>>::call,
          Entry<Set, find_plain<Set>>::call, hash_texts,
          Entry<Set, path_shape<Set>>::call, Entry<Set, host_shape<Set>>::call};
}

}  // namespace
}  // namespace weir
