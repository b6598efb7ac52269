// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One connection to Redis: commands out, replies in, in order, and nothing waits beyond its deadline.
/// hiredis writes and reads the protocol; the socket is ours, because both of its versions would resolve
/// names, try addresses and time out in ways of their own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "store/redis/redis_reply.h"
#include "store/redis/redis_url.h"

struct sockaddr;

namespace weir {

/// A file descriptor, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  void reset() noexcept;

 private:
  int number_ = -1;
};

/// Waits for an eventfd until `deadline`, and drains it. False: the deadline has passed.
bool wait_for_event(int event, std::chrono::steady_clock::time_point deadline);

/// Lets another thread end a wait: an event and the question whether to give up.
struct Interruption {
  int event = -1;                     ///< an eventfd; drained by whoever waits
  std::function<bool()> should_stop;  ///< asked after the event
};

/// One thread at a time. Errors are sticky: after one, only destruction is left.
class RedisConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit RedisConnection(Interruption interruption) : interruption_(std::move(interruption)) {}
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /// Resolves the name (in its own time), then connects within `timeout`, which all addresses share.
  bool open(const RedisUrl& url, std::chrono::nanoseconds timeout);

  /// When the timeout of open() ends: what follows at once, such as logging in, is to be done by then too.
  TimePoint open_deadline() const noexcept { return open_deadline_; }

  /// Queues a command. pump() sends it.
  void send(std::span<const std::string_view> words);

  /// The next reply that has arrived whole; none: pump() again, unless there is an error().
  std::optional<RedisReply> take();

  /// Sends and receives until a reply has arrived whole, or something is wrong: then false, and error() says
  /// what.
  bool pump(TimePoint deadline);

  /// Nothing is asked: waits until the event, or the loss of the connection (false).
  bool idle();

  /// Replies that are still to come.
  std::size_t awaited() const noexcept { return awaited_; }
  const std::string& error() const noexcept { return error_; }
  bool interrupted() const noexcept { return interrupted_; }

 private:
  bool fail(std::string message);
  bool connect_to(const sockaddr* address, unsigned length, TimePoint deadline, std::string& why);
  enum class Ready : std::uint8_t { no, socket, event };
  /// Waits for `events` of the socket or the interruption; drains the event.
  Ready wait(short events, std::optional<TimePoint> deadline);
  bool flush_output();
  bool read_input();

  Interruption interruption_;
  Descriptor socket_;
  std::string output_;
  std::size_t sent_ = 0;  // bytes of output_
  RedisReplyReader reader_;
  std::deque<RedisReply> replies_;
  std::size_t awaited_ = 0;
  std::string error_;
  bool interrupted_ = false;
  TimePoint open_deadline_{};
};

}  // namespace weir
