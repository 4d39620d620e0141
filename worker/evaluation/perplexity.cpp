#include "worker/evaluation/perplexity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/load.h"
#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

// 64 MiB of float32 logits; their log-softmax takes as much again.
constexpr int64_t kLogitsPerBlock = int64_t{1} << 24;

NegativeLogLikelihood share(Communicator& comm, const NegativeLogLikelihood& mine) {
  at::Tensor sums = at::tensor({mine.nll, static_cast<double>(mine.tokens)}, at::kDouble);
  comm.all_reduce_sum(sums);
  return {sums[0].item<double>(), static_cast<int64_t>(sums[1].item<double>())};
}

}  // namespace

double NegativeLogLikelihood::perplexity() const {
  return std::exp(nll / static_cast<double>(tokens));
}

NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids) {
  const int64_t batch = ids.size(0);
  const int64_t seqlen = ids.size(1);
  const at::Tensor rows = x.reshape({batch * seqlen, x.size(-1)});
  // The last position of a window predicts nothing: it is given a target all the same, so that
  // blocks can run across windows, and dropped from the sum.
  const at::Tensor targets = ids.roll(-1, 1).reshape({-1, 1});
  const at::Tensor log_likelihood = at::empty({batch * seqlen, 1}, rows.options());

  const int64_t block = std::max<int64_t>(1, kLogitsPerBlock / head.weight.size(0));
  for (int64_t begin = 0; begin < rows.size(0); begin += block) {
    const int64_t count = std::min(block, rows.size(0) - begin);
    const at::Tensor logits = head_forward(config, head, rows.narrow(0, begin, count));
    log_likelihood.narrow(0, begin, count)
        .copy_(at::log_softmax(logits, -1).gather(-1, targets.narrow(0, begin, count)));
  }

  NegativeLogLikelihood result;
  result.tokens = batch * (seqlen - 1);
  result.nll = -log_likelihood.view({batch, seqlen})
                    .narrow(1, 0, seqlen - 1)
                    .sum(at::kDouble)
                    .item<double>();
  if (!std::isfinite(result.nll)) {
    throw NonFiniteError("the negative log-likelihood of the evaluation tokens is not finite");
  }
  return result;
}

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
