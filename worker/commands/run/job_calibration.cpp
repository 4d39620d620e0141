#include "worker/commands/run/job_calibration.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>

#include "base/partial_path.h"
#include "base/seconds_since.h"
#include "job/plan/choose_widths.h"
#include "job/plan/memory_estimate.h"
#include "job/plan/traffic.h"
#include "worker/calibration/allocate.h"
#include "worker/calibration/background_sink.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/statistics.h"
#include "worker/calibration/sublayer_cuts.h"
#include "worker/commands/run/fingerprints.h"
#include "worker/commands/run/output_model.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

MapOptions map_options(const ResolvedJob& job) {
  MapOptions options{job.method.basis, job.method.map, job.metric, job.cost_scale};
  options.sinkhorn = {job.lambda, job.sinkhorn_tolerance, job.sinkhorn_max_iterations};
  options.accept_nonconvergence = job.accept_nonconvergence;
  return options;
}

std::vector<std::vector<double>> rows_of(const at::Tensor& matrix) {
  std::vector<std::vector<double>> rows;
  for (const at::Tensor& row : matrix.unbind()) {
    const auto* data = row.const_data_ptr<double>();
    rows.emplace_back(data, data + row.numel());
  }
  return rows;
}

/// Of the source, or of the source with cut MLPs.
CalibrationJob calibration_job(const JobContext& run, const ModelConfig& config,
                               const CheckpointReader& reader, const TokenWindows& tokens,
                               OpenedJournal& opened) {
  const ResolvedJob& job = run.job;
  CalibrationJob calibration{
      config,         reader,           run.plan,   opened.journal,      opened.finished,
      tokens.windows, map_options(job), job.widths, run.compute_dtype(), job.junction_groups};
  calibration.map.decomposition_threads = opened.decomposition_threads;
  calibration.shortcuts = job.shortcuts;
  calibration.labels = {job.labels, job.label_seed};
  calibration.device = run.environment.device.device;
  calibration.fold_dtype = fold_dtype(job.output_dtype);
  if (job.energy) {
    calibration.choose_widths = [&job, &config = run.config](const at::Tensor& spectra) {
      return energy_widths(job, config, rows_of(spectra));
    };
  }
  return calibration;
}

/// Those of all junctions, whatever the job does with the last one.
void save_statistics(JobContext& run, const CalibrationJob& job,
                     const CalibrationObserver& observer, StatisticsDirectory& statistics) {
  CalibrationJob all{job.config,
                     job.reader,
                     job.plan,
                     statistics.journal(),
                     {},
                     job.windows,
                     job.map,
                     uniform_widths(job.config, /*head_sliced=*/true, job.config.hidden_size),
                     job.compute_dtype,
                     job.sharing};
  all.labels = job.labels;
  all.device = job.device;
  take_statistics(run.comm, all, observer, run.clock);
  statistics.publish(run.comm);
}

std::vector<AttentionReport> report_attentions(const JobContext& run, const ModelConfig& cut,
                                               const Journal& journal) {
  std::vector<AttentionReport> reports;
  if (!run.job.allocates_values()) return reports;
  for (int64_t s = 0; s < run.config.num_sublayers(); s += 2) {
    AttentionReport& report = reports.emplace_back();
    report.name = sublayer_name(s);
    report.value_head_dim = value_head_dim(cut, s);
    report.head_dim = run.config.head_dim;
    if (report.value_head_dim == report.head_dim) continue;
    report.predicted_rise = cut_diagnostics(journal, s).predicted_rise;
  }
  return reports;
}

std::vector<MlpReport> report_mlps(const JobContext& run, const ModelConfig& cut,
                                   const Journal& journal) {
  std::vector<MlpReport> reports;
  if (!run.job.mlp) return reports;
  for (int64_t s = 0; s < run.config.num_sublayers(); ++s) {
    if (is_attention(s)) continue;
    MlpReport& report = reports.emplace_back();
    report.name = sublayer_name(s);
    report.width = mlp_width(cut, s);
    report.intermediate_size = mlp_width(run.config, s);
    if (report.width == report.intermediate_size) continue;
    const CutDiagnostics found = cut_diagnostics(journal, s);
    report.predicted_rise = found.predicted_rise;
    report.unseen_experts = found.unseen_experts;
  }
  return reports;
}

/// What the loss decides of the widths, which the job then knows.
std::optional<Allocation> choose_allocation(JobContext& run, const TokenWindows& tokens,
                                            OpenedJournal& opened,
                                            const CalibrationObserver& observer) {
  if (!run.job.allocation) return std::nullopt;
  const CalibrationJob dense = calibration_job(run, run.config, run.source, tokens, opened);
  Allocation chosen = allocate(run.comm, dense, run.job, observer, run.clock);
  run.job = with_allocation(run.job, run.config, chosen);
  return chosen;
}

/// The dense model with narrower MLPs and value heads, if the job asks for them.
ModelConfig cut_model(JobContext& run, const std::optional<Allocation>& chosen,
                      const TokenWindows& tokens, OpenedJournal& opened,
                      const CalibrationObserver& observer) {
  if (!run.job.mlp) return run.config;
  const CalibrationJob dense = calibration_job(run, run.config, run.source, tokens, opened);
  if (run.job.mlp->by_loss && !chosen) {
    return cut_mlps_by_loss(run.comm, dense, run.job, observer, run.clock);
  }
  ModelConfig cut =
      chosen ? with_features(run.config, run.job, *chosen) : with_cut_mlps(run.config, run.job.mlp);
  cut_sublayers(run.comm, dense, run.job, cut, observer, run.clock);
  return cut;
}

/// The maps, and the folded model. `cut`: of cut_model().
void calibrate_into(FoldedModelSink& sink, JobContext& run, const ModelConfig& cut,
                    const TokenWindows& tokens, OpenedJournal& opened,
                    std::optional<StatisticsDirectory>& statistics,
                    const CalibrationObserver& observer) {
  std::optional<CheckpointReader> cut_source;
  if (run.job.mlp) {
    cut_source.emplace(run.job.model_path, cut_files(opened.journal, run.config, cut));
  }
  const CheckpointReader& source = cut_source ? *cut_source : run.source;
  CalibrationJob job = calibration_job(run, cut, source, tokens, opened);
  if (statistics) {
    if (!statistics->whole()) save_statistics(run, job, observer, *statistics);
    job.statistics = &statistics->journal();
  }
  if (job.mapped_junctions() == 0) return write_without_maps(run.comm, job, sink, run.clock);
  calibrate_function(run.job.schedule.name)(run.comm, job, sink, observer, run.clock);
}

}  // namespace

OpenedJournal open_journal_of(JobContext& run, const JobTokens& tokens) {
  const fs::path dir = run.environment.output.journal();
  if (run.root()) {
    const Traffic traffic = estimate_traffic(run.config, run.job, run.plan);
    int64_t bytes = traffic.written_bytes - traffic.statistics_bytes - size_of_directory(dir);
    if (tokens.evaluation) {  // of which the estimate does not know how long it is
      const int64_t more =
          tokens.evaluation->windows.numel() - evaluation_tokens_at_once(run.job, run.config);
      bytes += kept_states_bytes(run.config, run.job, more);
    }
    check_space(run.partial(), bytes);
  }
  return open_journal(
      run.comm, dir, job_fingerprint(run.job, tokens.calibration, run.source.files()),
      run.job.widths.mapped_count, run.job.junction_groups, run.environment.decomposition_threads);
}

std::optional<StatisticsDirectory> open_statistics(JobContext& run, const TokenWindows& tokens) {
  if (!run.job.statistics.given()) return std::nullopt;
  std::optional<StatisticsDirectory> statistics;
  statistics.emplace(run.comm, run.job, run.config,
                     statistics_fingerprint(run.job, tokens, run.source.files()));
  if (run.root() && !statistics->whole()) {
    const fs::path unfinished = partial_path(run.job.statistics.save);
    check_space(unfinished,
                saved_statistics_bytes(run.config, run.job) - size_of_directory(unfinished));
  }
  return statistics;
}

Calibrated calibrate(JobContext& run, const TokenWindows& tokens, OpenedJournal& opened,
                     std::optional<StatisticsDirectory>& statistics) {
  const auto start = std::chrono::steady_clock::now();
  run.progress().enter("calibrate");
  const CalibrationObserver observer{
      run.count_tokens(), [&](int64_t junctions) { run.progress().junctions_solved(junctions); },
      [&](int64_t junctions) { run.progress().junctions_found(junctions); }};
  const std::optional<Allocation> chosen = choose_allocation(run, tokens, opened, observer);
  const ModelConfig cut = cut_model(run, chosen, tokens, opened, observer);
  OutputShards shards(run.comm, run.partial(), cut, run.job, run.plan);
  BackgroundSink sink(shards, run.environment.device.device, !run.shard().overlaps, run.clock,
                      [&] { run.progress().sublayers_written(1); });
  calibrate_into(sink, run, cut, tokens, opened, statistics, observer);
  sink.finish();
  shards.finish();
  run.comm.barrier();  // the shards are whole
  const double seconds = seconds_since(start);
  Calibrated found{shards.widths(), shards.output(), shards.layout(), {}, {}, {}, chosen, seconds};
  if (run.root()) {
    found.junctions = report_junctions(opened.journal, shards.widths(), run.job.method.transport());
    for (size_t j = 0; chosen && j < chosen->junction_rises.size(); ++j) {
      found.junctions.at(j).predicted_rise = chosen->junction_rises[j];
    }
    found.mlps = report_mlps(run, cut, opened.journal);
    found.attentions = report_attentions(run, cut, opened.journal);
  }
  return found;
}

}  // namespace dotresize
