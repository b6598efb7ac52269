// SPDX-License-Identifier: BSD-3-Clause
#include "faulty_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace weir {
namespace {

constexpr int poll_ms = 5;

void send_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

/// What has arrived within a moment; nullopt-like: `ended` when the other end has closed.
std::string receive(int descriptor, bool& ended) {
  std::array<char, 16 * 1024> buffer;
  pollfd ready{descriptor, POLLIN, 0};
  if (poll(&ready, 1, poll_ms) <= 0) return {};
  const ssize_t size = recv(descriptor, buffer.data(), buffer.size(), 0);
  if (size <= 0) {
    ended = true;
    return {};
  }
  return {buffer.data(), static_cast<std::size_t>(size)};
}

int connect_to(const std::string& path) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  if (connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return descriptor;
  close(descriptor);
  return -1;
}

/// The length of the first answer in Redis' protocol; npos: it has not arrived whole.
std::size_t answer_length(std::string_view bytes) {
  const std::size_t line = bytes.find("\r\n");
  if (line == std::string_view::npos) return std::string_view::npos;
  std::size_t length = line + 2;
  if (bytes[0] != '$' && bytes[0] != '*') return length;
  const int count = std::atoi(std::string(bytes.substr(1, line - 1)).c_str());
  if (bytes[0] == '$') {
    length += count < 0 ? 0 : static_cast<std::size_t>(count) + 2;
    return length <= bytes.size() ? length : std::string_view::npos;
  }
  for (int i = 0; i < count; ++i) {
    const std::size_t element = answer_length(bytes.substr(length));
    if (element == std::string_view::npos) return element;
    length += element;
  }
  return length;
}

}  // namespace

FaultyProxy::FaultyProxy(std::string server_socket) : server_socket_(std::move(server_socket)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    ADD_FAILURE() << "cannot listen on loopback";
  port_ = ntohs(address.sin_port);
  decide_ = [](std::size_t) { return Fault{}; };
  accepting_ = std::thread([this] { accept_all(); });
}

FaultyProxy::~FaultyProxy() {
  stop_ = true;
  accepting_.join();
  close(listener_);
}

void FaultyProxy::on_connection(std::function<Fault(std::size_t)> decide) {
  const std::lock_guard lock(mutex_);
  decide_ = std::move(decide);
}

void FaultyProxy::accept_all() {
  while (!stop_) {
    pollfd ready{listener_, POLLIN, 0};
    if (poll(&ready, 1, poll_ms) <= 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    Fault fault;
    {
      const std::lock_guard lock(mutex_);
      fault = decide_(connections_);
    }
    ++connections_;
    serving_.emplace_back([this, client, fault] { serve(client, fault); });
  }
  for (std::thread& thread : serving_) thread.join();
}

void FaultyProxy::serve(int client, const Fault& fault) {
  using Kind = Fault::Kind;
  const auto finish = [this, client](bool reset) {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    if (reset) setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    // What has arrived and has not been read makes a reset of an end that is none.
    if (!reset) shutdown(client, SHUT_WR);
    for (bool ended = reset; !stop_ && !ended;) receive(client, ended);
    close(client);
  };
  if (fault.kind == Kind::close || fault.kind == Kind::reset) return finish(fault.kind == Kind::reset);

  const bool forwards = fault.kind != Kind::hang && fault.kind != Kind::say && fault.kind != Kind::drip;
  const int server = forwards ? connect_to(server_socket_) : -1;
  if (forwards && server < 0) return finish(false);

  std::size_t requested = 0;
  std::size_t answered = 0;
  std::size_t whole = 0;  // answers
  std::string partly;
  bool spoken = false;
  bool ended = false;
  while (!stop_ && !ended) {
    std::string request = receive(client, ended);
    if (fault.kind == Kind::cut_request && requested + request.size() > fault.bytes) {
      send_all(server, std::string_view(request).substr(0, fault.bytes - requested));
      break;
    }
    requested += request.size();
    if (server >= 0) send_all(server, request);
    if (requested == 0) continue;
    if (fault.kind == Kind::say && !std::exchange(spoken, true)) send_all(client, fault.text);
    if (fault.kind == Kind::drip) {
      // The poll of receive() is the pace.
      send_all(client, std::string_view(fault.text).substr(answered % fault.text.size(), 1));
      ++answered;
    }
    if (server < 0) continue;
    std::string answer = receive(server, ended);
    if (whole < fault.answers) {
      partly += answer;
      while (whole < fault.answers) {
        const std::size_t length = answer_length(partly);
        if (length == std::string::npos) break;
        send_all(client, std::string_view(partly).substr(0, length));
        partly.erase(0, length);
        ++whole;
      }
      if (whole < fault.answers) continue;
      answer = std::exchange(partly, {});
    }
    const bool limited =
        fault.kind == Kind::cut_answer || fault.kind == Kind::stall_answer || fault.kind == Kind::replace;
    const std::size_t allowed =
        limited ? std::min(answer.size(), fault.bytes - std::min(answered, fault.bytes)) : answer.size();
    send_all(client, std::string_view(answer).substr(0, allowed));
    answered += answer.size();
    if (!limited || answered < fault.bytes || answer.size() == allowed) continue;
    if (fault.kind == Kind::cut_answer) break;
    if (fault.kind == Kind::replace && !std::exchange(spoken, true)) send_all(client, fault.text);
  }
  if (server >= 0) close(server);
  finish(false);
}

}  // namespace weir
