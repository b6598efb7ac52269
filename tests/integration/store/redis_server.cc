// SPDX-License-Identifier: BSD-3-Clause
#include "redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace weir {
namespace {

using std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds{60};
constexpr auto step = std::chrono::milliseconds{5};

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};

}  // namespace

std::uint16_t free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    ADD_FAILURE() << "no loopback port to be had";
  close(descriptor);
  return ntohs(address.sin_port);
}

RedisServer::RedisServer(std::vector<std::string> options) : options_(std::move(options)) {
  std::string name = (std::filesystem::temp_directory_path() / "weir-redis-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make a folder like " << name;
  folder_ = name;
  port_ = free_port();
  start();
}

RedisServer::~RedisServer() {
  if (process_ > 0) kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::start() {
  client_.reset();
  std::vector<std::string> words{"redis-server",
                                 "--port",
                                 std::to_string(port_),
                                 "--bind",
                                 "127.0.0.1",
                                 "--unixsocket",
                                 socket(),
                                 "--dir",
                                 folder_,
                                 "--logfile",
                                 folder_ / "log",
                                 "--save",
                                 "",
                                 "--daemonize",
                                 "no",
                                 "--enable-debug-command",
                                 "yes"};
  words.insert(words.end(), options_.begin(), options_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    // A test that crashes must not leave its server behind.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int standard : {0, 1, 2}) dup2(null, standard);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  const auto deadline = steady_clock::now() + patience;
  while (!ready()) {
    if (waitpid(process_, nullptr, WNOHANG) == process_) {
      process_ = -1;
      ADD_FAILURE() << "redis-server did not start (is it installed?)\n" << log();
      return;
    }
    if (steady_clock::now() > deadline) {
      ADD_FAILURE() << "redis-server does not answer\n" << log();
      return;
    }
    std::this_thread::sleep_for(step);
  }
}

void RedisServer::kill() {
  client_.reset();
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void RedisServer::signal(int number) { ::kill(process_, number); }

bool RedisServer::connect() {
  if (client_ != nullptr && client_->err == 0) return true;
  client_.reset(redisConnectUnix(socket().c_str()));
  if (client_ == nullptr || client_->err != 0) return false;
  if (login_.empty()) return true;
  std::vector<const char*> words;
  for (const std::string& word : login_) words.push_back(word.c_str());
  const std::unique_ptr<redisReply, FreeReply> reply(static_cast<redisReply*>(
      redisCommandArgv(client_.get(), static_cast<int>(words.size()), words.data(), nullptr)));
  return reply != nullptr;
}

bool RedisServer::ready() {
  if (!connect()) return false;
  const std::unique_ptr<redisReply, FreeReply> reply(
      static_cast<redisReply*>(redisCommand(client_.get(), "PING")));
  if (reply == nullptr) return false;
  return reply->type != REDIS_REPLY_ERROR || std::string_view(reply->str).starts_with("NOAUTH");
}

Answer RedisServer::command(const std::vector<std::string>& words) {
  Answer answer;
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  if (!connect()) {
    ADD_FAILURE() << "cannot connect to redis-server\n" << log();
    return answer;
  }
  const std::unique_ptr<redisReply, FreeReply> reply(static_cast<redisReply*>(
      redisCommandArgv(client_.get(), static_cast<int>(words.size()), pointers.data(), lengths.data())));
  if (reply == nullptr) {
    ADD_FAILURE() << "redis-server does not answer " << words[0] << "\n" << log();
    return answer;
  }
  answer.type = reply->type;
  answer.integer = reply->integer;
  if (reply->str != nullptr) answer.text.assign(reply->str, reply->len);
  for (std::size_t i = 0; i < reply->elements; ++i) {
    const redisReply* element = reply->element[i];
    if (element->type == REDIS_REPLY_ARRAY)
      for (std::size_t j = 0; j < element->elements; ++j)
        answer.elements.emplace_back(element->element[j]->str);
    else if (element->str != nullptr)
      answer.elements.emplace_back(element->str, element->len);
  }
  return answer;
}

std::uint64_t RedisServer::counter(const std::string& name) {
  const Answer answer = command({"GET", name});
  return answer.type == REDIS_REPLY_STRING ? std::strtoull(answer.text.c_str(), nullptr, 10) : 0;
}

std::vector<std::string> RedisServer::names(const std::string& pattern) {
  std::vector<std::string> result;
  std::string cursor = "0";
  do {
    Answer answer = command({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"});
    if (answer.elements.empty()) break;
    cursor = answer.elements[0];
    result.insert(result.end(), answer.elements.begin() + 1, answer.elements.end());
  } while (cursor != "0");
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void RedisServer::kill_clients() { command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}); }

std::string RedisServer::log() const {
  std::ifstream file(folder_ / "log");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace weir
