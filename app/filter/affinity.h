// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Which CPUs a thread may use. Statistics and the controller belong beside the workers' cores, never on
/// them; with a main lcore of their own they simply stay there, and only with a single lcore must they be
/// sent elsewhere.
#pragma once

#include <sched.h>

namespace weir::filter {

/// The CPUs the calling thread may use; ask before DPDK narrows it to one.
cpu_set_t own_cpus() noexcept;

/// Restricts the calling thread to `allowed` without `taken`; to `allowed` when nothing would be left.
void keep_off(const cpu_set_t& allowed, const cpu_set_t& taken) noexcept;

/// Keeps the calling thread off its own CPUs as long as it lives, within `allowed`: threads are born with the
/// mask of the one that starts them, and those that a worker's thread starts must not share its CPU.
class Aside {
 public:
  explicit Aside(const cpu_set_t& allowed) noexcept : own_(own_cpus()) { keep_off(allowed, own_); }
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  cpu_set_t own_;
};

}  // namespace weir::filter
