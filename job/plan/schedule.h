#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "job/plan/method.h"

namespace dotresize {

/// Abilities of a schedule that a job needs.
struct ScheduleNeeds {
  bool shares_maps = false;
  bool gradients = false;
  bool keeps_statistics = false;
};

/// Order in which ranks, sublayers and calibration tokens are processed: a row of schedules(). The
/// step of the same name (job/plan/steps/) has what it takes, the function in
/// worker/calibration/calibration.h runs it.
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

  /// True if the schedule has everything that a job needs.
  bool offers(const ScheduleNeeds& needs) const;
  bool operator==(const Schedule&) const = default;
};

/// All schedules, in the order of the documentation.
std::span<const Schedule> schedules();

/// The first schedule of a value of `calibration.activations`. Throws std::invalid_argument if
/// there is none.
const Schedule& schedule_for_activations(std::string_view activations);

/// The first schedule of the activations `asked` (`calibration.activations`). If they are absent,
/// that of the `usual` ones if it offers what the job needs, else the first one that does. Throws
/// InputError if the asked ones do not go with the needs.
const Schedule& choose_schedule(std::optional<std::string_view> asked, std::string_view usual,
                                const ScheduleNeeds& needs);

}  // namespace dotresize
