#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/shards/rank_shard.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Part of a model that one rank runs in the pipeline: contiguous sublayers in the compute dtype,
/// on the rank's device. The first rank reads token embeddings from the checkpoint.
struct Stage {
  int64_t first_sublayer = 0;
  std::vector<SublayerWeights> sublayers;
  at::Device device = at::kCPU;
  /// Returns the residual stream at junction 0 of ids [samples, seqlen] on the CPU. First rank
  /// only.
  std::function<at::Tensor(const at::Tensor& ids)> embed;
};

/// Loads the sublayers [shard.first_sublayer, end_sublayer). `reader` and `config` outlive the
/// stage.
Stage load_stage(const CheckpointReader& reader, const ModelConfig& config, const RankShard& shard,
                 int64_t end_sublayer, at::ScalarType compute_dtype, at::Device device);

/// Called for each junction of the rank's stage and each microbatch. x: [batch, seqlen, k_junction]
/// float32 on the stage's device.
using JunctionVisitor = std::function<void(int64_t junction, const at::Tensor& x)>;

/// Called for each sublayer of the rank's stage and each microbatch (FeatureVisitor).
using SublayerVisitor =
    std::function<void(int64_t sublayer, int64_t expert, const at::Tensor& features)>;

/// Returns the FeatureVisitor that calls `visit` with this sublayer; null if `visit` is null.
/// `visit` outlives it.
FeatureVisitor features_of(int64_t sublayer, const SublayerVisitor& visit);

/// Runs the pipeline schedule: streams `windows` [samples, seqlen] through the stages of all ranks,
/// one microbatch at a time. Receiving the next microbatch and sending the last one overlap with
/// computing. The first rank visits junction 0; the rank that runs sublayer s visits junction s+1.
/// `after_microbatch` gets the microbatch's number of tokens.
void stream_through_stages(Communicator& comm, const ModelConfig& config, const Stage& stage,
                           const at::Tensor& windows, const JunctionVisitor& visit,
                           const std::function<void(int64_t tokens)>& after_microbatch,
                           const SublayerVisitor& visit_features = nullptr);

}  // namespace dotresize
