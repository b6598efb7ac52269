// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The servers a store lives on: which of them serves a partition, found out and kept up to date. One server,
/// the one that sentinels name, or the masters of a cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/redis_link.h"
#include "store/redis/redis_url.h"

namespace weir {

/// One thread at a time. Links are only destroyed by sweep(), so that whoever looks at one can finish.
class Servers {
 public:
  using TimePoint = RedisLink::TimePoint;
  using Links = std::vector<std::unique_ptr<RedisLink>>;

  /// @param terms  for connections to servers that hold counters
  explicit Servers(const LinkTerms& terms) : patience_(terms.timeout) {}
  virtual ~Servers() = default;

  /// Who serves a partition; nullptr: nobody is known. Check up().
  virtual RedisLink* link_of(std::uint32_t partition) noexcept = 0;
  /// The link to this server, made if there is none; nullptr: this kind of store has no such server.
  virtual RedisLink* link_to(const RedisEndpoint&) { return nullptr; }
  /// Gives up on what has not come in time, begins to connect to one server at most, and asks for what is to
  /// be found out. Takes as long as that server's name takes to be looked up; those of others wait for the
  /// next time, so that whoever is to stop need not wait for them.
  /// @param rest  the pause of a link after its next failure
  void advance(TimePoint now, Duration rest);
  /// The answer to a question of advance().
  virtual void answered(RedisLink&, const RedisAnswer&, TimePoint) {}
  /// A server has said that the partition is served by another.
  virtual void moved(std::uint32_t, const RedisEndpoint&) {}
  /// The link has failed, or its server has refused something.
  virtual void failed(RedisLink&, TimePoint) {}
  /// When advance() is wanted at the latest.
  virtual TimePoint wake_at() const noexcept;
  /// What keeps it from finding out more, where no link can tell; empty: nothing.
  virtual std::string trouble() const { return {}; }

  /// All links, also those that only serve to find out.
  const Links& links() const noexcept { return links_; }
  /// Destroys the links that have become useless.
  void sweep();

 protected:
  /// Whether the link is to be connected; else it rests.
  virtual bool needs(const RedisLink&, TimePoint) const noexcept { return true; }
  /// Asks for what is to be found out.
  virtual void ask(TimePoint) {}
  /// Gives a link up; it goes with the next sweep(), unless it is kept until then.
  void retire(RedisLink& link, TimePoint now);
  void keep(const RedisLink& link) { std::erase(retired_, &link); }

  Links links_;

 private:
  void connect(RedisLink& link);

  const Duration patience_;                  // with the servers
  TimePoint connect_at_ = TimePoint::min();  // not before
  std::vector<const RedisLink*> retired_;
};

/// @param terms  for connections to servers that hold counters; outlives the object
std::unique_ptr<Servers> make_servers(const RedisUrl& url, const LinkTerms& terms);

}  // namespace weir
