// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One server of the store, kept connected: connects, logs in, asks what is to be asked first, and after
/// whatever went wrong rests until it is told to begin again. Never waits but in connect(); its owner polls.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/outbox.h"
#include "store/redis/redis_access.h"
#include "store/redis/redis_connection.h"
#include "store/redis/redis_reply.h"
#include "store/redis/redis_url.h"

namespace weir {

/// What has been asked of a server, and by whom its answer is awaited.
struct Asked {
  enum class What : std::uint8_t {
    greeting,  ///< the link itself
    nothing,   ///< nobody: what only prepares the next question
    batch,
    pieces,  ///< of others' logs, for the sake of a batch
    time,
    slots,   ///< of a cluster
    master,  ///< of a sentinel
  };
  What what = What::nothing;
  OutboxGroupId group{};       ///< of the batch, or of that whose pieces these are …
  std::uint64_t sequence = 0;  ///< … and its number
  bool by_digest = false;      ///< the script was named, not given
  bool asking = false;         ///< another server had said to ask this one, for once
  std::uint64_t turn = 0;      ///< of the question, with pieces
  std::chrono::steady_clock::time_point at{};
};

/// An answer, and what it answers.
struct RedisAnswer {
  Asked asked;
  RedisReply reply;
};

/// How links are made. Outlives them.
struct LinkTerms {
  std::function<RedisAccess()> access;  ///< asked before every attempt to connect
  Duration timeout{};                   ///< for connecting with all that follows; then from answer to answer
  std::uint32_t database = 0;
  std::vector<std::string_view> scripts;  ///< made known to the server
  std::string probe;            ///< a name that is never used, for the right to PEXPIRE; empty: not needed
  bool must_be_master = false;  ///< a server that says it is none is no good
  bool logs_in = true;
};

/// One thread at a time.
class RedisLink {
 public:
  using TimePoint = RedisConnection::TimePoint;

  RedisLink(RedisEndpoint endpoint, const LinkTerms& terms) : endpoint_(std::move(endpoint)), terms_(terms) {}

  const RedisEndpoint& endpoint() const noexcept { return endpoint_; }
  /// Connected and greeted: may be asked.
  bool up() const noexcept { return phase_ == Phase::up; }
  /// Why it failed last; empty since it is up.
  const std::string& error() const noexcept { return error_; }
  /// Of the terms' scripts. @pre up()
  std::string_view digest(std::size_t script) const noexcept { return digests_[script]; }
  std::size_t awaited() const noexcept { return asked_.size(); }

  /// It is to be kept until then, also where it serves no partition.
  void want(TimePoint until) noexcept { wanted_until_ = until; }
  bool wanted(TimePoint now) const noexcept { return now < wanted_until_; }

  /// Gives up on what has not come in time.
  /// @param rest  the pause after the next failure
  void advance(TimePoint now, Duration rest);
  /// Whether it has rested, and connect() is wanted.
  bool rested(TimePoint now) const noexcept { return phase_ == Phase::resting && now >= rest_until_; }
  /// When it was given up last.
  TimePoint rests_since() const noexcept { return rests_since_; }
  /// Begins to connect, which takes as long as the name takes to be looked up. @pre rested()
  void connect();
  /// So long nobody has heard the server, or sent it what was to be sent: that was not its silence.
  void postpone(Duration by) noexcept;
  /// Ends the rest.
  void hurry() noexcept { rest_until_ = TimePoint::min(); }
  /// When advance() or connect() is wanted at the latest.
  TimePoint wake_at() const noexcept;
  int descriptor() const noexcept { return connection_ ? connection_->descriptor() : -1; }
  short events() const noexcept { return connection_ ? connection_->events() : short{0}; }
  /// Does what the descriptor is ready for.
  void ready(TimePoint now);

  /// Where a command is to be appended, followed by asked(). @pre up()
  std::string& output() noexcept { return connection_->output(); }
  void asked(Asked asked, TimePoint now);
  void ask(Asked asked, std::span<const std::string_view> words, TimePoint now) {
    append_command(output(), words);
    this->asked(std::move(asked), now);
  }
  /// Sends what has been appended. The server's time to answer begins with this.
  void flush(TimePoint now) {
    if (!connection_) return;
    if (std::exchange(breaks_silence_, false)) progress_ = now;
    connection_->flush();
  }

  /// Whether the server's time is to be asked for: once it is up, and then in each period.
  bool time_due(TimePoint now, Duration period) {
    if (phase_ != Phase::up || now < time_at_) return false;
    time_at_ = now + period;
    return true;
  }

  /// The next answer.
  std::optional<RedisAnswer> take(TimePoint now);
  /// Once for each failure, when all answers have been taken: what was not answered.
  std::optional<std::deque<Asked>> failed();
  /// Gives the connection up. @param why  as error() is to say it; empty: nothing is wrong with it
  void give_up(std::string why, TimePoint now);

 private:
  enum class Phase : std::uint8_t { resting, greeting, up };

  void greet(TimePoint now);
  bool greeted(const RedisReply& reply);

  RedisEndpoint endpoint_;
  const LinkTerms& terms_;
  Phase phase_ = Phase::resting;
  Duration rest_{};
  TimePoint rests_since_ = TimePoint::min();
  TimePoint rest_until_ = TimePoint::min();
  std::optional<RedisConnection> connection_;
  RedisAccess access_;
  std::vector<std::string> greetings_;  // what has been asked first, and not been answered yet
  std::vector<std::string> digests_;
  std::deque<Asked> asked_;
  std::deque<Asked> lost_;
  TimePoint progress_{};         // when the last answer came, or the first question after silence was sent
  bool breaks_silence_ = false;  // that has not been sent yet
  TimePoint time_at_{};
  TimePoint wanted_until_{};
  std::string error_ = "not connected yet";
  bool has_failed_ = false;
};

}  // namespace weir
