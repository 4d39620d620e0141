#include "job/plan/allocate/inner_widths.h"
#include "job/plan/block_sizes.h"
#include "job/plan/estimate/job_time.h"

namespace dotresize {

/// Passes for the features of the rank's sublayers.
PhaseTimes JobTime::stream_features(const RankShard& shard) const {
  // An allocation fits to the windows that it does not hold out.
  const double held_out = job_.target.allocation ? held_out_share() : 0.0;
  const auto of_windows = [&](int64_t of_fitted, int64_t of_held_out) {
    return number(of_fitted) * (1.0 - held_out) + number(of_held_out) * held_out;
  };
  const double passes = of_windows(plan_.cut_passes, plan_.held_out_passes);
  const double rounds = of_windows(plan_.cut_rounds, 1);
  const double back = of_windows(plan_.cut_passes_back, plan_.held_out_passes_back);
  const double blocks = tokens_ / std::min<double>(microbatch_tokens_, kGramBlockTokens);
  const double gemm = rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm;
  PhaseTimes stage;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    const CutCounts counts = cut_counts(config_, job_, s);
    stage.add("forward", passes * forward(config_, s, widths_of(config_, s), tokens_));
    stage.add("gram", rounds * (tokens_ * counts.gram / gemm +
                                blocks * gram_block_bytes(counts.width, packs_) / rates_.memory));
    if (job_.gradients() && !job_.statistics.used() && may_be_cut(job_, s)) {
      stage.add("gram", tokens_ * 1.125 * d_ * d_ / gemm +
                            blocks * gram_block_bytes(d_, packs_) / rates_.memory);
    }
  }
  if (back > 0.0) add_backward(stage, shard, back);
  stage.add("communicate", (passes + back) * 4.0 * tokens_ * d_ / rates_.link - stage.total());
  return stage;
}

/// Streams all tokens through one sublayer after the other, and through MLPs twice: the bounds of
/// their sums are found first. One rank removes the features while the others wait.
PhaseTimes JobTime::share_features() const {
  const double share = share_of_tokens_;
  const double blocks = share / std::min<double>(microbatch_tokens_, kGramBlockTokens);
  const double gemm = rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm;
  PhaseTimes work;
  TensorsSize read;
  for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
    const CutCounts counts = cut_counts(config_, job_, s);
    const double times = is_attention(s) ? 1.0 : 2.0;
    work.add("forward", times * forward(config_, s, widths_of(config_, s), share));
    work.add("gram",
             share * counts.gram / gemm + blocks * gram_block_bytes(counts.width) / rates_.memory);
    const TensorsSize sublayer = dense_sublayer_size(s);
    read = read + sublayer;
    work.add("communicate",
             collective(number(sublayer.parameters * size_in_bytes(job_.resources.compute_dtype) +
                               feature_sums_bytes(config_, s))));
    work.add(remove_features(s), share_of(1.0));
  }
  return read_beside(work, disk(number(read.bytes) / ranks_, config_, true),
                     convert_in_turns(read, job_.resources.compute_dtype));
}

PhaseTimes JobTime::remove_features(int64_t sublayer) const {
  const CutCounts counts = cut_counts(config_, job_, sublayer);
  PhaseTimes times;
  // A step is a few dozen small kernels, each of which has to be launched.
  constexpr double kStepOnGpu = 2e-4;
  times.add("cut", counts.solve / rates_.float64_gemm + counts.bytes / rates_.memory +
                       (rates_.cuda ? kStepOnGpu * counts.steps : 0.0));
  // GPU ranks write one cut while the next one is made.
  const double meanwhile = rates_.cuda ? counts.cuts / rates_.float64_gemm : 0.0;
  times.add("journal", put(counts.journal) - meanwhile);
  return times;
}

PhaseTimes JobTime::cut_sublayers() const {
  if (!job_.mlp) return {};
  if (!is_pipeline_) return share_features();
  PhaseTimes times;
  times.add(load_stages(), number(plan_.cut_passes));
  times.add(streamed(of_ranks([&](const RankShard& shard) { return stream_features(shard); })));
  times.add(side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes removing;
    for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
      removing.add(remove_features(s));
    }
    return removing;
  })));
  return times;
}

}  // namespace dotresize
