#pragma once

#include <utility>

#include "worker/maps/junction_solver.h"

namespace dotresize {

/// Solves the map, with all diagnostics.
inline JunctionSolution solve_junction(const JunctionStatistics& statistics,
                                       const Eigenbasis& eigenbasis, const MapOptions& options,
                                       int64_t width) {
  SolvedJunction solved = solve_map(statistics, eigenbasis, options, width);
  solved.describe(solved.solution.diagnostics);
  return std::move(solved.solution);
}

}  // namespace dotresize
