// What a GPU holds at the same time:
//   pipeline        the moments of each junction of the stage and of each group of them that shares
//                   a map, from beginning to end, and beside them the largest of
//                   the passes over the tokens and the decompositions in between: the stage's
//                   weights (compute dtype), and a microbatch or the workspace;
//                   solving: the maps so far and the workspace; folding: all maps and the fold.
//   token_parallel  at the start the embedding (float32) and the embedded tokens; then the stream
//                   of this rank's share of the samples, one junction's moments and map, the
//                   fold's sublayers and one in the compute dtype, and the larger of a microbatch
//                   and the workspace.
//                   An evaluation runs as a pipeline: the stage's weights and a microbatch.
//   microbatch      the stream (float32): received, computed, sent; normed and as an update, both
//                   also in the compute dtype, in which the insides of the sublayer are; the costs'
//                   rotated copy and its float16 form; two float64 matrices [d, d] for the costs'
//                   sample (kernels/half_l1_cost.h) or their rounding.
//   workspace       float64: 5 matrices [d, d] for the eigenvectors (the matrix, a copy that
//                   becomes them, cuSOLVER's two and one to order them by), 7 matrices [d, k] for
//                   the transport (costs as selected, scaled and divided by lambda, the kernel
//                   matrix before and after absorption, two for log-sum-exp).
//   map             M and M_inv, float64 [d, k].
//   fold            in its dtype (maps/fold.h), with both maps: a sublayer as it was read, the one
//                   that it becomes, the next one, and the last one or the narrowed vocabulary
//                   table while they are written.
#include "job/plan/device_memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/human_numbers.h"
#include "job/plan/memory_model.h"

namespace dotresize {
namespace {

constexpr int64_t kFloat = MemoryModel::kFloat;
constexpr int64_t kDouble = MemoryModel::kDouble;

struct DeviceModel : MemoryModel {
  int64_t compute = 0;  // bytes of the dtype

  int64_t weights() const { return shard.parameters * compute; }

  int64_t insides_of_sublayer() const {
    const int64_t attention = 5 * attention_width() + 4 * key_width();
    const int64_t mlp = 3 * config.intermediate_size;
    const int64_t mixture = config.mixture ? 3 * (config.mixture->intermediate_size + d) : 0;
    return tokens() * compute * std::max({attention, mlp, mixture});
  }

  int64_t microbatch() const {
    const int64_t streams = tokens() * d * (3 * kFloat + 2 * (kFloat + compute));
    return streams + std::max(insides_of_sublayer(), of_costs());
  }

  int64_t of_costs() const {
    constexpr int64_t kHalf = 2;
    if (!job.method.transport()) return 0;
    return tokens() * d * (2 * kFloat + kHalf) + 2 * kDouble * d * d;
  }

  int64_t eigen() const { return 5 * kDouble * d * d; }
  int64_t workspace() const {
    return std::max(eigen(), job.method.transport() ? 7 * kDouble * d * job.width : 0);
  }
  int64_t map() const { return 2 * kDouble * d * job.width; }

  int64_t fold(int64_t written) const {
    return fold_bytes() * (3 * sublayer() + written + 2 * d * job.width);
  }
  int64_t fold_of_stage() const {
    const bool vocabulary = first() || (last() && job.head_sliced);
    return fold(std::max(sublayer(), vocabulary ? config.vocab_size * job.width : 0));
  }
  int64_t sublayer() const { return largest_sublayer(/*folded=*/true); }

  int64_t pipeline() const {
    const int64_t moments = (mapped_junctions() + shared_groups()) * moments_of_junction();
    const int64_t passes = weights() + std::max(microbatch(), eigen());
    return moments +
           std::max(passes, mapped_junctions() * map() + std::max(workspace(), fold_of_stage()));
  }

  int64_t token_parallel() const {
    const int64_t embedding = config.vocab_size * d * kFloat;
    const int64_t step = moments_of_junction() + map() + fold(sublayer()) + compute * sublayer() +
                         std::max(microbatch(), workspace());
    return stream() + std::max(embedding, step);
  }

  int64_t evaluation() const { return job.evaluation ? weights() + microbatch() : 0; }
};

}  // namespace

int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard, Dtype compute) {
  const DeviceModel model{{config, job, shard}, size_in_bytes(compute)};
  const bool pipeline = job.schedule == Schedule::kPipeline;
  return std::max(model.evaluation(), pipeline ? model.pipeline() : model.token_parallel());
}

std::string device_memory_warning(const RankShard& shard, int64_t free_bytes) {
  if (shard.peak_device_memory_bytes.value_or(0) <= free_bytes) return "";
  return fmt::format(
      "the plan wants {} of the GPU's memory, of which {} are free: more ranks need less each, and "
      "calibration.activations: compressed far less",
      human_bytes(*shard.peak_device_memory_bytes), human_bytes(free_bytes));
}

}  // namespace dotresize
