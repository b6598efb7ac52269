// SPDX-License-Identifier: BSD-3-Clause
#include "network.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::sim {
namespace {

// As in the Redis client.
constexpr std::size_t batch_entries = 512;
constexpr std::size_t max_entries = 16'000'000;

}  // namespace

std::uint32_t Network::open_round() {
  if (free_.empty()) {
    rounds_.emplace_back();
    return static_cast<std::uint32_t>(rounds_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

void Network::free_if_idle(std::uint32_t index) {
  Round& round = rounds_[index];
  if (round.client != nullptr || round.under_way) return;
  round.batches.clear();
  free_.push_back(index);
}

void Network::let_go(std::uint32_t index) {
  rounds_[index].client = nullptr;
  free_if_idle(index);
}

bool Network::in_outage(Duration at) const noexcept {
  return !healed_ &&
         std::ranges::any_of(spec_.outages, [&](const Period& period) { return period.contains(at); });
}

void Network::arrive(std::uint32_t index, Duration at) {
  Round& round = rounds_[index];
  round.under_way = false;
  if (in_outage(at)) {
    free_if_idle(index);
    return;
  }
  const bool waited_for = round.client != nullptr;
  round.outcomes.resize(std::max(round.outcomes.size(), round.arriving));
  for (std::size_t i = 0; i < round.arriving; ++i)
    server_.apply(round.sender, round.batches[i].view(), at, round.outcomes[i]);
  if (waited_for && round.answering > 0) {
    round.under_way = true;
    events_.push(at + round.back, EventQueue::Kind::answer, index);
  }
  free_if_idle(index);
}

StoreClient* Network::answer(std::uint32_t index, Duration at) {
  Round& round = rounds_[index];
  round.under_way = false;
  StoreClient* const client = round.client;
  if (client == nullptr) {
    free_if_idle(index);
    return nullptr;
  }
  if (in_outage(at) || client->cut_off(at)) return nullptr;
  return client->answered(index, at) ? client : nullptr;
}

StoreClient::StoreClient(Network& network, std::uint32_t sender, const NodeClock& clock,
                         const RoundTrip& round_trip, std::vector<Period> cuts, Random random)
    : network_(network),
      sender_(sender),
      clock_(clock),
      round_trip_(round_trip),
      cuts_(std::move(cuts)),
      random_(random),
      outbox_(batch_entries, max_entries) {
  figures_.error = "not connected yet";
  connect(network_.now);
}

StoreClient::~StoreClient() {
  if (state_ == State::waiting) network_.let_go(round_);
}

bool StoreClient::cut_off(Duration now) const noexcept {
  return network_.in_outage(now) ||
         (!network_.healed() &&
          std::ranges::any_of(cuts_, [&](const Period& period) { return period.contains(now); }));
}

Duration StoreClient::draw_round_trip() noexcept {
  const auto least = static_cast<double>(round_trip_.least.count());
  switch (round_trip_.kind) {
    case RoundTrip::Kind::constant:
      break;
    case RoundTrip::Kind::uniform:
      return Duration(static_cast<std::int64_t>(
          std::lerp(least, static_cast<double>(round_trip_.most.count()), random_.unit())));
    case RoundTrip::Kind::lognormal:
      // No network takes an hour; and the sum of times must not overflow.
      return Duration(static_cast<std::int64_t>(
          std::min(least * std::exp(round_trip_.sigma * random_.normal()), 3.6e12)));
  }
  return round_trip_.least;
}

void StoreClient::set_deadline(Duration at) {
  deadline_ = at;
  if (at >= timer_at_) return;
  timer_at_ = at;
  network_.events().push(at, EventQueue::Kind::store_timer, sender_);
}

void StoreClient::connect(Duration now) {
  state_ = State::connecting;
  set_deadline(now + draw_round_trip());
}

// What has been answered already is not out any more, and so is not tried again.
void StoreClient::let_go() {
  for (const Network::Sent& batch : network_.round(round_).batches)
    outbox_.retry(batch.group, batch.sequence);
  network_.let_go(round_);
}

bool StoreClient::lose(Duration now, const char* why, std::uint64_t failures) {
  const bool was_up = std::exchange(figures_.up, false);
  if (state_ == State::waiting) let_go();
  figures_.failures += failures;
  figures_.error = why;
  network_.failures += failures;
  state_ = State::pausing;
  set_deadline(now + network_.spec().reconnect);
  return was_up;
}

void StoreClient::submit(const std::vector<CounterWrite>& writes, MonotonicTime now) {
  outbox_.submit(writes, now);
  if (!writes.empty()) oldest_waiting_ = std::min(oldest_waiting_, network_.now);
  if (state_ == State::idle) send(network_.now);
}

void StoreClient::send(Duration now) {
  outbox_.expire(local(now));
  std::vector<Network::Sent> batches;
  for (std::uint32_t partition = 0; partition < store_partitions; ++partition)
    while (const std::optional<OutboxBatch> batch = outbox_.next(partition)) batches.emplace_back(*batch);
  if (batches.empty()) {
    state_ = State::idle;
    set_deadline(Duration::max());
    return;
  }
  round_ = network_.open_round();
  Network::Round& round = network_.round(round_);
  round.client = this;
  round.sender = sender_;
  round.batches = std::move(batches);
  const std::size_t count = round.batches.size();
  round.arriving = random_.chance(network_.spec().loss_request) ? random_.below(count) : count;
  round.answering = round.arriving;
  if (round.arriving == count && random_.chance(network_.spec().loss_reply))
    round.answering = random_.below(count);
  if (cut_off(now)) round.arriving = round.answering = 0;

  const Duration there_and_back = draw_round_trip();
  round.back = there_and_back / 2;
  if (round.arriving > 0) {
    round.under_way = true;
    network_.events().push(now + (there_and_back - round.back), EventQueue::Kind::arrival, round_);
  }
  state_ = State::waiting;
  sent_at_ = now;
  oldest_sent_ = std::min(oldest_sent_, std::exchange(oldest_waiting_, Duration::max()));
  set_deadline(now + network_.spec().timeout);
}

bool StoreClient::answered(std::uint32_t index, Duration now) {
  Network::Round& round = network_.round(index);
  for (std::size_t i = 0; i < round.answering; ++i) {
    outbox_.answer(round.batches[i].group, round.batches[i].sequence, round.outcomes[i], replies_);
    ++figures_.batches;
  }
  figures_.up = true;
  figures_.error.clear();
  figures_.round_trip = now - sent_at_;
  // The rest is lost, and the deadline will tell.
  if (round.answering < round.batches.size()) return true;
  ++network_.rounds_answered;
  if (oldest_sent_ != Duration::max())
    network_.longest_sync =
        std::max(network_.longest_sync, now - std::exchange(oldest_sent_, Duration::max()));
  network_.let_go(index);
  send(now);
  return true;
}

bool StoreClient::timer(Duration now) {
  timer_at_ = Duration::max();
  if (deadline_ == Duration::max()) return false;
  if (now < deadline_) {
    set_deadline(deadline_);
    return false;
  }
  switch (state_) {
    case State::connecting: {
      if (cut_off(now)) return lose(now, "cannot connect", 1);
      const bool changed = !std::exchange(figures_.up, true);
      figures_.error.clear();
      send(now);
      return changed;
    }
    case State::waiting: {
      const std::uint64_t unanswered = std::max<std::size_t>(network_.round(round_).batches.size(), 1);
      return lose(now, "no answer in time", unanswered);
    }
    case State::pausing:
      outbox_.expire(local(now));
      connect(now);
      return false;
    case State::idle:
      break;
  }
  return false;
}

void StoreClient::collect(std::vector<CounterReply>& replies) {
  replies.insert(replies.end(), replies_.begin(), replies_.end());
  replies_.clear();
}

StoreFigures StoreClient::figures() const {
  StoreFigures figures = figures_;
  figures.pending = outbox_.pending();
  figures.applied = outbox_.applied();
  figures.expired = outbox_.expired();
  return figures;
}

bool StoreClient::flush(Duration) {
  const Duration now = network_.now;
  if (cut_off(now)) return outbox_.pending() == 0;
  outbox_.expire(local(now));
  if (state_ == State::waiting) {
    let_go();
    state_ = State::idle;
    set_deadline(Duration::max());
  }
  std::vector<OutboxOutcome> outcomes;
  for (std::uint32_t partition = 0; partition < store_partitions; ++partition) {
    while (const std::optional<OutboxBatch> batch = outbox_.next(partition)) {
      network_.server().apply(sender_, *batch, now, outcomes);
      outbox_.answer(batch->group, batch->sequence, outcomes, replies_);
    }
  }
  return outbox_.pending() == 0;
}

}  // namespace weir::sim
