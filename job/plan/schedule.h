#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "job/plan/method.h"

namespace dotresize {

struct DeviceMemory;
struct HostMemory;

/// The work of a calibration as its progress counts it.
struct CalibrationWork {
  int64_t passes = 1;       ///< of all tokens through the dense model
  int64_t tokens_seen = 0;  ///< that CalibrationObserver::tokens_seen tells a rank of, all in all
};

/// The order in which ranks, sublayers and calibration tokens meet: a row of schedules(). The
/// function that does it is in worker/calibration/calibration.h under the same name.
struct Schedule {
  std::string_view name;         ///< as in plans and reports: "pipeline"
  std::string_view activations;  ///< `calibration.activations` that asks for it: "original"
  std::string_view sees;         ///< whose activations these are, for people
  bool shares_maps = false;      ///< junctions may have a map together
  bool energy_widths = false;    ///< widths may follow from the activations
  /// The most bytes that a rank's calibration holds at a time.
  int64_t (*host_memory)(const HostMemory& rank) = nullptr;
  int64_t (*device_memory)(const DeviceMemory& rank) = nullptr;
  CalibrationWork (*work)(const Method& method, int64_t tokens, int ranks,
                          int64_t mapped_junctions) = nullptr;

  bool operator==(const Schedule&) const = default;
};

/// All schedules, in the order of the documentation.
std::span<const Schedule> schedules();

/// Both throw std::invalid_argument if there is no such schedule.
const Schedule& schedule_named(std::string_view name);
const Schedule& schedule_for_activations(std::string_view activations);

}  // namespace dotresize
