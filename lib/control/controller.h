// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The controller's round: when a span ends, flip the workers to their other tables, drain the old ones after
/// the grace period, let the engine decide, publish, give the counts to the store, and publish again when its
/// replies change anything. A state machine that never waits: advance() does what is due and says when to
/// come back.
///
/// Callers tell their own time; within, wall times are the store's, where it has told it
/// (control/store_clock.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control/corrections.h"
#include "control/engine_writes.h"
#include "control/grant_terms.h"
#include "control/keys_before.h"
#include "control/lasting_blocks.h"
#include "control/new_key_limit.h"
#include "control/publisher.h"
#include "control/store_clock.h"
#include "control/store_log.h"
#include "control/sync_watch.h"
#include "control/window_pools.h"
#include "engine/engine.h"
#include "shared/correction_log.h"
#include "shared/grant_sums.h"
#include "shared/grant_table.h"
#include "shared/heaviness.h"
#include "shared/publication.h"
#include "shared/quiescence.h"
#include "shared/span_table.h"
#include "store/store.h"
#include "weir/rule.h"
#include "weir/time.h"

namespace weir {

struct ControllerFigures {
  std::uint64_t generation = 0;
  std::uint64_t spans = 0;
  std::uint64_t span_overruns = 0;
  std::uint64_t stalled_workers = 0;
  std::uint64_t store_late = 0;
  Duration clock_offset{};       ///< the store's wall time less the node's own, at the last round
  Duration clock_uncertainty{};  ///< of it; 0: the store has told no time
};

inline constexpr std::size_t default_most_told = 65536;  ///< ControllerParts::most_told

/// What the controller works on. Everything outlives it.
struct ControllerParts {
  std::span<const Rule> rules;
  std::span<const std::uint16_t> window_of_rule;  ///< index into `pools`, by rule
  std::span<const BucketTerms> bucket_of_rule;    ///< by rule; of other algorithms without meaning
  std::span<SpanTable> tables;                    ///< tables_per_worker of each worker, one after the other
  std::span<CorrectionLog> corrections;           ///< one with each table
  std::span<const std::unique_ptr<GrantTable>> grants;  ///< one of each worker, all for as many keys
  Quiescence& quiescence;
  PublicationSlot& publication;
  std::span<WindowPools> pools;
  Engine& engine;
  Store& store;
  Duration store_timeout;
  std::function<void(std::string_view)> log;
  /// Beyond so many keys whose blocks last it is told in turns what they are refused: in an attack they would
  /// take most of a span. But of each at least once in two intervals, lest it be taken for idle.
  std::size_t most_told = default_most_told;
};

/// Not thread-safe: one thread, or a lock around it.
class Controller {
 public:
  explicit Controller(ControllerParts parts);

  /// Does what is due. @return when to be called again at the latest, on the caller's clocks; where the
  /// store's time is followed only the monotonic one means something
  /// @param own  now, by the node's own clocks
  Instant advance(Instant own);

  /// Ends all spans now, whether or not they are over, and gives everything to the store. All workers are
  /// offline.
  void finish(Instant own);
  /// Once more for what the store has answered since finish(): it may ask for further writes.
  void end_spans(Instant own);
  /// Takes in what the store has answered, its time first. Called by advance(); by itself after a final
  /// Store::flush().
  void collect_replies(Instant own);

  /// Whether the store has been asked something and has not answered anything yet, or has a clock and has not
  /// told its time.
  bool awaits_first_answer() const noexcept {
    return awaits_first_reply_ || (parts_.store.has_clock() && !clock_.known());
  }

  /// The same moment by the time that spans go by.
  Instant time(Instant own) const noexcept { return clock_.at(own); }

  ControllerFigures figures() const noexcept { return figures_; }
  /// Keys that are blocked, by the latest publication. By rule.
  std::span<const std::uint64_t> blocked_keys() const noexcept { return blocked_keys_; }

 private:
  // A worker's idle keys lose their places among its grants when there is little room left and half of them
  // are idle; not soon again: for a span the worker uses no grants then, and whoever comes in their places
  // takes the controller's time. Where there is no room again a few drains later, somebody makes up keys, who
  // takes whatever room is made: then it is made half as often, and half as often again; but so often that
  // whoever comes when that is over need not wait for long.
  static constexpr std::uint32_t least_drains_between_forgetting = 64;
  static constexpr std::uint32_t most_drains_between_forgetting = 1024;
  static constexpr Duration longest_between_forgetting = std::chrono::minutes(2);
  static constexpr std::uint32_t few_drains = 8;

  struct WorkerState {
    std::uint8_t table = 0;                 // where it counts, once it has taken up the latest publication
    bool draining = false;                  // its other table still holds the counts of a span that has ended
    std::uint64_t flip_token = 0;           // the grace period after which that table is ours
    std::uint64_t flip = 0;                 // the number of the flip that gave it its table
    MonotonicTime counts_since{};           // when that was
    std::uint64_t drained_flip = 0;         // the latest of those after which its other table was drained
    std::uint32_t grant_turn = 0;           // Publication::grant_turn_of_worker
    std::vector<std::uint32_t> turns_used;  // SpanTable::grant_turns of the latest table that has some
    std::vector<GrantWindow> grant_windows;  // by rule; of the span that is drained
    std::uint32_t granted = 0;               // keys that used their grants in the span that ended last
    bool leaves_grants_alone = false;        // it does, and its idle keys are to be forgotten
    std::uint32_t drains_since_forgetting = 0;
    std::uint32_t drains_until_forgetting = least_drains_between_forgetting;  // then it may be done again
  };
  /// What a rule's keys are granted in the interval that runs.
  struct RuleGrant {
    std::uint32_t most = 0;       // by each worker
    std::uint64_t allowance = 0;  // of the node, when the interval began
    std::uint64_t reserve = 0;    // by all workers together, …
    std::uint64_t before = 0;     // …and in the interval before
  };
  using Keys = std::unordered_map<std::uint64_t, RuleIndex>;

  bool flip_due(Instant now) const noexcept;
  void flip(Instant now);
  WallTime counted_by() const noexcept;
  void note_lateness(Instant now);
  bool has_passed(std::size_t worker) const noexcept;
  bool all_have_passed() const noexcept;
  void drain_passed();
  void drain_entries(std::size_t worker, unsigned turns);
  SpanTable& drained_table(std::size_t worker) noexcept;
  std::size_t drained_index(std::size_t worker) const noexcept;
  unsigned turns_to_tell() noexcept;
  void take_counts(std::size_t worker, std::span<const CountedKey> keys);
  void give_back(const CountedKey& key);
  MonotonicTime uncounted_since() const noexcept;
  void take_corrections(Instant now, bool end_all);
  void harvest_passed();
  void harvest(std::span<const std::size_t> workers);
  template <typename Visitor>
  void harvest_side_by_side(std::span<const std::size_t> workers, Visitor&& visit);
  void end_drain(std::size_t worker);
  void learn_new(NameLog& names);
  void consider_forgetting(WorkerState& worker, const GrantTable& grants);
  bool forget_idle_grants();
  bool grow_a_spare_table();
  void note_heavy(const CountedKey& counted);
  static void want_all_of(std::uint64_t key, RuleIndex rule, Keys& keys);
  void renew_grants(std::size_t window, MonotonicTime now);
  void find_intervals(const Publication& next);
  std::uint64_t drawable(const KeyOverride& quota, const GrantTerms& terms, RuleIndex rule) const;
  void publish_unnamed_keys(Publication& next);
  void publish_grants(Publication& next);
  void publish_keys(Publication& next, Instant now);
  static bool has_told(const WorkerState& worker, const WindowPools& pools) noexcept;
  bool settle_pools();
  void decide(Instant now, bool end_all);
  void publish(Instant now, bool judged);
  void tell_changes(Publication& next);
  void submit(Instant now);
  void watch_store(Instant now);
  void charge_buckets(Instant now);
  void clear_spare_pools(MonotonicTime now);
  void reserve_cells(std::size_t window);
  bool draining() const noexcept;
  WallTime next_flip_after(WallTime now) const noexcept;
  Duration usual_span() const noexcept;

  ControllerParts parts_;
  Publisher publisher_;
  StoreClock clock_;
  NewKeyLimit new_keys_;
  std::uint64_t met_ = 0;              // Engine::met() when the span that runs began
  std::vector<std::uint64_t> limits_;  // by rule
  std::vector<unsigned> wary_;         // by window: turns to come at which heavy keys' cells are reserved
  Heaviest<std::uint64_t> heaviest_;   // keys, while cells are reserved
  std::vector<std::uint64_t> greatest_grants_;  // of a key, by rule, of all workers together
  Corrections corrections_;
  std::vector<WorkerState> workers_;
  std::vector<std::size_t> passed_;  // workers whose spans are being drained
  unsigned most_turns_ = 1;          // in which their refusals are told
  GrantSums grant_sums_;
  std::vector<RuleGrant> grants_;  // by rule
  std::vector<bool> runs_;  // by window, while draining: whether what was drawn then is still to be had
  std::vector<GrantTable::RecentTurns> recent_turns_;  // by rule, while idle keys' grants are forgotten
  std::vector<Keys> heavy_;                            // by window: not granted in the one that runs, …
  std::vector<Keys> heavy_next_;                       // …nor in the next one
  std::vector<std::uint64_t> begun_;                   // by window: the latest interval ever published
  std::vector<MonotonicTime> interval_began_;          // by window
  std::vector<KeyOverride> usual_;                     // by rule, while publishing
  std::vector<GrantInterval> grant_intervals_;         // by window, while publishing
  KeysBefore keys_before_;
  LastingBlocks lasting_blocks_;
  std::vector<std::uint64_t> ungranted_keys_;
  RefusedKeys refused_;                                     // by any worker in the span that ended last
  std::uint64_t holds_since_ = Publication::nothing_holds;  // see there
  std::vector<std::uint64_t> changed_;                      // keys, since then
  std::size_t told_changed_ = 0;                            // of these, by the latest publication
  bool windows_turned_ = false;                             // since the last decision
  WritesOnTheirWay writes_;
  std::vector<CounterReply> replies_;
  ControllerFigures figures_;
  std::vector<std::uint64_t> blocked_keys_;  // by rule
  bool started_ = false;
  bool awaits_first_reply_ = false;
  bool awaiting_drain_ = false;  // between flip and decide
  bool dirty_ = false;           // replies have changed what should be published
  Instant flipped_{};            // when the running span began
  Duration lasting_{};           // what is said of a span has to do for so long, at most, …
  MonotonicTime keep_until_ = SpanTable::keep_none;  // …and until then, what was said of the span before
  WallTime quotas_at_;  // what windows that slide have left is published as of then
  WallTime next_flip_{};
  Duration shortest_span_{};
  MonotonicTime drain_deadline_{};
  SyncWatch sync_watch_;
  bool store_up_ = true;
  StoreLog store_log_;
};

}  // namespace weir
