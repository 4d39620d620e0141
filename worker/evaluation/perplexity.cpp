#include "worker/evaluation/perplexity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "job/plan/block_sizes.h"
#include "job/plan/token_windows.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/load.h"
#include "worker/transformer/microbatches.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// As many as a usual calibration has.
constexpr int64_t kTokensAtOnceAlone = kDefaultSamples * kDefaultSeqlen;

/// log Σ exp of a microbatch's logits over the blocks so far, and the logits of its targets.
class RunningLikelihood {
 public:
  /// normed: [tokens, k] in the compute dtype; targets: [tokens, 1] int64, likewise on the device.
  RunningLikelihood(at::Tensor normed, at::Tensor targets)
      : normed_(std::move(normed)),
        targets_(std::move(targets)),
        largest_(at::full_like(targets_, -std::numeric_limits<double>::infinity(), at::kFloat)),
        sum_(at::zeros_like(targets_, at::kDouble)),
        target_(at::zeros_like(targets_, at::kFloat)) {}

  /// rows: [count, k] of the head from `first` on.
  void add(const at::Tensor& rows, int64_t first) {
    const at::Tensor logits = at::linear(normed_, rows).to(at::kFloat);
    const at::Tensor largest = at::maximum(largest_, logits.amax(1, /*keepdim=*/true));
    sum_ *= (largest_ - largest).to(at::kDouble).exp();
    sum_ += (logits - largest).exp_().sum(1, /*keepdim=*/true, at::kDouble);
    largest_ = largest;
    const at::Tensor place = targets_ - first;
    const at::Tensor here = (place >= 0).logical_and(place < rows.size(0));
    target_ = at::where(here, logits.gather(1, place.clamp(0, rows.size(0) - 1)), target_);
  }

  /// −log p of each token's target, [tokens, 1] float64.
  at::Tensor nll() const { return largest_.to(at::kDouble) + sum_.log() - target_; }

 private:
  at::Tensor normed_;
  at::Tensor targets_;
  at::Tensor largest_;
  at::Tensor sum_;
  at::Tensor target_;
};

/// The last position of a window predicts nothing: it is given a target all the same, and dropped
/// from the sum.
NegativeLogLikelihood sum_of_windows(const at::Tensor& nll, const at::Tensor& ids) {
  NegativeLogLikelihood result;
  result.tokens = ids.size(0) * (ids.size(1) - 1);
  result.nll = nll.view(ids.sizes()).narrow(1, 0, ids.size(1) - 1).sum().item<double>();
  if (!std::isfinite(result.nll)) {
    throw NonFiniteError("the negative log-likelihood of the evaluation tokens is not finite");
  }
  return result;
}

/// The sum over all ranks' microbatches in one order, whatever the number of ranks.
NegativeLogLikelihood sum_over_ranks(Communicator& comm, const at::Tensor& windows,
                                     const std::vector<NegativeLogLikelihood>& mine) {
  at::Tensor parts = at::zeros({count_microbatches(windows), 2}, at::kDouble);
  int64_t index = first_microbatch(comm, windows);
  for (const NegativeLogLikelihood& part : mine) {
    parts[index][0] = part.nll;
    parts[index++][1] = static_cast<double>(part.tokens);
  }
  comm.all_reduce_sum(parts);  // exact: all summands but one are zero
  NegativeLogLikelihood sum;
  for (const at::Tensor& part : parts.unbind()) {
    sum.nll += part[0].item<double>();
    sum.tokens += static_cast<int64_t>(part[1].item<double>());
  }
  return sum;
}

Vocabulary vocabulary_of(const CheckpointReader& reader, const ModelConfig& config,
                         at::ScalarType dtype, at::Device device) {
  const StoredTensor matrix = head_matrix(config);
  return {config.vocab_size, to_device(load_final_norm(reader, config, dtype), device),
          [&reader, matrix, dtype, device](int64_t first, int64_t count) {
            return to_device(load_rows(reader, matrix, first, count, dtype), device);
          }};
}

/// Counts a token once it has been through every sublayer and the head.
class WholeModelTokens {
 public:
  WholeModelTokens(int64_t passes, int ranks, std::function<void(int64_t tokens)> seen)
      : passes_(passes), ranks_(ranks), seen_(std::move(seen)) {}
  void add(int64_t tokens) {
    total_ += tokens * ranks_;
    const int64_t whole = total_ / passes_;
    if (whole > told_) seen_(whole - told_);
    told_ = whole;
  }

 private:
  int64_t passes_;
  int ranks_;
  std::function<void(int64_t tokens)> seen_;
  int64_t total_ = 0;
  int64_t told_ = 0;
};

}  // namespace

double NegativeLogLikelihood::perplexity() const {
  return std::exp(nll / static_cast<double>(tokens));
}

std::vector<NegativeLogLikelihood> vocabulary_nll(const ModelConfig& config,
                                                  const Vocabulary& vocabulary,
                                                  std::vector<at::Tensor> x,
                                                  const std::vector<at::Tensor>& ids) {
  std::vector<RunningLikelihood> running;
  for (int64_t first = 0; first < vocabulary.size; first += kEvaluatedVocabularyRows) {
    const int64_t count = std::min(kEvaluatedVocabularyRows, vocabulary.size - first);
    const at::Tensor rows = vocabulary.rows(first, count);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (first == 0) {
        const at::Tensor tokens = x[i].reshape({-1, x[i].size(-1)});
        running.emplace_back(
            rms_norm(tokens, vocabulary.norm, config.hidden_size, config.rms_norm_eps)
                .to(rows.scalar_type()),
            ids[i].to(x[i].device()).roll(-1, 1).reshape({-1, 1}));
        x[i].reset();
      }
      running[i].add(rows, first);
    }
  }
  std::vector<NegativeLogLikelihood> results;
  for (std::size_t i = 0; i < x.size(); ++i) {
    results.push_back(sum_of_windows(running[i].nll(), ids[i]));
  }
  return results;
}

NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids) {
  const Vocabulary vocabulary{head.weight.size(0), head.norm, [&](int64_t first, int64_t count) {
                                return head.weight.narrow(0, first, count);
                              }};
  return vocabulary_nll(config, vocabulary, {x}, {ids}).front();
}

namespace {

/// Tokens of rounds in which every rank has work, in whole microbatches.
int64_t windows_at_once(const Communicator& comm, const at::Tensor& windows,
                        int64_t tokens_at_once) {
  const int64_t samples = microbatch_samples(windows.size(1));
  const int64_t microbatches = tokens_at_once / (samples * windows.size(1));
  return samples * std::max<int64_t>(comm.size(), microbatches);
}

/// One round of checkpoint_nll.
class EvaluationRound {
 public:
  EvaluationRound(Communicator& comm, const CheckpointReader& reader, const ModelConfig& config,
                  at::ScalarType dtype, at::Device device)
      : comm_(comm), reader_(reader), config_(config), dtype_(dtype), device_(device) {}

  NegativeLogLikelihood operator()(const at::Tensor& windows, WholeModelTokens& tokens) const;

 private:
  Communicator& comm_;
  const CheckpointReader& reader_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
  at::Device device_;
};

NegativeLogLikelihood EvaluationRound::operator()(const at::Tensor& windows,
                                                  WholeModelTokens& tokens) const {
  const Microbatches ids = microbatches_of_rank(comm_, windows);
  Microbatches x;
  for (const at::Tensor& batch : ids) {
    x.push_back(embed_from(reader_, config_, batch, dtype_, device_));
  }
  const RotaryTable rotary = to_device(make_rotary_table(config_, windows.size(1)), device_);
  SublayerStream sublayers(comm_, reader_, config_, dtype_, device_);
  for (int64_t sublayer = 0; sublayer < config_.num_sublayers(); ++sublayer) {
    const SublayerWeights weights = sublayers.next();
    for (at::Tensor& batch : x) {
      batch = sublayer_forward(config_, weights, rotary, batch);
      tokens.add(batch.size(0) * batch.size(1));
    }
  }
  const std::vector<NegativeLogLikelihood> parts =
      vocabulary_nll(config_, vocabulary_of(reader_, config_, dtype_, device_), std::move(x), ids);
  for (const at::Tensor& batch : ids) tokens.add(batch.numel());
  return sum_over_ranks(comm_, windows, parts);
}

}  // namespace

NegativeLogLikelihood checkpoint_nll(Communicator& comm, const CheckpointReader& reader,
                                     const ModelConfig& config, const at::Tensor& windows,
                                     at::ScalarType compute_dtype, at::Device device,
                                     int64_t tokens_at_once,
                                     const std::function<void(int64_t tokens)>& tokens_seen) {
  const EvaluationRound round(comm, reader, config, compute_dtype, device);
  WholeModelTokens tokens(config.num_sublayers() + 1, comm.size(), tokens_seen);
  NegativeLogLikelihood sum;
  for (const at::Tensor& part : windows.split(windows_at_once(comm, windows, tokens_at_once))) {
    const NegativeLogLikelihood found = round(part, tokens);
    sum.nll += found.nll;
    sum.tokens += found.tokens;
  }
  return sum;
}

NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype,
                                           const std::function<void(int64_t tokens)>& tokens_seen) {
  SelfCommunicator self;
  return checkpoint_nll(self, reader, config, windows, compute_dtype, at::kCPU, kTokensAtOnceAlone,
                        tokens_seen);
}

}  // namespace dotresize
