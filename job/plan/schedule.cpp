#include "job/plan/schedule.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "job/plan/estimate/memory_estimate.h"

namespace dotresize {
namespace {

/// Tokens that a stage counts: all tokens once per pass, and once more on their way back.
int64_t seen_by_stage(const CalibrationSize& size) {
  const int64_t back = size.gradients ? 1 : 0;
  return size.tokens * ((size.passes + back) * size.junction_groups + size.cut_passes +
                        size.cut_passes_back) +
         size.held_out_tokens * size.held_out_passes;
}

/// Tokens that a rank counts if the ranks share them: its share once per sublayer that it runs. For
/// cut MLPs it runs all sublayers first.
int64_t seen_by_sharer(const CalibrationSize& size) {
  const int64_t run = std::max<int64_t>(0, size.mapped_junctions - 1);
  return size.tokens / size.ranks * (run + size.cut_passes * size.sublayers);
}

constexpr std::array<Schedule, 3> kSchedules = {{
    {"pipeline", "original", "the dense model's", /*shares_maps=*/true, /*gradients=*/true,
     /*keeps_statistics=*/true, /*pipelined=*/true, &RankMemory::pipeline, seen_by_stage},
    {"layerwise", "original", "the dense model's", /*shares_maps=*/false, /*gradients=*/false,
     /*keeps_statistics=*/false, /*pipelined=*/false, &RankMemory::layerwise, seen_by_sharer},
    {"token_parallel", "compressed", "the compressed model's", /*shares_maps=*/false,
     /*gradients=*/false, /*keeps_statistics=*/false, /*pipelined=*/false,
     &RankMemory::token_parallel, seen_by_sharer},
}};

}  // namespace

int64_t Schedule::memory(const RankMemory& rank) const {
  return sums_junctions(rank.job) ? (rank.*held)() : RankSizes(rank).folding();
}

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& schedule_for_activations(std::string_view activations) {
  const auto found = std::ranges::find(kSchedules, activations, &Schedule::activations);
  if (found == kSchedules.end()) {
    throw std::invalid_argument("no schedule has activations " + std::string(activations));
  }
  return *found;
}

}  // namespace dotresize
