#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/partial_path.h"
#include "base/phase_clock.h"
#include "job/model/model_size.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/healing.h"
#include "worker/calibration/allocated_cut.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/fold_stage.h"
#include "worker/calibration/schedules/schedules.h"
#include "worker/calibration/storage/background_sink.h"
#include "worker/calibration/storage/statistics.h"
#include "worker/calibration/sublayer_cuts.h"
#include "worker/commands/run/job_steps.h"
#include "worker/commands/run/output/fingerprints.h"
#include "worker/commands/run/output/output_model.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Returns the entry of a sublayer that may have been cut. An allocation has a prediction for each.
CutReport report_cut(const JobContext& run, const std::optional<Allocation>& allocation,
                     const ModelConfig& cut, int64_t sublayer, const Journal& journal) {
  CutReport report{sublayer_name(sublayer), {}};
  const bool gone = is_skipped(cut, sublayer);
  for (const Unit* unit : kUnits) {
    if (!unit->is_in(sublayer)) continue;
    const int64_t source = unit->size_in(run.config, sublayer);
    if (source == 0 && unit != &main_unit(sublayer)) continue;
    report.sizes.push_back({unit, gone ? 0 : unit->size_in(cut, sublayer), source});
  }
  const auto is_whole = [](const CutReport::Size& size) { return size.left == size.source; };
  if (std::ranges::all_of(report.sizes, is_whole)) return report;
  const CutDiagnostics found = cut_diagnostics(journal, run.config, cut, sublayer);
  report.unseen_experts = found.unseen_experts;
  report.predicted_loss_increase =
      allocation ? std::ranges::find(allocation->chosen, sublayer, &ChosenSize::sublayer)
                       ->predicted_loss_increase
                 : found.predicted_loss_increase;
  return report;
}

std::vector<CutReport> report_cuts(const JobContext& run,
                                   const std::optional<Allocation>& allocation,
                                   const ModelConfig& cut, const Journal& journal) {
  std::vector<CutReport> reports;
  for (int64_t s = 0; s < run.config.num_sublayers(); ++s) {
    if (may_be_cut(run.job, s)) reports.push_back(report_cut(run, allocation, cut, s, journal));
  }
  return reports;
}

/// Calibrates the maps and folds the model into `sink`. `cut`: the dense model, with
/// cut sublayers if the job asks for them.
void calibrate_into(FoldedModelSink& sink, JobContext& run, const ModelConfig& cut,
                    const TokenWindows& tokens, OpenedJournal& opened,
                    std::optional<StatisticsDirectory>& statistics,
                    const CalibrationObserver& observer) {
  std::optional<CheckpointReader> cut_source;
  if (run.job.mlp) {
    cut_source.emplace(run.source_with(cut_files(opened.journal, run.config, cut)));
  }
  const CheckpointReader& source = cut_source ? *cut_source : run.source;
  CalibrationJob job = calibration_job(run, cut, source, tokens, opened);
  if (statistics && !run.job.target.allocation) {
    if (!statistics->whole()) {
      // Statistics of all junctions, whatever the job does with the last one.
      CalibrationJob all{job.config,
                         job.reader,
                         job.plan,
                         statistics->journal(),
                         {},
                         job.windows,
                         job.map,
                         uniform_widths(job.config, /*head_sliced=*/true, job.config.hidden_size),
                         job.compute_dtype,
                         job.shared_map};
      all.device = job.device;
      take_statistics(run.comm, all, observer, run.clock);
      statistics->publish(run.comm);
    }
    job.statistics = &statistics->journal();
  }
  if (job.widths.mapped_count == 0) {
    sink.begin(job.widths);
    return fold_stage(run.comm, job, sink, run.clock);
  }
  calibrate_function(run.job.schedule.name)(run.comm, job, sink, observer, run.clock);
}

/// Chooses the widths by loss, and cuts the dense model to them.
AllocatedCut cut_allocated(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                           std::optional<StatisticsDirectory>& statistics,
                           const CalibrationObserver& observer) {
  const TokenWindows& held_out = tokens.held_out.value();
  KeptStates states(opened.journal, entries::kStates(name_of(held_out)));
  {
    const PhaseClock::Scope scope(run.clock, "check");
    keep_dense_states(run, held_out.windows, states);
  }
  // KL divergence from the dense model in nats a token, rounded to four digits. The same on every
  // rank and for any number of ranks.
  const auto trial = [&](const ModelConfig& cut) {
    const CheckpointReader source =
        run.source_with(cut_files(opened.journal, run.config, cut, /*for_trial=*/true));
    const PhaseClock::Scope scope(run.clock, "check");
    const EvaluatedReference reference{run.source, run.config,
                                       [&](int64_t microbatch) { return states.get(microbatch); }};
    CheckpointEvaluation compared = evaluation_of(run, source, cut, held_out.windows);
    compared.tokens_seen = [](int64_t) {};  // the job's progress does not expect them
    compared.reference = &reference;
    return rounded_nats(evaluate_checkpoint(run.comm, compared).divergence->mean_kl());
  };
  const CalibrationJob dense =
      calibration_job(run, run.config, run.source, tokens.calibration, opened);
  Journal& curves = statistics ? statistics->journal() : opened.journal;
  AllocatedCut found = cut_by_loss(run.comm, dense, run.job, curves,
                                   {{tokens.calibration.windows, tokens.calibration.numbers},
                                    {held_out.windows, held_out.numbers}},
                                   observer, run.clock, trial);
  if (statistics && !statistics->whole()) statistics->publish(run.comm);
  return found;
}

/// Returns the dense model with the features that the job asks for, cut to them.
ModelConfig cut_to_target(JobContext& run, const TokenWindows& tokens, OpenedJournal& opened,
                          const CalibrationObserver& observer) {
  ModelConfig cut = with_cut_mlps(run.config, run.job.mlp);
  if (!run.job.mlp) return cut;
  const CalibrationJob dense = calibration_job(run, run.config, run.source, tokens, opened);
  const CutSums sums{.rounds = {{tokens.windows, tokens.numbers, run.job.gradients()}},
                     .tokens = tokens.windows.numel()};
  cut_sublayers(run.comm, dense, run.job, cut, sums, observer, run.clock);
  return cut;
}

}  // namespace

CalibrationJob calibration_job(const JobContext& run, const ModelConfig& config,
                               const CheckpointReader& reader, const TokenWindows& tokens,
                               OpenedJournal& opened) {
  const ResolvedJob& job = run.job;
  MapOptions map{job.method.basis, job.method.map, job.maps.metric};
  map.sinkhorn.lambda = job.maps.lambda;
  map.accept_nonconvergence = job.maps.accept_nonconvergence;
  map.decomposition_threads = opened.decomposition_threads;
  map.svd_driver = opened.svd_driver;
  CalibrationJob calibration{
      config,         reader, run.plan,   opened.journal,    opened.finished,
      tokens.windows, map,    job.widths, run.compute_dtype, job.maps.shared};
  calibration.window_numbers = tokens.numbers;
  calibration.device = run.environment.device.device;
  calibration.fold_dtype = fold_dtype(job.output.dtypes.main);
  return calibration;
}

OpenedJournal open_journal_of(JobContext& run, const JobTokens& tokens) {
  const fs::path dir = run.environment.output.journal();
  if (run.root) {
    const Traffic traffic = estimate_traffic(run.config, run.job, run.plan);
    int64_t bytes = traffic.written_bytes - traffic.statistics_bytes - size_of_directory(dir);
    if (tokens.evaluation) {  // the estimate may not know its length
      const int64_t more =
          tokens.evaluation->windows.numel() - expected_evaluation_tokens(run.job, run.config);
      bytes += kept_states_bytes(run.config, run.job, more);
    }
    if (run.job.heals()) {
      // The layers until the end, two epochs of updates with both moments, and the dense model's
      // final states.
      constexpr int64_t kUpdateBytes = 24;
      ModelConfig as_output = run.config;
      as_output.files.dtypes = run.job.output.dtypes;
      bytes += stored_bytes(as_output) + tokens.healing->windows.numel() * run.config.hidden_size *
                                             size_in_bytes(run.job.resources.compute_dtype);
      for (int64_t s = 0; s < run.config.num_sublayers(); ++s) {
        bytes += kUpdateBytes * update_parameters(run.config, s);
      }
    }
    check_space(run.partial, bytes);
  }
  return open_journal(run.comm, dir,
                      job_fingerprint(run.job, tokens.calibration,
                                      tokens.healing.value_or(TokenWindows()), run.source.files()),
                      run.inputs(), run.job.widths.mapped_count, run.job.maps.shared,
                      run.environment.decomposition_threads, run.environment.svd_driver);
}

std::optional<StatisticsDirectory> open_statistics(JobContext& run, const TokenWindows& tokens) {
  if (!run.job.statistics.given()) return std::nullopt;
  std::optional<StatisticsDirectory> statistics;
  statistics.emplace(run.comm, run.job, run.config,
                     statistics_fingerprint(run.job, tokens, run.source.files()), run.inputs(),
                     run.environment.output.rights());
  if (run.root && !statistics->whole()) {
    const fs::path unfinished = partial_path(run.job.statistics.save);
    check_space(unfinished,
                saved_statistics_bytes(run.config, run.job) - size_of_directory(unfinished));
  }
  return statistics;
}

Calibrated calibrate(JobContext& run, const JobTokens& tokens, OpenedJournal& opened,
                     std::optional<StatisticsDirectory>& statistics) {
  const auto start = std::chrono::steady_clock::now();
  run.progress.enter("calibrate");
  const CalibrationObserver observer{
      run.count_tokens, [&](int64_t junctions) { run.progress.add({.junctions = junctions}); },
      [&](int64_t junctions) { run.progress.add({.junctions = junctions}, /*found=*/true); },
      [&](double operations) { run.progress.add({.cuts = static_cast<int64_t>(operations)}); }};
  Calibrated found;
  if (run.job.target.allocation) {
    AllocatedCut allocated = cut_allocated(run, tokens, opened, statistics, observer);
    found.cut = std::move(allocated.config);
    found.allocation = std::move(allocated.allocation);
    found.held_out_kl = allocated.held_out_kl;
  } else {
    found.cut = cut_to_target(run, tokens.calibration, opened, observer);
  }
  OutputShards shards(run.comm, run.partial, found.cut, run.job, run.plan, run.source.others());
  BackgroundSink sink(shards, run.environment.device.device, !run.shard.overlaps, run.clock,
                      [&] { run.progress.add({.sublayers = 1}); });
  calibrate_into(sink, run, found.cut, tokens.calibration, opened, statistics, observer);
  sink.finish();
  shards.finish();
  found.widths = shards.widths();
  found.output = shards.output();
  found.layout = shards.layout();
  if (run.root) {
    found.junctions = report_junctions(opened.journal, found.widths, run.job.method.transport());
    found.cuts = report_cuts(run, found.allocation, found.cut, opened.journal);
    const PhaseClock::Scope scope(run.clock, "write");
    write_companion_files(run.partial, found.layout, found.output, run.job);
  }
  run.comm.barrier();  // now the shards are complete and can be loaded
  found.seconds = seconds_since(start);
  return found;
}

}  // namespace dotresize
