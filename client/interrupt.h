#pragma once

#include <csignal>

namespace dotresize {

/// While it lives, the first SIGINT is only remembered; a second one ends the program as usual.
/// At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction previous_ {};
};

}  // namespace dotresize
