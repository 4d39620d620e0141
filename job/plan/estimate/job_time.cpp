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
  PhaseTimes slowest;
  PhaseTimes mean;
  for (const RankShard& shard : plan.ranks) {
    const PhaseTimes rank = times(shard);
    mean.add(rank, 1.0 / ranks);
    if (slowest.phases.empty() || rank.total() > slowest.total()) slowest = rank;
  }
  PhaseTimes last;
  last.add(slowest, 1.0 / rates.alone);
  return mean.total() > last.total() ? mean : last;
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

void add_backward(const JobTime& t, const RankShard& shard, double passes, PhaseTimes& times) {
  for_each_sublayer(shard, [&](int64_t s) {
    const double once = t.forward(t.config, s, t.tokens);
    times.add("backward", passes * number(kBackwardPasses + runs_again(t, shard, s)) * once);
  });
  if (!t.last(shard)) return;
  // The head computes the logits twice, and a product with their gradients.
  times.add("backward", 3.0 * passes * t.head(t.config, t.config.hidden_size, t.tokens));
}

}  // namespace dotresize
