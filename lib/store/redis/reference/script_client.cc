// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/reference/script_client.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weir {
namespace {

constexpr std::size_t max_error_length = 200;
constexpr std::size_t digest_length = 40;

/// Whether the server has something against this call only, and the next one may do well on the same
/// connection. After anything else (read-only, loading, logged out) another server may stand behind the name.
bool is_about_the_call(const RedisReply& reply) {
  return reply.is_error("ERR") || reply.is_error("WRONGTYPE") || reply.is_error("OOM") ||
         reply.is_error("NOSCRIPT");
}

}  // namespace

/// Says where it happened, without what could be a secret or break a log line.
ScriptReply ScriptClient::failure(std::string why) {
  if (!url_.password.empty())
    for (std::size_t at = 0; (at = why.find(url_.password, at)) != std::string::npos; at += 3)
      why.replace(at, url_.password.size(), "***");
  std::ranges::replace_if(
      why, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (why.size() > max_error_length) why.resize(max_error_length);
  return {{}, url_.describe() + ": " + why};
}

std::string ScriptClient::ask(std::span<const std::string_view> words, TimePoint deadline,
                              RedisReply& reply) {
  connection_->send(words);
  if (!connection_->pump(deadline)) {
    std::string why = connection_->error();
    connection_.reset();
    return why;
  }
  reply = std::move(*connection_->take());
  return {};
}

std::string ScriptClient::connect(std::chrono::nanoseconds timeout) {
  // Nobody interrupts: who calls waits.
  connection_.emplace(Interruption{});
  if (!connection_->open(url_, timeout)) {
    std::string why = connection_->error();
    connection_.reset();
    return why;
  }
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
