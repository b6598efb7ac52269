// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_store.h"

#include <pthread.h>
#include <signal.h>
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

#include "store/outbox.h"
#include "store/redis/batch_script.h"
#include "store/redis/redis_connection.h"

namespace weir {
namespace {

using std::chrono::steady_clock;

/// Counters of one script call: long enough to amortise the call, short enough not to hold up Redis' other
/// clients.
constexpr std::size_t batch_entries = 512;
/// What a marker outlives its batch by: more than any difference in the pace of two clocks.
constexpr Duration marker_margin = std::chrono::minutes{1};
constexpr std::size_t max_error_length = 200;
constexpr std::size_t digest_length = 40;
constexpr const char* nonsense = "the server's answer is not what Redis answers";

std::string random_instance() {
  std::random_device random;
  std::string text;
  for (int word = 0; word < 4; ++word) {
    std::uint32_t value = random();
    for (int digit = 0; digit < 8; ++digit, value >>= 4) text += "0123456789abcdef"[value & 15];
  }
  return text;
}

/// Blocks every signal while a thread is started, so that it inherits the mask from its first instruction on.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

class RedisStore final : public Store {
 public:
  RedisStore(const RedisUrl& url, const StoreConfig& config)
      : url_(url),
        timeout_(config.timeout),
        reconnect_(config.reconnect),
        prefix_(config.prefix),
        instance_(random_instance()),
        event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
    figures_.error = "not connected yet";
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~RedisStore() override {
    stop_.store(true, std::memory_order_release);
    interrupt();
    thread_.join();
  }
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  void submit(const std::vector<CounterWrite>& writes, MonotonicTime now) override {
    {
      const std::lock_guard lock(mutex_);
      callers_lead_ = now.time_since_epoch() - steady_clock::now().time_since_epoch();
      outbox_.submit(writes, now);
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
    StoreFigures figures = figures_;
    figures.pending = outbox_.pending();
    figures.applied = outbox_.applied();
    figures.expired = outbox_.expired();
    return figures;
  }

  bool flush(Duration patience) override {
    const auto deadline = steady_clock::now() + patience;
    std::unique_lock lock(mutex_);
    hurry_ = true;
    interrupt();
    return changed_.wait_until(lock, deadline, [this] { return outbox_.pending() == 0; });
  }

 private:
  bool stopping() const noexcept { return stop_.load(std::memory_order_acquire); }

  void interrupt() noexcept {
    const std::uint64_t one = 1;
    // Full means that it is signalled already.
    [[maybe_unused]] const ssize_t size = write(event_.get(), &one, sizeof one);
  }

  /// The caller's monotonic time, carried on by ours: the caller may live in a time of its own. @pre mutex_
  /// is held
  MonotonicTime callers_now() const {
    return MonotonicTime(steady_clock::now().time_since_epoch() + callers_lead_);
  }

  void run() {
    while (!stopping()) {
      {
        RedisConnection connection({event_.get(), [this] { return stopping(); }});
        if (greet(connection)) serve(connection);
      }
      pause();
    }
  }

  /// Connects, logs in, and makes the script known.
  bool greet(RedisConnection& connection) {
    if (!connection.open(url_, timeout_)) return lost(connection, connection.error(), 1);
    const std::string database = std::to_string(url_.database);
    std::vector<std::string_view> steps;
    const auto ask = [&](std::initializer_list<std::string_view> words) {
      steps.push_back(*words.begin());
      connection.send({words.begin(), words.size()});
    };
    if (!url_.password.empty()) {
      if (url_.user.empty())
        ask({"AUTH", url_.password});
      else
        ask({"AUTH", url_.user, url_.password});
    }
    if (url_.database != 0) ask({"SELECT", database});
    ask({"SCRIPT", "LOAD", batch_script()});

    for (const std::string_view step : steps) {
      if (!connection.pump(connection.open_deadline())) return lost(connection, connection.error(), 1);
      const std::optional<RedisReply> reply = connection.take();
      if (reply->is_error()) return lost(connection, std::string(step) + ": " + reply->text, 1);
      digest_ = reply->text;
    }
    if (digest_.size() != digest_length) return lost(connection, nonsense, 1);
    return true;
  }

  /// Sends batches as they become ready, until the connection is lost.
  void serve(RedisConnection& connection) {
    bool script_known = true;
    while (!stopping()) {
      const Round round = next_round();
      if (round.batches.empty()) {
        set_up();
        if (!connection.idle()) {
          lost(connection, connection.error(), 1);
          return;
        }
        continue;
      }
      for (const OutboxBatch* batch : round.batches) {
        // Batches are sent until they expire; after that the marker is of no use.
        const Duration marker_life = std::max(batch->expires - round.now, Duration{0}) + marker_margin;
        const BatchCommand command(script_known ? "EVALSHA" : "EVAL", script_known ? digest_ : batch_script(),
                                   *batch, prefix_, instance_, marker_life);
        connection.send(command.words());
      }
      if (!receive(connection, round.batches, script_known)) return;
    }
  }

  /// What goes out together.
  struct Round {
    std::vector<const OutboxBatch*> batches;
    MonotonicTime now;  // the caller's
  };

  Round next_round() {
    Round round;
    {
      const std::lock_guard lock(mutex_);
      hurry_ = false;
      round.now = callers_now();
      outbox_.expire(round.now);
      for (std::uint32_t i = 0; i < store_partitions; ++i)
        if (const OutboxBatch* batch = outbox_.next((first_ + i) % store_partitions); batch != nullptr)
          round.batches.push_back(batch);
    }
    changed_.notify_all();
    return round;
  }

  /// Takes the answers of what has been sent. False: the connection has been given up.
  bool receive(RedisConnection& connection, const std::vector<const OutboxBatch*>& batches,
               bool& script_known) {
    const auto sent_at = steady_clock::now();
    const bool by_digest = std::exchange(script_known, true);
    std::string refusal;
    std::size_t answered = 0;
    bool news = false;
    // From answer to answer: what stands behind others in the pipeline has not been slow itself.
    auto deadline = sent_at + timeout_;
    while (answered < batches.size()) {
      std::optional<RedisReply> reply = connection.take();
      if (!reply) {
        if (std::exchange(news, false)) announce(true);
        if (connection.pump(deadline)) continue;
        first_ = batches[answered]->partition + 1;
        return lost(connection, connection.error(), batches.size() - answered);
      }
      const OutboxBatch& batch = *batches[answered++];
      const auto now = steady_clock::now();
      deadline = now + timeout_;
      if (by_digest && reply->is_error("NOSCRIPT")) {
        script_known = false;
      } else if (reply->is_error()) {
        if (refusal.empty()) refusal = std::move(reply->text);
        const std::lock_guard lock(mutex_);
        ++figures_.failures;
      } else if (const auto outcomes = batch_outcomes(*reply, batch.entries.size())) {
        apply(batch, *outcomes, now - sent_at);
        news = true;
      } else {
        first_ = batch.partition + 1;
        return lost(connection, nonsense, batches.size() - answered + 1);
      }
    }
    if (news) announce(true);
    return refusal.empty() || lost(connection, refusal, 0);
  }

  void apply(const OutboxBatch& batch, const std::vector<OutboxOutcome>& outcomes, Duration round_trip) {
    const std::lock_guard lock(mutex_);
    figures_.up = true;
    figures_.error.clear();
    ++figures_.batches;
    figures_.round_trip = round_trip;
    if (outbox_.answer(batch.partition, batch.sequence, outcomes, replies_) != 0) ++figures_.failures;
  }

  void set_up() {
    {
      const std::lock_guard lock(mutex_);
      if (figures_.up) return;
      figures_.up = true;
      figures_.error.clear();
    }
    announce(true);
  }

  /// Notes why the store is down. Always false, for its callers to pass on.
  bool lost(const RedisConnection& connection, const std::string& why, std::uint64_t failures) {
    if (connection.interrupted()) return false;
    bool was_up = false;
    {
      const std::lock_guard lock(mutex_);
      was_up = std::exchange(figures_.up, false);
      figures_.failures += failures;
      figures_.error = url_.describe() + ": " + presentable(why);
    }
    announce(was_up);
    return false;
  }

  /// A server's words, fit for a log line: no control characters, and nothing of the password.
  std::string presentable(std::string text) const {
    if (!url_.password.empty())
      for (std::size_t at = 0; (at = text.find(url_.password, at)) != std::string::npos;)
        text.replace(at, url_.password.size(), "***"), at += 3;
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    if (text.size() > max_error_length) text.resize(max_error_length);
    return text;
  }

  void announce(bool wake) {
    changed_.notify_all();
    if (!wake) return;
    const std::lock_guard lock(wake_mutex_);
    if (wake_) wake_();
  }

  /// Waits until it is time to connect again.
  void pause() {
    const auto deadline = steady_clock::now() + reconnect_;
    while (!stopping()) {
      {
        const std::lock_guard lock(mutex_);
        outbox_.expire(callers_now());
        if (std::exchange(hurry_, false)) return;
      }
      changed_.notify_all();
      if (!wait_for_event(event_.get(), deadline)) return;
    }
  }

  const RedisUrl url_;
  const Duration timeout_;
  const Duration reconnect_;
  const std::string prefix_;
  const std::string instance_;
  const Descriptor event_;  // written by any thread, read by the I/O thread
  std::atomic<bool> stop_{false};

  // The I/O thread's own.
  std::string digest_;  // of the script, as Redis computes it
  std::uint32_t first_ =
      0;  // partition to begin with, so that a bad one does not keep those behind it waiting

  // Between the controller and the I/O thread. Held for computing only, never across I/O. The batch that is
  // out is the exception: it does not change while it is out, and only the I/O thread ends that, so it reads
  // it without the lock.
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // pending counts have become fewer
  Outbox outbox_{batch_entries};
  std::vector<CounterReply> replies_;
  StoreFigures figures_;  // but for pending, applied and expired
  Duration callers_lead_{};
  bool hurry_ = false;  // flush() asks for an attempt now

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
