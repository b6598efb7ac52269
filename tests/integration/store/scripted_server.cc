// SPDX-License-Identifier: BSD-3-Clause
#include "scripted_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

namespace weir {
namespace {

constexpr int poll_ms = 5;

/// The number behind a type's sign, as in "*3\r\n". Takes the line off the front. @return none: it has not
/// arrived
std::optional<std::size_t> take_number(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t number = std::strtoul(std::string(bytes.substr(1, end - 1)).c_str(), nullptr, 10);
  bytes.remove_prefix(end + 2);
  return number;
}

/// Takes the first command off the front, if it has arrived whole.
std::optional<ScriptedServer::Words> take_command(std::string& bytes) {
  std::string_view rest = bytes;
  const std::optional<std::size_t> count = take_number(rest);
  if (!count) return std::nullopt;
  ScriptedServer::Words words;
  while (words.size() < *count) {
    const std::optional<std::size_t> length = take_number(rest);
    if (!length || rest.size() < *length + 2) return std::nullopt;
    words.emplace_back(rest.substr(0, *length));
    rest.remove_prefix(*length + 2);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return words;
}

}  // namespace

std::string ScriptedServer::bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::string ScriptedServer::array(const std::vector<std::string>& elements) {
  std::string all = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) all += element;
  return all;
}

ScriptedServer::ScriptedServer(Script script) : script_(std::move(script)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool listens = bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       listen(listener_, 16) == 0 &&
                       getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  EXPECT_TRUE(listens);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  stop_ = true;
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  close(listener_);
}

void ScriptedServer::accept_all() {
  while (!stop_) {
    pollfd ready{listener_, POLLIN, 0};
    if (poll(&ready, 1, poll_ms) <= 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) serving_.emplace_back([this, client] { serve(client); });
  }
}

void ScriptedServer::serve(int client) {
  std::string received;
  std::array<char, 4096> buffer;
  while (!stop_) {
    pollfd ready{client, POLLIN, 0};
    if (poll(&ready, 1, poll_ms) <= 0) continue;
    const ssize_t size = recv(client, buffer.data(), buffer.size(), 0);
    if (size <= 0) break;
    received.append(buffer.data(), static_cast<std::size_t>(size));
    while (const std::optional<Words> command = take_command(received)) {
      const std::string answer = script_(*command);
      // Few bytes: they find room. Who has gone does not hear them.
      static_cast<void>(send(client, answer.data(), answer.size(), MSG_NOSIGNAL));
    }
  }
  close(client);
}

}  // namespace weir
