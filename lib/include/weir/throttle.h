// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One node's throttle: the configuration's rules, one handle per worker, and the controller.
///
/// The problem it solves: many nodes share one limit per key, and no request may wait for I/O. So workers
/// count and obey, the controller adds up and decides, and between them lie only the span tables and the
/// publication.
///
///     weir::ThrottleResult made = weir::Throttle::create(config, {.workers = 2});
///     made.throttle->start();                      // the controller's thread
///     // in each worker's thread, with its own index:
///     weir::Worker& worker = made.throttle->worker(index);
///     worker.online();
///     while (running) { … worker.admit(request, now) …; worker.quiescent(); }
///     worker.offline();
///
/// Threads: a Worker belongs to one thread at a time. Everything else of a Throttle may be called by any
/// thread unless its comment says otherwise. The library creates one thread in start() (and one for a Redis
/// store, in create()), installs no signal handlers, writes to no stream and never initialises DPDK's EAL. A
/// process that forks leaves these threads behind: the child uses none of its parent's throttles, and
/// destroys none. Make them in the process that serves.
///
/// Want of memory: create() tells of it, and what is called later and allocates throws std::bad_alloc at its
/// caller. The library's own threads allocate, too, as keys come: one that gets no memory ends the process
/// (std::terminate), as what it was at would be half done. The controller's tells `log` before. (Linux, as
/// long as it overcommits, kills processes sooner than it refuses them memory.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/config.h"
#include "weir/decision.h"
#include "weir/export.h"
#include "weir/key.h"
#include "weir/packet.h"
#include "weir/request.h"

namespace weir {

class WorkerCore;  // the data plane's implementation
class NodeCore;    // the rooms put together

/// Moves the monotonic clock the library itself uses (CLOCK_MONOTONIC) into a worker's hands: read it once
/// per burst. Any thread; no system call where the kernel offers the vDSO.
WEIR_API MonotonicTime monotonic_now() noexcept;

/// One worker's handle. Not thread-safe: one thread at a time. None of these functions blocks, allocates,
/// throws or makes a system call, but for the first online(). A worker that is offline admits everything, and
/// counts nothing of it.
class WEIR_API Worker {
 public:
  /// Begins taking part. Call before the first admit(), and after each offline(). Idempotent. The first call
  /// has the kernel provide the worker's tables, on its NUMA node: that may take long (some 90 bytes per
  /// key).
  /// @pre the throttle's start(), or its first advance(), has returned
  void online() noexcept;
  /// Stops taking part: call before anything that sleeps, or the span's end waits for this worker.
  /// Idempotent.
  void offline() noexcept;
  /// Reports that no decision is in progress, and takes up what the controller has published. Call once per
  /// loop; does nothing while the worker is offline. (A decision that finds that it has not been for windows
  /// does so itself, before it begins.)
  void quiescent() noexcept;

  /// Decides on one request under all rules that apply: refused by one, it is charged to none.
  /// @param now  monotonic_now(), or the caller's own clock under Throttle::advance(); once per burst is
  /// enough. One clock for all workers: whose time is more than ten seconds behind another's may find a
  /// bucket full that the other one has emptied
  Decision admit(const Request& request, MonotonicTime now) noexcept;

  /// The same for a burst; `decisions[i]` answers `requests[i]`, as if admitted one after the other. (Only
  /// which of what it has at hand of a key this worker uses first is not the same. That shows to other
  /// workers, after a span's end, and where keys found no room: what remains may then be told as more or less
  /// than one by one, by no more than Decision::remaining leaves out, or, of keys without room, by a 64th of
  /// the limit for each one that shares; and who is the first to be refused may be another one. What is
  /// admitted in all keeps to the limit.)
  /// @param detail  less than everything is faster; see there
  /// @pre decisions.size() >= requests.size()
  void admit_burst(std::span<const Request> requests, MonotonicTime now, std::span<Decision> decisions,
                   Detail detail = Detail::full) noexcept;

  /// Admits, of a burst of plain frames, requests that need no closer look: all that there is in their frame,
  /// in the usual spelling, and all their keys have enough at hand, as nearly always. For these no Request is
  /// laid out, which costs more than to decide. Nothing has been done about the others: give them to
  /// decide_plain(), or parse and decide them as ever. (So requests of one burst are not decided in its
  /// order.) Frames with options in the IP header, VLAN tags or IPv6, heads with a body behind them, and
  /// whatever comes under a configuration that has both `header:host` and hosts, are left; and of a burst
  /// under whose requests there are more than 16 rules those for whose rules there is no room behind others'.
  /// @param frames  at most 32, with payloads that may begin a request; those that are not plain are none
  /// @param next  the next burst's frames, where they are known by now: the memory they are in is brought
  /// near between the work on this burst's, where that costs next to nothing; best no more than 32, whose
  /// first lines have been looked at, as plain_payload() does. (Nothing comes of it where plain frames are
  /// left in any case, and on processors without vectors.)
  /// @return bit i: the request in frames[i] has been admitted, counted where a rule applies to it, and there
  /// is no other in it
  std::uint32_t admit_plain(std::span<const PlainFrame> frames,
                            std::span<const PlainFrame> next = {}) noexcept;

  /// Decides on the plain requests that the last admit_plain() has left, one after the other: on those that
  /// had not enough at hand, or come for the first time, or are refused. None of them needs to be laid out
  /// either. (In an attack, where nearly all are refused, admit_plain() leaves all to this function.) About
  /// what is not plain nothing has been done: parse and decide it as ever.
  /// @pre the frames, and what admit_plain() was given to find them by, are as they were then
  /// @param now        as for admit()
  /// @param decisions  none, where admit_burst() has been called since admit_plain(), or this function
  void decide_plain(MonotonicTime now, PlainDecisions& decisions) noexcept;

  /// Decides for a key the caller made, under one rule, whatever that rule's match and key say. It is the key
  /// of requests, too, where the rule's `key` is a single dimension that is a text (method, host, path,
  /// variable or header), of which the value is as rules compare it: a host in lower case and without a port,
  /// a path in its normal form and without a slash at its end. A value that stands for an address, a port or
  /// several dimensions is a key of its own, with a limit of its own (though the name in the store may be the
  /// same): for such keys there is key() of a request.
  /// @param rule    less than config().rules.size(), as in key(): nobody looks whether it is
  /// @param value   the key's value, any bytes; up to 128 count, longer ones are told apart by a 128-bit
  /// digest. Empty, for a rule without key: the key that all its requests share
  /// @param weight  multiplies the rule's weight. 0: only looks whether the least would be admitted, nothing
  /// is charged or counted. Under a rule that observes, Decision::observed says so, as ever, not the verdict
  Decision admit_key(RuleIndex rule, std::string_view value, std::uint32_t weight,
                     MonotonicTime now) noexcept;

  /// When the span began in which it is counted what this worker decides now: to be kept, for correct(). The
  /// same until quiescent(), unless a decision comes windows after that.
  /// @pre online() has been called
  Instant span_began() const noexcept;

  /// Settles a cost that is known only afterwards. What was charged too little (positive) is charged now,
  /// into debt if need be: of an interval's limit that is owed for the rest of it, of a bucket down to one
  /// whole bucket. What was charged too much (negative) is handed back, as far as it bears on what may still
  /// be admitted: of a fixed window, or under cooldown, that is nothing once its interval has ended. A block
  /// that has begun goes on.
  ///
  /// It is taken into account when the span ends; what is handed back of a request that has not been counted
  /// by then, as its worker was late or is a span ahead, when it has been (of more than the logs have room
  /// for the last is given up, as where a worker does not come round). What a worker has at hand of a key by
  /// then, a 64th of the limit at most, it admits in any case. Other nodes learn of it with what this node
  /// counts of the key next: as long as that is nothing, they take what has been handed back for used. Under
  /// `sliding_log` what is handed back takes the place of what would have left the window first: while
  /// requests keep coming next to nothing comes of it; and of what is charged no more is remembered than the
  /// limit. `shed` goes by the weights that requests come with; `strict` admits beyond what nodes have leased
  /// what is charged afterwards. Of a key that found no cell of its own (Figures::overflowed) nothing but the
  /// counts changes.
  /// @param key         as for admit_keys(); its weight does not matter
  /// @param by          in units of the request's weight: the rule's multiplies it. Beyond ±2^50, so
  /// multiplied, it is cut
  /// @param charged_in  what span_began() was, of the worker that decided on the request, when it did; to
  /// take back what correct() itself has charged: when it did
  /// @return false: there have been more in this span than there is room for (ThrottleOptions::corrections),
  /// or the worker is offline. Nothing has been done
  [[nodiscard]] bool correct(const Key& key, std::int64_t by, Instant charged_in) noexcept;
  /// The same for all rules that apply to a request, for who has decided on it by admit(): it must say what
  /// it said then.
  [[nodiscard]] bool correct(const Request& request, std::int64_t by, Instant charged_in) noexcept;

  /// Makes a key for admit_keys(). Hashes the value: keep the key with what it stands for.
  /// @param value  as for admit_key(); must outlive the key. The key that all requests of a rule without key
  /// share costs no search
  Key key(RuleIndex rule, std::string_view value) const noexcept;

  /// Makes the key under which admit() counts a request under one of its rules, so that both share its limit:
  /// for who has the first request of a flow or a session, and hashes no more of those that follow. What is
  /// decided for it is decided under this rule alone. Weighs what the request does.
  /// @param room  for what the key views: must outlive it, or Key::value be set to a copy of what it says
  /// @return a key of no rule, not to be decided upon, where the rule does not apply to the request
  /// @pre rule < config().rules.size()
  Key key(RuleIndex rule, const Request& request, KeyRoom& room) const noexcept;

  /// Has the memory that admit_keys() will touch brought near. Where keys are known before these are to be
  /// decided on, give them to admit_keys(): between decisions that costs next to nothing.
  void prefetch(std::span<const Key> keys) const noexcept;

  /// Decides for keys that key() made, each for itself, as admit_key() does. The fastest there is: the
  /// common decision touches one cache line. Keys that need more than that (met for the first time in a span,
  /// what was at hand used up, blocked) are decided after the others.
  /// @param keys  any number; decided on in bursts of 32
  /// @param next  the keys to be decided on after these, if known; always about as many of them, however many
  /// `keys` are. Of the first 96, as many as there are keys, the last ones, have their memory brought near
  /// meanwhile: those before them were in the calls before. From some hundred thousand keys on 32 are worth a
  /// third of a decision's time, and 96 another third. Where none are given, keys of this call are brought
  /// near, but for the first
  /// @pre verdicts.size() >= keys.size(); all keys were made by key() of a worker of this Throttle
  void admit_keys(std::span<const Key> keys, MonotonicTime now, std::span<Verdict> verdicts,
                  std::span<const Key> next = {}) noexcept;
  /// The same at monotonic_now(), which is read only if a key needs more: to read it costs as much as some
  /// ten decisions. Not together with a clock of the caller's.
  void admit_keys(std::span<const Key> keys, std::span<Verdict> verdicts,
                  std::span<const Key> next = {}) noexcept;

 private:
  friend class NodeCore;
  explicit Worker(WorkerCore& core) noexcept : core_(&core) {}
  WorkerCore* core_;
};

/// Figures of one rule, since the start. Requests, not weights.
struct RuleFigures {
  std::string name;
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;
  std::uint64_t blocked = 0;       ///< refused by this rule, would-be refusals of an observing rule included
  std::uint64_t blocked_keys = 0;  ///< by what was published last: some blocks may have ended since
};

/// Figures of one node. A moment's view: counters are read while workers go on.
struct Figures {
  std::vector<RuleFigures> rules;
  std::uint64_t publication_generation = 0;
  std::uint64_t spans = 0;          ///< flips so far
  std::uint64_t span_overruns = 0;  ///< flips that came more than a span late
  std::uint64_t stalled_workers =
      0;                   ///< workers that have not reported quiescent since the last flip, for over a span
  std::uint64_t keys = 0;  ///< keys in the ledger
  std::uint64_t overflowed = 0;  ///< requests whose keys found no room, see README
  bool store_up = false;
  std::uint64_t store_syncs = 0;     ///< batches answered
  std::uint64_t store_failures = 0;  ///< batches and connections that failed
  std::uint64_t store_late = 0;      ///< span ends whose sync missed its deadline
  std::uint64_t counts_pending = 0;  ///< weight not yet acknowledged by the store
  std::uint64_t counts_synced = 0;   ///< weight acknowledged by the store
  std::uint64_t counts_expired = 0;  ///< weight given up: its counter had expired before the store came back
  Duration store_round_trip{};       ///< of the last answered batch
  std::string store_error;           ///< why the store is down; empty while up
  Duration clock_offset{};           ///< the store's time, which spans go by, less the node's own wall clock
  Duration
      clock_uncertainty{};  ///< how wrong that may be; 0: the store has told no time, the node's own counts
};

/// One key, for tables and dashboards.
struct KeyFigures {
  std::string name;  ///< "login|203.0.113.7"
  RuleIndex rule = no_rule;
  /// Weight, in the interval of the span that ended last, on this node, without what other rules refused:
  /// either they alone, or such as have keys closer to who sends. (Where more than 65,536 keys are blocked,
  /// what these were refused may be told up to two intervals later.)
  std::uint64_t offered = 0;
  std::uint64_t admitted = 0;  ///< likewise
  double nodes = 1;            ///< effective number of nodes seen by this key
  bool blocked = false;
  Duration blocked_for{};  ///< time left
};

struct ThrottleOptions {
  unsigned workers = 1;  ///< handles to make, 1 … 255
  /// Seed of the keyed hash; unset: random. Set it only where a run must replay.
  std::optional<std::uint64_t> hash_seed;
  /// Corrections (Worker::correct()) that there is room for with each worker until its span has ended: of
  /// keys whose values come to some 50 bytes; of shorter ones more, of longer ones less; those of a request
  /// count once for each rule that applies. Two logs of some hundred bytes for each take addresses at first,
  /// and memory as they are used; and a few times that at most the controller, while it looks for what is
  /// handed back in its counts. 0: none
  std::uint32_t corrections = 4096;
  /// Told of changes worth a log line ("store lost: …"), by the controller's thread, and in start(), stop()
  /// and advance() by their callers. Must not block, throw, or call the Throttle, whose lock is held. May be
  /// empty.
  std::function<void(std::string_view)> log;
};

struct ThrottleResult;

/// One node. Destroying it stops the controller, and what is still pending is lost: stop() comes first.
/// Workers must be offline by then. It waits for nothing but a look-up of a host name of the store's that is
/// under way, if one is: for as long as the system's resolver takes, which may be many seconds where no name
/// server answers.
class WEIR_API Throttle {
 public:
  /// What create() would refuse a configuration for: a value, the store's address, or a file or variable that
  /// is named there. Makes nothing.
  /// @return empty: nothing; else a line for each mistake, which begins with the key
  static std::string check(const Config& config);
  /// Checks the configuration and allocates all memory but for keys' names and what the controller comes to
  /// know of some of them, which is bounded by their number. The store begins to connect; nobody waits for
  /// it. Want of memory, or of threads, is an error like any other.
  static ThrottleResult create(const Config& config, const ThrottleOptions& options);
  ~Throttle();
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

  /// @pre index < options.workers
  Worker& worker(unsigned index) noexcept;
  const Config& config() const noexcept;
  /// What HttpRequests should extract for these rules; not the host, where no rule looks at it.
  const HeaderSelection& headers() const noexcept;

  /// Starts the controller's thread; waits for the store's first answer, for `store.timeout` at most. Does
  /// nothing where it runs already; may be called again after stop(). Not together with advance(), and one
  /// thread at a time calls start() and stop().
  /// @throws std::system_error  there is no thread left: nothing runs, and it may be called again
  /// @throws std::bad_alloc     there is no memory left: destroy the throttle
  void start();
  /// Ends the thread and the last span, and synchronises what is pending: takes `patience` at most, as long
  /// as need be at Duration::max(). Workers must be offline.
  /// @return true when nothing is left pending. (What has been given up by then is not: Figures)
  bool stop(Duration patience);
  /// The same for who drives the controller in another time than the system's: counts that wait for the store
  /// would be taken for much older, or newer, than they are.
  /// @param now  by the clocks of advance()
  bool stop(Instant now, Duration patience);

  /// Drives the controller in the caller's own time instead of start(): does what is due at `now`.
  /// Not thread-safe. Workers take up a span's end in quiescent(), so call advance(t), quiescent(),
  /// advance(t).
  /// @return when to call again, unless something else happens before
  Instant advance(Instant now);

  /// Any thread; where start() drives, not that of a worker that is online: all would wait for it. Waits
  /// until the controller has done what it is at, which may take longer than a span where there are many
  /// keys; then whoever asked first has his turn, however much there is to do. So do top() and memory().
  Figures figures() const;
  /// Up to `count` keys, the most offered first; which ones of those that are offered alike is not said. The
  /// controller waits meanwhile: some milliseconds for a million keys that there are, and for each one that
  /// is told as long as a copy of its name takes.
  std::vector<KeyFigures> top(std::size_t count) const;
  /// The rules that apply to a request, in order of the configuration. Any thread, not a worker's path.
  std::vector<RuleIndex> rules_for(const Request& request) const;
  /// The name of the key under which a rule counts a request, e.g. "login|203.0.113.7".
  /// @pre rule < config().rules.size()
  std::string key_name(RuleIndex rule, const Request& request) const;
  /// What the tables take, in bytes, all workers together. Any thread, not a worker's path. Grows, as keys
  /// come, by their names, by entries of those of which much is asked, and by what is known of some from
  /// other nodes; see README. Of a worker that has not been online: what it may ever take. Without what waits
  /// for the store or, with memory://, the counters that are kept there; and without what workers are told.
  std::size_t memory() const;

 private:
  explicit Throttle(std::unique_ptr<NodeCore> core);
  std::unique_ptr<NodeCore> core_;
};

/// A throttle, or why there is none.
struct ThrottleResult {
  std::unique_ptr<Throttle> throttle;
  std::string error;  ///< empty when `throttle` is set

  explicit operator bool() const noexcept { return throttle != nullptr; }
};

}  // namespace weir
