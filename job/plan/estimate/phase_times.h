#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "job/plan/estimate/time_estimate.h"

namespace dotresize {

/// Times of a rank or of a job, one entry per phase.
class PhaseTimes {
 public:
  void add(const std::string& name, double seconds) {
    if (!(seconds > 0.0)) return;
    const auto found = std::ranges::find(phases_, name, &TimeEstimate::Phase::name);
    if (found == phases_.end()) {
      phases_.push_back({name, seconds});
    } else {
      found->seconds += seconds;
    }
  }
  /// Adds `share` of the other times.
  void add(const PhaseTimes& other, double share = 1.0) {
    for (const TimeEstimate::Phase& phase : other.phases_) add(phase.name, share * phase.seconds);
  }
  double total() const {
    return std::transform_reduce(phases_.begin(), phases_.end(), 0.0, std::plus<>(),
                                 [](const TimeEstimate::Phase& phase) { return phase.seconds; });
  }
  const std::vector<TimeEstimate::Phase>& phases() const { return phases_; }

 private:
  std::vector<TimeEstimate::Phase> phases_;
};

inline double sum(const std::vector<PhaseTimes>& ranks) {
  return std::transform_reduce(ranks.begin(), ranks.end(), 0.0, std::plus<>(),
                               [](const PhaseTimes& rank) { return rank.total(); });
}

inline const PhaseTimes& slowest(const std::vector<PhaseTimes>& ranks) {
  return *std::ranges::max_element(ranks, {}, &PhaseTimes::total);
}

}  // namespace dotresize
