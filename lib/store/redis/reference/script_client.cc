// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/reference/script_client.h"

#include <poll.h>

#include <algorithm>
#include <vector>

#include "store/redis/redis_access.h"

namespace weir {
namespace {

constexpr std::size_t digest_length = 40;

/// Whether the server has something against this call only, and the next one may do well on the same
/// connection. After anything else (read-only, loading, logged out) another server may stand behind the name.
bool is_about_the_call(const RedisReply& reply) {
  return reply.is_error("ERR") || reply.is_error("WRONGTYPE") || reply.is_error("OOM") ||
         reply.is_error("NOSCRIPT");
}

/// Waits until a reply has arrived whole. Empty, or what went wrong.
std::string wait_for_reply(RedisConnection& connection, RedisConnection::TimePoint deadline,
                           RedisReply& reply) {
  connection.flush();
  for (;;) {
    if (std::optional<RedisReply> taken = connection.take()) {
      reply = std::move(*taken);
      return {};
    }
    if (connection.failed()) return connection.error();
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return "no answer in time";
    connection.tick(now);
    const std::chrono::nanoseconds left = std::min(deadline, connection.next_tick()) - now;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec timeout{static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
    pollfd polled{connection.descriptor(), connection.events(), 0};
    if (ppoll(&polled, 1, &timeout, nullptr) > 0) connection.ready(std::chrono::steady_clock::now());
  }
}

}  // namespace

/// Says where it happened, without what could be a secret or break a log line.
ScriptReply ScriptClient::failure(std::string why) {
  return {{}, url_.describe() + ": " + presentable(std::move(why), url_.password)};
}

std::string ScriptClient::ask(std::span<const std::string_view> words, TimePoint deadline,
                              RedisReply& reply) {
  connection_->send(words);
  std::string why = wait_for_reply(*connection_, deadline, reply);
  if (!why.empty()) connection_.reset();
  return why;
}

std::string ScriptClient::connect(std::chrono::nanoseconds timeout) {
  const RedisAccess access = read_access(url_, StoreConfig());
  if (!access.error.empty()) return access.error;
  connection_.emplace();
  connection_->open(url_.endpoints.front(), access.tls, timeout);
  const std::string database = std::to_string(url_.database);
  std::vector<std::vector<std::string_view>> steps;
  if (!url_.password.empty() && url_.user.empty()) steps.push_back({"AUTH", url_.password});
  if (!url_.password.empty() && !url_.user.empty()) steps.push_back({"AUTH", url_.user, url_.password});
  if (url_.database != 0) steps.push_back({"SELECT", database});
  steps.push_back({"SCRIPT", "LOAD", script_});
  RedisReply reply;
  for (const auto& step : steps) {
    if (std::string why = ask(step, connection_->open_deadline(), reply); !why.empty()) return why;
    if (!reply.is_error()) continue;
    connection_.reset();
    return std::string(step[0]) + ": " + reply.text;
  }
  digest_ = reply.text;
  if (digest_.size() == digest_length) return {};
  connection_.reset();
  return "the server's answer is not what Redis answers";
}

ScriptReply ScriptClient::call(std::string_view key, std::span<const std::string> arguments,
                               std::chrono::nanoseconds timeout) {
  TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  if (!connection_) {
    if (std::string why = connect(timeout); !why.empty()) return failure(std::move(why));
    deadline = connection_->open_deadline();  // the name's resolution has taken its own time
  }
  std::vector<std::string_view> words{"EVALSHA", digest_, "1", key};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ScriptReply answer;
  if (std::string why = ask(words, deadline, answer.reply); !why.empty()) return failure(std::move(why));
  if (answer.reply.is_error("NOSCRIPT")) {
    // Somebody has emptied the server's cache of scripts; nothing has run yet.
    words[0] = "EVAL";
    words[1] = script_;
    if (std::string why = ask(words, deadline, answer.reply); !why.empty()) return failure(std::move(why));
  }
  if (!answer.reply.is_error()) return answer;
  if (!is_about_the_call(answer.reply)) connection_.reset();
  return failure(std::move(answer.reply.text));
}

}  // namespace weir
