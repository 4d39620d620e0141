#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "job/plan/method.h"

namespace dotresize {

struct RankMemory;

/// Size of a calibration.
struct CalibrationSize {
  int64_t tokens = 0;
  int ranks = 1;
  int passes = 1;               ///< Method::passes()
  bool gradients = false;       ///< ResolvedJob::gradients()
  int64_t cut_passes = 0;       ///< ShardPlan::cut_passes
  int64_t cut_passes_back = 0;  ///< ShardPlan::cut_passes_back
  int64_t sublayers = 0;
  int64_t mapped_junctions = 1;
  int64_t junction_groups = 1;  ///< ShardPlan::junction_groups; 0: no junction is summed
  int64_t held_out_tokens = 0;  ///< tokens that an allocation holds out
  int64_t held_out_passes = 0;  ///< their passes, forward and back (ShardPlan)
};

/// Order in which ranks, sublayers and calibration tokens are processed: a row of schedules(). The
/// function of the same name in worker/calibration/calibration.h runs it.
struct Schedule {
  std::string_view name;         ///< name in plans and reports: "pipeline"
  std::string_view activations;  ///< value of `calibration.activations` that selects it: "original"
  std::string_view sees;         ///< owner of the activations, for users: "the dense model's"
  bool shares_maps = false;      ///< several junctions may share a map
  bool gradients = false;        ///< maps may use the metric of the loss (Metric::kFisher)
  bool keeps_statistics = false;  ///< sums of junctions may be saved, or loaded from another job
  /// True if ranks are stages of a pipeline. Each pass over the tokens then takes the moments of a
  /// group of junctions. Otherwise the ranks share the tokens and take one junction after the
  /// other.
  bool pipelined = false;
  int64_t (RankMemory::*held)() const = nullptr;
  /// Total number of tokens that a rank reports to CalibrationObserver::tokens_seen.
  int64_t (*tokens_seen)(const CalibrationSize& size) = nullptr;

  /// Peak bytes on the rank's computing device during calibration.
  int64_t memory(const RankMemory& rank) const;

  bool operator==(const Schedule&) const = default;
};

/// All schedules, in the order of the documentation.
std::span<const Schedule> schedules();

/// The first schedule of a value of `calibration.activations`. Throws std::invalid_argument if
/// there is none.
const Schedule& schedule_for_activations(std::string_view activations);

}  // namespace dotresize
