// What is held at the same time:
//   pipeline        the stage's weights (compute dtype); the moments of each junction of the stage
//                   and of each group of them that shares a map;
//                   and the largest of: the activations of three microbatches (one being received,
//                   computed and sent), the workspace of one junction, the folding buffers.
//   token_parallel  at the start the embedding (float32, on every rank) and the embedded tokens;
//                   then one sublayer's weights on their way in and out; the stream of this rank's
//                   share of the samples, in the narrow and in the original basis (float32); the
//                   moments of one junction, the summed ones twice (Moments::make_reproducible);
//                   and the largest of: one microbatch, the workspace, the folding buffers. An
//                   evaluation runs as a pipeline: the stage's weights and three microbatches.
//   moments         float64 [d, d] each: Gram matrix; with transport the costs; pca the
//                   eigenvectors, and with transport their float32 copy for the rotation.
//   workspace       float64: 4 matrices [d, d] for the eigenvectors or the transport.
//   folding         the largest sublayer (a mixture of experts with all of them), or the vocabulary
//                   table of the ends, in float64, before and after.
#include "job/memory_estimate.h"

#include <algorithm>

#include "job/model_size.h"
#include "job/work_estimate.h"

namespace dotresize {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kDouble = 8;
constexpr int64_t kMicrobatchTokens = 512;

struct MemoryModel {
  const ModelConfig& config;
  const ResolvedJob& job;
  const RankShard& shard;
  int64_t d = config.hidden_size;
  int64_t seqlen = expected_seqlen(job, config);

  bool first() const { return shard.first_sublayer == 0; }
  bool last() const { return shard.end_sublayer == config.num_sublayers(); }
  int64_t attention_width() const { return config.num_heads * config.head_dim; }

  int64_t stage_weights() const { return shard.parameters * size_in_bytes(job.compute_dtype); }

  int64_t mapped_junctions_of_stage() const {
    const int64_t end = std::min(shard.end_sublayer + 1, mapped_junctions(config, job));
    return end - (first() ? 0 : shard.first_sublayer + 1);
  }

  int64_t moments_of_junction() const {
    const bool pca = uses_pca(job.method);
    const bool transport = uses_transport(job.method);
    return d * d *
           (kDouble + (transport ? kDouble : 0) + (pca ? kDouble : 0) +
            (pca && transport ? kFloat : 0));
  }

  int64_t workspace() const { return 4 * kDouble * d * d; }

  int64_t microbatch() const {
    const int64_t tokens = std::max(seqlen, kMicrobatchTokens / seqlen * seqlen);
    const int64_t attention = 2 * attention_width() + 2 * config.num_kv_heads * config.head_dim;
    // An expert's tokens are gathered and its results added up.
    const int64_t mixture = config.mixture ? 3 * (config.mixture->intermediate_size + d) : 0;
    return tokens * kFloat * (2 * d + std::max({attention, 3 * config.intermediate_size, mixture}));
  }

  int64_t largest_sublayer(bool folded) const {
    int64_t largest = 0;
    for (int64_t s = 0; s < config.num_sublayers(); ++s) {
      largest = std::max(largest, sublayer_parameters(config, s, d, d, folded));
    }
    return largest;
  }

  int64_t folding() const {
    const int64_t vocabulary = first() || last() ? config.vocab_size * d : 0;
    return 2 * kDouble * std::max(largest_sublayer(/*folded=*/false), vocabulary);
  }

  /// Groups of several junctions of which the stage has one or more.
  int64_t shared_groups_of_stage() const {
    int64_t groups = 0;
    const auto& group_of = job.junction_groups;
    if (group_of.empty()) return groups;
    const auto end = static_cast<std::size_t>(shard.end_sublayer) + 1;
    std::size_t junction = first() ? 0 : static_cast<std::size_t>(shard.first_sublayer) + 1;
    while (junction < end) {
      const auto [begin_of, end_of] =
          std::equal_range(group_of.begin(), group_of.end(), group_of[junction]);
      if (end_of - begin_of > 1) ++groups;
      junction = static_cast<std::size_t>(end_of - group_of.begin());
    }
    return groups;
  }

  int64_t pipeline() const {
    return stage_weights() +
           (mapped_junctions_of_stage() + shared_groups_of_stage()) * moments_of_junction() +
           std::max({3 * microbatch(), workspace(), folding()});
  }

  int64_t evaluation() const { return job.evaluation ? stage_weights() + 3 * microbatch() : 0; }

  int64_t token_parallel() const {
    const int64_t compute = size_in_bytes(job.compute_dtype);
    const int64_t sublayer = largest_sublayer(/*folded=*/true);
    const int64_t embedding = config.vocab_size * d * kFloat;
    const int64_t samples = (expected_samples(job) + job.ranks - 1) / job.ranks;
    const int64_t stream = samples * seqlen * (d + job.width) * kFloat;
    const int64_t scratch = d * d * kDouble * (uses_transport(job.method) ? 2 : 1);
    return std::max(embedding + stream, 2 * sublayer * compute + stream + moments_of_junction() +
                                            scratch +
                                            std::max({microbatch(), workspace(), folding()}));
  }
};

}  // namespace

int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard) {
  const MemoryModel model{config, job, shard};
  return job.schedule == Schedule::kPipeline ? std::max(model.pipeline(), model.evaluation())
                                             : std::max(model.token_parallel(), model.evaluation());
}

}  // namespace dotresize
