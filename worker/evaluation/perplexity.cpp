#include "worker/evaluation/perplexity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "job/plan/token_windows.h"
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
  Divergence divergence;
  for (const at::Tensor& part : parts.unbind()) {
    const auto* row = part.const_data_ptr<double>();
    sum.loss.nll += row[0];
    sum.loss.tokens += static_cast<int64_t>(row[1]);
    divergence.kl += row[2];
    divergence.agreeing += static_cast<int64_t>(row[3]);
  }
  divergence.tokens = sum.loss.tokens;
  if (compared) sum.divergence = divergence;
  return sum;
}

void add(const EvaluationSums& part, EvaluationSums& sum) {
  sum.loss.nll += part.loss.nll;
  sum.loss.tokens += part.loss.tokens;
  if (!part.divergence) return;
  if (!sum.divergence) sum.divergence.emplace();
  sum.divergence->kl += part.divergence->kl;
  sum.divergence->agreeing += part.divergence->agreeing;
  sum.divergence->tokens += part.divergence->tokens;
}

Vocabulary vocabulary_of(const CheckpointReader& reader, const ModelConfig& config,
                         at::ScalarType dtype, at::Device device) {
  const StoredTensor matrix = head_matrix(config);
  return {config.vocab_size, [&reader, matrix, dtype, device](int64_t first, int64_t count) {
            return to_device(load_rows(reader, matrix, first, count, dtype), device);
          }};
}

/// Counts a token once it has gone through every sublayer and the head.
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

/// Returns the number of windows per round, in whole microbatches, at least one for each rank.
int64_t windows_at_once(const Communicator& comm, const at::Tensor& windows,
                        int64_t tokens_at_once) {
  const int64_t samples = microbatch_samples(windows.size(1));
  const int64_t microbatches = tokens_at_once / (samples * windows.size(1));
  return samples * std::max<int64_t>(comm.size(), microbatches);
}

/// A part of the windows, evaluated at once.
class EvaluationRound {
 public:
  /// `first`: number of the part's first microbatch.
  EvaluationRound(Communicator& comm, const CheckpointEvaluation& evaluation,
                  const at::Tensor& windows, int64_t first)
      : comm_(comm),
        evaluation_(evaluation),
        windows_(windows),
        first_(first + first_microbatch(comm, windows)),
        ids_(microbatches_of_rank(comm, windows)) {}

  EvaluationSums run(WholeModelTokens& tokens);

 private:
  /// Returns the stream of this rank's microbatches at the last junction.
  Microbatches last_junction(WholeModelTokens& tokens) const;
  ReferencePredictions reference_predictions() const;

  Communicator& comm_;
  const CheckpointEvaluation& evaluation_;
  const at::Tensor& windows_;
  int64_t first_;
  Microbatches ids_;
};

Microbatches EvaluationRound::last_junction(WholeModelTokens& tokens) const {
  const CheckpointReader& reader = evaluation_.reader;
  const ModelConfig& config = evaluation_.config;
  const at::ScalarType dtype = evaluation_.compute_dtype;
  const at::Device device = evaluation_.device;
  Microbatches x;
  for (const at::Tensor& batch : ids_) {
    x.push_back(embed_from(reader, config, batch, dtype, device));
  }
  const RotaryTable rotary = to_device(make_rotary_table(config, windows_.size(1)), device);
  SublayerStream sublayers(comm_, reader, config, dtype, device);
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    const SublayerWeights weights = sublayers.next();
    for (at::Tensor& batch : x) {
      batch = sublayer_forward(config, weights, rotary, batch);
      tokens.add(batch.size(0) * batch.size(1));
    }
  }
  return x;
}

ReferencePredictions EvaluationRound::reference_predictions() const {
  const EvaluatedReference& reference = *evaluation_.reference;
  ReferencePredictions predictions{vocabulary_of(reference.reader, reference.config,
                                                 evaluation_.compute_dtype, evaluation_.device),
                                   {}};
  for (int64_t i = 0; i < std::ssize(ids_); ++i) {
    predictions.states.push_back(to_device(reference.states(first_ + i), evaluation_.device));
  }
  return predictions;
}

EvaluationSums EvaluationRound::run(WholeModelTokens& tokens) {
  const CheckpointReader& reader = evaluation_.reader;
  const ModelConfig& config = evaluation_.config;
  const at::ScalarType dtype = evaluation_.compute_dtype;
  const at::Device device = evaluation_.device;
  const HeadWeights before = to_device(load_before_head(reader, config, dtype), device);
  const std::vector<at::Tensor> states = final_states(config, before, last_junction(tokens), dtype);
  if (evaluation_.keep && !states.empty()) evaluation_.keep(first_, states);
  const Vocabulary vocabulary = vocabulary_of(reader, config, dtype, device);
  const bool compared = evaluation_.reference != nullptr;
  std::vector<EvaluationSums> parts;
  if (compared) {
    const ReferencePredictions reference = reference_predictions();
    parts = vocabulary_sums(vocabulary, states, ids_, &reference);
  } else {
    parts = vocabulary_sums(vocabulary, states, ids_, nullptr);
  }
  for (const at::Tensor& batch : ids_) tokens.add(batch.numel());
  return sum_over_ranks(comm_, windows_, parts, compared);
}

}  // namespace

double rounded_nats(double value) {
  if (!(value > 0.0)) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 3.0);
  return std::round(value / unit) * unit;
}

double NegativeLogLikelihood::perplexity() const {
  return std::exp(nll / static_cast<double>(tokens));
}

EvaluationSums evaluate_checkpoint(Communicator& comm, const CheckpointEvaluation& evaluation) {
  WholeModelTokens tokens(evaluation.config.num_sublayers() + 1, comm.size(),
                          evaluation.tokens_seen);
  const at::Tensor& windows = evaluation.windows;
  EvaluationSums sum;
  int64_t first = 0;
  for (const at::Tensor& part :
       windows.split(windows_at_once(comm, windows, evaluation.tokens_at_once))) {
    add(EvaluationRound(comm, evaluation, part, first).run(tokens), sum);
    first += count_microbatches(part);
  }
  return sum;
}

int64_t tokens_at_once_alone() { return kDefaultSamples * kDefaultSeqlen; }

NegativeLogLikelihood checkpoint_nll_alone(const CheckpointReader& reader,
                                           const ModelConfig& config, const at::Tensor& windows,
                                           at::ScalarType compute_dtype) {
  SelfCommunicator self;
  return evaluate_checkpoint(self, {.reader = reader,
                                    .config = config,
                                    .windows = windows,
                                    .compute_dtype = compute_dtype,
                                    .tokens_at_once = tokens_at_once_alone(),
                                    .tokens_seen = [](int64_t) {}})
      .loss;
}

}  // namespace dotresize
