#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace dotresize {

/// Ends the process cleanly on SIGTERM, SIGINT and SIGHUP, whatever the main thread is computing: a
/// thread of its own waits for them, runs `clean_up`, and leaves with kExitCancelled. Make it
/// before any other thread: the signals are blocked in all threads that are started later.
class StopSignals {
 public:
  StopSignals();
  /// From now on a signal ends the process.
  void watch(std::function<void()> clean_up);

 private:
  sigset_t signals_;
};

/// Has the kernel kill this process when its parent dies, if the parent is an MPI launcher: no
/// rank outlives mpirun.
void die_with_launcher();

}  // namespace dotresize
