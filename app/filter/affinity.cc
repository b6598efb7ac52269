// SPDX-License-Identifier: BSD-3-Clause
#include "filter/affinity.h"

#include <pthread.h>

namespace weir::filter {

cpu_set_t own_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  pthread_getaffinity_np(pthread_self(), sizeof set, &set);
  return set;
}

void keep_off(const cpu_set_t& allowed, const cpu_set_t& taken) noexcept {
  cpu_set_t rest = allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &taken)) CPU_CLR(cpu, &rest);
  pthread_setaffinity_np(pthread_self(), sizeof rest, CPU_COUNT(&rest) == 0 ? &allowed : &rest);
}

Aside::~Aside() { pthread_setaffinity_np(pthread_self(), sizeof own_, &own_); }

}  // namespace weir::filter
