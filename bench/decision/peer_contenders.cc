// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <memory>
#include <optional>

#include "contender.h"
#include "peers.h"
#include "thread/pinned_thread.h"

namespace weir::bench {
namespace {

/// A peer that has met its keys before.
template <typename Peer>
class Steady final : public Contender {
 public:
  explicit Steady(Workload& workload) : workload_(workload), peer_(workload.keys()) {}
  void decide(Drawn drawn, std::size_t at, std::size_t count) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, count, [&](std::size_t from, std::size_t some) { peer_.admit(stream.part(from, some)); });
    requests_ += count;
  }
  void finish(Result&) override { expect_counted(peer_.admitted(), requests_, "admitted"); }

 private:
  Workload& workload_;
  Peer peer_;
  std::uint64_t requests_ = 0;
};

/// A peer to which every key is new: another one for each time around.
template <typename Peer>
class Strange final : public Contender {
 public:
  explicit Strange(Workload& workload) : stream_(workload.stream(Drawn::once)) {}
  void begin() override {
    check();
    peer_.reset();
    peer_.emplace(stream_.size());
    requests_ = 0;
  }
  void decide(Drawn, std::size_t at, std::size_t count) override {
    each_burst(at, count,
               [&](std::size_t from, std::size_t some) { peer_->admit(stream_.part(from, some)); });
    requests_ += count;
  }
  void finish(Result&) override { check(); }

 private:
  void check() const {
    if (peer_) expect_counted(peer_->admitted(), requests_, "admitted");
  }

  const Stream& stream_;
  std::optional<Peer> peer_;
  std::uint64_t requests_ = 0;
};

/// The lock and the map, with a second thread at them: what a decision then takes each of the two.
class Contended final : public Contender {
 public:
  explicit Contended(Workload& workload) : workload_(workload), map_(workload.keys()) {}
  void begin() override {
    const std::vector<int> cpus = processors();
    stop_.store(false, std::memory_order_relaxed);
    const Stream& stream = workload_.stream(Drawn::uniform);
    // The measuring thread has the last processor.
    other_.emplace(cpus[cpus.size() >= 2 ? cpus.size() - 2 : 0], [this, &stream] {
      for (std::size_t at = stream.size() / 2; !stop_.load(std::memory_order_relaxed);
           at = (at + burst) % stream.size()) {
        map_.admit(stream.part(at, burst));
        requests_of_other_ += burst;
      }
    });
  }
  void decide(Drawn drawn, std::size_t at, std::size_t count) override {
    const Stream& stream = workload_.stream(drawn);
    each_burst(at, count, [&](std::size_t from, std::size_t some) { map_.admit(stream.part(from, some)); });
    requests_ += count;
  }
  void pause() override {
    stop_.store(true, std::memory_order_relaxed);  // orders nothing: the thread is joined
    other_->join();
    other_.reset();
  }
  bool waits() const override { return true; }
  void finish(Result&) override {
    expect_counted(map_.admitted(), requests_ + requests_of_other_, "admitted");
  }

 private:
  Workload& workload_;
  MutexAndMap map_;
  std::optional<PinnedThread> other_;
  std::atomic<bool> stop_{false};
  std::uint64_t requests_ = 0;
  alignas(64) std::uint64_t requests_of_other_ = 0;  // the other thread's, while it runs
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
          {"mutex_and_map_stranger", {Drawn::once}, make<Strange<MutexAndMap>>},
          {"mutex_and_map_two_threads", drawn, make<Contended>}};
}

}  // namespace weir::bench
