#include <algorithm>

#include "job/model/model_size.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/net_size.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

/// Takes each rank's share of the tokens through one sublayer after another. A rank reads a part
/// of each sublayer and gets the rest from the other ranks. Then all ranks read the head. `first`:
/// the model has not been read before. `windows`: tokens, relative to those of the calibration.
/// `left`: part of each sublayer that is there.
PhaseTimes evaluate_time(const JobTime& t, const ModelConfig& model, bool first, double windows,
                         double left = 1.0) {
  const double tokens = windows * t.share_of_tokens;
  const TensorsSize head = head_matrix_size(model);
  TensorsSize sublayers = stored_size(model) - head;
  if (!model.tie_word_embeddings) sublayers = sublayers - embedding_matrix_size(model);
  PhaseTimes work;
  for (int64_t s = 0; s < model.num_sublayers(); ++s) {
    work.add("forward", left * t.forward(model, s, tokens));
  }
  work.add("forward", t.head(model, model.head_width(), tokens));
  const Dtype compute = t.job.resources.compute_dtype;
  PhaseTimes times = t.read_in_turns(work, sublayers, compute, model, !first);
  times.add("read", t.disk(number(head.bytes), model, true) + t.convert(head, compute));
  times.add("communicate", t.collective(number(sublayers.parameters * size_in_bytes(compute))));
  return times;
}

/// Computes the dense model's predictions again, from its kept states, and compares them.
PhaseTimes compare_time(const JobTime& t, const ModelConfig& output, double windows) {
  const double tokens = windows * t.share_of_tokens;
  const TensorsSize head = head_matrix_size(t.config);
  const double states =
      windows * number(kept_states_bytes(t.config, t.job, expected_tokens(t.job, t.config)));
  // Both logits are read for their maxima and again to be compared, in blocks that stay in a cache.
  const double comparison = tokens * number(output.vocab_size) * 2.0 * (4.0 + 4.0);
  PhaseTimes times;
  times.add("forward",
            t.head(t.config, t.config.hidden_size, tokens) + comparison / t.rates.memory);
  times.add("read", t.disk(number(head.bytes), t.config, true) +
                        t.convert(head, t.job.resources.compute_dtype) +
                        t.disk(states / t.ranks, states, true));
  return times;
}

/// Evaluates the output. The sizes that an allocation chooses are not known.
PhaseTimes output_time(const JobTime& t, const ModelConfig& output, double windows) {
  const auto& allocation = t.job.target.allocation;
  return evaluate_time(t, output, /*first=*/false, windows, allocation ? allocation->size : 1.0);
}

/// Tokens of the evaluation, relative to those of the calibration.
double evaluated_share(const JobTime& t) {
  return number(expected_evaluation_tokens(t.job, t.config)) /
         number(expected_tokens(t.job, t.config));
}

PhaseTimes dense_evaluation_time(const JobTime& t) {
  const double windows = evaluated_share(t);
  PhaseTimes times;
  times.add(kEvaluateDense, evaluate_time(t, t.config, /*first=*/true, windows).total());
  const double states =
      windows * number(kept_states_bytes(t.config, t.job, expected_tokens(t.job, t.config)));
  times.add(kEvaluateDense, t.put(states / t.ranks));
  return times;
}

PhaseTimes compressed_evaluation_time(const JobTime& t) {
  const ModelConfig output = output_model_config(t.config, t.job, t.job.widths);
  const double windows = evaluated_share(t);
  PhaseTimes times;
  times.add(kEvaluateCompressed, output_time(t, output, windows).total());
  if (t.job.compares_predictions()) {
    times.add(kEvaluateCompressed, compare_time(t, output, windows).total());
  }
  return times;
}

PhaseTimes trial_time(const JobTime& t) {
  const ModelConfig output = output_model_config(t.config, t.job, t.job.widths);
  const double held_out = held_out_share(t.job);
  PhaseTimes times;
  times.add("check", evaluate_time(t, t.config, !t.job.evaluation, held_out).total() +
                         output_time(t, output, held_out).total() +
                         compare_time(t, output, held_out).total());
  return times;
}

int64_t expected_states(const JobParts& parts) {
  return kept_states_bytes(parts.config, parts.job,
                           expected_evaluation_tokens(parts.job, parts.config));
}

bool evaluates(const ResolvedJob& job) { return job.evaluation.has_value(); }
double one_pass(const ResolvedJob&) { return 1.0; }
int64_t evaluated_tokens(const JobParts&, const FoundTokens& found) { return found.evaluation; }

}  // namespace

int64_t kept_states_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t tokens) {
  if (!job.compares_predictions()) return 0;
  return tokens * config.hidden_size * size_in_bytes(job.resources.compute_dtype);
}

int64_t evaluation_memory(const RankSizes& r) {
  const int64_t sublayers = r.on_gpu ? 2 : 1;  // the next one is uploaded
  const int64_t sublayer = std::max(r.dense_sublayer, r.folded_sublayer) * r.compute_bytes;
  const int64_t forward = sublayers * sublayer + r.microbatch_stream + r.insides();
  const int64_t head = kEvaluatedVocabularyRows * (r.d * r.compute_bytes + 3 * r.tokens * kFloat);
  const int64_t alone = r.share_stream + std::max(forward, head);
  if (!r.job.compares_predictions() && !r.job.target.allocation) return alone;
  // Comparison of predictions: states before both heads, blocks of both heads, logits of both and
  // their exponentials, and what is compared in float64.
  const int64_t states = std::max(r.share_stream, 2 * r.share_stream / kFloat * r.compute_bytes);
  const int64_t rows = 2 * r.d * r.compute_bytes + 4 * r.tokens * kFloat;
  return std::max(alone, states + kComparedVocabularyRows * (rows + 4 * kComparedTokens * kDouble));
}

constinit const Step kDenseEvaluationStep = {.phase = kEvaluateDense,
                                             .runs = evaluates,
                                             .memory = evaluation_memory,
                                             .passes = one_pass,
                                             .traffic =
                                                 [](const JobParts& parts, Traffic& traffic) {
                                                   traffic.read_bytes += stored_bytes(parts.config);
                                                   traffic.sent_bytes += sent_weights(parts);
                                                   traffic.journal_bytes += expected_states(parts);
                                                 },
                                             .time = dense_evaluation_time,
                                             .tokens = evaluated_tokens};

constinit const Step kEvaluationStep = {
    .phase = kEvaluateCompressed,
    .runs = evaluates,
    .memory = evaluation_memory,
    .passes = one_pass,
    .traffic =
        [](const JobParts& parts, Traffic& traffic) {
          traffic.read_bytes +=
              stored_bytes(output_model_config(parts.config, parts.job, parts.job.widths)) +
              expected_states(parts);
          traffic.sent_bytes += sent_weights(parts);
        },
    .time = compressed_evaluation_time,
    .tokens = evaluated_tokens};

/// Evaluates the dense model and the trial of an allocation on the held-out windows. The sums of
/// the features wait; those of a GPU are on the host.
constinit const Step kTrialStep = {
    .phase = kCalibrate,
    .runs = [](const ResolvedJob& job) { return job.target.allocation.has_value(); },
    .memory =
        [](const RankSizes& r) {
          return (r.on_gpu ? 0 : kept_feature_sums(r)) + evaluation_memory(r);
        },
    .traffic = [](const JobParts& parts,
                  Traffic& traffic) { traffic.read_bytes += stored_bytes(parts.config); },
    .time = trial_time};

}  // namespace dotresize
