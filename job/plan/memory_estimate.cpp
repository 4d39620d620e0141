// What is held at the same time:
//   pipeline        the stage's weights (compute dtype); the moments of each junction of the stage
//                   and of each group of them that shares a map;
//                   and the largest of: the activations of three microbatches (one being received,
//                   computed and sent), the workspace of one junction, the folding buffers.
//   token_parallel  at the start the embedding (float32, on every rank) and the embedded tokens;
//                   then one sublayer's weights on their way in and out; the stream of this rank's
//                   share of the samples, in the narrow and in the original basis (float32); the
//                   moments of one junction; and the largest of: one microbatch, the workspace, the
//                   folding buffers. An evaluation runs as a pipeline: the stage's weights and
//                   three microbatches.
//   moments         float64 [d, d] each: Gram matrix; with transport the costs; pca the
//                   eigenvectors, and with transport their float32 copy for the rotation.
//   workspace       float64: 4 matrices [d, d] for the eigenvectors or the transport.
//   on a GPU        (device_memory_estimate.cpp) the host has nothing but what is read and folded.
//   folding         the largest sublayer (a mixture of experts with all of them), or the vocabulary
//                   table of the ends, in the fold dtype (maps/fold.h), before and after, and once
//                   more while it is written; on a GPU once more in pinned memory instead.
#include "job/plan/memory_estimate.h"

#include <algorithm>

#include "job/plan/memory_model.h"

namespace dotresize {
namespace {

constexpr int64_t kFloat = MemoryModel::kFloat;
constexpr int64_t kDouble = MemoryModel::kDouble;

int64_t workspace(const MemoryModel& model) { return 4 * kDouble * model.d * model.d; }

int64_t microbatch(const MemoryModel& model) {
  const ModelConfig& config = model.config;
  const int64_t attention = 2 * model.attention_width() + 2 * model.key_width();
  // An expert's tokens are gathered and its results added up.
  const int64_t mixture = config.mixture ? 3 * (config.mixture->intermediate_size + model.d) : 0;
  return model.tokens() * kFloat *
         (2 * model.d + std::max({attention, 3 * config.intermediate_size, mixture}));
}

int64_t folding(const MemoryModel& model) {
  const int64_t vocabulary = model.has_vocabulary() ? model.config.vocab_size * model.d : 0;
  return 3 * model.fold_bytes() * std::max(model.largest_sublayer(/*folded=*/true), vocabulary);
}

int64_t pipeline(const MemoryModel& model) {
  return model.stage_weights(model.job.compute_dtype) +
         (model.mapped_junctions() + model.shared_groups()) * model.moments_of_junction() +
         std::max({3 * microbatch(model), workspace(model), folding(model)});
}

int64_t evaluation(const MemoryModel& model) {
  return model.job.evaluation ? model.stage_weights(model.job.compute_dtype) + 3 * microbatch(model)
                              : 0;
}

int64_t token_parallel(const MemoryModel& model) {
  const int64_t compute = size_in_bytes(model.job.compute_dtype);
  const int64_t sublayer = model.largest_sublayer(/*folded=*/true);
  const int64_t embedding = model.config.vocab_size * model.d * kFloat;
  return std::max(embedding + model.stream(),
                  2 * sublayer * compute + model.stream() + model.moments_of_junction() +
                      std::max({microbatch(model), workspace(model), folding(model)}));
}

}  // namespace

int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard) {
  const MemoryModel model{config, job, shard};
  if (job.device == DeviceKind::kCuda) return folding(model);
  return job.schedule == Schedule::kPipeline ? std::max(pipeline(model), evaluation(model))
                                             : std::max(token_parallel(model), evaluation(model));
}

}  // namespace dotresize
