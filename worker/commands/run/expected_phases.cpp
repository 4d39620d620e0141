#include "worker/commands/run/expected_phases.h"

#include "job/plan/estimate/reference_hardware.h"
#include "job/plan/estimate/time_estimate.h"
#include "job/plan/token_windows.h"

namespace dotresize {
namespace {

/// Number of sublayers that rank 0 writes.
int64_t written_sublayers(const ShardPlan& plan) {
  const RankShard& shard = plan.of_rank(0);
  return shard.end_sublayer - shard.first_sublayer;
}

/// Number of tokens that healing counts, once for each layer that they pass.
int64_t healing_tokens(const ModelConfig& config, const ResolvedJob& job, const JobSize& size) {
  if (!job.healing) return 0;
  const int64_t of_layers = counted_healing_tokens(*job.healing, size.healing_windows, size.seqlen);
  const int64_t of_output =
      job.healing->epochs * fitted_windows(size.healing_windows) * size.seqlen;
  return config.num_layers * (of_layers + of_output);
}

}  // namespace

std::vector<ProgressPhase> expected_phases(const ModelConfig& config, const ResolvedJob& job,
                                           const ShardPlan& plan, const JobSize& size,
                                           const DeviceFacts& device) {
  const TimeEstimate::Steps steps =
      estimate_time(config, job, plan, reference_hardware(device)).steps;
  // The estimate is for the requested tokens. The text may have fewer.
  const auto expected = static_cast<double>(expected_samples(job) * expected_seqlen(job, config));
  const double calibration = static_cast<double>(size.calibration) / expected;
  const double evaluation = static_cast<double>(size.evaluation) / expected;
  const int64_t mapped = job.widths.mapped_count;
  const int64_t seen =
      takes_no_tokens(job)
          ? 0
          : job.schedule.tokens_seen({size.calibration, job.resources.ranks, job.method.passes(),
                                      job.gradients(), plan.cut_passes(), plan.cut_passes_back,
                                      config.num_sublayers(), mapped,
                                      sums_junctions(job) ? plan.junction_groups : 0,
                                      allocation_passes(config, job, plan)});
  return {
      {.name = kPreparePhase, .uncounted_seconds = steps.check},
      {.name = "evaluate_dense", .tokens = {size.evaluation, evaluation * steps.evaluate_dense}},
      {.name = "calibrate",
       .tokens = {seen, calibration * steps.tokens},
       .junctions = {mapped, steps.junctions},
       .sublayers = {written_sublayers(plan), steps.sublayers}},
      {.name = "heal", .tokens = {healing_tokens(config, job, size), steps.heal}},
      {.name = "evaluate_compressed",
       .tokens = {size.evaluation, evaluation * steps.evaluate_compressed}},
      {.name = "finish", .uncounted_seconds = steps.hash}};
}

}  // namespace dotresize
