// SPDX-License-Identifier: BSD-3-Clause
#include "store/redis/redis_servers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/redis/batch_command.h"
#include "store/redis/redis_topology.h"

namespace weir {
namespace {

using std::chrono::steady_clock;

/// How often a sentinel is asked for the master although nothing is wrong: a node that a partition of the
/// network has left with the old master learns of the new one.
constexpr Duration sentinel_period = std::chrono::seconds{1};
/// Likewise the map of a cluster; and the least pause between two questions when something is wrong.
constexpr Duration cluster_period = std::chrono::seconds{5};
constexpr Duration cluster_pause = std::chrono::milliseconds{100};
/// Then another one is asked for the map as well: who hangs is perhaps the very one that has been replaced.
constexpr Duration cluster_patience = std::chrono::seconds{1};
/// How long a server is kept that has been asked for, and serves no partition by the map: while slots move.
constexpr Duration wanted_for = std::chrono::seconds{3};

class SingleServer final : public Servers {
 public:
  SingleServer(const RedisUrl& url, const LinkTerms& terms) : Servers(terms) {
    links_.push_back(std::make_unique<RedisLink>(url.endpoints.front(), terms));
  }
  RedisLink* link_of(std::uint32_t) noexcept override { return links_.front().get(); }
};

// Asks one sentinel after the other, and stays with one that answers.
class SentinelServers final : public Servers {
 public:
  SentinelServers(const RedisUrl& url, const LinkTerms& terms)
      : Servers(terms), name_(url.master), master_terms_(terms), sentinel_terms_(terms) {
    master_terms_.must_be_master = true;
    sentinel_terms_.scripts.clear();
    sentinel_terms_.probe.clear();
    sentinel_terms_.database = 0;
    sentinel_terms_.logs_in = false;
    for (const RedisEndpoint& sentinel : url.endpoints)
      links_.push_back(std::make_unique<RedisLink>(sentinel, sentinel_terms_));
    sentinels_ = links_.size();
  }

  RedisLink* link_of(std::uint32_t) noexcept override { return master_; }

  void answered(RedisLink& link, const RedisAnswer& answer, TimePoint now) override {
    if (answer.asked.what != Asked::What::master) return;
    asking_ = false;
    ask_at_ = now + sentinel_period;
    const auto address = parse_master_address(answer.reply);
    if (!address)
      return link.give_up(answer.reply.is_error() ? answer.reply.text : "it knows no master called " + name_,
                          now);
    trouble_.clear();
    if (master_ != nullptr && master_->endpoint() == *address) return;
    if (master_ != nullptr) retire(*master_, now);
    master_ = links_.emplace_back(std::make_unique<RedisLink>(*address, master_terms_)).get();
  }

  void failed(RedisLink& link, TimePoint now) override {
    if (&link == master_ && sentinels_ > 1 && links_[current_]->up() && !asking_) {
      // This sentinel may be cut off from the others, who know of another master. One that is about to answer
      // is waited for: a dead master may refuse faster than any of them can be asked.
      links_[current_]->give_up({}, now);
      current_ = (current_ + 1) % sentinels_;
      asking_ = false;
    }
    if (&link == master_) ask_at_ = now;
    if (&link != links_[current_].get()) return;
    asking_ = false;
    ask_at_ = now;
    // It wants a password: then the master's.
    if (link.error().find("NOAUTH") != std::string::npos && !std::exchange(sentinel_terms_.logs_in, true))
      return link.hurry();
    trouble_ = "the sentinel at " + link.endpoint().describe() + ": " + link.error();
    current_ = (current_ + 1) % sentinels_;
  }

  TimePoint wake_at() const noexcept override {
    const TimePoint at = Servers::wake_at();
    return links_[current_]->up() && !asking_ ? std::min(at, ask_at_) : at;
  }
  std::string trouble() const override { return master_ == nullptr ? trouble_ : std::string(); }

 private:
  /// The other sentinels rest.
  bool needs(const RedisLink& link, TimePoint) const noexcept override {
    return &link == links_[current_].get() || &link == master_;
  }

  void ask(TimePoint now) override {
    RedisLink& sentinel = *links_[current_];
    if (!sentinel.up() || asking_ || now < ask_at_) return;
    const std::array<std::string_view, 3> words{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name_};
    sentinel.ask({.what = Asked::What::master}, words, now);
    asking_ = true;
  }

  const std::string name_;
  LinkTerms master_terms_;
  LinkTerms sentinel_terms_;
  std::size_t sentinels_ = 0;  // the first of links_
  std::size_t current_ = 0;
  RedisLink* master_ = nullptr;
  bool asking_ = false;
  TimePoint ask_at_ = TimePoint::min();
  std::string trouble_ = "no sentinel has answered yet";
};

class ClusterServers final : public Servers {
 public:
  ClusterServers(const RedisUrl& url, const LinkTerms& terms)
      : Servers(terms), seeds_(url.endpoints), terms_(terms) {
    for (std::uint32_t i = 0; i < store_partitions; ++i) slots_[i] = cluster_slot(partition_tag(i));
    for (const RedisEndpoint& seed : seeds_) link_to(seed);
  }

  RedisLink* link_of(std::uint32_t partition) noexcept override { return serving_[partition]; }

  RedisLink* link_to(const RedisEndpoint& endpoint) override {
    const auto known =
        std::ranges::find_if(links_, [&](const auto& link) { return link->endpoint() == endpoint; });
    RedisLink& link =
        known != links_.end() ? **known : *links_.emplace_back(std::make_unique<RedisLink>(endpoint, terms_));
    keep(link);
    link.want(steady_clock::now() + wanted_for);
    return &link;
  }

  void answered(RedisLink& link, const RedisAnswer& answer, TimePoint now) override {
    if (answer.asked.what != Asked::What::slots) return;
    asking_ = nullptr;
    const auto ranges = parse_cluster_slots(answer.reply, link.endpoint());
    if (!ranges) {
      ask_at_ = now + cluster_pause;
      return link.give_up(answer.reply.is_error() ? "CLUSTER SLOTS: " + answer.reply.text
                                                  : std::string("the answer to CLUSTER SLOTS is not one"),
                          now);
    }
    bool whole = true;
    for (std::uint32_t i = 0; i < store_partitions; ++i) {
      const auto range = std::ranges::find_if(
          *ranges, [&](const SlotRange& one) { return one.first <= slots_[i] && slots_[i] <= one.last; });
      whole = whole && range != ranges->end();
      // Who has left the cluster knows of no slots.
      if (range != ranges->end()) serving_[i] = link_to(range->master);
    }
    trouble_ = whole ? "" : "the cluster does not serve all slots";
    ask_at_ = now + (whole ? cluster_period : cluster_pause);
    for (const auto& one : links_) {
      if (!whole || serves(*one) || one->wanted(now)) continue;
      // What is still awaited of it is asked again of those who serve it now.
      if (!is_seed(*one))
        retire(*one, now);
      else if (one->awaited() != 0)
        one->give_up({}, now);
    }
  }

  void moved(std::uint32_t partition, const RedisEndpoint& to) override {
    serving_[partition] = link_to(to);
    ask_at_ = std::min(ask_at_, steady_clock::now() + cluster_pause);
  }

  void failed(RedisLink& link, TimePoint now) override {
    // Of a link that is up still it has been asked.
    if (asking_ == &link && !link.up()) asking_ = nullptr;
    if (serves(link) || !anyone_serves()) ask_at_ = std::min(ask_at_, now + cluster_pause);
    if (!link.up() && !link.error().empty()) trouble_ = link.endpoint().describe() + ": " + link.error();
  }

  TimePoint wake_at() const noexcept override {
    const TimePoint at = Servers::wake_at();
    const bool lost = !anyone_serves();
    if (std::ranges::none_of(links_, [&](const auto& link) { return is_askable(*link, lost); })) return at;
    return std::min(at, asking_ == nullptr ? ask_at_ : std::max(ask_at_, asked_at_ + cluster_patience));
  }
  std::string trouble() const override { return trouble_; }

 private:
  /// The others rest: a name among the seeds that is not resolved any more would hold everybody up. Who has
  /// been asked something is needed until it has answered, or has not in time.
  bool needs(const RedisLink& link, TimePoint now) const noexcept override {
    return serves(link) || link.wanted(now) || link.awaited() != 0 || !anyone_serves();
  }

  void ask(TimePoint now) override {
    if (asking_ != nullptr && now < asked_at_ + cluster_patience) return;
    if (now < ask_at_) return;
    const bool lost = !anyone_serves();
    // Not always the same one: it may be cut off from the others.
    for (std::size_t i = 0; i < links_.size(); ++i) {
      RedisLink& link = *links_[(turn_ + i) % links_.size()];
      if (!is_askable(link, lost)) continue;
      static constexpr std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
      link.ask({.what = Asked::What::slots}, words, now);
      asking_ = &link;
      asked_at_ = now;
      turn_ += i + 1;
      return;
    }
  }
  bool is_askable(const RedisLink& link, bool lost) const { return link.up() && (lost || serves(link)); }

  bool serves(const RedisLink& link) const { return std::ranges::find(serving_, &link) != serving_.end(); }
  bool anyone_serves() const {
    return std::ranges::any_of(serving_, [](const RedisLink* link) { return link != nullptr && link->up(); });
  }
  bool is_seed(const RedisLink& link) const {
    return std::ranges::find(seeds_, link.endpoint()) != seeds_.end();
  }

  const std::vector<RedisEndpoint> seeds_;
  const LinkTerms& terms_;
  std::array<std::uint32_t, store_partitions> slots_{};
  std::array<RedisLink*, store_partitions> serving_{};
  RedisLink* asking_ = nullptr;
  std::size_t turn_ = 0;
  TimePoint ask_at_ = TimePoint::min();
  TimePoint asked_at_{};  // asking_
  std::string trouble_ = "the cluster's slots are not known yet";
};

}  // namespace

void Servers::advance(TimePoint now, Duration rest) {
  RedisLink* next = nullptr;
  for (const auto& link : links_) {
    if (!needs(*link, now)) continue;
    link->advance(now, rest);
    // Who rests longest goes first: names that take long to fail take no turns from the others.
    if (link->rested(now) && (next == nullptr || link->rests_since() < next->rests_since()))
      next = link.get();
  }
  if (next != nullptr && now >= connect_at_) connect(*next);
  ask(steady_clock::now());
}

void Servers::connect(RedisLink& link) {
  const TimePoint before = steady_clock::now();
  link.connect();
  // Nobody was listening to the others, or sent them what they still wait for.
  const TimePoint now = steady_clock::now();
  const Duration taken = now - before;
  for (const auto& other : links_)
    if (other.get() != &link) other->postpone(taken);
  // Then for as long, or until who is silent has been found to be: between look-ups that follow each other at
  // once nobody would be.
  connect_at_ = now + std::min(taken, patience_);
}

Servers::TimePoint Servers::wake_at() const noexcept {
  const TimePoint now = steady_clock::now();
  TimePoint at = TimePoint::max();
  for (const auto& link : links_)
    if (needs(*link, now)) at = std::min(at, link->rested(now) ? connect_at_ : link->wake_at());
  return at;
}

void Servers::retire(RedisLink& link, TimePoint now) {
  if (std::ranges::find(retired_, &link) != retired_.end()) return;
  link.give_up({}, now);
  retired_.push_back(&link);
}

void Servers::sweep() {
  if (retired_.empty()) return;
  std::erase_if(links_,
                [&](const auto& link) { return std::ranges::find(retired_, link.get()) != retired_.end(); });
  retired_.clear();
}

std::unique_ptr<Servers> make_servers(const RedisUrl& url, const LinkTerms& terms) {
  switch (url.mode) {
    case RedisUrl::Mode::sentinel:
      return std::make_unique<SentinelServers>(url, terms);
    case RedisUrl::Mode::cluster:
      return std::make_unique<ClusterServers>(url, terms);
    case RedisUrl::Mode::memory:
    case RedisUrl::Mode::single:
      break;
  }
  return std::make_unique<SingleServer>(url, terms);
}

}  // namespace weir
