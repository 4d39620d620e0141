#include "worker/evaluation/perplexity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "worker/transformer/forward.h"

namespace dotresize {
namespace {

// 64 MiB of float32 logits; their log-softmax takes as much again.
constexpr int64_t kLogitsPerBlock = int64_t{1} << 24;

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
    throw std::runtime_error("the negative log-likelihood of the evaluation tokens is not finite");
  }
  return result;
}

}  // namespace dotresize
