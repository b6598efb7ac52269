// SPDX-License-Identifier: BSD-3-Clause
#include "replay.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weir::replay {
namespace {

/// Keys told apart in the summary: keys come from whoever sent the packets, and memory is not theirs.
constexpr std::size_t most_keys = 1'000'000;

/// Monotonic time at the first packet: any but the clock's origin will do.
constexpr MonotonicTime origin{std::chrono::seconds(1)};

std::span<const Rule> rules_of(const std::unique_ptr<Throttle>& throttle) {
  return throttle ? std::span<const Rule>(throttle->config().rules) : std::span<const Rule>();
}

}  // namespace

Replay::Replay(std::unique_ptr<Throttle> throttle, Listener listener, std::int64_t longest_walk)
    : throttle_(std::move(throttle)),
      listener_(std::move(listener)),
      timeline_(rules_of(throttle_), longest_walk),
      headers_(throttle_ != nullptr ? throttle_->headers() : HeaderSelection()),
      observed_(rules_of(throttle_).size()) {
  headers_.want_host(true);
}

Replay::~Replay() {
  if (worker_ != nullptr) worker_->offline();
}

MonotonicTime Replay::monotonic(WallTime at) const noexcept { return origin + (at - tally_.first); }

void Replay::drive(WallTime at) {
  const Instant instant{at, monotonic(at)};
  // The first advance ends the span, the second one finds the worker past it.
  for (int i = 0; i < 2; ++i) {
    throttle_->advance(instant);
    worker_->quiescent();
  }
}

void Replay::move_to(WallTime time) {
  if (tally_.packets == 0) {
    now_ = tally_.first = tally_.last = time;
    if (throttle_ != nullptr) {
      throttle_->advance({time, monotonic(time)});
      worker_ = &throttle_->worker(0);
      worker_->online();
    }
    return;
  }
  if (time < now_) {
    ++tally_.backward_steps;
    return;
  }
  if (throttle_ != nullptr) {
    for (const WallTime at : timeline_.due(now_, time)) drive(at);
  }
  now_ = tally_.last = time;
}

void Replay::play(const Packet& packet) {
  move_to(packet.time);
  ++tally_.packets;
  if (packet.captured < packet.frame.size()) ++tally_.truncated;
  const Frame frame = parse_frame(packet.frame);
  ++tally_.frames[static_cast<std::size_t>(frame.kind)];
  if (frame.kind != FrameKind::tcp) return;
  if (frame.payload_length == 0) {
    ++tally_.without_payload;
    return;
  }
  const std::size_t captured = packet.captured - std::min<std::size_t>(packet.captured, frame.payload_offset);
  const std::string_view payload = request_payload(packet.frame, frame).substr(0, captured);
  HttpRequests requests(payload, headers_);
  ParsedRequest parsed;
  bool found = false;
  while (requests.next(parsed)) {
    found = true;
    set_endpoints(parsed.request, frame);
    decide(packet, parsed);
  }
  ++(found ? tally_.with_requests : tally_.without_requests);
}

KeyTally* Replay::tally_of(const std::string& key) {
  if (const auto known = tally_.keys.find(key); known != tally_.keys.end()) return &known->second;
  if (tally_.keys.size() == most_keys) {
    ++tally_.keys_left_out;
    return nullptr;
  }
  return &tally_.keys[key];
}

// A decision names the first such rule only, but each of them has counted the request.
std::vector<bool> Replay::would_have_refused(const Decision& decision) {
  std::vector<bool> refuse(observed_.size());
  if (decision.observed == no_rule) return refuse;
  const std::vector<RuleFigures> figures = throttle_->figures().rules;
  for (std::size_t rule = 0; rule < refuse.size(); ++rule) {
    if (throttle_->config().rules[rule].action != Action::observe) continue;
    refuse[rule] = figures[rule].blocked != observed_[rule];
    observed_[rule] = figures[rule].blocked;
  }
  return refuse;
}

void Replay::decide(const Packet& packet, ParsedRequest& parsed) {
  const Request& request = parsed.request;
  ++tally_.requests;
  if (!parsed.complete) ++tally_.incomplete;
  if (throttle_ == nullptr) {
    ++tally_.without_rule;
    listener_({packet.time, request, {}, {}, 1, Verdict::admit});
    return;
  }

  const MonotonicTime now = monotonic(now_);
  const Decision decision = worker_->admit(request, now);
  const bool blocked = decision.verdict == Verdict::block;
  if (blocked) ++tally_.blocked;
  if (decision.rule == no_rule) ++tally_.without_rule;

  const std::vector<bool> observed = would_have_refused(decision);
  std::string deciding_key;
  for (const RuleIndex rule : throttle_->rules_for(request)) {
    const std::string key = throttle_->key_name(rule, request);
    if (rule == decision.rule) deciding_key = key;
    KeyTally* tally = tally_of(key);
    if (tally == nullptr) continue;
    tally->rule = rule;
    ++tally->offered;
    if (blocked && rule == decision.rule) {
      ++tally->blocked;
      // A request that can never pass is told to wait for ever.
      tally->blocked_until = now + std::min(decision.retry_after, MonotonicTime::max() - now);
    } else if (observed[rule]) {
      ++tally->blocked;
      // An observing rule does not say how long; the first refusal begins a cooldown.
      if (tally->blocked_until <= now) tally->blocked_until = now + throttle_->config().rules[rule].cooldown;
    } else if (!blocked) {
      ++tally->admitted;
    }
  }
  const std::string_view rule_name = decision.rule == no_rule
                                         ? std::string_view{}
                                         : std::string_view(throttle_->config().rules[decision.rule].name);
  listener_({packet.time, request, rule_name, deciding_key, decision.rule == no_rule ? 1 : decision.weight,
             decision.verdict});
}

std::vector<RuleFigures> Replay::rules() const {
  if (throttle_ == nullptr) return {};
  std::vector<RuleFigures> rules = throttle_->figures().rules;
  // The node learns of a block at the end of its span, which the capture may not reach.
  for (RuleFigures& rule : rules) rule.blocked_keys = 0;
  for (const auto& [name, key] : tally_.keys) {
    if (is_blocked(key)) ++rules[key.rule].blocked_keys;
  }
  return rules;
}

}  // namespace weir::replay
