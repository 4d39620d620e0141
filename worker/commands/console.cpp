#include "worker/commands/console.h"

#include <fmt/core.h>

#include <cstdio>

namespace dotresize {

void ProgressLines::show(const ProgressState& state) {
  constexpr std::chrono::seconds kInterval(5);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = Clock::now();
  if (state.phase == phase_ && now - last_ < kInterval) return;
  phase_ = state.phase;
  last_ = now;
  std::string line =
      fmt::format("[{:6.1f} s] {:3.0f} % {}", std::chrono::duration<double>(now - start_).count(),
                  100.0 * state.fraction, state.phase);
  if (state.junctions_done > 0) {
    line += fmt::format(", {} of {} junctions", state.junctions_done, state.junctions_total);
  }
  if (state.tokens_per_second > 0)
    line += fmt::format(", {:.0f} tokens/s", state.tokens_per_second);
  if (state.eta_s >= 0) line += fmt::format(", {:.0f} s left", state.eta_s);
  fmt::print(stderr, "{}\n", line);
}

}  // namespace dotresize
