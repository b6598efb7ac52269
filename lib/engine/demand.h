// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// What a node believes of one key's demand over all nodes: how much is offered in an interval, and which
/// share of it arrives here. Counts are in units of weight.
///
/// Each sync tells what others have offered since the one before; beside it stands what of this node's the
/// same answers count: that is of the same time, however long they took. Their ratio is the share, but a few
/// requests say little: so it is mixed with what was believed before, which weighs as much as so many
/// requests. Shares of all nodes add up to one before (each starts at 1 / nodes) and after, since all mix
/// with the same weights: (o_i + k s_i) / (Σ o + k). With large counts a share follows a moving load within a
/// span or two; with small ones it stays near the prior instead of following noise. (This is the posterior
/// mean of a multinomial under a Dirichlet prior.)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weir {

class DemandEstimate {
 public:
  /// Requests that the belief so far weighs, for each node of the cluster.
  static constexpr double prior_weight_per_node = 16;

  /// Standard deviations from what was expected beyond which the belief was wrong, and how much less it
  /// weighs then.
  static constexpr double surprising = 4;
  static constexpr double forgets = 16;

  /// No share is less, however long all is asked for elsewhere: what is counted here is divided by it.
  static constexpr double least_share = 1e-9;

  /// Nothing is known of the key: its traffic may be spread evenly.
  void begin(std::uint32_t nodes) noexcept {
    *this = DemandEstimate();
    share_ = 1.0 / std::max<std::uint32_t>(nodes, 1);
  }

  /// Learns what one sync has told.
  /// @param own      offered here, as far as it has been answered since the last sync
  /// @param others   offered elsewhere in the same time
  /// @param elapsed  spans that this took, at least one
  /// @param spans    spans per interval
  /// @param weight   of each request, by the rule: chance has its way with requests, not with units
  void learn(std::uint64_t own, std::uint64_t others, std::uint32_t elapsed, std::uint32_t spans,
             std::uint32_t nodes, std::uint32_t weight = 1) noexcept {
    before_ = static_cast<float>(share_);
    own_ = static_cast<float>(own);
    others_ = static_cast<float>(others);
    share_ =
        share_after(share_, static_cast<double>(own) / weight, static_cast<double>(others) / weight, nodes);
    pass(static_cast<double>(own) + static_cast<double>(others), elapsed, spans);
  }

  /// Learns that more was offered, here and elsewhere, than has been learned last, in the same time.
  /// @pre can_revise()
  void revise(std::uint64_t own, std::uint64_t others, std::uint32_t nodes,
              std::uint32_t weight = 1) noexcept {
    own_ += static_cast<float>(own);
    others_ += static_cast<float>(others);
    share_ = share_after(before_, static_cast<double>(own_) / weight, static_cast<double>(others_) / weight,
                         nodes);
    (running_spans_ > 0 ? running_ : ended_) += static_cast<double>(own) + static_cast<double>(others);
  }
  /// Whether what was learned last tells of this node's part and of others', and has not been scaled since.
  bool can_revise() const noexcept { return own_ >= 0; }

  /// Learns what others were offered before this node saw the key: it tells of the demand, and nothing of the
  /// share that this node has of it from now on.
  void look_back(std::uint64_t others, std::uint32_t elapsed, std::uint32_t spans) noexcept {
    own_ = -1;
    pass(static_cast<double>(others), elapsed, spans);
  }

  /// This node's part of the key's traffic, in (0, 1].
  double share() const noexcept { return share_; }

  /// Offered to all nodes in the last interval's length, by a window that slides from the last whole interval
  /// into the running one.
  double per_interval() const noexcept {
    if (whole_) return ended_ * (1.0 - static_cast<double>(running_spans_) / spans_) + running_;
    return running_spans_ == 0 ? 0 : running_ * spans_ / running_spans_;
  }

  /// Whether the demand exceeds a limit. Before a whole interval has been seen, by more than chance explains.
  bool exceeds(std::uint64_t limit, std::uint32_t weight = 1) const noexcept {
    return surely(weight) > static_cast<double>(limit);
  }
  /// Whether it comes near it: the time to look closely.
  bool nears(std::uint64_t limit) const noexcept { return per_interval() > 0.8 * static_cast<double>(limit); }

 private:
  // Of counts in requests.
  static double share_after(double share, double own, double others, std::uint32_t nodes) noexcept {
    const double sum = own + others;
    double prior = prior_weight_per_node * std::max<std::uint32_t>(nodes, 1);
    // A load that has moved shows at once: then what was believed before is worth little.
    const double surprise = std::abs(own - share * sum);
    if (surprise > surprising * std::sqrt(sum * share * (1 - share) + 1)) prior /= forgets;
    return std::max((own + prior * share) / (sum + prior), least_share);
  }
  void pass(double offered, std::uint32_t elapsed, std::uint32_t spans) noexcept {
    running_ += offered;
    running_spans_ += elapsed;
    if (running_spans_ >= spans) {
      ended_ = running_ * spans / running_spans_;
      if (running_spans_ > spans) own_ = -1;
      running_ = 0;
      running_spans_ = 0;
      whole_ = true;
    }
    spans_ = spans;
  }
  double surely(std::uint32_t weight) const noexcept {
    if (whole_ || running_spans_ == 0) return per_interval();
    // Two standard deviations of a Poisson count of requests.
    return per_interval() - 2 * std::sqrt(running_ * weight) * spans_ / running_spans_;
  }

  double share_ = 1;
  double running_ = 0;  // in the interval's length that runs…
  double ended_ = 0;    // …and the one before
  float before_ = 1;    // the share until what was learned last: …
  float own_ = -1;      // …offered here; -1: not to be revised
  float others_ = 0;    // …and elsewhere
  std::uint32_t running_spans_ = 0;
  std::uint32_t spans_ = 1;
  bool whole_ = false;
};

}  // namespace weir
