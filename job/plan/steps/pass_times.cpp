#include "job/plan/steps/pass_times.h"

namespace dotresize {

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
