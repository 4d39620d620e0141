#include "job/plan/estimate/job_time.h"

#include "job/plan/block_sizes.h"
#include "job/plan/estimate/traffic.h"
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
  const double bytes = number(size_in_bytes(job_.model.dtype));
  return side_by_side(of_ranks([&](const RankShard& shard) {
    double parameters = number(config_.vocab_size) * d_ *
                        ((shard.first_sublayer == 0 ? 1.0 : 0.0) + (last(shard) ? 1.0 : 0.0));
    if (checks_sublayers_first(job_)) parameters = number(shard.parameters);
    PhaseTimes times;
    times.add("read", disk(parameters * bytes, stored_bytes(config_, job_.model.dtype), false) +
                          parameters * bytes / rates_.host_memory);
    return times;
  }));
}

/// Takes each rank's share of the tokens through one sublayer after the other. A rank reads a part
/// of each sublayer and gets the rest from the other ranks. Then all ranks read the head.
PhaseTimes JobTime::evaluate(const ModelConfig& model, Dtype stored, bool first,
                             double windows) const {
  const double tokens = windows * share_of_tokens_;
  const double head = number(model.vocab_size * model.head_width());
  const double sublayers =
      number(stored_parameters(model)) - head - (model.tie_word_embeddings ? 0.0 : head);
  PhaseTimes work;
  for (int64_t s = 0; s < model.num_sublayers(); ++s) {
    work.add("forward", forward(model, s, widths_of(model, s), tokens));
  }
  work.add("forward",
           forward(head_counts(model, model.head_width(), tokens, job_.resources.compute_dtype)));
  const double size = number(size_in_bytes(stored));
  PhaseTimes times =
      read_beside(work, disk(sublayers * size / ranks_, stored_bytes(model, stored), !first),
                  convert_in_turns(sublayers, stored, job_.resources.compute_dtype));
  times.add("read", disk(head * size, stored_bytes(model, stored), true) +
                        convert(head, stored, job_.resources.compute_dtype));
  times.add("communicate",
            collective(sublayers * number(size_in_bytes(job_.resources.compute_dtype))));
  return times;
}

PhaseTimes JobTime::check_choice(const ModelConfig& output) const {
  if (!job_.target.allocation) return {};
  const double held_out = 1.0 / 8.0;
  PhaseTimes times;
  times.add("check", 2.0 * evaluate(config_, job_.model.dtype, !job_.evaluation, held_out).total() +
                         evaluate(output, job_.output.dtype, false, held_out).total() +
                         2.0 * compare(output, held_out).total());
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
  const double head = number(config_.vocab_size * config_.hidden_size);
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
  times.add("read", disk(head * number(size_in_bytes(job_.model.dtype)),
                         stored_bytes(config_, job_.model.dtype), true) +
                        convert(head, job_.model.dtype, job_.resources.compute_dtype) +
                        disk(states / ranks_, states, true));
  return times;
}

PhaseTimes JobTime::calibrate() const {
  if (!sums_junctions(job_)) return fold_stages();
  if (is_pipeline_) return pipeline();
  return job_.schedule.name == "layerwise" ? layerwise() : token_parallel();
}

PhaseTimes JobTime::hash(double calibrating, double evaluating) const {
  const double read = stored_bytes(config_, job_.model.dtype) / ranks_ / rates_.hash;
  const double written =
      stored_bytes(output_model_config(config_, job_, job_.widths), job_.output.dtype) / ranks_ /
      rates_.hash;
  PhaseTimes times;
  if (rates_.cuda) {
    times.add("hash", std::max(read - calibrating, 0.0) + std::max(written - evaluating, 0.0));
  } else {
    times.add("hash", read + written);
  }
  return times;
}

}  // namespace dotresize
