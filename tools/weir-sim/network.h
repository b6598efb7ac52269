// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The way to the store and back, in virtual time, under the production outbox.
///
/// It behaves as the Redis client does: one round at a time, with the batches of all partitions in it; a
/// round that is not answered whole within the timeout ends the connection, and after a pause everything
/// unanswered is sent again, unchanged. Requests that are still under way when their sender has given up
/// arrive all the same: the server's markers must tell them from new ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "event_queue.h"
#include "node_clock.h"
#include "random.h"
#include "scenario.h"
#include "server.h"
#include "store/outbox.h"
#include "store/store.h"

namespace weir::sim {

class StoreClient;

/// The server, the periods in which it cannot be reached, and what is under way.
class Network {
 public:
  Network(const StoreSpec& spec, EventQueue& events) : spec_(spec), events_(events) {}

  /// A batch as it was sent: the outbox goes on changing its own.
  struct Sent {
    OutboxGroupId group;
    std::uint64_t sequence = 0;
    Duration time_to_live{};
    std::vector<OutboxEntry> entries;
    std::string names;

    explicit Sent(const OutboxBatch& batch)
        : group(batch.group),
          sequence(batch.sequence),
          time_to_live(batch.time_to_live),
          entries(batch.entries.begin(), batch.entries.end()),
          names(batch.names) {}
    OutboxBatch view() const {
      return {.group = group,
              .sequence = sequence,
              .time_to_live = time_to_live,
              .entries = entries,
              .names = names};
    }
  };

  /// A round on its way.
  struct Round {
    StoreClient* client = nullptr;  ///< nullptr: nobody waits for it any more
    std::uint32_t sender = 0;
    std::vector<Sent> batches;
    std::size_t arriving = 0;   ///< how many of the batches reach the server
    std::size_t answering = 0;  ///< how many of its answers reach the client
    Duration back{};            ///< how long the answers take
    std::vector<std::vector<OutboxOutcome>> outcomes;
    bool under_way = false;  ///< an event of it is still to come
  };

  std::uint32_t open_round();
  Round& round(std::uint32_t index) noexcept { return rounds_[index]; }
  /// The client waits no longer; what is under way goes on without it.
  void let_go(std::uint32_t index);

  /// A round reaches the server.
  void arrive(std::uint32_t index, Duration now);
  /// Takes a round's answers to its client. @return the client to be woken, or nullptr
  StoreClient* answer(std::uint32_t index, Duration now);

  bool in_outage(Duration now) const noexcept;
  /// Ends every outage and cut: the run is over, and what is left is to be settled.
  void heal() noexcept { healed_ = true; }
  bool healed() const noexcept { return healed_; }

  const StoreSpec& spec() const noexcept { return spec_; }
  EventQueue& events() noexcept { return events_; }
  Server& server() noexcept { return server_; }
  const Server& server() const noexcept { return server_; }

  /// Set by the simulation: the store's functions take no true time.
  Duration now{};
  // Figures of the run.
  std::uint64_t rounds_answered = 0;
  std::uint64_t failures = 0;
  Duration longest_sync{};  ///< from the first submission a round carries to its last answer

 private:
  void free_if_idle(std::uint32_t index);

  const StoreSpec& spec_;
  EventQueue& events_;
  Server server_;
  std::vector<Round> rounds_;
  std::vector<std::uint32_t> free_;
  bool healed_ = false;
};

/// One node's store: production's outbox, and a connection in virtual time.
class StoreClient final : public Store {
 public:
  /// @param sender  this object's number, its subject in the event queue
  /// @param cuts    when this node alone cannot reach the store
  StoreClient(Network& network, std::uint32_t sender, const NodeClock& clock, const RoundTrip& round_trip,
              std::vector<Period> cuts, Random random);
  ~StoreClient() override;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override;
  void collect(std::vector<CounterReply>& replies) override;
  void on_ready(std::function<void()>) override {}  // the simulation wakes the controller itself
  StoreFigures figures() const override;
  /// At once, however long the way: the end of a run, after which nothing is measured.
  bool flush(Duration patience) override;

  /// What is due. @return whether the controller is to be woken
  bool timer(Duration now);
  /// A round's answers have come. @return likewise
  bool answered(std::uint32_t round, Duration now);

  std::uint32_t sender() const noexcept { return sender_; }
  bool cut_off(Duration now) const noexcept;

 private:
  enum class State : std::uint8_t { connecting, idle, waiting, pausing };

  MonotonicTime local(Duration now) const noexcept { return clock_.at(now).monotonic; }
  Duration draw_round_trip() noexcept;
  void set_deadline(Duration at);
  void connect(Duration now);
  void let_go();
  bool lose(Duration now, const char* why, std::uint64_t failures);
  void send(Duration now);

  Network& network_;
  std::uint32_t sender_;
  const NodeClock& clock_;
  const RoundTrip& round_trip_;
  std::vector<Period> cuts_;
  Random random_;
  Outbox outbox_;
  std::vector<CounterReply> replies_;
  StoreFigures figures_;
  State state_ = State::connecting;
  Duration deadline_ = Duration::max();
  Duration timer_at_ = Duration::max();  // the earliest timer in the queue
  std::uint32_t round_ = 0;              // while waiting
  Duration sent_at_{};
  Duration oldest_waiting_ = Duration::max();  // first submission not yet sent
  Duration oldest_sent_ = Duration::max();     // first submission that the round carries
};

}  // namespace weir::sim
