// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// A network between stores and servers that does to conversations what networks do, by schedules.
///
/// One thread serves all connections of all its doors, so that thousands of schedules run in minutes. A
/// schedule is a list of steps, worked off one after the other by one connection: so many bytes pass in a
/// direction, then something happens. What is not stopped by the step at work passes.
///
/// The worst a network can do to a protocol that counts exactly once is to deliver a request again or late,
/// after the client has given up and sent its successor elsewhere. Both are here: `late` keeps what the
/// client sends until it has gone, and delivers it then; `replay` delivers everything once more over a
/// connection of its own. settle() waits until the server has eaten all of it, so that whoever looks
/// afterwards sees what it did.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weir {

enum class Direction : std::uint8_t { requests, answers };

/// What happens after the bytes.
enum class FaultKind : std::uint8_t {
  delay,       ///< the direction rests for `time`, then the next step
  stall,       ///< the direction rests until the client gives up
  cut,         ///< both ends are closed
  reset,       ///< the client's end is reset
  half_close,  ///< the direction ends; the other goes on
  drip,        ///< of the direction, `drips` bytes pass one by one, `time` apart, then the next step
  late,        ///< nothing passes; what the client sends is delivered `time` after it has gone
  replay,      ///< all requests so far are delivered again, `time` later; at once the next step
};
constexpr std::size_t fault_kinds = 8;
const char* to_string(FaultKind kind) noexcept;

struct FaultStep {
  std::size_t bytes = 0;  ///< that pass in the direction before it happens
  Direction direction = Direction::answers;
  FaultKind kind = FaultKind::cut;
  std::chrono::microseconds time{};
  std::size_t drips = 0;
};
/// What one connection goes through; then, everything passes.
using FaultSchedule = std::vector<FaultStep>;
std::string to_string(const FaultSchedule& schedule);

/// All functions may be called by any thread.
class FaultNetwork {
 public:
  FaultNetwork();
  /// Closes everything.
  ~FaultNetwork();
  FaultNetwork(const FaultNetwork&) = delete;
  FaultNetwork& operator=(const FaultNetwork&) = delete;

  /// A port on the loopback that leads to a server. Unless told otherwise, everything passes.
  using Door = std::size_t;
  /// @param server_socket  path of the server's unix socket
  Door open(std::string server_socket);
  std::uint16_t port(Door door) const;
  std::string url(Door door) const { return "redis://127.0.0.1:" + std::to_string(port(door)); }

  /// The schedule of each further connection. @param plan  called by the network's thread, with the
  /// connection's number (0, 1, …); it must not call the network
  void plan(Door door, std::function<FaultSchedule(std::size_t)> plan);
  /// Faults end: further connections pass everything, and so do those that are in no fault at the moment.
  /// What is stalled remains so until its client gives up.
  void pass(Door door);
  /// Ends all connections and refuses further ones until admit(). What was to be delivered late still is.
  void sever(Door door);
  void admit(Door door);
  /// Delivers everything that was to be delivered late, and waits until the server has taken it all. Further
  /// schedules at this door must not add to it.
  /// @return false: the server has not, for a minute
  [[nodiscard]] bool settle(Door door);
  /// Settles nothing: ends all connections, and the door.
  void close(Door door);

  std::size_t connections(Door door) const;
  /// How often each kind has happened, at all doors.
  std::array<std::uint64_t, fault_kinds> happened() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Descriptor {
    Descriptor() = default;
    explicit Descriptor(int value) : number(value) {}
    ~Descriptor() { reset(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    void reset();
    int number = -1;
  };

  struct Connection {
    Door door = 0;
    Descriptor client;  // none: its client has gone, and the server's answers go nowhere
    Descriptor server;
    FaultSchedule schedule;
    std::size_t step = 0;
    std::size_t passed = 0;            // bytes in the direction of the step since it began
    bool at_work = false;              // the step's bytes have passed
    std::size_t drips_left = 0;        // of the step
    std::size_t drips_allowed = 0;     // of those, by now
    std::array<std::string, 2> bytes;  // by direction: read, and not written yet
    bool answers_ended = false;        // the server sends no more
    bool answers_cut = false;          // the client is told no more
    bool requests_cut = false;         // the server is told no more
    bool records = false;
    std::string requested;  // all that has passed to the server, where a replay is to come
    bool dead = false;
  };

  struct Entrance {
    std::string server_socket;
    Descriptor listener;
    std::uint16_t port = 0;
    std::function<FaultSchedule(std::size_t)> plan;
    std::size_t connections = 0;
    bool severed = false;
    bool settling = false;
    std::size_t deliveries = 0;  // to come, or on their way
  };

  struct Timer {
    Door door;
    bool delivers;
    std::function<void()> action;
  };

  void run();
  void accept_at(Door door);
  void serve(std::uint64_t id, std::uint32_t events, bool at_client);
  bool read_from(Connection& connection, Direction direction);
  bool write_to(Connection& connection, Direction direction);
  std::size_t allowed(const Connection& connection, Direction direction) const;
  void advance(std::uint64_t id);
  void begin_step(std::uint64_t id, Connection& connection);
  void drip(std::uint64_t id);
  void next_step(Connection& connection);
  void lose_client(std::uint64_t id, Connection& connection, bool reset);
  void deliver(Door door, std::string bytes);
  void end(Connection& connection);
  void watch(std::uint64_t id, const Connection& connection);
  void add_timer(Door door, std::chrono::microseconds time, bool delivers, std::function<void()> action);
  int run_timers();
  void sweep();
  std::uint64_t add_connection(std::unique_ptr<Connection> connection);
  Connection* find(std::uint64_t id);
  void poke() const;

  Descriptor epoll_;
  Descriptor event_;  // written by any thread: look again
  bool stop_ = false;

  // Held by the network's thread while it works, never while it waits; by others within the functions above.
  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  std::map<Door, Entrance> doors_;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::multimap<Clock::time_point, Timer> timers_;
  std::uint64_t last_ = 0;  // number of a door or connection
  std::array<std::uint64_t, fault_kinds> happened_{};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace weir
