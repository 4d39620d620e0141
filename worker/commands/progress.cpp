#include "worker/commands/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace dotresize {
namespace {

/// Smallest part of a job that allows an estimate of the remaining time.
constexpr double kLeastKnown = 0.02;

double done_of(const CountedWork& work, int64_t done) {
  if (work.total <= 0) return 0.0;
  return work.seconds * std::min(1.0, static_cast<double>(done) / static_cast<double>(work.total));
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
    const auto next = static_cast<size_t>(found - phases_.begin());
    for (size_t i = started_ ? current_ + 1 : 0; i < next; ++i) found_ += phases_[i].seconds();
    current_ = next;
    started_ = true;
    done_ = {};
    phase_start_ = Clock::now();
  });
}

void Progress::add(const WorkDone& more, bool found) {
  change([&] {
    done_.tokens += more.tokens;
    done_.junctions += more.junctions;
    done_.cuts += more.cuts;
    done_.sublayers += more.sublayers;
    if (found) found_ += done_of(phases_[current_].junctions, more.junctions);
  });
}

v1::Progress Progress::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Progress state;
  state.set_eta_s(-1.0);
  if (!started_) return state;
  const ProgressPhase& phase = phases_[current_];
  state.set_phase(phase.name);
  int64_t junctions_done = done_.junctions;
  int64_t junctions_total = 0;
  double done = done_of(phase.tokens, done_.tokens) + done_of(phase.junctions, done_.junctions) +
                done_of(phase.cuts, done_.cuts) + done_of(phase.sublayers, done_.sublayers);
  double total = 0.0;
  for (size_t i = 0; i < phases_.size(); ++i) {
    if (i < current_) {
      junctions_done += phases_[i].junctions.total;
      done += phases_[i].seconds();
    }
    junctions_total += phases_[i].junctions.total;
    total += phases_[i].seconds();
  }
  state.set_junctions_done(static_cast<int32_t>(junctions_done));
  state.set_junctions_total(static_cast<int32_t>(junctions_total));
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const double in_phase = seconds(Clock::now() - phase_start_);
  if (done_.tokens > 0 && in_phase > 0.0) {
    state.set_tokens_per_second(static_cast<double>(done_.tokens) / in_phase);
  }
  if (total <= 0.0) return state;
  state.set_fraction(done / total);
  if (const double worked = done - found_; worked > kLeastKnown * total) {
    state.set_eta_s(seconds(Clock::now() - job_start_) * (total - done) / worked);
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

ProgressPrinter::ProgressPrinter(bool records)
    : records_(records),
      interval_(records ? std::chrono::milliseconds(100) : std::chrono::seconds(5)) {}

void ProgressPrinter::show(const v1::Progress& state) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto now = Clock::now();
    if (state.phase() == phase_ && now - last_ < interval_) return;
    phase_ = state.phase();
    last_ = now;
  }
  if (records_) {
    const nlohmann::json record = {{"phase", state.phase()},
                                   {"junctions_done", state.junctions_done()},
                                   {"junctions_total", state.junctions_total()},
                                   {"tokens_per_second", state.tokens_per_second()},
                                   {"eta_s", state.eta_s()},
                                   {"fraction", state.fraction()}};
    // Phases of `eval` contain paths, which may not be UTF-8.
    fmt::print(stderr, "\x1e{}\n",
               record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  const std::chrono::duration<double> since = Clock::now() - start_;
  std::string line = fmt::format("[{:6.1f} s] {:3.0f} % {}", since.count(),
                                 100.0 * state.fraction(), state.phase());
  if (state.junctions_done() > 0) {
    line += fmt::format(", {} of {} junctions", state.junctions_done(), state.junctions_total());
  }
  if (state.tokens_per_second() > 0)
    line += fmt::format(", {:.0f} tokens/s", state.tokens_per_second());
  if (state.eta_s() >= 0) line += fmt::format(", {:.0f} s left", state.eta_s());
  fmt::print(stderr, "{}\n", line);
}

}  // namespace dotresize
