// SPDX-License-Identifier: BSD-3-Clause
#include "redis_client.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

namespace weir {
namespace {

constexpr timeval patience{60, 0};
constexpr int attempts = 5;

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

void append(redisContext* context, const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  redisAppendCommandArgv(context, static_cast<int>(words.size()), pointers.data(), lengths.data());
}

Reply next_reply(redisContext* context) {
  void* reply = nullptr;
  return redisGetReply(context, &reply) == REDIS_OK ? Reply(static_cast<redisReply*>(reply)) : nullptr;
}

std::string text_of(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_INTEGER) return std::to_string(reply.integer);
  return reply.str == nullptr ? std::string() : std::string(reply.str, reply.len);
}

Answer answer_of(const redisReply& reply) {
  Answer answer;
  answer.type = reply.type;
  answer.integer = reply.integer;
  answer.text = text_of(reply);
  for (std::size_t i = 0; i < reply.elements; ++i) {
    const redisReply& element = *reply.element[i];
    if (element.type != REDIS_REPLY_ARRAY) {
      answer.elements.push_back(text_of(element));
      continue;
    }
    for (std::size_t j = 0; j < element.elements; ++j)
      answer.elements.push_back(text_of(*element.element[j]));
  }
  return answer;
}

}  // namespace

std::string RedisClient::where() const {
  return socket_.empty() ? "port " + std::to_string(port_) : socket_.string();
}

bool RedisClient::connect() {
  if (context_ != nullptr && context_->err == 0) return true;
  // hiredis writes to connections that the server has closed; only this thread is to survive that, so that a
  // store whose own thread does not would still show.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  context_.reset(socket_.empty() ? redisConnectWithTimeout("127.0.0.1", port_, patience)
                                 : redisConnectUnixWithTimeout(socket_.c_str(), patience));
  if (context_ == nullptr || context_->err != 0) {
    context_.reset();
    return false;
  }
  redisSetTimeout(context_.get(), patience);
  if (login_.empty()) return true;
  append(context_.get(), login_);
  if (next_reply(context_.get()) != nullptr) return true;
  context_.reset();
  return false;
}

// Servers end the connections of their clients when they change their role or are told to: then all over
// again.
bool RedisClient::ask(const std::vector<std::vector<std::string>>& all, std::vector<Answer>& answers) {
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (!connect()) continue;
    answers.clear();
    for (const auto& words : all) append(context_.get(), words);
    while (answers.size() < all.size()) {
      const Reply reply = next_reply(context_.get());
      if (reply == nullptr) break;
      answers.push_back(answer_of(*reply));
    }
    if (answers.size() == all.size()) return true;
    const bool silent = context_->err == REDIS_ERR_IO && errno == EAGAIN;
    context_.reset();
    if (silent) return false;
  }
  return false;
}

Answer RedisClient::try_command(const std::vector<std::string>& words) {
  std::vector<Answer> answers;
  return ask({words}, answers) ? answers[0] : Answer{};
}

std::vector<Answer> RedisClient::commands(const std::vector<std::vector<std::string>>& all) {
  std::vector<Answer> answers;
  if (ask(all, answers)) return answers;
  ADD_FAILURE() << "redis-server at " << where() << " does not answer";
  return {};
}

Answer RedisClient::command(const std::vector<std::string>& words) {
  Answer answer = try_command(words);
  if (answer.type == 0) ADD_FAILURE() << "redis-server at " << where() << " does not answer " << words[0];
  return answer;
}

Answer RedisClient::next(std::chrono::milliseconds at_most) {
  if (context_ == nullptr) return {};
  redisSetTimeout(context_.get(), {at_most / std::chrono::seconds{1},
                                   at_most % std::chrono::seconds{1} / std::chrono::microseconds{1}});
  const Reply reply = next_reply(context_.get());
  if (reply != nullptr) return answer_of(*reply);
  context_.reset();
  return {};
}

std::vector<std::string> RedisClient::names(const std::string& pattern) {
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

}  // namespace weir
