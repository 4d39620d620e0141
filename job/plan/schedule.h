#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "job/plan/method.h"

namespace dotresize {

struct RankMemory;

/// What a calibration consists of.
struct CalibrationSize {
  int64_t tokens = 0;
  int ranks = 1;
  int passes = 1;          ///< Method::passes()
  bool gradients = false;  ///< ResolvedJob::gradients()
  int64_t cut_passes = 0;  ///< ShardPlan::cut_passes()
  int64_t cut_passes_back = 0;
  int64_t sublayers = 0;
  int64_t mapped_junctions = 1;
  int64_t junction_groups = 1;  ///< ShardPlan::junction_groups; 0: no junction is summed
  double allocation_passes = 0.0;
};

/// The order in which ranks, sublayers and calibration tokens meet: a row of schedules(). The
/// function that does it is in worker/calibration/calibration.h under the same name.
struct Schedule {
  std::string_view name;         ///< as in plans and reports: "pipeline"
  std::string_view activations;  ///< `calibration.activations` that asks for it: "original"
  std::string_view sees;         ///< whose activations these are, for people
  bool shares_maps = false;      ///< junctions may have a map together
  bool gradients = false;        ///< maps may be in the metric of the loss (Metric::kFisher)
  bool keeps_statistics =
      false;  ///< sums of the junctions may be saved, or be those of another job
  /// Ranks are stages of a pipeline, and take the moments of a group of junctions in each pass over
  /// the tokens. Otherwise they share the tokens, and take one junction after the other.
  bool pipelined = false;
  int64_t (RankMemory::*held)() const = nullptr;
  /// That CalibrationObserver::tokens_seen tells a rank of, all in all.
  int64_t (*tokens_seen)(const CalibrationSize& size) = nullptr;

  /// The most bytes that the rank's computing device holds at a time during calibration.
  int64_t memory(const RankMemory& rank) const;

  bool operator==(const Schedule&) const = default;
};

/// All schedules, in the order of the documentation.
std::span<const Schedule> schedules();

/// Both throw std::invalid_argument if there is no such schedule.
const Schedule& schedule_named(std::string_view name);
const Schedule& schedule_for_activations(std::string_view activations);

}  // namespace dotresize
