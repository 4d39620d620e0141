#include "job/plan/schedule.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

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

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& schedule_for_activations(std::string_view activations) {
  const auto found = std::ranges::find(kSchedules, activations, &Schedule::activations);
  if (found == kSchedules.end()) {
    throw std::invalid_argument("no schedule has activations " + std::string(activations));
  }
  return *found;
}

}  // namespace dotresize
