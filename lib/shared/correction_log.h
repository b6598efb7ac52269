// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What one worker's requests of one span, and of spans before, turned out to cost more or less than they
/// were charged when they were admitted: on its way to the controller.
///
/// The problem: what an answer cost is known when it has been given, often spans after the request was
/// admitted, and there may be as many answers as requests. A worker must neither wait for anybody then nor
/// write what others write. So it writes corrections down, with the key's name (a request that was only
/// looked at, and charged afterwards, has left none), and the controller takes them into account when the
/// span ends.
///
/// Protocol. As its span tables: two logs for each worker, in turns with them. While the worker counts in a
/// table it alone writes that table's log; after the flip and the grace period the controller alone owns it,
/// reads and empties it. So all members are plain: ownership passes through RCU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/huge_array.h"
#include "base/key_bytes.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

/// A key whose requests cost so much more, or less, than was charged.
struct Correction {
  std::uint64_t key = 0;
  std::int64_t by = 0;   ///< weight; below 0: so much less
  Instant charged_in{};  ///< when the span began in which it was charged
  RuleIndex rule = no_rule;
  std::span<const std::byte> name{};  ///< see base/key_bytes.h
};

class alignas(64) CorrectionLog {
 public:
  /// Reserves addresses for as many corrections of keys with names of usual lengths.
  explicit CorrectionLog(std::uint32_t corrections) : bytes_(corrections * bytes_each) {
    bytes_.use_small_pages();
  }

  /// Has the kernel provide the memory of the first ones, on the NUMA node of the calling thread. The worker,
  /// before it writes any.
  void touch_pages() noexcept { bytes_.touch_pages(0, std::min(bytes_.size(), always_ahead)); }

  // The worker:

  /// @return false: there is no room for it
  bool add(const Correction& correction) noexcept {
    const Header header{correction.key, correction.by, correction.charged_in, correction.rule,
                        static_cast<std::uint16_t>(correction.name.size())};
    static_assert(KeyBytes::capacity <= UINT16_MAX);
    if (sizeof header + correction.name.size() > bytes_.size() - used_) return false;
    std::memcpy(&bytes_[used_], &header, sizeof header);
    used_ += sizeof header;
    if (!correction.name.empty()) std::memcpy(&bytes_[used_], correction.name.data(), correction.name.size());
    used_ += correction.name.size();
    return true;
  }
  /// How far it has come, for forget_since(): what has been added since is as if it had not been.
  std::size_t end() const noexcept { return used_; }
  void forget_since(std::size_t end) noexcept { used_ = end; }

  // The controller:

  /// Calls visit(const Correction&) for each, in their order.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for (std::size_t at = 0; at < used_;) {
      Header header;
      std::memcpy(&header, &bytes_[at], sizeof header);
      at += sizeof header;
      visit(Correction{
          header.key, header.by, header.charged_in, header.rule, {bytes_.data() + at, header.name_bytes}});
      at += header.name_bytes;
    }
  }
  bool empty() const noexcept { return used_ == 0; }
  void clear() noexcept { used_ = 0; }

  /// For what may be written down, in bytes.
  std::size_t room() const noexcept { return bytes_.size(); }
  /// What it may take, in bytes.
  std::size_t memory() const noexcept { return bytes_.bytes(); }

 private:
  struct Header {
    std::uint64_t key;
    std::int64_t by;
    Instant charged_in;
    RuleIndex rule;
    std::uint16_t name_bytes;
  };
  // A name that is an address takes 6 bytes, an API key 40.
  static constexpr std::size_t bytes_each = sizeof(Header) + 56;
  static constexpr std::size_t always_ahead = std::size_t{16} << 10;

  HugeArray<std::byte> bytes_;
  std::size_t used_ = 0;
};

}  // namespace weir
