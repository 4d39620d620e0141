#include "worker/commands/run/stop_signals.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/program.h"

namespace dotresize {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void StopSignals::watch(std::function<void()> clean_up) {
  std::thread([signals = signals_, clean_up = std::move(clean_up)] {
    int signal = 0;
    sigwait(&signals, &signal);
    clean_up();
    ::_exit(kExitCancelled);
  }).detach();
}

void die_with_launcher() {
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace dotresize
