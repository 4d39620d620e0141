#include "worker/commands/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace dotresize {
namespace {

/// Of one phase, from whatever it counts.
double done_share(const ProgressPhase& phase, int64_t tokens, int64_t junctions) {
  double share = 0.0;
  int counted = 0;
  if (phase.tokens > 0) {
    share += static_cast<double>(tokens) / static_cast<double>(phase.tokens);
    ++counted;
  }
  if (phase.junctions > 0) {
    share += static_cast<double>(junctions) / static_cast<double>(phase.junctions);
    ++counted;
  }
  return counted == 0 ? 0.0 : std::min(1.0, share / counted);
}

}  // namespace

void Progress::plan(std::vector<ProgressPhase> phases) {
  const std::lock_guard<std::mutex> lock(mutex_);
  phases_ = std::move(phases);
}

void Progress::enter(const std::string& phase) {
  change([&] {
    const auto found = std::ranges::find(phases_, phase, &ProgressPhase::name);
    if (found == phases_.end()) throw std::logic_error("phase " + phase + " was not planned");
    current_ = static_cast<size_t>(found - phases_.begin());
    started_ = true;
    tokens_ = junctions_ = 0;
    phase_start_ = Clock::now();
  });
}

void Progress::tokens_seen(int64_t tokens) {
  change([&] { tokens_ += tokens; });
}

void Progress::junctions_solved(int64_t junctions) {
  change([&] { junctions_ += junctions; });
}

ProgressState Progress::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ProgressState state;
  if (!started_) return state;
  const ProgressPhase& phase = phases_[current_];
  state.phase = phase.name;
  double before = 0.0;
  double total = 0.0;
  for (size_t i = 0; i < phases_.size(); ++i) {
    if (i < current_) before += phases_[i].weight;
    if (i < current_) state.junctions_done += phases_[i].junctions;
    state.junctions_total += phases_[i].junctions;
    total += phases_[i].weight;
  }
  state.junctions_done += junctions_;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const double in_phase = seconds(Clock::now() - phase_start_);
  if (tokens_ > 0 && in_phase > 0.0)
    state.tokens_per_second = static_cast<double>(tokens_) / in_phase;
  if (total > 0.0) {
    state.fraction = (before + phase.weight * done_share(phase, tokens_, junctions_)) / total;
  }
  if (state.fraction > 0.02) {
    state.eta_s = seconds(Clock::now() - job_start_) * (1.0 - state.fraction) / state.fraction;
  }
  return state;
}

void Progress::change(const std::function<void()>& step) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    step();
  }
  if (changed_) changed_(state());
}

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
