// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_link.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/redis/redis_topology.h"

namespace weir {
namespace {

constexpr std::size_t digest_length = 40;

}  // namespace

void RedisLink::advance(TimePoint now, Duration rest) {
  rest_ = rest;
  if (phase_ == Phase::resting) return;
  connection_->tick(now);
  if (connection_->failed()) return give_up(connection_->error(), now);
  if (now >= wake_at()) give_up("no answer in time", now);
}

void RedisLink::connect() {
  phase_ = Phase::greeting;
  access_ = terms_.access();
  connection_.emplace();
  if (access_.error.empty())
    connection_->open(endpoint_, access_.tls, terms_.timeout);
  else
    connection_->fail(access_.error);
  // The pause is between the attempts, however long one takes.
  const TimePoint now = std::chrono::steady_clock::now();
  if (connection_->failed()) return give_up(connection_->error(), now);
  greet(now);
}

void RedisLink::postpone(Duration by) noexcept {
  progress_ += by;
  if (connection_) connection_->postpone(by);
}

// All is sent at once; the connection keeps it until it is open.
void RedisLink::greet(TimePoint now) {
  greetings_.clear();
  digests_.clear();
  const std::string database = std::to_string(terms_.database);
  const auto say = [&](std::initializer_list<std::string_view> words) {
    greetings_.emplace_back(*words.begin());
    ask({.what = Asked::What::greeting}, {words.begin(), words.size()}, now);
  };
  if (terms_.logs_in && !access_.password.empty()) {
    if (access_.user.empty())
      say({"AUTH", access_.password});
    else
      say({"AUTH", access_.user, access_.password});
  }
  if (terms_.database != 0) say({"SELECT", database});
  if (terms_.must_be_master) say({"ROLE"});
  for (const std::string_view script : terms_.scripts) say({"SCRIPT", "LOAD", script});
  // Of a key that is not there: without the right to it a script would leave what lives for ever.
  if (!terms_.probe.empty()) say({"PEXPIRE", terms_.probe, "1"});
  // Something to answer, so that "up" means that the server answers.
  if (greetings_.empty()) say({"PING"});
  connection_->flush();
}

bool RedisLink::greeted(const RedisReply& reply) {
  const std::string step = greetings_.front();
  greetings_.erase(greetings_.begin());
  // Whatever else is wrong (another node's slot, a replica), a batch will find out.
  if (step == "PEXPIRE" && !reply.is_error("NOPERM")) return true;
  if (reply.is_error()) {
    // Who does not know AUTH repeats its arguments, perhaps cut short: no secret that could be recognised.
    const std::size_t quoted = step == "AUTH" ? reply.text.find_first_of("'\"`") : std::string::npos;
    error_ = step + ": " + presentable(reply.text.substr(0, quoted), access_.password);
    return false;
  }
  if (step == "ROLE" && !is_master(reply)) {
    error_ = "the server at " + endpoint_.describe() + " is not a master";
    return false;
  }
  if (step == "SCRIPT") {
    if (reply.text.size() != digest_length) {
      error_ = "the server's answer is not what Redis answers";
      return false;
    }
    digests_.push_back(reply.text);
  }
  return true;
}

RedisLink::TimePoint RedisLink::wake_at() const noexcept {
  switch (phase_) {
    case Phase::resting:
      return rest_until_;
    case Phase::greeting:
      return std::min(connection_->open_deadline(), connection_->next_tick());
    case Phase::up:
      break;
  }
  return asked_.empty() ? TimePoint::max() : progress_ + terms_.timeout;
}

void RedisLink::ready(TimePoint now) {
  if (!connection_) return;
  connection_->ready(now);
}

void RedisLink::asked(Asked asked, TimePoint now) {
  if (asked_.empty()) {
    progress_ = now;
    breaks_silence_ = true;
  }
  asked.at = now;
  asked_.push_back(std::move(asked));
  connection_->await(1);
}

std::optional<RedisAnswer> RedisLink::take(TimePoint now) {
  while (connection_) {
    std::optional<RedisReply> reply = connection_->take();
    if (!reply) {
      if (connection_->failed()) give_up(connection_->error(), now);
      return std::nullopt;
    }
    progress_ = now;
    RedisAnswer answer{asked_.front(), std::move(*reply)};
    asked_.pop_front();
    if (answer.asked.what == Asked::What::greeting) {
      if (!greeted(answer.reply)) {
        give_up(std::move(error_), now);
        return std::nullopt;
      }
      if (greetings_.empty()) {
        phase_ = Phase::up;
        time_at_ = now;
        error_.clear();
      }
      continue;
    }
    return answer;
  }
  return std::nullopt;
}

void RedisLink::give_up(std::string why, TimePoint now) {
  error_ = presentable(std::move(why), access_.password);
  // Of a connection that has been lost and not been looked at yet there may be some already.
  lost_.insert(lost_.end(), asked_.begin(), asked_.end());
  asked_.clear();
  connection_.reset();
  phase_ = Phase::resting;
  rests_since_ = now;
  rest_until_ = now + rest_;
  has_failed_ = true;
}

std::optional<std::deque<Asked>> RedisLink::failed() {
  if (!std::exchange(has_failed_, false)) return std::nullopt;
  return std::exchange(lost_, {});
}

}  // namespace weir
