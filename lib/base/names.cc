// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <string>
#include <string_view>

#include "weir/config.h"
#include "weir/request.h"
#include "weir/rule.h"

namespace weir {
namespace {

constexpr int groups = 8;

unsigned group(const IpAddress& address, int index) noexcept {
  const auto at = static_cast<std::size_t>(2 * index);
  return static_cast<unsigned>(address.bytes[at] << 8 | address.bytes[at + 1]);
}

void append_group(std::string& out, unsigned value) {
  bool significant = false;
  for (int shift = 12; shift >= 0; shift -= 4) {
    const unsigned digit = value >> shift & 15;
    significant = significant || digit != 0 || shift == 0;
    if (significant) out += "0123456789abcdef"[digit];
  }
}

/// A run of zero groups, to be written as "::".
struct ZeroRun {
  int begin = groups;
  int length = 0;
};

/// RFC 5952: the longest run of at least two, the first of equals.
ZeroRun longest_zero_run(const IpAddress& address) noexcept {
  ZeroRun best;
  for (int begin = 0; begin < groups; ++begin) {
    int length = 0;
    while (begin + length < groups && group(address, begin + length) == 0) ++length;
    if (length > best.length && length >= 2) best = {begin, length};
  }
  return best;
}

std::string ipv6_text(const IpAddress& address) {
  const ZeroRun zeros = longest_zero_run(address);
  std::string text;
  for (int i = 0; i < groups; ++i) {
    if (i == zeros.begin) {
      text += "::";
      i += zeros.length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    append_group(text, group(address, i));
  }
  return text;
}

}  // namespace

std::string IpAddress::to_string() const {
  switch (family) {
    case Family::v4:
      return std::to_string(bytes[0]) + '.' + std::to_string(bytes[1]) + '.' + std::to_string(bytes[2]) +
             '.' + std::to_string(bytes[3]);
    case Family::v6:
      return ipv6_text(*this);
    case Family::none:
      break;
  }
  return "-";
}

std::string_view to_string(Action action) noexcept {
  switch (action) {
    case Action::drop:
      return "drop";
    case Action::reset:
      return "reset";
    case Action::reply_429:
      return "reply-429";
    case Action::observe:
      return "observe";
  }
  return "?";
}

std::string_view to_string(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::cooldown:
      return "cooldown";
    case Algorithm::fixed_window:
      return "fixed-window";
    case Algorithm::sliding_window:
      return "sliding-window";
    case Algorithm::token_bucket:
      return "token-bucket";
    case Algorithm::leaky_bucket:
      return "leaky-bucket";
    case Algorithm::sliding_log:
      return "sliding-log";
    case Algorithm::shed:
      return "shed";
    case Algorithm::strict:
      return "strict";
  }
  return "?";
}

std::string_view to_string(EarlyBlock early) noexcept {
  switch (early) {
    case EarlyBlock::sound:
      return "sound";
    case EarlyBlock::predictive:
      return "predictive";
  }
  return "?";
}

std::string_view to_string(OnStoreFailure what) noexcept {
  switch (what) {
    case OnStoreFailure::local:
      return "local";
    case OnStoreFailure::open:
      return "open";
    case OnStoreFailure::closed:
      return "closed";
  }
  return "?";
}

std::string_view to_string(StoreLayout layout) noexcept {
  switch (layout) {
    case StoreLayout::hash:
      return "hash";
    case StoreLayout::plain:
      return "plain";
    case StoreLayout::exchange:
      return "exchange";
  }
  return "?";
}

std::string_view to_string(LocalRule rule) noexcept {
  switch (rule) {
    case LocalRule::cumulative:
      return "cumulative";
    case LocalRule::per_span:
      return "per-span";
  }
  return "?";
}

}  // namespace weir
