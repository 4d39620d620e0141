#include "job/plan/estimate/job_time.h"

#include <cmath>

#include "job/plan/block_sizes.h"
#include "job/plan/estimate/traffic.h"
#include "job/plan/healing.h"
#include "job/plan/net_size.h"

namespace dotresize {

JobTime::JobTime(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                 const RankRates& rates)
    : config_(config),
      job_(job),
      plan_(plan),
      rates_(rates),
      is_pipeline_(job.schedule.pipelined),
      packs_(rates.cuda && is_pipeline_ && job.resources.compute_dtype != Dtype::kFloat32),
      d_(number(config.hidden_size)),
      k_(number(job.widths.largest())),
      ranks_(number(job.resources.ranks)),
      mapped_(job.widths.mapped_count),
      summed_(summed_junctions(config, job)),
      seqlen_(expected_seqlen(job, config)),
      tokens_(number(expected_tokens(job, config))),
      microbatches_(number((expected_samples(job) + microbatch_samples(seqlen_) - 1) /
                           microbatch_samples(seqlen_))),
      microbatch_tokens_(number(microbatch_samples(seqlen_) * seqlen_)),
      forward_passes_(number(job.method.passes() * plan.junction_groups)),
      backward_passes_(job.gradients() ? number(plan.junction_groups) : 0.0) {
  const double most = std::ceil(microbatches_ / ranks_);
  share_of_tokens_ = most / microbatches_ * tokens_ * share_of(microbatches_ / most);
}

PhaseTimes JobTime::read_beside(PhaseTimes work, double disk, double convert) const {
  const double ahead = rates_.cuda ? disk + convert : disk;
  const double left = std::max(0.0, ahead - work.total()) + (rates_.cuda ? 0.0 : convert);
  work.add("read", left);
  return work;
}

PhaseTimes JobTime::check_weights() const {
  return side_by_side(of_ranks([&](const RankShard& shard) {
    int64_t bytes = 0;
    if (shard.first_sublayer == 0) bytes += embedding_matrix_size(config_).bytes;
    if (last(shard)) bytes += head_matrix_size(config_).bytes;
    if (checks_sublayers_first(job_)) bytes = shard.size.bytes;
    PhaseTimes times;
    times.add("read", disk(number(bytes), config_, false) + number(bytes) / rates_.host_memory);
    return times;
  }));
}

/// Takes each rank's share of the tokens through one sublayer after the other. A rank reads a part
/// of each sublayer and gets the rest from the other ranks. Then all ranks read the head.
PhaseTimes JobTime::evaluate(const ModelConfig& model, bool first, double windows) const {
  const double tokens = windows * share_of_tokens_;
  const TensorsSize all = stored_size(model);
  const TensorsSize head = head_matrix_size(model);
  TensorsSize sublayers = all - head;
  if (!model.tie_word_embeddings) sublayers = sublayers - embedding_matrix_size(model);
  PhaseTimes work;
  for (int64_t s = 0; s < model.num_sublayers(); ++s) {
    work.add("forward", forward(model, s, widths_of(model, s), tokens));
  }
  work.add("forward",
           forward(head_counts(model, model.head_width(), tokens, job_.resources.compute_dtype)));
  const Dtype compute = job_.resources.compute_dtype;
  const auto model_bytes = number(all.bytes);
  PhaseTimes times = read_beside(work, disk(number(sublayers.bytes) / ranks_, model_bytes, !first),
                                 convert_in_turns(sublayers, compute));
  times.add("read", disk(number(head.bytes), model_bytes, true) + convert(head, compute));
  times.add("communicate", collective(number(sublayers.parameters * size_in_bytes(compute))));
  return times;
}

double JobTime::held_out_share() const {
  const int64_t windows = expected_samples(job_);
  return number(windows - fitted_windows(windows)) / number(windows);
}

PhaseTimes JobTime::try_choice(const ModelConfig& output) const {
  if (!job_.target.allocation) return {};
  const double held_out = held_out_share();
  PhaseTimes times;
  times.add("check", evaluate(config_, !job_.evaluation, held_out).total() +
                         evaluate(output, false, held_out).total() +
                         compare(output, held_out).total());
  return times;
}

PhaseTimes JobTime::keep_states(double windows) const {
  const double bytes =
      windows * number(kept_states_bytes(config_, job_, expected_tokens(job_, config_))) / ranks_;
  PhaseTimes times;
  times.add("journal", put(bytes));
  return times;
}

PhaseTimes JobTime::compare(const ModelConfig& output, double windows) const {
  const double tokens = windows * share_of_tokens_;
  const TensorsSize head = head_matrix_size(config_);
  const double states =
      windows * number(kept_states_bytes(config_, job_, expected_tokens(job_, config_)));
  // Work to compare the predictions of two heads, beside computing them: the maxima of both are
  // read. Then both, their exponentials, difference and product are written and read in float64.
  const double comparison =
      tokens * number(output.vocab_size) * (2.0 * 4.0 + 2.0 * 4.0 + 10.0 * 8.0);
  PhaseTimes times;
  times.add("forward", forward(head_counts(config_, config_.hidden_size, tokens,
                                           job_.resources.compute_dtype)) +
                           comparison / rates_.memory);
  times.add("read", disk(number(head.bytes), config_, true) +
                        convert(head, job_.resources.compute_dtype) +
                        disk(states / ranks_, states, true));
  return times;
}

PhaseTimes JobTime::calibrate() const {
  if (!sums_junctions(job_)) return fold_stages();
  if (is_pipeline_) return pipeline();
  return job_.schedule.name == "layerwise" ? layerwise() : token_parallel();
}

PhaseTimes JobTime::hash(double calibrating, double evaluating) const {
  const double read = number(stored_bytes(config_)) / ranks_ / rates_.hash;
  const double written =
      number(stored_bytes(output_model_config(config_, job_, job_.widths))) / ranks_ / rates_.hash;
  PhaseTimes times;
  if (rates_.cuda) {
    times.add("hash", std::max(read - calibrating, 0.0) + std::max(written - evaluating, 0.0));
  } else {
    times.add("hash", read + written);
  }
  return times;
}

}  // namespace dotresize
