// Threads of ours are started with all signals blocked.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace nobounce::system {

/// Signals of the program are for the program's own threads: what is started while this lives gets
/// none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace nobounce::system
