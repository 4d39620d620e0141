#include "worker/commands/run/run_job.h"

#include <ATen/ATen.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/durable_file.h"
#include "base/partial_path.h"
#include "base/program.h"
#include "base/seconds_since.h"
#include "job/model/model_size.h"
#include "job/model/tensor_table.h"
#include "job/page/report_page.h"
#include "job/plan/choose_widths.h"
#include "job/plan/joint_allocation.h"
#include "job/plan/memory_estimate.h"
#include "job/plan/traffic.h"
#include "job/report/model_card.h"
#include "worker/calibration/allocate.h"
#include "worker/calibration/background_sink.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/mlp_cut.h"
#include "worker/calibration/statistics.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/verify.h"
#include "worker/commands/kept_states.h"
#include "worker/commands/run/background_hashes.h"
#include "worker/commands/run/dense_loss.h"
#include "worker/commands/run/expected_phases.h"
#include "worker/commands/run/fingerprints.h"
#include "worker/commands/run/output_model.h"
#include "worker/commands/run/rank_summary.h"
#include "worker/commands/run/resume.h"
#include "worker/commands/run/statistics_directory.h"
#include "worker/commands/run/trace.h"
#include "worker/commands/token_input.h"
#include "worker/evaluation/perplexity.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/load.h"
#include "worker/transformer/microbatches.h"

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

/// What a phase waits for at its end.
std::function<void()> synchronize_of(const ChosenDevice& device) {
  if (device.cuda == nullptr) return nullptr;
  return [cuda = device.cuda] { cuda->synchronize(); };
}

/// What the steps of a job work with. Each step takes what the ones before it returned.
struct JobContext {
  ResolvedJob job;  ///< with what an allocation has chosen, once it has
  const ModelConfig& config;
  const ShardPlan& plan;
  const RunEnvironment& environment;
  PhaseClock clock{!environment.trace.empty(), synchronize_of(environment.device)};
  TimedCommunicator comm{environment.comm, clock};
  CheckpointReader source{job.model_path};

  bool root() const { return comm.rank() == 0; }
  const RankShard& shard() const { return plan.of_rank(comm.rank()); }
  /// Where all ranks write while the output is unfinished.
  const fs::path& partial() const { return environment.output.partial(); }
  Progress& progress() const { return environment.progress; }
  at::ScalarType compute_dtype() const { return scalar_type(job.compute_dtype); }
  std::function<void(int64_t)> count_tokens() const {
    return [&progress = environment.progress](int64_t tokens) { progress.tokens_seen(tokens); };
  }
};

/// Every rank looks at its part of the source, so that a missing, misshapen or non-finite tensor is
/// refused before any rank starts to work. What the first step reads as a whole is checked there:
/// only names and shapes here.
void check_weights(JobContext& run) {
  const PhaseClock::Scope scope(run.clock, "read");
  const RankShard& shard = run.shard();
  const at::ScalarType dtype = scalar_type(run.job.source_dtype);
  // A pipeline does not run what lies behind the last junction with a map.
  const int64_t last_run = mapped_junctions(run.config, run.job.head_sliced) - 1;
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    const bool values = checks_sublayers_first(run.job) || sublayer >= last_run;
    for (const StoredTensor& tensor : shard_tensors(run.config, sublayer, sublayer + 1)) {
      const bool vocabulary =
          tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
      if (values || vocabulary) {
        check_values(run.source, tensor, dtype);
      } else {
        run.source.get(tensor.name, tensor.shape);
      }
    }
  }
  run.comm.barrier();
}

struct JobTokens {
  TokenWindows calibration;
  std::optional<TokenWindows> evaluation;
};

JobTokens load_tokens(JobContext& run) {
  const PhaseClock::Scope scope(run.clock, "tokenize");
  const auto load = [&](const TokenSource& source, bool calibration) {
    return load_token_windows(run.comm, source, calibration, run.job.model_path, run.config,
                              run.environment.cache_dir);
  };
  JobTokens tokens{load(run.job.calibration, true), std::nullopt};
  if (run.job.evaluation) {
    TokenSource source = *run.job.evaluation;
    if (!source.seqlen) source.seqlen = tokens.calibration.windows.size(1);
    tokens.evaluation = load(source, false);
  }
  return tokens;
}

std::vector<ProgressPhase> expected_phases_of(const JobContext& run, const JobTokens& tokens) {
  const JobSize size{tokens.calibration.windows.numel(),
                     tokens.evaluation ? tokens.evaluation->windows.numel() : 0};
  return expected_phases(run.config, run.job, run.plan, size, run.environment.device.facts());
}

CheckpointEvaluation evaluation_of(const JobContext& run, const TokenWindows& tokens,
                                   const CheckpointReader& reader, const ModelConfig& config) {
  return {.reader = reader,
          .config = config,
          .windows = tokens.windows,
          .compute_dtype = run.compute_dtype(),
          .device = run.environment.device.device,
          .tokens_at_once = evaluation_tokens_at_once(run.job, run.config),
          .tokens_seen = run.count_tokens()};
}

EvaluationSums evaluate(JobContext& run, const CheckpointEvaluation& evaluation,
                        const std::string& phase) {
  const PhaseClock::Scope scope(run.clock, phase);
  run.progress().enter(phase);
  return evaluate_checkpoint(run.comm, evaluation);
}

/// What is known of the dense model, for the comparison with the output.
struct DenseEvaluation {
  NegativeLogLikelihood loss;
  std::optional<KeptStates> states;  ///< if predictions are compared
};

/// That of an interrupted run, or of the file if no states are needed, if it was of the same
/// tokens. Nothing if the job has no evaluation.
std::optional<DenseEvaluation> evaluate_dense(JobContext& run, const JobTokens& tokens,
                                              Journal& journal) {
  if (!tokens.evaluation) return std::nullopt;
  const std::string entry = dense_loss_entry(*tokens.evaluation);
  DenseEvaluation dense;
  if (run.job.kl) dense.states.emplace(journal, dense_states_entry(*tokens.evaluation));
  const int64_t microbatches = count_microbatches(tokens.evaluation->windows);
  if (journal.has(entry) && (!dense.states || dense.states->complete(microbatches))) {
    const nlohmann::json found = journal.value(entry);
    dense.loss = {found.at("nll"), found.at("tokens")};
    return dense;
  }
  const fs::path& file = run.environment.dense_loss;
  const nlohmann::json fingerprint =
      dense_loss_fingerprint(run.job, *tokens.evaluation, run.source.files());
  if (!file.empty() && !dense.states) {
    if (const auto known = read_dense_loss(run.comm, file, fingerprint)) {
      dense.loss = *known;
      return dense;
    }
  }
  CheckpointEvaluation evaluation = evaluation_of(run, *tokens.evaluation, run.source, run.config);
  if (dense.states) {
    evaluation.keep = [&](int64_t first, const std::vector<at::Tensor>& states) {
      dense.states->put(first, states);
    };
  }
  dense.loss = evaluate(run, evaluation, "evaluate_dense").loss;
  if (run.root()) {
    journal.put_value(entry, {{"nll", dense.loss.nll}, {"tokens", dense.loss.tokens}});
    if (!file.empty()) write_dense_loss(file, fingerprint, dense.loss);
  }
  return dense;
}

/// What was written, likewise, and how far its predictions are from the dense model's.
std::optional<EvaluationSums> evaluate_compressed(JobContext& run, const JobTokens& tokens,
                                                  const std::optional<DenseEvaluation>& dense) {
  if (!tokens.evaluation) return std::nullopt;
  const CheckpointReader written(run.partial());
  const ModelConfig config = read_model_config(run.partial());
  CheckpointEvaluation evaluation = evaluation_of(run, *tokens.evaluation, written, config);
  std::optional<EvaluatedReference> reference;
  if (dense->states) {
    reference.emplace(EvaluatedReference{run.source, run.config, [&](int64_t microbatch) {
                                           return dense->states->get(microbatch);
                                         }});
    evaluation.reference = &*reference;
  }
  return evaluate(run, evaluation, "evaluate_compressed");
}

/// Of the source, or of the source with cut MLPs.
CalibrationJob calibration_job(const JobContext& run, const ModelConfig& config,
                               const CheckpointReader& reader, const TokenWindows& tokens,
                               OpenedJournal& opened) {
  const ResolvedJob& job = run.job;
  CalibrationJob calibration{config,
                             reader,
                             run.plan,
                             opened.journal,
                             opened.finished,
                             tokens.windows,
                             map_options(job),
                             job.widths,
                             job.head_sliced,
                             run.compute_dtype(),
                             job.junction_groups};
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

/// What calibration has written, and what it has found.
struct Calibrated {
  JunctionWidths widths;
  ModelConfig output;
  ShardLayout layout;
  std::vector<JunctionReport> junctions;  ///< rank 0
  std::vector<MlpReport> mlps;            ///< rank 0
  std::optional<Allocation> allocation;
  double seconds = 0.0;
};

/// The job's journal, once it is known that the disk has room for what comes.
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
  return open_journal(run.comm, dir,
                      job_fingerprint(run.job, tokens.calibration, run.source.files()),
                      mapped_junctions(run.config, run.job.head_sliced), run.job.junction_groups,
                      run.environment.decomposition_threads);
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

/// Those of all junctions, whatever the job does with the last one.
void save_statistics(JobContext& run, const CalibrationJob& job,
                     const CalibrationObserver& observer, StatisticsDirectory& statistics) {
  CalibrationJob all{job.config,           job.reader,        job.plan,   statistics.journal(), {},
                     job.windows,          job.map,           job.widths,
                     /*head_sliced=*/true, job.compute_dtype, job.sharing};
  all.labels = job.labels;
  all.device = job.device;
  take_statistics(run.comm, all, observer, run.clock);
  statistics.publish(run.comm);
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
    const MlpDiagnostics found = mlp_diagnostics(journal, s);
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

/// The dense model with narrower MLPs, if the job asks for them.
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
  cut_mlps(run.comm, dense, run.job, cut, observer, run.clock);
  return cut;
}

/// The maps, and the folded model. `cut`: of cut_model().
void calibrate_into(FoldedModelSink& sink, JobContext& run, const ModelConfig& cut,
                    const TokenWindows& tokens, OpenedJournal& opened,
                    std::optional<StatisticsDirectory>& statistics,
                    const CalibrationObserver& observer) {
  std::optional<CheckpointReader> cut_source;
  if (run.job.mlp) {
    cut_source.emplace(run.job.model_path, cut_mlp_files(opened.journal, run.config, cut));
  }
  const CheckpointReader& source = cut_source ? *cut_source : run.source;
  CalibrationJob job = calibration_job(run, cut, source, tokens, opened);
  if (statistics) {
    if (!statistics->whole()) save_statistics(run, job, observer, *statistics);
    job.statistics = &statistics->journal();
  }
  calibrate_function(run.job.schedule.name)(run.comm, job, sink, observer, run.clock);
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
  Calibrated found{shards.widths(), shards.config(), shards.layout(), {}, {}, chosen, seconds};
  if (run.root()) {
    found.junctions = report_junctions(opened.journal, shards.widths(), run.job.method.transport());
    for (size_t j = 0; chosen && j < chosen->junction_rises.size(); ++j) {
      found.junctions.at(j).predicted_rise = chosen->junction_rises[j];
    }
    found.mlps = report_mlps(run, cut, opened.journal);
  }
  return found;
}

/// The source's config.json and weights.
std::vector<fs::path> input_files(const JobContext& run) {
  std::vector<fs::path> files = run.source.files();
  files.push_back(run.job.model_path / "config.json");
  return files;
}

std::vector<fs::path> shard_files(const JobContext& run, const ShardLayout& layout) {
  std::vector<fs::path> files;
  for (const ShardLayout::Shard& shard : layout.shards) files.push_back(run.partial() / shard.file);
  return files;
}

using Hashes = BackgroundHashes::Hashes;

Hashes gather(JobContext& run, BackgroundHashes& hashes) {
  const PhaseClock::Scope scope(run.clock, "hash");
  return hashes.gather(run.comm);
}

/// All that the written shards need to load: the evaluation reads them next.
void write_companions(JobContext& run, const Calibrated& calibrated) {
  if (run.root()) {
    const PhaseClock::Scope scope(run.clock, "write");
    write_companion_files(run.partial(), calibrated.layout, calibrated.output, run.job);
  }
  run.comm.barrier();
}

/// Rank 0: the report but for perplexities, ranks and wall time.
Report make_report(const JobContext& run, const JobTokens& tokens, const Calibrated& calibrated,
                   const Hashes& inputs) {
  Report report;
  report.tool_version = kVersion;
  report.job = run.job;
  report.widths = calibrated.widths;
  report.junctions = calibrated.junctions;
  report.shortcuts = report_shortcuts(calibrated.output);
  report.mlps = calibrated.mlps;
  report.allocation = calibrated.allocation;
  report.dense.parameters = stored_parameters(run.config);
  report.dense.bytes = report.dense.parameters * size_in_bytes(run.job.source_dtype);
  report.compressed.parameters = calibrated.layout.total_parameters;
  report.compressed.bytes = calibrated.layout.total_bytes;
  report.calibration_tokens = tokens.calibration.windows.numel();
  report.calibration_s = calibrated.seconds;
  report.fingerprints = inputs;
  report.fingerprints["calibration_tokens"] = tokens.calibration.fingerprint;
  if (tokens.evaluation) {
    report.evaluation_seqlen = tokens.evaluation->windows.size(1);
    report.fingerprints["evaluation_tokens"] = tokens.evaluation->fingerprint;
  }
  report.warnings = warnings_of(report);
  const std::string& on_cpu = run.environment.device.why_not_cuda;
  if (!on_cpu.empty()) report.warnings.push_back(on_cpu);
  return report;
}

void add_evaluation(Report& report, const NegativeLogLikelihood& dense,
                    const EvaluationSums& compressed) {
  report.evaluation_tokens = dense.tokens;
  report.dense.perplexity = dense.perplexity();
  report.compressed.perplexity = compressed.loss.perplexity();
  if (!compressed.divergence) return;
  report.compressed.kl = compressed.divergence->mean_kl();
  report.compressed.agreement = compressed.divergence->agreement();
}

/// Rank 0: writes what describes the output, and gives it its name.
void publish(OutputDirectory& output, const Report& report, const ModelConfig& config,
             const Hashes& shards) {
  const fs::path& dir = output.partial();
  write_file_atomically(dir / "README.md", model_card(report, config));
  fs::create_directory(dir / kReportDirectory);
  const std::string text = report_to_json(report);
  write_file_atomically(dir / kReportDirectory / kReportFile, text);
  if (report.job.report_html) {
    write_file_atomically(dir / kReportDirectory / kPageFile,
                          page_html(report_page(parse_report(text, kReportFile))));
  }
  output.close_journal();
  write_file_atomically(dir / "SHA256SUMS", sha256_sums(dir, shards));
  output.commit();
}

Report run_steps(JobContext& run) {
  const auto start = std::chrono::steady_clock::now();
  const PhaseClock::Scope scope(run.clock, "other");
  check_weights(run);
  const JobTokens tokens = load_tokens(run);
  run.progress().plan(expected_phases_of(run, tokens));
  OpenedJournal opened = open_journal_of(run, tokens);
  std::optional<StatisticsDirectory> statistics = open_statistics(run, tokens.calibration);
  const auto dense = evaluate_dense(run, tokens, opened.journal);
  BackgroundHashes of_inputs(run.comm, input_files(run));
  const Calibrated calibrated = calibrate(run, tokens.calibration, opened, statistics);
  BackgroundHashes of_shards(run.comm, shard_files(run, calibrated.layout));
  write_companions(run, calibrated);
  const auto compressed = evaluate_compressed(run, tokens, dense);
  const Hashes shards = gather(run, of_shards);
  const Hashes inputs = gather(run, of_inputs);
  const double wall_time_s = seconds_since(start);

  run.progress().enter("finish");
  if (!run.environment.trace.empty()) write_trace(run.comm, run.clock, run.environment.trace);
  if (!run.root()) run.environment.output.leave();
  std::vector<RankReport> ranks =
      gather_ranks(run.comm, run.plan, run.clock, run.environment.device);
  if (!run.root()) return {};
  Report report = make_report(run, tokens, calibrated, inputs);
  if (dense) add_evaluation(report, dense->loss, *compressed);
  report.ranks = std::move(ranks);
  report.wall_time_s = wall_time_s;
  publish(run.environment.output, report, run.config, shards);
  return report;
}

}  // namespace

Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment) {
  const c10::InferenceMode no_autograd;
  environment.progress.plan({{.name = kPreparePhase, .uncounted_seconds = 1.0}});
  environment.progress.enter(kPreparePhase);
  JobContext run{job, config, plan, environment};
  run.comm.barrier();  // one origin of time for all ranks
  run.clock.set_origin();
  return run_steps(run);
}

}  // namespace dotresize
