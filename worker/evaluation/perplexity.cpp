#include "worker/evaluation/perplexity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "job/plan/block_sizes.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/load.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage/microbatches.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// Sums the results of all ranks' microbatches in a fixed order, for any number of ranks.
EvaluationSums sum_over_ranks(Communicator& comm, const at::Tensor& windows,
                              const std::vector<EvaluationSums>& mine, bool compared) {
  at::Tensor parts = at::zeros({count_microbatches(windows), 4}, at::kDouble);
  int64_t index = first_microbatch(comm, windows);
  for (const EvaluationSums& part : mine) {
    const Divergence divergence = part.divergence.value_or(Divergence());
    const std::array<double, 4> row = {part.loss.nll, static_cast<double>(part.loss.tokens),
                                       divergence.kl, static_cast<double>(divergence.agreeing)};
    std::copy(row.begin(), row.end(), parts[index++].mutable_data_ptr<double>());
  }
  comm.all_reduce_sum(parts);  // exact: all summands but one are zero
  EvaluationSums sum;
  for (const at::Tensor& part : parts.unbind()) {
    const auto* row = part.const_data_ptr<double>();
    const auto tokens = static_cast<int64_t>(row[1]);
    EvaluationSums found{{row[0], tokens}, {}};
    if (compared) found.divergence = {row[2], static_cast<int64_t>(row[3]), tokens};
    sum.add(found);
  }
  return sum;
}

Vocabulary vocabulary_of(const CheckpointReader& reader, const ModelConfig& config,
                         at::ScalarType dtype, at::Device device) {
  const StoredTensor matrix = head_matrix(config);
  const auto rows = [&reader, matrix, dtype, device](int64_t first, int64_t count) {
    return to_device(load_rows(reader, matrix, first, count, dtype), device);
  };
  return {config.vocab_size, rows, config.logit_cap};
}

/// Evaluates a part of the windows at once. `first`: number of the part's first microbatch.
/// `sublayer_passed` is called with the tokens that have gone through a sublayer or the head.
EvaluationSums evaluate_round(Communicator& comm, const CheckpointEvaluation& evaluation,
                              const at::Tensor& windows, int64_t first,
                              const std::function<void(int64_t tokens)>& sublayer_passed) {
  const CheckpointReader& reader = evaluation.reader;
  const ModelConfig& config = evaluation.config;
  const at::ScalarType dtype = evaluation.compute_dtype;
  const at::Device device = evaluation.device;
  const int64_t mine = first + first_microbatch(comm, windows);
  const Microbatches ids = microbatches_of_rank(comm, windows);
  const HeadWeights before_head = to_device(load_before_head(reader, config, dtype), device);
  Microbatches x;
  for (const at::Tensor& batch : ids) x.push_back(embed_from(reader, config, batch, dtype, device));
  {
    const LayerContext context = make_layer_context(config, windows.size(1), device);
    SublayerStream sublayers(comm, reader, config, dtype, device);
    for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
      const SublayerWeights weights = sublayers.next();
      for (at::Tensor& batch : x) {
        batch = sublayer_forward(config, weights, context, batch);
        sublayer_passed(batch.size(0) * batch.size(1));
      }
    }
  }
  std::vector<at::Tensor> states = std::move(x);
  for (at::Tensor& batch : states) {
    batch = final_state(config, before_head, batch.reshape({-1, batch.size(-1)}), dtype);
  }
  if (evaluation.keep && !states.empty()) evaluation.keep(mine, states);
  const Vocabulary vocabulary = vocabulary_of(reader, config, dtype, device);
  std::optional<ReferencePredictions> predictions;
  if (const EvaluatedReference* const reference = evaluation.reference) {
    predictions.emplace(ReferencePredictions{
        vocabulary_of(reference->reader, reference->config, dtype, device), {}});
    for (int64_t i = 0; i < std::ssize(ids); ++i) {
      predictions->states.push_back(to_device(reference->states(mine + i), device));
    }
  }
  const std::vector<EvaluationSums> parts =
      vocabulary_sums(vocabulary, states, ids, predictions ? &*predictions : nullptr);
  predictions.reset();
  for (const at::Tensor& batch : ids) sublayer_passed(batch.numel());
  return sum_over_ranks(comm, windows, parts, evaluation.reference != nullptr);
}

}  // namespace

EvaluationSums evaluate_checkpoint(Communicator& comm, const CheckpointEvaluation& evaluation) {
  // A token counts once it has gone through every sublayer and the head.
  const int64_t passes = evaluation.config.num_sublayers() + 1;
  int64_t passed = 0;
  int64_t told = 0;
  const auto sublayer_passed = [&](int64_t tokens) {
    passed += tokens * comm.size();
    const int64_t whole = passed / passes;
    if (whole > told) evaluation.tokens_seen(whole - told);
    told = whole;
  };
  // A round has whole microbatches, at least one for each rank.
  const at::Tensor& windows = evaluation.windows;
  const int64_t samples = microbatch_samples(windows.size(1));
  const int64_t microbatches = evaluation.tokens_at_once / (samples * windows.size(1));
  const int64_t at_once = samples * std::max<int64_t>(comm.size(), microbatches);
  EvaluationSums sum;
  int64_t first = 0;
  for (const at::Tensor& part : windows.split(at_once)) {
    sum.add(evaluate_round(comm, evaluation, part, first, sublayer_passed));
    first += count_microbatches(part);
  }
  return sum;
}

NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype) {
  SelfCommunicator self;
  return evaluate_checkpoint(self, {.reader = reader,
                                    .config = config,
                                    .windows = windows,
                                    .compute_dtype = compute_dtype,
                                    .tokens_at_once = kTokensAtOnceAlone,
                                    .tokens_seen = [](int64_t) {}})
      .loss;
}

}  // namespace dotresize
