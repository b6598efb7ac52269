// SPDX-License-Identifier: BSD-3-Clause
#include "fault_network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace weir {
namespace {

constexpr auto patience = std::chrono::minutes{1};
constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

/// What an event is about: the number, and at which end.
enum class End : std::uint8_t { door, client, server, poke };
std::uint64_t mark(std::uint64_t id, End end) { return id << 2 | static_cast<std::uint64_t>(end); }

constexpr std::size_t index(Direction direction) { return static_cast<std::size_t>(direction); }

int connect_to(const std::string& path) {
  const int number = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  // A unix socket connects at once or not at all.
  if (connect(number, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return number;
  ::close(number);
  return -1;
}

}  // namespace

const char* to_string(FaultKind kind) noexcept {
  constexpr const char* names[fault_kinds] = {"delay",      "stall", "cut",  "reset",
                                              "half-close", "drip",  "late", "replay"};
  return names[static_cast<std::size_t>(kind)];
}

std::string to_string(const FaultSchedule& schedule) {
  std::string text;
  for (const FaultStep& step : schedule) {
    text += text.empty() ? "" : ", ";
    text += std::to_string(step.bytes);
    text += step.direction == Direction::requests ? " B of requests, " : " B of answers, ";
    text += to_string(step.kind);
    if (step.kind == FaultKind::drip) text += ' ' + std::to_string(step.drips) + " B";
    if (step.time.count() != 0) text += ' ' + std::to_string(step.time.count()) + " us";
  }
  return text;
}

void FaultNetwork::Descriptor::reset() {
  if (number >= 0) ::close(std::exchange(number, -1));
}

FaultNetwork::FaultNetwork()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = mark(0, End::poke)}};
  epoll_ctl(epoll_.number, EPOLL_CTL_ADD, event_.number, &event);
  thread_ = std::thread([this] { run(); });
}

FaultNetwork::~FaultNetwork() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  poke();
  thread_.join();
}

void FaultNetwork::poke() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = write(event_.number, &one, sizeof one);
}

// ---- doors

FaultNetwork::Door FaultNetwork::open(std::string server_socket) {
  const std::lock_guard lock(mutex_);
  const Door door = ++last_;
  Entrance& entrance = doors_[door];
  entrance.server_socket = std::move(server_socket);
  entrance.listener.number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int listener = entrance.listener.number;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    ADD_FAILURE() << "cannot listen on the loopback: " << std::strerror(errno);
  entrance.port = ntohs(address.sin_port);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = mark(door, End::door)}};
  epoll_ctl(epoll_.number, EPOLL_CTL_ADD, listener, &event);
  return door;
}

std::uint16_t FaultNetwork::port(Door door) const {
  const std::lock_guard lock(mutex_);
  return doors_.at(door).port;
}

void FaultNetwork::plan(Door door, std::function<FaultSchedule(std::size_t)> plan) {
  const std::lock_guard lock(mutex_);
  doors_.at(door).plan = std::move(plan);
}

void FaultNetwork::pass(Door door) {
  const std::lock_guard lock(mutex_);
  doors_.at(door).plan = {};
  std::vector<std::uint64_t> ids;
  for (auto& [id, connection] : connections_) {
    if (connection->door != door) continue;
    connection->schedule.resize(
        std::min(connection->schedule.size(), connection->step + connection->at_work));
    ids.push_back(id);
  }
  for (const std::uint64_t id : ids) advance(id);
  sweep();
}

void FaultNetwork::sever(Door door) {
  const std::lock_guard lock(mutex_);
  doors_.at(door).severed = true;
  for (auto& [id, connection] : connections_)
    if (connection->door == door && connection->client.number >= 0) lose_client(id, *connection, true);
  sweep();
}

void FaultNetwork::admit(Door door) {
  const std::lock_guard lock(mutex_);
  doors_.at(door).severed = false;
}

bool FaultNetwork::settle(Door door) {
  std::unique_lock lock(mutex_);
  Entrance& entrance = doors_.at(door);
  entrance.settling = true;
  for (auto& [id, connection] : connections_) {
    const bool late = connection->at_work && connection->schedule[connection->step].kind == FaultKind::late;
    if (connection->door == door && connection->client.number >= 0 && late)
      lose_client(id, *connection, true);
  }
  for (auto timer = timers_.begin(); timer != timers_.end();) {
    if (timer->second.door != door || !timer->second.delivers) {
      ++timer;
      continue;
    }
    const std::function<void()> action = std::move(timer->second.action);
    timer = timers_.erase(timer);
    action();
  }
  sweep();
  const bool done = delivered_.wait_for(lock, patience, [&] { return entrance.deliveries == 0; });
  entrance.settling = false;
  return done;
}

void FaultNetwork::close(Door door) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, connection] : connections_)
    if (connection->door == door) end(*connection);
  sweep();
  std::erase_if(timers_, [door](const auto& timer) { return timer.second.door == door; });
  doors_.erase(door);
}

std::size_t FaultNetwork::connections(Door door) const {
  const std::lock_guard lock(mutex_);
  return doors_.at(door).connections;
}

std::array<std::uint64_t, fault_kinds> FaultNetwork::happened() const {
  const std::lock_guard lock(mutex_);
  return happened_;
}

// ---- the network's thread

void FaultNetwork::run() {
  int wait_ms = -1;
  for (;;) {
    std::array<epoll_event, 128> events;
    const int count = epoll_wait(epoll_.number, events.data(), static_cast<int>(events.size()), wait_ms);
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const std::uint64_t id = event.data.u64 >> 2;
      switch (static_cast<End>(event.data.u64 & 3)) {
        case End::door:
          accept_at(id);
          break;
        case End::client:
          serve(id, event.events, true);
          break;
        case End::server:
          serve(id, event.events, false);
          break;
        case End::poke: {
          std::uint64_t ignored = 0;
          [[maybe_unused]] const ssize_t size = read(event_.number, &ignored, sizeof ignored);
          break;
        }
      }
    }
    wait_ms = run_timers();
    sweep();
  }
}

void FaultNetwork::accept_at(Door door) {
  const auto found = doors_.find(door);
  if (found == doors_.end()) return;  // closed while its event was on the way
  Entrance& entrance = found->second;
  const int client = accept4(entrance.listener.number, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  const int yes = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  auto connection = std::make_unique<Connection>();
  connection->door = door;
  connection->client.number = client;
  if (entrance.severed) return;
  const std::size_t number = entrance.connections++;
  connection->server.number = connect_to(entrance.server_socket);
  if (connection->server.number < 0) return;
  if (entrance.plan) connection->schedule = entrance.plan(number);
  connection->records = std::ranges::any_of(
      connection->schedule, [](const FaultStep& step) { return step.kind == FaultKind::replay; });
  advance(add_connection(std::move(connection)));
}

std::uint64_t FaultNetwork::add_connection(std::unique_ptr<Connection> connection) {
  const std::uint64_t id = ++last_;
  const auto add = [&](const Descriptor& descriptor, End which) {
    if (descriptor.number < 0) return;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = mark(id, which)}};
    epoll_ctl(epoll_.number, EPOLL_CTL_ADD, descriptor.number, &event);
  };
  add(connection->client, End::client);
  add(connection->server, End::server);
  connections_.emplace(id, std::move(connection));
  return id;
}

FaultNetwork::Connection* FaultNetwork::find(std::uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() || found->second->dead ? nullptr : found->second.get();
}

void FaultNetwork::serve(std::uint64_t id, std::uint32_t events, bool at_client) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    const bool open = read_from(*connection, at_client ? Direction::requests : Direction::answers);
    if (!open && at_client) {
      if (connection->client.number >= 0) lose_client(id, *connection, false);
      return;
    }
    if (!open) connection->answers_ended = true;
  }
  advance(id);
}

/// False: there is no more to come.
bool FaultNetwork::read_from(Connection& connection, Direction direction) {
  std::array<char, 16 * 1024> buffer;
  const int source = direction == Direction::requests ? connection.client.number : connection.server.number;
  if (source < 0) return false;
  const ssize_t size = recv(source, buffer.data(), buffer.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size <= 0) return false;
  const bool wanted = direction == Direction::requests
                          ? !connection.requests_cut
                          : !connection.answers_cut && connection.client.number >= 0;
  if (wanted) connection.bytes[index(direction)].append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

/// How much may pass now, of what is there.
std::size_t FaultNetwork::allowed(const Connection& connection, Direction direction) const {
  if (connection.client.number < 0 || connection.step == connection.schedule.size()) return everything;
  const FaultStep& step = connection.schedule[connection.step];
  if (connection.at_work && step.kind == FaultKind::late) return 0;
  if (step.direction != direction) return everything;
  if (!connection.at_work) return step.bytes - connection.passed;
  return step.kind == FaultKind::drip ? connection.drips_allowed : 0;
}

/// Writes what may pass. True: something has.
bool FaultNetwork::write_to(Connection& connection, Direction direction) {
  std::string& bytes = connection.bytes[index(direction)];
  const std::size_t size = std::min(bytes.size(), allowed(connection, direction));
  const int sink = direction == Direction::requests ? connection.server.number : connection.client.number;
  if (size == 0 || sink < 0) return false;
  const ssize_t sent = send(sink, bytes.data(), size, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // An end that takes no more shows when it is read from; until then, what it does not take is lost.
  const std::size_t taken = sent < 0 ? bytes.size() : static_cast<std::size_t>(sent);
  if (connection.records && direction == Direction::requests) connection.requested.append(bytes, 0, taken);
  bytes.erase(0, taken);
  if (connection.client.number < 0 || connection.step == connection.schedule.size()) return true;
  const FaultStep& step = connection.schedule[connection.step];
  if (step.direction != direction) return true;
  if (!connection.at_work) {
    connection.passed = std::min(connection.passed + taken, step.bytes);
  } else if (step.kind == FaultKind::drip) {
    connection.drips_allowed -= std::min(taken, connection.drips_allowed);
    connection.drips_left -= std::min(taken, connection.drips_left);
    if (connection.drips_left == 0) next_step(connection);
  }
  return true;
}

/// Lets pass what may, and begins the steps whose time has come.
void FaultNetwork::advance(std::uint64_t id) {
  for (bool again = true; again;) {
    Connection* connection = find(id);
    if (connection == nullptr) return;
    again = write_to(*connection, Direction::requests);
    again |= write_to(*connection, Direction::answers);
    if (connection->client.number >= 0 && connection->step < connection->schedule.size() &&
        !connection->at_work && connection->passed >= connection->schedule[connection->step].bytes) {
      begin_step(id, *connection);
      again = true;
    }
  }
  Connection& connection = *find(id);
  if (connection.client.number < 0 && connection.bytes[index(Direction::requests)].empty() &&
      !std::exchange(connection.requests_cut, true))
    shutdown(connection.server.number, SHUT_WR);
  if (connection.answers_ended) {
    // The end of the answers is itself something that a stalled direction does not let pass.
    const bool passes = allowed(connection, Direction::answers) > 0;
    if (connection.client.number < 0 || (passes && connection.bytes[index(Direction::answers)].empty()))
      return end(connection);
  }
  watch(id, connection);
}

void FaultNetwork::begin_step(std::uint64_t id, Connection& connection) {
  const FaultStep& step = connection.schedule[connection.step];
  ++happened_[static_cast<std::size_t>(step.kind)];
  connection.at_work = true;
  switch (step.kind) {
    case FaultKind::stall:
    case FaultKind::late:
      return;
    case FaultKind::delay:
      return add_timer(connection.door, step.time, false, [this, id, number = connection.step] {
        Connection* later = find(id);
        if (later == nullptr || later->client.number < 0 || later->step != number) return;
        next_step(*later);
        advance(id);
      });
    case FaultKind::drip:
      connection.drips_left = step.drips;
      connection.drips_allowed = 0;
      if (connection.drips_left == 0) return next_step(connection);
      return drip(id);
    case FaultKind::cut:
    case FaultKind::reset:
      return lose_client(id, connection, step.kind == FaultKind::reset);
    case FaultKind::half_close:
      connection.bytes[index(step.direction)].clear();
      if (step.direction == Direction::requests) {
        connection.requests_cut = true;
        shutdown(connection.server.number, SHUT_WR);
      } else {
        connection.answers_cut = true;
        shutdown(connection.client.number, SHUT_WR);
      }
      return next_step(connection);
    case FaultKind::replay:
      add_timer(connection.door, step.time, true,
                [this, door = connection.door, bytes = connection.requested] { deliver(door, bytes); });
      return next_step(connection);
  }
}

/// Allows another byte now and, while bytes are left, one more each time.
void FaultNetwork::drip(std::uint64_t id) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->client.number < 0 || !connection->at_work) return;
  const FaultStep& step = connection->schedule[connection->step];
  if (step.kind != FaultKind::drip) return;
  connection->drips_allowed = std::min<std::size_t>(connection->drips_allowed + 1, connection->drips_left);
  add_timer(connection->door, step.time, false, [this, id, number = connection->step] {
    Connection* later = find(id);
    if (later == nullptr || later->step != number) return;
    drip(id);
    advance(id);
  });
}

void FaultNetwork::next_step(Connection& connection) {
  ++connection.step;
  connection.passed = 0;
  connection.at_work = false;
}

/// The client has gone, or is to go. What it had sent and what was on its way still reaches the server, or
/// not, as the step at work says; the answers go nowhere.
void FaultNetwork::lose_client(std::uint64_t id, Connection& connection, bool reset) {
  const FaultStep* step = connection.at_work ? &connection.schedule[connection.step] : nullptr;
  const bool late = step != nullptr && step->kind == FaultKind::late;
  std::string& requests = connection.bytes[index(Direction::requests)];
  if (!late) requests.resize(std::min(requests.size(), allowed(connection, Direction::requests)));
  connection.bytes[index(Direction::answers)].clear();

  const linger hard{.l_onoff = 1, .l_linger = 0};
  if (reset) setsockopt(connection.client.number, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  connection.client.reset();
  Entrance& entrance = doors_.at(connection.door);
  ++entrance.deliveries;  // until the server has taken what was sent, and closes
  if (!late || entrance.settling) return advance(id);
  // Until then advance() must not find it.
  std::string kept = std::exchange(requests, {});
  connection.requests_cut = true;
  add_timer(connection.door, step->time, true, [this, id, bytes = std::move(kept)] {
    Connection* later = find(id);
    if (later == nullptr) return;
    later->bytes[index(Direction::requests)] = bytes;
    later->requests_cut = false;
    advance(id);
  });
  watch(id, connection);
}

/// Over a connection of its own.
void FaultNetwork::deliver(Door door, std::string bytes) {
  Entrance& entrance = doors_.at(door);
  auto connection = std::make_unique<Connection>();
  connection->door = door;
  connection->server.number = connect_to(entrance.server_socket);
  if (connection->server.number < 0) return;
  connection->bytes[index(Direction::requests)] = std::move(bytes);
  ++entrance.deliveries;
  advance(add_connection(std::move(connection)));
}

void FaultNetwork::end(Connection& connection) {
  if (std::exchange(connection.dead, true)) return;
  const bool delivered = connection.client.number < 0;
  connection.client.reset();
  connection.server.reset();
  const auto door = doors_.find(connection.door);
  if (delivered && door != doors_.end() && --door->second.deliveries == 0) delivered_.notify_all();
}

void FaultNetwork::watch(std::uint64_t id, const Connection& connection) {
  const auto change = [&](int number, End which, bool reads, bool writes) {
    if (number < 0) return;
    epoll_event event{.events = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U),
                      .data = {.u64 = mark(id, which)}};
    epoll_ctl(epoll_.number, EPOLL_CTL_MOD, number, &event);
  };
  const auto waits = [&](Direction direction) {
    return !connection.bytes[index(direction)].empty() && allowed(connection, direction) > 0;
  };
  change(connection.client.number, End::client, true, waits(Direction::answers));
  if (connection.answers_ended && connection.server.number >= 0) {
    // A hangup would be told over and over.
    epoll_ctl(epoll_.number, EPOLL_CTL_DEL, connection.server.number, nullptr);
  } else {
    change(connection.server.number, End::server, true, waits(Direction::requests));
  }
}

void FaultNetwork::add_timer(Door door, std::chrono::microseconds time, bool delivers,
                             std::function<void()> action) {
  Entrance& entrance = doors_.at(door);
  if (delivers && entrance.settling) return action();
  if (delivers) {
    // Counted until it has run, by when what it has begun is counted.
    ++entrance.deliveries;
    action = [this, door, inner = std::move(action)] {
      inner();
      if (--doors_.at(door).deliveries == 0) delivered_.notify_all();
    };
  }
  timers_.emplace(Clock::now() + time, Timer{door, delivers, std::move(action)});
  poke();
}

/// @return milliseconds until the next is due; -1: there is none
int FaultNetwork::run_timers() {
  for (;;) {
    if (timers_.empty()) return -1;
    const auto first = timers_.begin();
    const auto left = first->first - Clock::now();
    if (left > Clock::duration::zero())
      return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    const std::function<void()> action = std::move(first->second.action);
    timers_.erase(first);
    action();
  }
}

void FaultNetwork::sweep() {
  std::erase_if(connections_, [](const auto& entry) { return entry.second->dead; });
}

}  // namespace weir
