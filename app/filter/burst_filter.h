// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The heart of the filter: a burst of frames in, the frames to send out, in order. Classifies, asks the
/// throttle, acts.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "filter/burst_look.h"
#include "filter/closing_flows.h"
#include "filter/counters.h"
#include "filter/reply.h"
#include "filter/wiring.h"
#include "weir/packet.h"
#include "weir/throttle.h"

namespace weir::filter {

/// Frames on their way out; `mbuf->port` is the port to leave by.
struct Outgoing {
  std::array<rte_mbuf*, max_outgoing> frames;
  std::size_t count = 0;
};

/// From which of two ports a burst has come. One of them faces the clients, as a rule.
enum class Side : std::uint8_t { first, second };

/// One worker's filter. One thread at a time. process() neither blocks nor allocates (but mbufs from their
/// pools).
class BurstFilter {
 public:
  /// Closing flows remembered per worker.
  static constexpr std::size_t closing_capacity = 16384;

  /// All references must outlive the filter. Allocates all memory it will ever use.
  /// @param seed  random
  BurstFilter(Throttle& throttle, Worker& worker, const Wiring& wiring, Counters& counters,
              std::uint64_t seed);
  ~BurstFilter();
  BurstFilter(const BurstFilter&) = delete;
  BurstFilter& operator=(const BurstFilter&) = delete;

  /// Bytes one filter takes under so many rules.
  static std::size_t memory(std::size_t rules) noexcept;

  /// Decides on a burst. Takes the frames over; they come back in `out` or are freed.
  /// @param burst  at most burst_size; `mbuf->port` is the port received from
  /// @pre the worker is online, out.count is 0
  void process(std::span<rte_mbuf* const> burst, MonotonicTime now, Outgoing& out) noexcept {
    if (passes_without_time(burst) || passes_in_time(burst, now, out)) pass_all(burst, out);
  }

  /// process() in its parts, for who has a cheaper way to pass a whole burst on than one by one. The first
  /// needs no time: to read a clock costs as much as to pass several frames on.
  /// @return true: all frames of the burst pass, and whatever was to be decided in it has been admitted;
  /// false: passes_in_time() must follow, with the same burst
  /// @param from  bursts of one side are alike: which way to look at this one, its last one tells
  /// @pre as for process(), but that mbufs' ports may be unknown
  bool passes_without_time(std::span<rte_mbuf* const> burst, Side from = Side::first) noexcept;
  /// @return true: as above, and `out` is as it was; false: what becomes of the burst is in `out`
  bool passes_in_time(std::span<rte_mbuf* const> burst, MonotonicTime now, Outgoing& out) noexcept;
  /// Every frame leaves by the port that faces its own.
  void pass_all(std::span<rte_mbuf* const> burst, Outgoing& out) const noexcept {
    for (rte_mbuf* const mbuf : burst) pass(mbuf, out);
  }

 private:
  /// Requests decided in one call of admit_burst().
  static constexpr std::size_t batch_size = 64;
  /// Larger than any IP packet with its link header.
  static constexpr std::size_t scratch_size = 65536 + 64;

  /// What becomes of one frame of the burst.
  struct Fate {
    enum class Kind : std::uint8_t { pass, refuse, closing } kind = Kind::pass;
    ClosingStep step = ClosingStep::absorb;  // of closing
    Action action = Action::drop;            // of refuse, and so the rest
    bool head = false;
    RuleIndex rule = no_rule;
    Duration retry_after{};
  };
  /// Memory of a burst's requests; too large for the stack.
  struct Batch;

  void look_through(std::span<rte_mbuf* const> burst, bool& requests_expected) noexcept;
  template <bool closing>
  void look_one_by_one(std::span<rte_mbuf* const> burst) noexcept;
  void look_at_all(std::span<rte_mbuf* const> burst) noexcept;
  bool look_closely(const rte_mbuf* mbuf) noexcept;
  bool is_closing(std::size_t index, const Frame& frame, MonotonicTime now) noexcept;
  void admit_plain(Side from) noexcept;
  std::uint32_t decide_plain(MonotonicTime now) noexcept;
  bool is_worth_it(std::uint32_t decided) const noexcept;
  void count_decided(std::uint32_t admitted, std::uint32_t refused) noexcept;
  std::uint32_t all_concerns() const noexcept;
  void classify(std::size_t concern, MonotonicTime now) noexcept;
  void classify_closely(std::size_t index, const rte_mbuf* mbuf, MonotonicTime now) noexcept;
  void count_if_lacking(const Request& request) noexcept;
  void decide(MonotonicTime now) noexcept;
  Fate& fate_of(std::size_t index) noexcept;
  void act_on_all(std::span<rte_mbuf* const> burst, MonotonicTime now, Outgoing& out) noexcept;
  void act(std::size_t index, rte_mbuf* mbuf, bool may_be_closing, MonotonicTime now, Outgoing& out) noexcept;
  void pass(rte_mbuf* mbuf, Outgoing& out) const noexcept {
    mbuf->port = wiring_.ports[mbuf->port].peer;
    out.frames[out.count++] = mbuf;
  }
  void refuse(rte_mbuf* mbuf, const Frame& frame, const Fate& fate, MonotonicTime now,
              Outgoing& out) noexcept;
  void close(rte_mbuf* mbuf, const Frame& frame, ClosingStep step, MonotonicTime now, Outgoing& out) noexcept;
  /// @return length of the reply's TCP payload; none when there was no memory
  std::optional<std::size_t> answer_429(rte_mbuf* mbuf, const Frame& frame, const Refusal& refusal,
                                        Outgoing& out) noexcept;
  bool answer_reset(rte_mbuf* mbuf, const Frame& frame, Outgoing& out) noexcept;
  bool send_both(rte_mbuf* to_client, rte_mbuf* to_server, Outgoing& out) noexcept;
  /// A frame made by `write`, to leave by `port`; null when there is no memory for it.
  template <typename Write>
  rte_mbuf* crafted(std::uint16_t port, const Write& write) noexcept;

  Worker& worker_;
  const HeaderSelection& headers_;
  std::span<const Rule> rules_;
  std::vector<RefusalText> texts_;  // of each
  bool endpoints_wanted_;           // some rule looks at addresses or ports
  const Wiring& wiring_;
  Counters& counters_;
  LookAtBurst look_at_burst_ = burst_look_of(best_instruction_set());
  std::array<bool, 2> requests_expected_{true, true};  // by side: its last burst was mostly of concern
  ClosingFlows closing_;
  std::unique_ptr<Batch> batch_;
  // Of the burst.
  bool eventful_ = false;  // some frame of it does not simply pass, so that there are fates
  // Where fewer than one in so many is decided on so, the attempt has been in vain, and costs more than it
  // saves. After some of these in a row it is made again only after some bursts; not after one, or whoever
  // sends what is not plain now and then would have others' bursts go without.
  static constexpr std::size_t few_divisor = 8;
  static constexpr unsigned most_in_vain = 8;
  static constexpr unsigned bursts_between_tries = 15;
  struct PlainTries {
    unsigned in_vain = 0;         // in a row, by now
    unsigned bursts_without = 0;  // still to come before the next one
  };
  std::array<PlainTries, 2> plain_tries_{};  // by side
  PlainTries* tried_for_ = nullptr;          // that of the burst's side, where an attempt has been made
  bool closing_changed_ =
      false;  // by this burst: later frames of it may belong to a flow that has just been closed
};

}  // namespace weir::filter
