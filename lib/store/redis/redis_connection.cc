// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <vector>

namespace weir {
namespace {

using std::chrono::steady_clock;

std::string system_message(int number) { return std::generic_category().message(number); }

struct AddressesFree {
  void operator()(addrinfo* addresses) const noexcept { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesFree>;

Addresses resolve(const RedisUrl& url, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
  if (result != 0) why = result == EAI_SYSTEM ? system_message(errno) : gai_strerror(result);
  return Addresses(result == 0 ? found : nullptr);
}

timespec to_timespec(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
}

void drain(int event) {
  std::uint64_t count = 0;
  // An eventfd that was empty already is as good.
  [[maybe_unused]] const ssize_t size = read(event, &count, sizeof count);
}

}  // namespace

void Descriptor::reset() noexcept {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

bool wait_for_event(int event, steady_clock::time_point deadline) {
  for (;;) {
    const auto left = deadline - steady_clock::now();
    if (left <= left.zero()) return false;
    const timespec timeout = to_timespec(left);
    pollfd descriptor{event, POLLIN, 0};
    if (ppoll(&descriptor, 1, &timeout, nullptr) <= 0) continue;
    drain(event);
    return true;
  }
}

RedisConnection::~RedisConnection() {
  if (!socket_ || awaited_ == 0) return;
  // Something is on its way that has failed: a reset leaves no copy of it to be sent by the kernel later.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

bool RedisConnection::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return false;
}

bool RedisConnection::open(const RedisUrl& url, std::chrono::nanoseconds timeout) {
  std::string why;
  if (url.transport == RedisUrl::Transport::unix_socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (url.path.size() >= sizeof address.sun_path)
      return fail("cannot connect: the socket's path is too long");
    std::memcpy(address.sun_path, url.path.data(), url.path.size());
    open_deadline_ = steady_clock::now() + timeout;
    if (connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address, open_deadline_, why))
      return true;
    return fail("cannot connect: " + why);
  }
  const Addresses addresses = resolve(url, why);
  if (addresses == nullptr) return fail("cannot resolve the host's name: " + why);
  std::vector<const addrinfo*> list;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next)
    list.push_back(address);
  open_deadline_ = steady_clock::now() + timeout;
  for (std::size_t i = 0; i < list.size() && !interrupted_; ++i) {
    // An address that does not answer leaves the later ones their part of the time.
    const TimePoint now = steady_clock::now();
    const auto part = (open_deadline_ - now) / static_cast<std::int64_t>(list.size() - i);
    if (connect_to(list[i]->ai_addr, list[i]->ai_addrlen, now + part, why)) return true;
  }
  return fail("cannot connect: " + why);
}

bool RedisConnection::connect_to(const sockaddr* address, unsigned length, TimePoint deadline,
                                 std::string& why) {
  socket_ = Descriptor(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) {
    why = system_message(errno);
    return false;
  }
  const int on = 1;
  if (address->sa_family != AF_UNIX) {
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  int error = connect(socket_.get(), address, length) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    error = 0;
    for (;;) {
      const Ready ready = wait(POLLOUT, deadline);
      if (ready == Ready::event && !interrupted_) continue;
      if (ready != Ready::socket) error = interrupted_ ? ECANCELED : ETIMEDOUT;
      break;
    }
    socklen_t size = sizeof error;
    if (error == 0 && getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error == 0) return true;
  // EAGAIN: the backlog of a unix socket is full.
  why = error == EAGAIN ? "the server does not take new connections" : system_message(error);
  socket_.reset();
  return false;
}

RedisConnection::Ready RedisConnection::wait(short events, std::optional<TimePoint> deadline) {
  for (;;) {
    timespec timeout{};
    if (deadline) {
      const auto left = *deadline - steady_clock::now();
      if (left <= left.zero()) return Ready::no;
      timeout = to_timespec(left);
    }
    std::array<pollfd, 2> descriptors{{{socket_.get(), events, 0}, {interruption_.event, POLLIN, 0}}};
    const int ready = ppoll(descriptors.data(), descriptors.size(), deadline ? &timeout : nullptr, nullptr);
    if (ready < 0 && errno != EINTR) return Ready::no;
    if (ready <= 0) continue;
    if (descriptors[1].revents != 0) {
      drain(interruption_.event);
      interrupted_ = interrupted_ || interruption_.should_stop();
      if (interrupted_ || descriptors[0].revents == 0) return Ready::event;
    }
    return Ready::socket;
  }
}

void RedisConnection::send(std::span<const std::string_view> words) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  pointers.reserve(words.size());
  lengths.reserve(words.size());
  for (const std::string_view word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  char* command = nullptr;
  const auto size =
      redisFormatCommandArgv(&command, static_cast<int>(words.size()), pointers.data(), lengths.data());
  if (size < 0) throw std::bad_alloc();
  const std::unique_ptr<char, void (*)(char*)> owner(command, redisFreeCommand);
  output_.append(command, static_cast<std::size_t>(size));
  ++awaited_;
}

std::optional<RedisReply> RedisConnection::take() {
  if (replies_.empty()) return std::nullopt;
  RedisReply reply = std::move(replies_.front());
  replies_.pop_front();
  --awaited_;
  return reply;
}

bool RedisConnection::pump(TimePoint deadline) {
  while (replies_.empty()) {
    if (!error_.empty() || !flush_output()) return false;
    const short events = sent_ < output_.size() ? POLLIN | POLLOUT : POLLIN;
    switch (wait(events, deadline)) {
      case Ready::no:
        return fail("no answer in time");
      case Ready::event:
        if (interrupted_) return fail("the store is being closed");
        continue;
      case Ready::socket:
        break;
    }
    if (!read_input()) return false;
  }
  return true;
}

bool RedisConnection::idle() {
  // What the server says unasked, its farewell included, is an error in read_input().
  return wait(POLLIN, std::nullopt) != Ready::socket || read_input();
}

bool RedisConnection::flush_output() {
  while (sent_ < output_.size()) {
    const ssize_t size = ::send(socket_.get(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL);
    if (size > 0) {
      sent_ += static_cast<std::size_t>(size);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    if (errno == EINTR) continue;
    // What the server said before it closed, such as "max number of clients reached", explains more.
    const int error = errno;
    read_input();
    return fail("connection lost: " + system_message(error));
  }
  output_.clear();
  sent_ = 0;
  return true;
}

bool RedisConnection::read_input() {
  std::array<char, 16 * 1024> buffer;
  const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (size == 0) return fail("connection closed by the server");
  if (size < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return true;
    return fail("connection lost: " + system_message(errno));
  }
  reader_.feed({buffer.data(), static_cast<std::size_t>(size)});
  while (std::optional<RedisReply> reply = reader_.next()) {
    if (replies_.size() < awaited_) {
      replies_.push_back(std::move(*reply));
      continue;
    }
    return fail(reply->is_error() ? "the server said: " + reply->text
                                  : std::string("the server answered what was not asked"));
  }
  if (reader_.failed()) return fail("what the server answers is not Redis' protocol");
  return true;
}

}  // namespace weir
