#include "job/plan/schedule.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "base/errors.h"

namespace dotresize {
namespace {

constexpr std::array<Schedule, 3> kSchedules = {{
    {"pipeline", "original", "the dense model's", /*shares_maps=*/true, /*gradients=*/true,
     /*keeps_statistics=*/true, /*pipelined=*/true},
    {"layerwise", "original", "the dense model's", /*shares_maps=*/false, /*gradients=*/false,
     /*keeps_statistics=*/false, /*pipelined=*/false},
    {"token_parallel", "compressed", "the compressed model's", /*shares_maps=*/false,
     /*gradients=*/false, /*keeps_statistics=*/false, /*pipelined=*/false},
}};

}  // namespace

bool Schedule::offers(const ScheduleNeeds& needs) const {
  return (shares_maps || !needs.shares_maps) && (gradients || !needs.gradients) &&
         (keeps_statistics || !needs.keeps_statistics);
}

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& schedule_for_activations(std::string_view activations) {
  const auto found = std::ranges::find(kSchedules, activations, &Schedule::activations);
  if (found == kSchedules.end()) {
    throw std::invalid_argument("no schedule has activations " + std::string(activations));
  }
  return *found;
}

const Schedule& choose_schedule(std::optional<std::string_view> asked, std::string_view usual,
                                const ScheduleNeeds& needs) {
  const Schedule& preferred = schedule_for_activations(asked.value_or(usual));
  if (preferred.offers(needs)) return preferred;
  if (asked) {
    throw InputError("calibration.activations",
                     std::string(*asked) +
                         " does not go with shared maps, the metric fisher or kept statistics");
  }
  return *std::ranges::find_if(kSchedules,
                               [&](const Schedule& other) { return other.offers(needs); });
}

}  // namespace dotresize
