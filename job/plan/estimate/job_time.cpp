#include "job/plan/estimate/job_time.h"

#include <cmath>

#include "job/plan/block_sizes.h"

namespace dotresize {

JobTime::JobTime(const JobParts& parts, const RankRates& machine)
    : JobParts(parts),
      rates(machine),
      packs(rates.cuda && job.schedule.pipelined && job.resources.compute_dtype != Dtype::kFloat32),
      d(number(config.hidden_size)),
      k(number(job.widths.largest())),
      ranks(number(job.resources.ranks)),
      mapped(job.widths.mapped_count),
      summed(summed_junctions(config, job)),
      seqlen(expected_seqlen(job, config)),
      tokens(number(expected_tokens(job, config))),
      microbatches(number((expected_samples(job) + microbatch_samples(seqlen) - 1) /
                          microbatch_samples(seqlen))),
      microbatch_tokens(number(microbatch_samples(seqlen) * seqlen)),
      share_of_tokens(std::ceil(microbatches / ranks) / microbatches * tokens *
                      share_of(microbatches / std::ceil(microbatches / ranks))) {}

PhaseTimes JobTime::read_beside(PhaseTimes work, double disk, double convert) const {
  const double ahead = rates.cuda ? disk + convert : disk;
  const double left = std::max(0.0, ahead - work.total()) + (rates.cuda ? 0.0 : convert);
  work.add("read", left);
  return work;
}

double JobTime::gram(double of_tokens, double operations, double width, double matrices) const {
  const double blocks = of_tokens / std::min<double>(microbatch_tokens, kGramBlockTokens);
  return of_tokens * operations / (rates.cuda ? rates.float32_gemm : rates.float64_gemm) +
         matrices * blocks * gram_block_bytes(width, packs) / rates.memory;
}

PhaseTimes JobTime::side_by_side(const TimesOfRank& times) const {
  double slowest = 0.0;
  PhaseTimes mean;
  for (const RankShard& shard : plan.ranks) {
    const PhaseTimes rank = times(shard);
    mean.add(rank, 1.0 / ranks);
    slowest = std::max(slowest, rank.total());
  }
  mean.add("wait", slowest / rates.alone - mean.total());
  return mean;
}

PhaseTimes JobTime::streamed(const TimesOfRank& times) const {
  double sum = 0.0;
  double slowest = 0.0;
  PhaseTimes together = side_by_side([&](const RankShard& shard) {
    PhaseTimes rank = times(shard);
    sum += rank.total();
    slowest = std::max(slowest, rank.total());
    return rank;
  });
  together.add("wait", (sum - slowest) / microbatches / rates.alone);
  return together;
}

PhaseTimes JobTime::in_turn(const PhaseTimes& work, double working) const {
  PhaseTimes mean;
  mean.add(work, share_of(working) * working / ranks);
  mean.add("communicate", share_of(working) * (1.0 - working / ranks) * work.total());
  return mean;
}

PhaseTimes JobTime::read_in_turns(const PhaseTimes& work, const TensorsSize& read, Dtype loaded,
                                  const ModelConfig& model, bool again) const {
  const double on_disk = disk(number(read.bytes) / ranks, model, again);
  const double converting = convert(read, loaded);
  if (rates.cuda) return read_beside(work, on_disk, converting / ranks);
  PhaseTimes in_memory;
  in_memory.add("read", converting);
  PhaseTimes times = read_beside(work, on_disk, 0.0);
  times.add(in_turn(in_memory));
  return times;
}

PhaseTimes load_stages(const JobTime& t) {
  return t.side_by_side([&](const RankShard& shard) {
    PhaseTimes loading;
    loading.add("read", t.disk(number(shard.size.bytes), t.config, t.job.evaluation.has_value()) +
                            t.convert(shard.size, t.job.resources.compute_dtype));
    return loading;
  });
}

int64_t runs_again(const JobTime& t, const RankShard& shard, int64_t sublayer) {
  switch (shard.checkpoints) {
    case Checkpoints::kNone:
      return 0;
    case Checkpoints::kSublayers:
      return 1;
    case Checkpoints::kStage:
      return sublayer + 1 < shard.end_sublayer || t.last(shard) ? 2 : 1;
  }
  return 1;
}

double backward_seconds(const JobTime& t, const ModelConfig& model, int64_t sublayer, double tokens,
                        int64_t again) {
  const ForwardCounts forward = forward_counts(model, sublayer, widths_of(model, sublayer), tokens,
                                               t.seqlen, t.job.resources.compute_dtype);
  return number(again) * t.forward(forward) + t.forward(backward_counts(forward));
}

void add_backward(const JobTime& t, const RankShard& shard, double passes, PhaseTimes& times) {
  for_each_sublayer(shard, [&](int64_t s) {
    times.add("backward",
              passes * backward_seconds(t, t.config, s, t.tokens, runs_again(t, shard, s)));
  });
  if (!t.last(shard)) return;
  // The head computes the logits twice, and a product with their gradients.
  times.add("backward", 3.0 * passes * t.head(t.config, t.config.hidden_size, t.tokens));
}

}  // namespace dotresize
