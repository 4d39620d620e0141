// What a rank holds at the same time while it calibrates. The parts are those of memory_estimate.h.
//   pipeline        host: the stage's weights (compute dtype); the moments of each junction of the
//                   stage and of each group of them that shares a map; and the largest of: the
//                   activations of three microbatches (one being received, computed and sent), the
//                   workspace of one junction, the folding buffers.
//                   GPU: the moments from beginning to end, and beside them the largest of the
//                   passes over the tokens and the decompositions in between: the stage's weights,
//                   and a microbatch or the workspace; solving: the maps so far and the workspace;
//                   folding: all maps and the fold.
//   token_parallel  host: at the start the embedding (float32, on every rank) and the embedded
//                   tokens; then one sublayer's weights on their way in and out; the stream of this
//                   rank's share of the samples, in the narrow and in the original basis (float32);
//                   the moments of one junction; and the largest of: one microbatch, the workspace,
//                   the folding buffers.
//                   GPU: at the start likewise; then the stream, one junction's moments and map,
//                   the fold's sublayers and one in the compute dtype, and the larger of a
//                   microbatch and the workspace.
#include "job/plan/schedule.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "job/plan/memory_estimate.h"

namespace dotresize {
namespace {

int64_t pipeline_on_host(const HostMemory& rank) {
  return rank.stage_weights() + rank.moments_of_stage() +
         std::max({3 * rank.microbatch(), rank.workspace(), rank.folding()});
}

int64_t pipeline_on_device(const DeviceMemory& rank) {
  const int64_t passes = rank.stage_weights() + std::max(rank.microbatch(), rank.eigenvectors());
  const int64_t maps = rank.mapped_junctions() * rank.map();
  return rank.moments_of_stage() +
         std::max(passes, maps + std::max(rank.workspace(), rank.fold_of_stage()));
}

/// Every rank counts all tokens once per pass.
CalibrationWork pipeline_work(const Method& method, int64_t tokens, int /*ranks*/,
                              int64_t /*mapped_junctions*/) {
  return {method.passes(), tokens * method.passes()};
}

int64_t token_parallel_on_host(const HostMemory& rank) {
  const int64_t step = 2 * rank.largest_sublayer(/*folded=*/true) * rank.compute_bytes() +
                       rank.stream() + rank.moments_of_junction() +
                       std::max({rank.microbatch(), rank.workspace(), rank.folding()});
  return std::max(rank.embedding() + rank.stream(), step);
}

int64_t token_parallel_on_device(const DeviceMemory& rank) {
  const int64_t sublayer = rank.largest_sublayer(/*folded=*/true);
  const int64_t step = rank.moments_of_junction() + rank.map() + rank.fold(sublayer) +
                       rank.compute_bytes() * sublayer +
                       std::max(rank.microbatch(), rank.workspace());
  return rank.stream() + std::max(rank.embedding(), step);
}

int64_t layerwise_on_host(const HostMemory& rank) { return token_parallel_on_host(rank); }
int64_t layerwise_on_device(const DeviceMemory& rank) { return token_parallel_on_device(rank); }

/// Every rank counts its share of the tokens once per sublayer that it runs.
CalibrationWork token_parallel_work(const Method& /*method*/, int64_t tokens, int ranks,
                                    int64_t mapped_junctions) {
  return {1, tokens / ranks * (mapped_junctions - 1)};
}

constexpr std::array<Schedule, 3> kSchedules = {{
    {"pipeline", "original", "the dense model's", /*shares_maps=*/true, /*energy_widths=*/true,
     pipeline_on_host, pipeline_on_device, pipeline_work},
    {"layerwise", "original", "the dense model's", /*shares_maps=*/false, /*energy_widths=*/false,
     layerwise_on_host, layerwise_on_device, token_parallel_work},
    {"token_parallel", "compressed", "the compressed model's", /*shares_maps=*/false,
     /*energy_widths=*/false, token_parallel_on_host, token_parallel_on_device,
     token_parallel_work},
}};

const Schedule& find(std::string_view Schedule::*field, std::string_view value) {
  const auto found = std::ranges::find(kSchedules, value, field);
  if (found == kSchedules.end()) {
    throw std::invalid_argument("no such schedule: " + std::string(value));
  }
  return *found;
}

}  // namespace

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& schedule_named(std::string_view name) { return find(&Schedule::name, name); }

const Schedule& schedule_for_activations(std::string_view activations) {
  return find(&Schedule::activations, activations);
}

}  // namespace dotresize
