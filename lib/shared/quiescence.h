// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Quiescent states of the workers: DPDK's rte_rcu_qsbr with one variable for all workers, and a question it
/// does not offer by itself: has *this* worker passed? So that one stalled worker delays nobody else's span.
#pragma once

#include <rte_config.h>
// rte_rcu_qsbr.h needs rte_config.h before it.
#include <rte_rcu_qsbr.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace weir {

/// Works without EAL. A worker calls online(), offline(), quiescent() with its own index; the controller
/// calls the rest.
///
/// Protocol. The controller stores the new publication (release), then takes a token by start() (a release
/// increment). A worker that reports quiescent loads the token with acquire, so after it has reported that
/// token, its next load of the publication sees the new one; and its report is a release store that the
/// controller's passed() acquires, so all the worker wrote before is visible. An offline worker has passed:
/// thread_online() ends with a full fence before the worker's first load of the publication.
class Quiescence {
 public:
  explicit Quiescence(unsigned workers)
      : workers_(workers), variable_(static_cast<rte_rcu_qsbr*>(allocate(workers))) {
    rte_rcu_qsbr_init(variable_.get(), workers);
    for (unsigned i = 0; i < workers; ++i) rte_rcu_qsbr_thread_register(variable_.get(), i);
  }

  /// Registered, then online, then the first load: a reader that is not online is invisible to the grace
  /// period.
  void online(unsigned worker) noexcept { rte_rcu_qsbr_thread_online(variable_.get(), worker); }
  void offline(unsigned worker) noexcept { rte_rcu_qsbr_thread_offline(variable_.get(), worker); }
  void quiescent(unsigned worker) noexcept { rte_rcu_qsbr_quiescent(variable_.get(), worker); }

  /// Begins a grace period.
  std::uint64_t start() noexcept {
    const std::uint64_t token = rte_rcu_qsbr_start(variable_.get());
    // Pairs with the fence in thread_online(): either passed() sees the worker online, or the worker sees
    // what was published before. start()'s release increment alone would let passed()'s load go ahead of the
    // publication.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return token;
  }

  /// Whether one worker has been quiescent since start() returned `token`, or is offline.
  bool passed(unsigned worker, std::uint64_t token) const noexcept {
    // Acquire: pairs with the worker's release in quiescent() and offline(), as in rte_rcu_qsbr_check().
    const std::uint64_t seen = __atomic_load_n(&variable_->qsbr_cnt[worker].cnt, __ATOMIC_ACQUIRE);
    return seen == __RTE_QSBR_CNT_THR_OFFLINE || seen >= token;
  }

  /// Whether all have. Never waits.
  bool all_passed(std::uint64_t token) noexcept {
    return rte_rcu_qsbr_check(variable_.get(), token, false) == 1;
  }

  unsigned workers() const noexcept { return workers_; }

 private:
  struct Free {
    void operator()(rte_rcu_qsbr* variable) const noexcept { std::free(variable); }
  };
  static void* allocate(unsigned workers) {
    const std::size_t bytes =
        (rte_rcu_qsbr_get_memsize(workers) + RTE_CACHE_LINE_SIZE - 1) & ~std::size_t{RTE_CACHE_LINE_SIZE - 1};
    void* memory = std::aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }

  unsigned workers_;
  std::unique_ptr<rte_rcu_qsbr, Free> variable_;
};

}  // namespace weir
