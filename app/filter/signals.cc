// SPDX-License-Identifier: BSD-3-Clause
#include "filter/signals.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>

namespace weir::filter {
namespace {

bool is_ignored(int number) noexcept {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t stop_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void hold_stop_signals() noexcept {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool wait_for_stop(Duration patience) noexcept {
  const sigset_t set = stop_signals();
  const auto nanoseconds = std::max<Duration::rep>(patience.count(), 0);
  const timespec timeout{.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000),
                         .tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000)};
  return sigtimedwait(&set, nullptr, &timeout) > 0;
}

void release_stop_signals() noexcept {
  // A parent such as a shell's background job may have had them ignored.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace weir::filter
