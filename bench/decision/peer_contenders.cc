// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <optional>

#include "contender.h"
#include "peers.h"

namespace weir::bench {
namespace {

/// @param admitted  as the peer has said
template <typename Peer>
void expect_all(const Peer& peer, std::uint64_t admitted, std::uint64_t requests) {
  expect_counted(admitted, requests, "admitted");
  if constexpr (requires { peer.counted(); }) expect_counted(peer.counted(), requests);
}

/// A peer that has met its keys before.
template <typename Peer>
class Steady final : public Contender {
 public:
  explicit Steady(Workload& workload) : workload_(workload), peer_(workload.keys()) {}
  void decide(Drawn drawn, std::size_t at, std::size_t count) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, count, [&](std::size_t from, std::size_t some) {
      // Who knows a key's place by its number can ask for it as early as ours is told of it.
      if constexpr (requires { peer_.admit(stream.part(from, some), stream.part(from, some)); })
        admitted_ += peer_.admit(stream.part(from, some), stream.part(from + burst, some));
      else
        admitted_ += peer_.admit(stream.part(from, some));
    });
    requests_ += count;
  }
  void finish(Result&) override { expect_all(peer_, admitted_, requests_); }

 private:
  Workload& workload_;
  Peer peer_;
  std::uint64_t requests_ = 0;
  std::uint64_t admitted_ = 0;
};

/// A peer to which every key is new: another one for each time around.
template <typename Peer>
class Strange final : public Contender {
 public:
  explicit Strange(Workload& workload) : stream_(workload.stream(Drawn::once)) {}
  void begin() override {
    check();
    peer_.emplace(stream_.size());
    requests_ = 0;
    admitted_ = 0;
  }
  void decide(Drawn, std::size_t at, std::size_t count) override {
    each_burst(at, count, [&](std::size_t from, std::size_t some) {
      admitted_ += peer_->admit(stream_.part(from, some));
    });
    requests_ += count;
  }
  void finish(Result&) override { check(); }

 private:
  void check() const {
    if (peer_) expect_all(*peer_, admitted_, requests_);
  }

  const Stream& stream_;
  std::optional<Peer> peer_;
  std::uint64_t requests_ = 0;
  std::uint64_t admitted_ = 0;
};

template <typename Made>
std::unique_ptr<Contender> make(Workload& workload) {
  return std::make_unique<Made>(workload);
}

}  // namespace

std::vector<Kind> peer_kinds() {
  const std::vector<Drawn> drawn{Drawn::uniform, Drawn::zipf};
  return {{"rte_meter", drawn, make<Steady<RteMeter>>},
          {"rte_hash", drawn, make<Steady<RteHash>>},
          {"rte_hash_stranger", {Drawn::once}, make<Strange<RteHash>>},
#ifdef WEIR_BENCH_TBB
          {"tbb_map", drawn, make<Steady<TbbMap>>},
          {"tbb_map_stranger", {Drawn::once}, make<Strange<TbbMap>>},
#endif
          {"mutex_and_map", drawn, make<Steady<MutexAndMap>>},
          {"mutex_and_map_stranger", {Drawn::once}, make<Strange<MutexAndMap>>}};
}

}  // namespace weir::bench
