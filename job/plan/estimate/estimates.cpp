#include "job/plan/estimate/estimates.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "job/plan/allocate/inner_widths.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/estimate/job_time.h"

namespace dotresize {
namespace {

using TimesByPhase = std::map<std::string_view, PhaseTimes>;

/// Times of the job's steps, by the phase of the progress that has the step.
TimesByPhase times_by_phase(const ModelConfig& config, const ResolvedJob& job,
                            const ShardPlan& plan, const RankRates& rates) {
  const ModelConfig cut_config = with_cut_mlps(config, job.mlp);
  const JobTime dense({config, job, plan}, rates);
  const JobTime cut({cut_config, job, plan}, rates);
  TimesByPhase by_phase;
  const auto all = steps();
  for (auto last = all.rbegin(); last != all.rend(); ++last) {
    const Step* step = *last;
    if (step->time == nullptr || !step->runs(job) || !step->beside.empty()) continue;
    PhaseTimes times = step->time(step->after_cut ? cut : dense);
    times.add(by_phase[step->phase]);
    by_phase[step->phase] = std::move(times);
  }
  for (const Step* step : steps()) {
    if (step->beside.empty() || !step->runs(job)) continue;
    const double hidden = rates.cuda ? by_phase[step->beside].total() : 0.0;
    for (const auto& [name, seconds] : step->time(dense).phases) {
      by_phase[step->phase].add(name, seconds - hidden);
    }
  }
  return by_phase;
}

/// Part of a running job's progress that counts the seconds of a phase of the calibration.
double& counted_with(std::string_view phase, const ResolvedJob& job, TimeEstimate::Steps& steps) {
  constexpr std::array kOfSublayers = {"fold", "write"};
  constexpr std::array kOfJunctions = {"eigen",    "sinkhorn", "qr",   "solve",
                                       "describe", "journal",  "align"};
  const auto is_in = [&](const auto& names) {
    return std::ranges::find(names, phase) != names.end();
  };
  if (is_in(kOfSublayers)) return steps.sublayers;
  const bool of_junctions = is_in(kOfJunctions);
  if (of_junctions && job.widths.mapped_count > 0) return steps.junctions;
  // Ranks that share the tokens make a cut after each sublayer's tokens.
  const bool cuts_stages = job.mlp && job.schedule.pipelined;
  return cuts_stages && (of_junctions || phase == "cut") ? steps.cuts : steps.tokens;
}

}  // namespace

std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job) {
  double passes = 0.0;
  for (const Step* step : steps()) {
    if (step->passes != nullptr && step->runs(job)) passes += step->passes(job);
  }
  JobWork work{config, job, number(expected_tokens(job, config))};
  const Dtype compute = job.resources.compute_dtype;
  const int64_t seqlen = expected_seqlen(job, config);
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    const ForwardCounts counts =
        forward_counts(config, s, widths_of(config, s), work.tokens, seqlen, compute);
    work.operations.push_back(passes * (counts.gemm + counts.attention));
  }
  // The head evaluates, and begins the way back.
  const double of_head = number((job.evaluation ? 2 : 0) + passes_back(job));
  work.head = of_head * head_counts(config, config.hidden_size, work.tokens, compute).gemm;
  for (const Step* step : steps()) {
    if (step->work != nullptr && step->runs(job)) step->work(work);
  }
  work.operations.front() += work.embedding;
  work.operations.back() += work.head;
  return work.operations;
}

Traffic estimate_traffic(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  Traffic traffic;
  for (const Step* step : steps()) {
    if (step->traffic != nullptr && step->runs(job)) step->traffic({config, job, plan}, traffic);
  }
  traffic.written_bytes += traffic.journal_bytes + traffic.statistics_bytes;
  return traffic;
}

TimeEstimate estimate_time(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                           const v1::Hardware& hardware) {
  TimesByPhase by_phase = times_by_phase(config, job, plan, rank_rates(hardware, job));
  TimeEstimate estimate;
  for (const std::string_view phase :
       {kPrepare, kEvaluateDense, kCalibrate, kHeal, kEvaluateCompressed, kFinish}) {
    estimate.add(by_phase[phase]);
  }
  TimeEstimate::Steps& steps = estimate.steps;
  steps.check = by_phase[kPrepare].total();
  steps.evaluate_dense = by_phase[kEvaluateDense].total();
  steps.heal = by_phase[kHeal].total();
  steps.evaluate_compressed = by_phase[kEvaluateCompressed].total();
  steps.hash = by_phase[kFinish].total();
  for (const auto& [name, seconds] : by_phase[kCalibrate].phases) {
    counted_with(name, job, steps) += seconds;
  }
  return estimate;
}

int64_t counted_tokens(const JobParts& parts, std::string_view phase, const FoundTokens& found) {
  int64_t tokens = 0;
  for (const Step* step : steps()) {
    if (step->phase != phase || step->tokens == nullptr || !step->runs(parts.job)) continue;
    tokens += step->tokens(parts, found);
  }
  return tokens;
}

}  // namespace dotresize
