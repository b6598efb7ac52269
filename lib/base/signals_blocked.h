// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <signal.h>

namespace weir {

/// Blocks every signal while a thread is started, so that the thread inherits the mask from its first
/// instruction on: signals are the embedding program's. Whether or not there is a thread in the end, the
/// caller then has its own mask back.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace weir
