#include "worker/evaluation/checkpoint_nll.h"

#include <ATen/ATen.h>

#include "worker/transformer/load.h"
#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

NegativeLogLikelihood share(Communicator& comm, const NegativeLogLikelihood& mine) {
  at::Tensor sums = at::zeros({2}, at::kDouble);
  sums[0] = mine.nll;
  sums[1] = static_cast<double>(mine.tokens);
  comm.all_reduce_sum(sums);
  return {sums[0].item<double>(), static_cast<int64_t>(sums[1].item<double>())};
}

}  // namespace

NegativeLogLikelihood checkpoint_nll(Communicator& comm, const CheckpointReader& reader,
                                     const ModelConfig& config, const ShardPlan& plan,
                                     const at::Tensor& windows, at::ScalarType compute_dtype,
                                     at::Device device,
                                     const std::function<void(int64_t tokens)>& tokens_seen) {
  const RankShard& shard = plan.ranks.at(static_cast<size_t>(comm.rank()));
  const Stage stage = load_stage(reader, config, shard, shard.end_sublayer, compute_dtype, device);
  const bool last = shard.end_sublayer == config.num_sublayers();
  const HeadWeights head =
      last ? to_device(load_head(reader, config, compute_dtype), device) : HeadWeights{};

  NegativeLogLikelihood sum;
  const auto score = [&](int64_t junction, const at::Tensor& x, const at::Tensor& ids) {
    if (junction != config.num_sublayers()) return;
    const NegativeLogLikelihood batch = window_nll(config, head, x, ids);
    sum.nll += batch.nll;
    sum.tokens += batch.tokens;
  };
  stream_through_stages(comm, config, stage, windows, score, tokens_seen);
  return share(comm, sum);
}

NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype,
                                           const std::function<void(int64_t tokens)>& tokens_seen) {
  SelfCommunicator self;
  ShardPlan whole_model;
  whole_model.ranks.push_back({.first_sublayer = 0, .end_sublayer = config.num_sublayers()});
  return checkpoint_nll(self, reader, config, whole_model, windows, compute_dtype, at::kCPU,
                        tokens_seen);
}

}  // namespace dotresize
