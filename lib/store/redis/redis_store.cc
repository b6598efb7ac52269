// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_store.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"
#include "store/exchange/exchange.h"
#include "store/inbox.h"
#include "store/outbox.h"
#include "store/redis/batch_command.h"
#include "store/redis/exchange_command.h"
#include "store/redis/redis_access.h"
#include "store/redis/redis_servers.h"
#include "store/redis/redis_topology.h"

namespace weir {
namespace {

using std::chrono::steady_clock;
using TimePoint = steady_clock::time_point;

/// Counters of one script call: long enough to amortise the call, short enough not to hold up Redis' other
/// clients.
constexpr std::size_t batch_entries = 512;
/// Of plain sums that are exchanged: a call moves their bytes, whatever their number.
constexpr std::size_t exchanged_entries = 4096;
/// The place of the scripts among those that servers are told.
constexpr std::size_t batch_script = 0;
constexpr std::size_t exchange_script = 1;
/// How often every server is asked for its time: it tells a silent loss of the connection too.
constexpr Duration time_period = std::chrono::seconds{1};
/// The longest pause of a partition whose server has asked for one.
constexpr Duration most_partition_pause = std::chrono::milliseconds{20};
constexpr const char* nonsense = "the server's answer is not what Redis answers";

/// @param length  a multiple of eight
std::string random_digits(std::size_t length) {
  std::random_device random;
  std::string text;
  while (text.size() < length) {
    std::uint32_t value = random();
    for (int digit = 0; digit < 8; ++digit, value >>= 4) text += "0123456789abcdef"[value & 15];
  }
  return text;
}

std::uint64_t random_word() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

timespec to_timespec(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
}

/// Whether a server asks for patience with one partition, while a cluster changes.
bool is_for_later(const RedisReply& error) {
  return error.is_error("TRYAGAIN") || error.is_error("CLUSTERDOWN") || error.is_error("MASTERDOWN");
}

/// By how much the caller's time is ahead of ours. It is told some time after it was read, never before: the
/// largest of the last second or two is the least wrong. But of a caller whose time goes another way it is
/// the last one.
class CallersLead {
 public:
  void tell(MonotonicTime callers, steady_clock::time_point ours) noexcept {
    const Duration lead = callers.time_since_epoch() - ours.time_since_epoch();
    if (value() - lead > most_late) latest_ = none;
    if (latest_ != none && ours - began_ < std::chrono::seconds{1}) {
      latest_ = std::max(latest_, lead);
      return;
    }
    before_ = latest_;
    latest_ = lead;
    began_ = ours;
  }
  /// 0 before anything is told.
  Duration value() const noexcept { return latest_ == none ? Duration{} : std::max(before_, latest_); }

 private:
  /// More than a thread is kept from going on, as a rule.
  static constexpr Duration most_late = std::chrono::milliseconds{20};
  static constexpr Duration none = Duration::min();
  steady_clock::time_point began_{};
  Duration before_ = none;
  Duration latest_ = none;
};

class RedisStore final : public Store {
 public:
  RedisStore(const RedisUrl& url, const StoreConfig& config)
      : url_(url),
        instance_(random_digits(instance_length)),
        command_(config.layout, config.prefix, instance_),
        exchange_command_(config.prefix),
        terms_{.access = [url, config] { return read_access(url, config); },
               .timeout = config.timeout,
               .database = url.database,
               .scripts = scripts(config.layout),
               .probe = config.layout == StoreLayout::plain ? std::string() : config.prefix + ":{0}:~"},
        reconnect_(config.reconnect),
        servers_(make_servers(url, terms_)),
        event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        inbox_(config.backlog),
        outbox_(batch_entries, config.backlog, {random_word(), random_word()},
                config.layout == StoreLayout::exchange ? exchanged_entries : 0),
        exchange_(instance_, random_digits(ExchangeCommand::seed_length), random_word(), config.backlog) {
    if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
    shared_.error = "not connected yet";
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~RedisStore() override {
    // Release and acquire: the thread that ends has seen all that was done before.
    stop_.store(true, std::memory_order_release);
    interrupt();
    thread_.join();
  }
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  void now_is(MonotonicTime now) override {
    const std::lock_guard lock(mutex_);
    tells_time_ = true;
    callers_lead_.tell(now, steady_clock::now());
  }

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    {
      const std::lock_guard lock(mutex_);
      if (!tells_time_) callers_lead_.tell(now, steady_clock::now());
      inbox_.submit(writes, now);
    }
    if (!writes.empty()) interrupt();
  }

  void collect(std::vector<CounterReply>& replies) override {
    const std::lock_guard lock(mutex_);
    replies.insert(replies.end(), replies_.begin(), replies_.end());
    replies_.clear();
  }

  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(wake_mutex_);
    wake_ = std::move(wake);
  }

  StoreFigures figures() const override {
    const std::lock_guard lock(mutex_);
    StoreFigures figures = shared_;
    figures.expired += inbox_.expired();
    figures.pending = inbox_.submitted() - figures.applied - figures.expired;
    return figures;
  }

  std::optional<StoreTime> time() const override {
    const std::lock_guard lock(mutex_);
    return time_;
  }

  bool has_clock() const override { return true; }

  bool flush(Duration patience) override {
    const TimePoint now = steady_clock::now();
    // "For ever" is not to wrap round into the past.
    const TimePoint deadline = now + std::min<Duration>(patience, TimePoint::max() - now);
    std::unique_lock lock(mutex_);
    hurry_ = true;
    interrupt();
    return changed_.wait_until(lock, deadline, [this] {
      return inbox_.submitted() == shared_.applied + shared_.expired + inbox_.expired() &&
             inbox_.changes() + changes_ == 0;
    });
  }

 private:
  // ---- What both sides call.

  bool stopping() const noexcept { return stop_.load(std::memory_order_acquire); }

  void interrupt() noexcept {
    const std::uint64_t one = 1;
    // Full means that it is signalled already.
    [[maybe_unused]] const ssize_t size = write(event_.get(), &one, sizeof one);
  }

  std::vector<std::string_view> scripts(StoreLayout layout) const {
    if (layout == StoreLayout::exchange) return {command_.script(), ExchangeCommand::script()};
    return {command_.script()};
  }

  // ---- The I/O thread's own.

  void run() {
    while (!stopping()) {
      const TimePoint woken = steady_clock::now();
      take_in();
      // What has come is heard before anybody is given up for having been silent: whatever takes its time
      // here (many writes, a name's resolution) is not the servers' fault.
      if (steady_clock::now() - woken >= terms_.timeout / 16) read_until(TimePoint::min());
      hear(steady_clock::now());
      servers_->advance(steady_clock::now(), rest());
      bury(steady_clock::now());
      const TimePoint now = steady_clock::now();
      ask_time(now);
      send_batches(now);
      for (const auto& link : servers_->links()) link->flush(steady_clock::now());
      tell();
      wait();
    }
  }

  /// A pause that differs from node to node: those that lost the store together do not all come back at once.
  Duration rest() {
    const auto most = reconnect_.count();
    return Duration{most - static_cast<Duration::rep>(random_() % static_cast<std::uint64_t>(most / 4 + 1))};
  }

  /// The caller's monotonic time, carried on by ours: the caller may live in a time of its own.
  MonotonicTime callers(TimePoint at) const { return MonotonicTime(at.time_since_epoch() + lead_); }

  void take_in() {
    bool hurry = false;
    // Before what it tells of is taken, so that nothing comes unnoticed.
    if (std::exchange(interrupted_, false)) {
      std::uint64_t count = 0;
      // An eventfd that was empty already is as good.
      [[maybe_unused]] const ssize_t size = read(event_.get(), &count, sizeof count);
    }
    {
      const std::lock_guard lock(mutex_);
      lead_ = callers_lead_.value();
      hurry = std::exchange(hurry_, false);
      changes_ += inbox_.changes();
      inbox_.swap(arrived_);
    }
    if (hurry)
      for (const auto& link : servers_->links()) link->hurry();
    outbox_.submit(arrived_.writes(), arrived_.time());
    arrived_.clear();
    const MonotonicTime now = callers(steady_clock::now());
    outbox_.expire(now);
    exchange_.expire(now, [this](const OutboxGroupId& group, std::uint64_t sequence) {
      return outbox_.out(group, sequence).has_value();
    });
  }

  void ask_time(TimePoint now) {
    ask_time_at_ = now + time_period;
    for (std::uint32_t i = 0; i < store_partitions; ++i) {
      RedisLink* link = servers_->link_of(i);
      if (link == nullptr || !link->time_due(now, time_period)) continue;
      static constexpr std::array<std::string_view, 1> words{"TIME"};
      link->ask({.what = Asked::What::time}, words, now);
    }
  }

  /// Whether batches may go to this server now.
  bool takes_batches(const RedisLink* link) const {
    return link != nullptr && link->up() && !refusals_.contains(link);
  }

  void send_batches(TimePoint now) {
    for (std::uint32_t i = 0; i < store_partitions; ++i) {
      const std::uint32_t partition = (first_ + i) % store_partitions;
      RedisLink* link = servers_->link_of(partition);
      if (!takes_batches(link) || now < not_before_[partition]) continue;
      while (const auto batch = outbox_.next(partition)) send(*link, *batch, false, now);
    }
    std::erase_if(detours_, [&](const Detour& detour) {
      RedisLink* link = servers_->link_to(detour.to);
      const auto batch = outbox_.out(detour.group, detour.sequence);
      if (link == nullptr || !batch) return true;
      if (!takes_batches(link)) {
        // Another server may have become the right one meanwhile.
        if (now < detour.until) return false;
        outbox_.retry(detour.group, detour.sequence);
        return true;
      }
      send(*link, *batch, true, now);
      return true;
    });
  }

  /// @param asking  another server has said to ask this one for once
  void send(RedisLink& link, const OutboxBatch& batch, bool asking, TimePoint now) {
    const std::size_t script = batch.group.sums ? exchange_script : batch_script;
    const bool by_digest =
        !std::erase(without_script_, std::pair{static_cast<const RedisLink*>(&link), script});
    const std::string_view verb = by_digest ? "EVALSHA" : "EVAL";
    const std::string_view named = by_digest ? link.digest(script) : terms_.scripts[script];
    const ExchangeGroup* group = batch.group.sums ? &exchange_.begin(batch) : nullptr;
    if (asking) say_asking(link, now);
    if (group != nullptr)
      exchange_command_.append(link.output(), batch, group->call(), verb, named);
    else
      command_.append(link.output(), batch, verb, named);
    link.asked({.what = Asked::What::batch,
                .group = batch.group,
                .sequence = batch.sequence,
                .by_digest = by_digest,
                .asking = asking},
               now);
    if (group != nullptr) ask_pieces(link, batch, *group, asking, now);
  }

  void ask_pieces(RedisLink& link, const OutboxBatch& batch, const ExchangeGroup& group, bool asking,
                  TimePoint now) {
    const ExchangeQuestion question = group.question();
    if (question.fields.empty()) return;
    if (asking) say_asking(link, now);
    exchange_command_.append(link.output(), batch, question);
    link.asked({.what = Asked::What::pieces,
                .group = batch.group,
                .sequence = batch.sequence,
                .asking = asking,
                .turn = question.turn},
               now);
  }

  static void say_asking(RedisLink& link, TimePoint now) {
    static constexpr std::array<std::string_view, 1> words{"ASKING"};
    link.ask({.what = Asked::What::nothing}, words, now);
  }

  /// Takes what the servers have answered, and what has become of them.
  void hear(TimePoint now) {
    const Servers::Links& links = servers_->links();
    // By position: a server's answer may tell of others.
    for (std::size_t i = 0; i < links.size(); ++i) {
      RedisLink& link = *links[i];
      while (const auto answer = link.take(now)) {
        switch (answer->asked.what) {
          case Asked::What::batch:
          case Asked::What::pieces:
            hear_batch(link, *answer, now);
            break;
          case Asked::What::time:
            hear_time(link, *answer, now);
            break;
          case Asked::What::slots:
          case Asked::What::master:
            servers_->answered(link, *answer, now);
            break;
          case Asked::What::greeting:
          case Asked::What::nothing:
            break;
        }
      }
      // What stands behind a refused batch has been answered too: now the link can rest.
      if (const auto refusal = refusals_.find(&link); refusal != refusals_.end() && link.awaited() == 0)
        link.give_up(refusal->second, now);
    }
    bury(now);
  }

  /// Sees to what was asked of servers that have failed, and to what is left of them.
  void bury(TimePoint now) {
    const Servers::Links& links = servers_->links();
    for (std::size_t i = 0; i < links.size(); ++i)
      if (const auto unanswered = links[i]->failed()) lose(*links[i], *unanswered, now);
    servers_->sweep();
  }

  void hear_batch(RedisLink& link, const RedisAnswer& answer, TimePoint now) {
    const Asked& asked = answer.asked;
    const auto batch = outbox_.out(asked.group, asked.sequence);
    if (asked.what == Asked::What::pieces && (!batch || !awaits(*batch, asked))) return;
    if (!answer.reply.is_error()) {
      if (!batch) return;  // expired meanwhile
      const bool good =
          asked.group.sums ? hear_exchange(link, *batch, answer, now) : hear_outcomes(*batch, answer.reply);
      if (!good) {
        ++figures_.failures;
        first_ = asked.group.partition + 1;
        outbox_.retry(asked.group, asked.sequence);
        return link.give_up(nonsense, now);
      }
      figures_.round_trip = now - asked.at;
      trouble_.clear();
      return;
    }
    // What was asked beside it is answered with the same.
    if (batch && asked.group.sums) exchange_.cancel(*batch);
    if (asked.by_digest && answer.reply.is_error("NOSCRIPT")) {
      without_script_.emplace_back(&link, asked.group.sums ? exchange_script : batch_script);
      return outbox_.retry(asked.group, asked.sequence);
    }
    const auto redirection = parse_redirection(answer.reply, link.endpoint());
    if (redirection && url_.mode == RedisUrl::Mode::cluster) {
      if (redirection->kind == Redirection::Kind::moved) {
        servers_->moved(asked.group.partition, redirection->to);
        // Nodes that do not agree may send us to and fro.
        if (now - std::exchange(moved_at_[asked.group.partition], now) < most_partition_pause) {
          not_before_[asked.group.partition] = now + std::min(reconnect_, most_partition_pause);
          ++figures_.failures;
          trouble_ = answer.reply.text;
        }
        return outbox_.retry(asked.group, asked.sequence);
      }
      detours_.push_back({asked.group, asked.sequence, redirection->to, now + terms_.timeout});
      return;
    }
    ++figures_.failures;
    outbox_.retry(asked.group, asked.sequence);
    // A master that has become a replica is none any more: that it says when it is connected to.
    const bool is_replaced = url_.mode == RedisUrl::Mode::sentinel && answer.reply.is_error("MASTERDOWN");
    if (is_for_later(answer.reply) && !is_replaced) {
      not_before_[asked.group.partition] = now + std::min(reconnect_, most_partition_pause);
      if (!answer.reply.is_error("TRYAGAIN")) trouble_ = answer.reply.text;
      return servers_->failed(link, now);
    }
    std::string why = answer.reply.text;
    if (redirection) why += " (this server is one of a cluster: begin the URL with redis+cluster://)";
    refusals_.try_emplace(&link, std::move(why));
  }

  /// @return false when it is no answer to the batch
  bool hear_outcomes(const OutboxBatch& batch, const RedisReply& reply) {
    const auto outcomes = command_.outcomes(reply, batch.entries.size());
    if (outcomes) take(batch, *outcomes);
    return outcomes.has_value();
  }

  void take(const OutboxBatch& batch, std::span<const OutboxOutcome> outcomes) {
    if (outbox_.answer(batch.group, batch.sequence, outcomes, fresh_) != 0) ++figures_.failures;
    ++figures_.batches;
  }

  /// Whether the pieces are those that the batch still needs.
  bool awaits(const OutboxBatch& batch, const Asked& asked) const {
    const ExchangeGroup* group = exchange_.find(batch.group);
    return group != nullptr && group->question().turn == asked.turn;
  }

  /// @return false when it is no answer to the batch, or to what was asked for its sake
  bool hear_exchange(RedisLink& link, const OutboxBatch& batch, const RedisAnswer& answer, TimePoint now) {
    Exchange::Progress progress{};
    if (answer.asked.what == Asked::What::pieces) {
      const auto pieces = ExchangeCommand::pieces(answer.reply);
      if (!pieces) return false;
      const std::uint64_t damaged = exchange_.damaged();
      progress = exchange_.absorb(batch, *pieces, answer.asked.turn);
      figures_.failures += exchange_.damaged() - damaged;
    } else {
      const auto said = ExchangeCommand::answer(answer.reply);
      if (!said) return false;
      progress = exchange_.absorb(batch, *said);
    }
    switch (progress) {
      case Exchange::Progress::done:
        take(batch, exchange_.find(batch.group)->outcomes());
        break;
      case Exchange::Progress::ask:
        ask_pieces(link, batch, *exchange_.find(batch.group), answer.asked.asking, now);
        break;
      case Exchange::Progress::again:
        // A piece of a log that is gone, and stays so, is not to be asked for as fast as can be.
        if (now - std::exchange(again_at_[batch.group.partition], now) < most_partition_pause) {
          not_before_[batch.group.partition] = now + std::min(reconnect_, most_partition_pause);
          ++figures_.failures;
        }
        outbox_.retry(batch.group, batch.sequence);
        break;
      case Exchange::Progress::wait:
        break;
    }
    return true;
  }

  void hear_time(RedisLink& link, const RedisAnswer& answer, TimePoint now) {
    if (answer.reply.is_error()) {
      ++figures_.failures;
      refusals_.try_emplace(&link, "TIME: " + answer.reply.text);
      return;
    }
    const auto said = parse_time(answer.reply);
    if (!said) return link.give_up(nonsense, now);
    // The masters of a cluster have clocks of their own: one of them counts, for all nodes the same.
    if (servers_->link_of(0) != &link) return;
    fresh_time_ = {.asked = callers(answer.asked.at),
                   .answered = callers(now),
                   .wall = WallTime(*said),
                   .number = fresh_time_.number + 1};
  }

  void lose(RedisLink& link, const std::deque<Asked>& unanswered, TimePoint now) {
    std::uint64_t lost = 0;
    for (const Asked& asked : unanswered) {
      const auto batch = outbox_.out(asked.group, asked.sequence);
      const bool needed = asked.what == Asked::What::pieces && batch && awaits(*batch, asked);
      if (asked.what != Asked::What::batch && !needed) continue;
      if (lost++ == 0) first_ = asked.group.partition + 1;
      outbox_.retry(asked.group, asked.sequence);
    }
    // Without a reason it was given up for a better one.
    if (!link.error().empty()) {
      figures_.failures += std::max<std::uint64_t>(lost, refusals_.contains(&link) ? 0 : 1);
      if (serves(link))
        trouble_ = url_.mode == RedisUrl::Mode::single ? link.error()
                                                       : link.endpoint().describe() + ": " + link.error();
    }
    refusals_.erase(&link);
    std::erase_if(without_script_, [&link](const auto& one) { return one.first == &link; });
    servers_->failed(link, now);
  }

  bool serves(const RedisLink& link) {
    for (std::uint32_t i = 0; i < store_partitions; ++i)
      if (servers_->link_of(i) == &link) return true;
    return false;
  }

  /// Whether every partition can be reached, and nothing has gone wrong since a batch did well.
  bool serving() {
    for (std::uint32_t i = 0; i < store_partitions; ++i)
      if (const RedisLink* link = servers_->link_of(i); link == nullptr || !link->up()) return false;
    if (outbox_.empty()) trouble_.clear();
    return trouble_.empty();
  }

  /// Shows the other side what has become of its writes.
  void tell() {
    const bool up = serving();
    const std::string error = up ? std::string() : why_down();
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      wake = !fresh_.empty() || shared_.up != up || (!time_ && fresh_time_.number != 0);
      replies_.insert(replies_.end(), fresh_.begin(), fresh_.end());
      shared_ = figures_;
      shared_.applied = outbox_.applied();
      shared_.expired = outbox_.expired();
      changes_ = outbox_.changes();
      shared_.up = up;
      shared_.error = error;
      if (fresh_time_.number != 0) time_ = fresh_time_;
    }
    fresh_.clear();
    changed_.notify_all();
    if (!wake) return;
    const std::lock_guard lock(wake_mutex_);
    if (wake_) wake_();
  }

  std::string why_down() const {
    std::string why = trouble_.empty() ? servers_->trouble() : trouble_;
    if (why.empty()) why = "not connected yet";
    return url_.describe() + ": " + presentable(std::move(why), {});
  }

  void wait() {
    TimePoint until = std::min(servers_->wake_at(), ask_time_at_);
    if (!outbox_.empty()) {
      const MonotonicTime expiry = outbox_.next_expiry();
      if (expiry != MonotonicTime::max())
        until = std::min(until, TimePoint(expiry.time_since_epoch() - lead_));
      for (const TimePoint at : not_before_)
        if (at != TimePoint{}) until = std::min(until, at);
      for (const Detour& detour : detours_) until = std::min(until, detour.until);
    }
    read_until(until);
  }

  /// Waits until then at most, and reads and writes what can be.
  void read_until(TimePoint until) {
    std::vector<pollfd>& polled = polled_;
    polled.clear();
    polled.push_back({event_.get(), POLLIN, 0});
    for (const auto& link : servers_->links()) polled.push_back({link->descriptor(), link->events(), 0});
    const TimePoint before = steady_clock::now();
    const timespec timeout = to_timespec(until > before ? Duration{until - before} : Duration{});
    const int ready = ppoll(polled.data(), polled.size(), &timeout, nullptr);
    const TimePoint now = steady_clock::now();
    for (TimePoint& at : not_before_)
      if (at <= now) at = TimePoint{};
    if (ready <= 0) return;
    interrupted_ = polled[0].revents != 0;
    for (std::size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents != 0) servers_->links()[i - 1]->ready(now);
  }

  /// A batch that is to be sent elsewhere for once.
  struct Detour {
    OutboxGroupId group;
    std::uint64_t sequence;
    RedisEndpoint to;
    TimePoint until;  // then the usual way again
  };

  const RedisUrl url_;
  const std::string instance_;
  const BatchCommand command_;
  const ExchangeCommand exchange_command_;
  const LinkTerms terms_;
  const Duration reconnect_;                // the longest rest of a link after a failure
  const std::unique_ptr<Servers> servers_;  // the I/O thread's own
  const Descriptor event_;                  // written by any thread, read by the I/O thread
  std::atomic<bool> stop_{false};

  // Between the controller and the I/O thread. Held for moments only, never across I/O.
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // pending counts have become fewer
  Inbox inbox_;
  std::vector<CounterReply> replies_;
  StoreFigures shared_;
  std::optional<StoreTime> time_;
  std::size_t changes_ = 0;  // writes not answered yet that return or raise something
  CallersLead callers_lead_;
  bool tells_time_ = false;
  bool hurry_ = false;  // flush() asks for an attempt now

  // The I/O thread's own.
  bool interrupted_ = false;  // there is something in event_
  Arrivals arrived_;
  Outbox outbox_;
  Exchange exchange_;
  Duration lead_{};
  std::vector<CounterReply> fresh_;
  StoreTime fresh_time_;
  StoreFigures figures_;  // but for pending, applied, expired, up and error
  std::string trouble_;   // what went wrong last, until a batch does well
  std::unordered_map<const RedisLink*, std::string> refusals_;  // who has refused something, and is to rest
  std::vector<std::pair<const RedisLink*, std::size_t>> without_script_;  // who has lost which
  std::array<TimePoint, store_partitions> not_before_{};
  std::array<TimePoint, store_partitions> moved_at_{};
  std::array<TimePoint, store_partitions> again_at_{};
  std::vector<Detour> detours_;
  std::uint32_t first_ =
      0;  // partition to begin with, so that a bad one does not keep those behind it waiting
  TimePoint ask_time_at_ = TimePoint::min();
  std::vector<pollfd> polled_;
  std::minstd_rand random_{std::random_device{}()};

  std::mutex
      wake_mutex_;  // held while the function runs, so that on_ready() returns when the old one is out of use
  std::function<void()> wake_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Store> make_redis_store(const RedisUrl& url, const StoreConfig& config) {
  return std::make_unique<RedisStore>(url, config);
}

}  // namespace weir
