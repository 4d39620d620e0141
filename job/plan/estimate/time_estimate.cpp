#include "job/plan/estimate/time_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text/human_text.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/net_size.h"

namespace dotresize {

TimeEstimate estimate_time(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                           const v1::Hardware& hardware) {
  const RankRates rates = rank_rates(hardware, job);
  const JobTime time(config, job, plan, rates);
  TimeEstimate::Steps steps;
  PhaseTimes times = time.check_weights();
  steps.check = times.total();
  const double evaluated =
      number(expected_evaluation_tokens(job, config)) / number(expected_tokens(job, config));
  if (job.evaluation) {
    steps.evaluate_dense = time.evaluate(config, /*first=*/true, evaluated).total();
    if (job.compares_predictions()) steps.evaluate_dense += time.keep_states(evaluated).total();
    times.add("evaluate_dense", steps.evaluate_dense);
  }
  const ModelConfig cut_config = with_cut_mlps(config, job.mlp);
  PhaseTimes calibration = time.cut_sublayers();
  calibration.add(JobTime(cut_config, job, plan, rates).calibrate());
  calibration.add(time.try_choice(output_model_config(config, job, job.widths)));
  constexpr std::array kOfSublayers = {"fold", "write"};
  constexpr std::array kOfJunctions = {"eigen",    "sinkhorn", "qr",   "solve",
                                       "describe", "journal",  "align"};
  for (const PhaseTimes::Phase& phase : calibration.phases) {
    const auto is_in = [&](const auto& names) {
      return std::ranges::find(names, phase.name) != names.end();
    };
    (is_in(kOfSublayers)   ? steps.sublayers
     : is_in(kOfJunctions) ? steps.junctions
                           : steps.tokens) += phase.seconds;
  }
  times.add(calibration);
  if (job.heals()) {
    const ModelConfig output = output_model_config(config, job, job.widths);
    PhaseTimes healing = time.heal_layers(output);
    healing.add(time.heal_updates(output));
    steps.heal = healing.total();
    times.add("heal", steps.heal);
  }
  if (job.evaluation) {
    const ModelConfig output = output_model_config(config, job, job.widths);
    steps.evaluate_compressed = time.evaluate(output, /*first=*/false, evaluated).total();
    if (job.compares_predictions()) {
      steps.evaluate_compressed += time.compare(output, evaluated).total();
    }
    times.add("evaluate_compressed", steps.evaluate_compressed);
  }
  const PhaseTimes hashing = time.hash(calibration.total(), steps.evaluate_compressed);
  steps.hash = hashing.total();
  times.add(hashing);
  return {std::move(times), steps};
}

std::string time_table(const TimeEstimate& time) {
  const double total = time.total();
  std::vector<std::vector<std::string>> rows = {{"phase", "s", "share"}};
  for (const PhaseTimes::Phase& phase : time.phases) {
    const std::string seconds = phase.seconds < 100.0
                                    ? fmt::format("{:.2f}", phase.seconds)
                                    : with_separators(std::llround(phase.seconds));
    rows.push_back({phase.name, seconds, fmt::format("{:.1f} %", 100.0 * phase.seconds / total)});
  }
  std::string table = format_table(rows, {Align::kLeft, Align::kRight, Align::kRight});
  table.pop_back();
  return "time        " + format_duration(total) + "\n" + table;
}

}  // namespace dotresize
