// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The one form of a path and of a host that rules and keys go by. One resource can be asked for in many
/// spellings
/// ("/login", "//login", "/a/../%6cogin?x"); whoever counts spellings instead of resources is evaded by
/// spelling.
#pragma once

#include <span>
#include <string_view>

#include "classify/head_scan.h"

namespace weir {

/// The path of a request target: scheme and authority of the absolute form, query and fragment cut off,
/// percent-encoding decoded once, slashes merged, "." and ".." resolved ("..", at the top, stays there), as
/// nginx does it. A decoded '/' or '.' counts as one; a decoded '?' or '#' does not end the path. A '%'
/// without two hex digits stands for itself. "*" stays as it is, and so does the empty target; what else does
/// not begin with '/' is read as if it did. (The authority form, of CONNECT alone, has no path: it does not
/// belong here.)
/// @param buffer  at least 1 byte; holds the result where that is not simply a part of `target`. What does
/// not fit is cut
///                off the *resolved* path, so a segment that ".." takes back leaves no trace, however long it
///                was
/// @return a view into `target` or `buffer`, at most buffer.size() bytes
/// @param scans  what to look at the target with; the result is the same with all of them
std::string_view normalise_path(std::string_view target, std::span<char> buffer,
                                const Scans& scans = scans_of(InstructionSet::portable)) noexcept;

/// A path in its normal form, with what the search found on the way.
struct NormalPath {
  std::string_view text;
  /// Bit i: a '/' at byte i. All of them, or none where the path is longer than 64 bytes or had to be
  /// rewritten.
  std::uint64_t slashes = 0;
};

/// As normalise_path().
NormalPath normal_path(std::string_view target, std::span<char> buffer, const Scans& scans) noexcept;

/// A host as in the Host field, where no user information stands before it: with it cut off, whoever writes
/// `host:@anything` would have another one than nginx sees. Port and one trailing dot are, in lower case
/// (ASCII). IPv6 literals keep their brackets. Of what does not fit the last bytes are kept: they tell
/// the domain.
/// @return a view into `host` or `buffer`, at most buffer.size() bytes
/// @param scans  what to look at the host with; the result is the same with all of them
std::string_view normalise_host(std::string_view host, std::span<char> buffer,
                                const Scans& scans = scans_of(InstructionSet::portable)) noexcept;

/// A target in absolute form, taken apart.
struct AbsoluteTarget {
  std::string_view authority;  ///< with user information and port, if sent
  std::string_view rest;       ///< path, query and fragment; may be empty
};

/// Takes "scheme://authority/path" apart; for every other form both parts are empty.
AbsoluteTarget split_absolute(std::string_view target) noexcept;

}  // namespace weir
