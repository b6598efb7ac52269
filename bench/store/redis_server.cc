// SPDX-License-Identifier: BSD-3-Clause
#include "redis_server.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace weir::bench {
namespace {

/// The value of a line "name:value" of an INFO answer.
std::string_view info(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\r\n", at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':')
      return line.substr(name.size() + 1);
    at = end + 2;
  }
  throw std::runtime_error("the server's INFO does not tell " + std::string(name));
}

template <typename Number>
Number number(std::string_view text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

RedisUrl parse(const std::string& text) {
  const RedisUrlResult parsed = parse_redis_url(text);
  if (!parsed) throw std::runtime_error(text + ": " + parsed.error);
  if (parsed.url.mode != RedisUrl::Mode::single || parsed.url.tls || !parsed.url.user.empty() ||
      !parsed.url.password.empty() || parsed.url.database != 0)
    throw std::runtime_error(
        parsed.url.describe() +
        ": give a redis:// or redis+unix:// URL of one server without password and database");
  return parsed.url;
}

}  // namespace

RedisClient::RedisClient(const RedisUrl& url) {
  const RedisEndpoint& endpoint = url.endpoints.front();
  context_.reset(endpoint.host.empty() ? redisConnectUnix(endpoint.path.c_str())
                                       : redisConnect(endpoint.host.c_str(), endpoint.port));
  if (context_ == nullptr || context_->err != 0)
    throw std::runtime_error(url.describe() + ": " + (context_ ? context_->errstr : "out of memory"));
}

Reply RedisClient::checked(void* reply) {
  Reply owned(static_cast<redisReply*>(reply));
  if (owned == nullptr) throw std::runtime_error(std::string("the connection broke: ") + context_->errstr);
  if (owned->type == REDIS_REPLY_ERROR) throw std::runtime_error(std::string(owned->str, owned->len));
  return owned;
}

Reply RedisClient::command(std::span<const std::string> words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  return checked(
      redisCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(), sizes.data()));
}

Reply RedisClient::answer() {
  void* reply = nullptr;
  redisGetReply(context_.get(), &reply);
  return checked(reply);
}

RedisServer::RedisServer(const std::string& url) : url_(url) {
  if (url.empty()) {
    const char* program = std::getenv("WEIR_REDIS_SERVER");
    const std::string socket = folder_.path() / "redis.sock";
    url_ = "redis+unix://" + socket;
    process_.emplace(std::vector<std::string>{program == nullptr ? "redis-server" : program, "--port", "0",
                                              "--unixsocket", socket, "--dir", folder_.path(), "--save", "",
                                              "--appendonly", "no"});
  }
  address_ = parse(url_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (!client_) try {
      client_.emplace(address_);
    } catch (const std::runtime_error&) {
      // Ours may not listen yet.
      if (!process_ || !process_->running() || std::chrono::steady_clock::now() > deadline) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
}

std::string RedisServer::version() {
  const Reply reply = client_->command({"INFO", "server"});
  return std::string(info({reply->str, reply->len}, "redis_version"));
}

ServerFigures RedisServer::figures() {
  const Reply stats = client_->command({"INFO", "stats"});
  const Reply cpu = client_->command({"INFO", "cpu"});
  const auto cpu_time = [&](std::string_view name) {
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(number<double>(info({cpu->str, cpu->len}, name))));
  };
  const auto count = [&](std::string_view name) {
    return number<std::uint64_t>(info({stats->str, stats->len}, name));
  };
  return {.cpu = cpu_time("used_cpu_user") + cpu_time("used_cpu_sys"),
          .bytes_in = count("total_net_input_bytes"),
          .bytes_out = count("total_net_output_bytes")};
}

void RedisServer::clear() {
  if (process_) client_->command({"FLUSHALL", "SYNC"});
}

}  // namespace weir::bench
