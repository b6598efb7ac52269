// SPDX-License-Identifier: BSD-3-Clause
#include "pinned_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <ctime>
#include <stdexcept>
#include <utility>

namespace weir::bench {
namespace {

Duration read(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) throw std::runtime_error("a thread's processor time cannot be read");
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

long switches_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

std::vector<int> processors() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> found;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) found.push_back(cpu);
  return found;
}

void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void keep_off(int processor) {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  CPU_CLR(processor, &set);
  if (CPU_COUNT(&set) != 0) pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

Duration thread_time() { return read(CLOCK_THREAD_CPUTIME_ID); }

PinnedThread::PinnedThread(int processor, std::function<void()> work)
    : thread_([this, processor, work = std::move(work)] {
        pin(processor);
        const long before = switches_of_this_thread();
        try {
          work();
        } catch (...) {
          thrown_ = std::current_exception();
        }
        switches_ = switches_of_this_thread() - before;
      }) {}

PinnedThread::~PinnedThread() {
  if (thread_.joinable()) thread_.join();
}

Duration PinnedThread::cpu() {
  clockid_t clock{};
  if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0)
    throw std::runtime_error("a thread's processor time cannot be read");
  return read(clock);
}

void PinnedThread::join() {
  if (thread_.joinable()) thread_.join();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace weir::bench
