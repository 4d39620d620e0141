#include "client/display/sweep_output.h"

#include <iostream>

#include "job/sweep/results_message.h"

namespace dotresize {

void print_sweep(const v1::SweepResults& results, bool pareto, const CommonOptions& common) {
  const auto [plan, rows] = reported_sweep(results);
  std::cout << (common.json() ? sweep_json(plan, rows) : sweep_table(plan, rows, pareto))
            << std::flush;
}

}  // namespace dotresize
