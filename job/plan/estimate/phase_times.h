#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// Times of a rank or of a job.
struct PhaseTimes {
  struct Phase {
    std::string name;  ///< name as in the report; each evaluation is one phase
    double seconds = 0.0;
  };
  std::vector<Phase> phases;  ///< phases in the order in which a job first meets them; each above 0

  /// Adds seconds above 0 to a phase.
  void add(std::string_view name, double seconds) {
    if (!(seconds > 0.0)) return;
    const auto found = std::ranges::find(phases, name, &Phase::name);
    if (found == phases.end()) {
      phases.push_back({std::string(name), seconds});
    } else {
      found->seconds += seconds;
    }
  }
  /// Adds `share` of the other times.
  void add(const PhaseTimes& other, double share = 1.0) {
    for (const Phase& phase : other.phases) add(phase.name, share * phase.seconds);
  }
  double total() const {
    return std::transform_reduce(phases.begin(), phases.end(), 0.0, std::plus<>(),
                                 [](const Phase& phase) { return phase.seconds; });
  }
};

}  // namespace dotresize
