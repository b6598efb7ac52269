// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One connection to Redis: commands out, replies in, in order, and never a wait: who owns it polls its
/// descriptor. hiredis reads the protocol; the socket is ours, because both of its versions would resolve
/// names, try addresses and time out in ways of their own, and only one of them knows TLS.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "store/redis/redis_reply.h"
#include "store/redis/redis_url.h"
#include "store/redis/tls.h"

struct addrinfo;
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

/// Appends a command in Redis' protocol.
void append_command(std::string& output, std::span<const std::string_view> words);

/// One thread at a time. Errors are sticky: after one, only destruction is left.
class RedisConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  RedisConnection() = default;
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /// Resolves the name (in its own time, the one thing here that may wait) and begins to connect, to one
  /// address after the other, which share `timeout`.
  /// @param tls  nullptr: none. Kept while the connection lives
  void open(const RedisEndpoint& endpoint, std::shared_ptr<const TlsContext> tls,
            std::chrono::nanoseconds timeout);

  /// When the timeout of open() ends: what follows at once, such as logging in, is to be done by then too.
  TimePoint open_deadline() const noexcept { return open_deadline_; }
  /// When tick() is wanted at the latest.
  TimePoint next_tick() const noexcept;
  /// Moves both: so long nobody could do what the descriptor was ready for.
  void postpone(std::chrono::nanoseconds by) noexcept;

  /// What to poll. −1 once there is an error.
  int descriptor() const noexcept { return error_.empty() ? socket_.get() : -1; }
  short events() const noexcept;

  /// Does what the descriptor is ready for.
  void ready(TimePoint now);
  /// An address that has not answered in time leaves the rest of it to the next one.
  void tick(TimePoint now);

  /// Commands that are appended here (append_command) are sent in this order; `replies` of them are awaited.
  std::string& output() noexcept { return output_; }
  void await(std::size_t replies) noexcept { awaited_ += replies; }
  void send(std::span<const std::string_view> words) {
    append_command(output_, words);
    await(1);
  }
  /// Sends what can be sent at once.
  void flush();

  /// The next reply that has arrived whole.
  std::optional<RedisReply> take();

  /// Replies that are still to come or to be taken.
  std::size_t awaited() const noexcept { return awaited_; }
  const std::string& error() const noexcept { return error_; }
  bool failed() const noexcept { return !error_.empty(); }
  /// Gives up.
  void fail(std::string message);

 private:
  enum class State : std::uint8_t { closed, connecting, handshaking, open };
  struct AddressesFree {
    void operator()(addrinfo* addresses) const noexcept;
  };

  void try_address(TimePoint now);
  void begin(const sockaddr* address, unsigned length);
  void next_address(TimePoint now, const std::string& why);
  void connected();
  void shake_hands();
  void read_input();
  bool take_in(std::string_view bytes);
  /// Bytes moved, or nothing: later, or failed.
  std::optional<std::size_t> receive(std::span<char> into);
  std::optional<std::size_t> transmit(std::string_view bytes);

  State state_ = State::closed;
  RedisEndpoint endpoint_;
  std::shared_ptr<const TlsContext> tls_;
  std::optional<TlsSession> session_;
  bool tls_wants_write_ = false;
  std::unique_ptr<addrinfo, AddressesFree> addresses_;
  const addrinfo* address_ = nullptr;  // being tried
  TimePoint address_deadline_ = TimePoint::max();
  TimePoint open_deadline_{};
  Descriptor socket_;
  std::string output_;
  std::size_t sent_ = 0;  // bytes of output_
  RedisReplyReader reader_;
  std::deque<RedisReply> replies_;
  std::size_t awaited_ = 0;
  std::string error_;
};

}  // namespace weir
