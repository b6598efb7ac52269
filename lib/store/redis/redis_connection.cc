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
#include <charconv>
#include <cstring>
#include <system_error>

namespace weir {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t read_size = 64 * 1024;
/// What has been sent is moved out of the way when it is this much.
constexpr std::size_t compact_at = 256 * 1024;

std::string system_message(int number) { return std::generic_category().message(number); }

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

void append_number(std::string& output, char mark, std::size_t number) {
  std::array<char, 24> text;
  text[0] = mark;
  char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  output.append(text.data(), end);
}

}  // namespace

void Descriptor::reset() noexcept {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

void append_command(std::string& output, std::span<const std::string_view> words) {
  append_number(output, '*', words.size());
  for (const std::string_view word : words) {
    append_number(output, '$', word.size());
    output.append(word);
    output.append("\r\n");
  }
}

void RedisConnection::AddressesFree::operator()(addrinfo* addresses) const noexcept {
  freeaddrinfo(addresses);
}

RedisConnection::~RedisConnection() {
  if (!socket_ || awaited_ == 0) return;
  // Something is on its way that has failed: a reset leaves no copy of it to be sent by the kernel later.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

void RedisConnection::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
}

void RedisConnection::open(const RedisEndpoint& endpoint, std::shared_ptr<const TlsContext> tls,
                           std::chrono::nanoseconds timeout) {
  endpoint_ = endpoint;
  tls_ = std::move(tls);
  if (endpoint.host.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (endpoint.path.size() >= sizeof address.sun_path)
      return fail("cannot connect: the socket's path is too long");
    std::memcpy(address.sun_path, endpoint.path.data(), endpoint.path.size());
    open_deadline_ = steady_clock::now() + timeout;
    return begin(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (result != 0)
    return fail("looking up " + endpoint.host + ": " +
                (result == EAI_SYSTEM ? system_message(errno) : std::string(gai_strerror(result))));
  addresses_.reset(found);
  address_ = found;
  const TimePoint now = steady_clock::now();
  open_deadline_ = now + timeout;
  try_address(now);
}

void RedisConnection::try_address(TimePoint now) {
  std::int64_t left = 0;
  for (const addrinfo* address = address_; address != nullptr; address = address->ai_next) ++left;
  // An address that does not answer leaves the later ones their part of the time.
  address_deadline_ = left > 1 ? now + (open_deadline_ - now) / left : TimePoint::max();
  begin(address_->ai_addr, address_->ai_addrlen);
}

void RedisConnection::begin(const sockaddr* address, unsigned length) {
  const TimePoint now = steady_clock::now();
  socket_ = Descriptor(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return next_address(now, system_message(errno));
  const int on = 1;
  if (address->sa_family != AF_UNIX) {
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  state_ = State::connecting;
  if (connect(socket_.get(), address, length) == 0) return connected();
  if (errno == EINPROGRESS || errno == EINTR) return;
  // EAGAIN: the backlog of a unix socket is full.
  next_address(now, errno == EAGAIN ? "the server does not take new connections" : system_message(errno));
}

void RedisConnection::next_address(TimePoint now, const std::string& why) {
  socket_.reset();
  if (address_ != nullptr) address_ = address_->ai_next;
  if (address_ == nullptr) return fail("cannot connect: " + why);
  try_address(now);
}

void RedisConnection::connected() {
  addresses_.reset();
  address_ = nullptr;
  address_deadline_ = TimePoint::max();
  if (tls_ == nullptr) {
    state_ = State::open;
    return flush();
  }
  state_ = State::handshaking;
  session_.emplace(*tls_, socket_.get(), endpoint_.host);
  shake_hands();
}

void RedisConnection::shake_hands() {
  const TlsSession::Step step = session_->handshake();
  tls_wants_write_ = step.progress == TlsSession::Progress::wants_write;
  switch (step.progress) {
    case TlsSession::Progress::done:
      state_ = State::open;
      return flush();
    case TlsSession::Progress::wants_read:
    case TlsSession::Progress::wants_write:
      return;
    case TlsSession::Progress::closed:
      return fail("the server closed the connection during the TLS handshake: does it expect TLS?");
    case TlsSession::Progress::failed:
      return fail(session_->error());
  }
}

RedisConnection::TimePoint RedisConnection::next_tick() const noexcept { return address_deadline_; }

void RedisConnection::postpone(std::chrono::nanoseconds by) noexcept {
  open_deadline_ += by;
  if (address_deadline_ != TimePoint::max()) address_deadline_ += by;
}

short RedisConnection::events() const noexcept {
  switch (state_) {
    case State::closed:
      return 0;
    case State::connecting:
      return POLLOUT;
    case State::handshaking:
      return tls_wants_write_ ? POLLOUT : POLLIN;
    case State::open:
      break;
  }
  return sent_ < output_.size() || tls_wants_write_ ? POLLIN | POLLOUT : POLLIN;
}

void RedisConnection::tick(TimePoint now) {
  if (failed() || now < address_deadline_) return;
  next_address(now, system_message(ETIMEDOUT));
}

void RedisConnection::ready(TimePoint now) {
  if (failed()) return;
  if (state_ == State::connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return next_address(now, system_message(error));
    return connected();
  }
  if (state_ == State::handshaking) return shake_hands();
  if (state_ != State::open) return;
  read_input();
  flush();
}

std::optional<std::size_t> RedisConnection::transmit(std::string_view bytes) {
  if (session_) {
    const TlsSession::Step step = session_->write(bytes);
    tls_wants_write_ = step.progress == TlsSession::Progress::wants_write;
    if (step.progress == TlsSession::Progress::done) return step.bytes;
    if (step.progress == TlsSession::Progress::closed) fail("connection closed by the server");
    if (step.progress == TlsSession::Progress::failed) fail("connection lost: " + session_->error());
    return std::nullopt;
  }
  const ssize_t size = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (size >= 0) return static_cast<std::size_t>(size);
  if (is_for_later(errno)) return std::nullopt;
  // What the server said before it closed, such as "max number of clients reached", explains more.
  const int error = errno;
  read_input();
  fail("connection lost: " + system_message(error));
  return std::nullopt;
}

void RedisConnection::flush() {
  if (state_ != State::open) return;
  while (!failed() && sent_ < output_.size()) {
    const auto size = transmit(std::string_view(output_).substr(sent_));
    if (!size) break;
    sent_ += *size;
  }
  if (sent_ == output_.size()) {
    output_.clear();
    sent_ = 0;
  } else if (sent_ >= compact_at) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
}

std::optional<std::size_t> RedisConnection::receive(std::span<char> into) {
  if (session_) {
    const TlsSession::Step step = session_->read(into);
    if (step.progress == TlsSession::Progress::wants_write) tls_wants_write_ = true;
    if (step.progress == TlsSession::Progress::done) return step.bytes;
    if (step.progress == TlsSession::Progress::closed) fail("connection closed by the server");
    if (step.progress == TlsSession::Progress::failed) fail("connection lost: " + session_->error());
    return std::nullopt;
  }
  const ssize_t size = recv(socket_.get(), into.data(), into.size(), 0);
  if (size > 0) return static_cast<std::size_t>(size);
  if (size == 0) {
    fail("connection closed by the server");
  } else if (!is_for_later(errno)) {
    fail("connection lost: " + system_message(errno));
  }
  return std::nullopt;
}

void RedisConnection::read_input() {
  std::array<char, read_size> buffer;
  tls_wants_write_ = false;
  // Until there is no more: TLS may hold bytes that the descriptor knows nothing of.
  while (!failed()) {
    const auto size = receive(buffer);
    if (!size || !take_in({buffer.data(), *size})) return;
    if (!session_ && *size < buffer.size()) return;
  }
}

bool RedisConnection::take_in(std::string_view bytes) {
  reader_.feed(bytes);
  while (std::optional<RedisReply> reply = reader_.next()) {
    if (replies_.size() < awaited_) {
      replies_.push_back(std::move(*reply));
      continue;
    }
    fail(reply->is_error() ? "the server said: " + reply->text
                           : std::string("the server answered what was not asked"));
    return false;
  }
  if (reader_.failed()) fail("what the server answers is not Redis' protocol");
  return !failed();
}

std::optional<RedisReply> RedisConnection::take() {
  if (replies_.empty()) return std::nullopt;
  RedisReply reply = std::move(replies_.front());
  replies_.pop_front();
  --awaited_;
  return reply;
}

}  // namespace weir
