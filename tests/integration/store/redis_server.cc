// SPDX-License-Identifier: BSD-3-Clause
#include "redis_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "store/redis/redis_connection.h"

namespace weir {
namespace {

using std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds{60};
constexpr auto step = std::chrono::milliseconds{5};

/// Claims a port among all tests on this machine; empty where another has. That it could be bound once is not
/// enough: a server binds it later, ends, and starts again.
Descriptor claim(std::uint16_t port) {
  Descriptor claimed(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // In the abstract namespace, by the zero in front: it goes with the process, however that ends.
  const std::string text = "weir-test-port-" + std::to_string(port);
  text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(claimed.get(), reinterpret_cast<sockaddr*>(&name), length) != 0) claimed.reset();
  return claimed;
}

bool can_be_bound(std::uint16_t port) {
  const Descriptor tried(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return bind(tried.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

std::uint16_t free_port() {
  // Below the ports that the kernel hands out to clients: one of those would not stay free.
  constexpr std::uint32_t first = 12'000;
  constexpr std::uint32_t count = 20'000;
  // More than any one test takes; all of a process's would be too many descriptors.
  constexpr std::size_t kept = 256;
  static std::mt19937 random{std::random_device{}()};
  static std::deque<Descriptor> claims;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<std::uint16_t>(first + random() % count);
    Descriptor claimed = claim(port);
    if (!claimed || !can_be_bound(port)) continue;
    if (claims.size() == kept) claims.pop_front();
    claims.push_back(std::move(claimed));
    return port;
  }
  ADD_FAILURE() << "no loopback port to be had";
  return 0;
}

std::string redis_server_program() {
  const char* program = std::getenv("WEIR_REDIS_SERVER");
  return program == nullptr ? "redis-server" : program;
}

RedisServer::RedisServer(std::vector<std::string> options)
    : folder_("redis"), port_(free_port()), options_(std::move(options)), client_(socket()) {
  start();
}

void RedisServer::start() {
  client_.disconnect();
  std::vector<std::string> words{redis_server_program(),
                                 "--port",
                                 std::to_string(port_),
                                 "--bind",
                                 "127.0.0.1",
                                 "--unixsocket",
                                 socket(),
                                 "--dir",
                                 folder(),
                                 "--logfile",
                                 folder() / "log",
                                 "--save",
                                 "",
                                 "--daemonize",
                                 "no",
                                 "--enable-debug-command",
                                 "yes"};
  words.insert(words.end(), options_.begin(), options_.end());
  process_ = ChildProcess(words, folder() / "output");

  const auto deadline = steady_clock::now() + patience;
  for (;;) {
    const Answer answer = client_.try_command({"PING"});
    if (answer.type != 0 && (!answer.is_error() || std::string_view(answer.text).starts_with("NOAUTH")))
      return;
    if (!process_.running()) {
      ADD_FAILURE() << words[0] << " did not start (is it installed?)\n" << log();
      return;
    }
    if (steady_clock::now() > deadline) {
      ADD_FAILURE() << words[0] << " does not answer\n" << log();
      return;
    }
    std::this_thread::sleep_for(step);
  }
}

void RedisServer::kill() {
  client_.disconnect();
  process_.kill();
}

std::uint64_t RedisServer::counter(const std::string& name) {
  const Answer answer = command({"GET", name});
  return answer.type == REDIS_REPLY_STRING ? std::strtoull(answer.text.c_str(), nullptr, 10) : 0;
}

void RedisServer::kill_clients() { command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}); }

std::string RedisServer::log() const {
  std::string text;
  for (const char* name : {"output", "log"}) {
    std::ifstream file(folder() / name);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

}  // namespace weir
