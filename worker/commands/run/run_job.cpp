#include "worker/commands/run/run_job.h"

#include <ATen/ATen.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/files/sha256_sums.h"
#include "base/process/program.h"
#include "base/seconds_since.h"
#include "job/model/companion_files.h"
#include "job/model/model_size.h"
#include "job/model/tensor_table.h"
#include "job/page/page.h"
#include "job/plan/allocate/choose_widths.h"
#include "job/plan/estimate/traffic.h"
#include "job/report/model_card.h"
#include "worker/checkpoint/verify.h"
#include "worker/commands/run/expected_phases.h"
#include "worker/commands/run/held_out.h"
#include "worker/commands/run/job_calibration.h"
#include "worker/commands/run/job_context.h"
#include "worker/commands/run/job_evaluation.h"
#include "worker/commands/run/job_healing.h"
#include "worker/commands/run/output/background_hashes.h"
#include "worker/commands/run/output/output_maps.h"
#include "worker/commands/run/output/output_model.h"
#include "worker/commands/run/ranks/rank_summary.h"
#include "worker/commands/run/resume.h"
#include "worker/commands/run/trace.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Checks every rank's part of the source, so that a missing, misshapen or non-finite tensor is
/// refused before any rank starts to work. The values of tensors that the first step reads anyway
/// are checked there; here only their names and shapes are.
void check_weights(JobContext& run) {
  const PhaseClock::Scope scope(run.clock, "read");
  const RankShard& shard = run.shard();
  const at::ScalarType dtype = scalar_type(run.job.model.dtype);
  // A pipeline does not run the sublayers after the last junction with a map.
  const int64_t last_run = run.job.widths.mapped_count - 1;
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

JobTokens load_tokens(JobContext& run) {
  const PhaseClock::Scope scope(run.clock, "tokenize");
  const auto load = [&](const TokenSource& source, const WindowUse& use) {
    return load_token_windows(run.comm, source, use, run.job.model.path, run.config,
                              run.environment.cache_dir,
                              run.job.resources.memory.value_or(usable_memory_bytes()));
  };
  JobTokens tokens{load(run.job.calibration, {.calibration = true}),
                   {},
                   std::nullopt,
                   std::nullopt,
                   std::nullopt};
  if (run.job.evaluation) {
    TokenSource source = *run.job.evaluation;
    if (!source.seqlen) source.seqlen = tokens.calibration.windows.size(1);
    const TokenWindows* beside = run.job.evaluation->unused_windows ? &tokens.calibration : nullptr;
    tokens.evaluation = load(source, {.beside = beside});
  }
  if (run.job.healing) {
    TokenSource source = run.job.calibration;
    source.seqlen = tokens.calibration.windows.size(1);
    source.samples = run.job.healing->samples;
    tokens.healing = source.samples ? load(source, {.calibration = true}) : tokens.calibration;
  }
  tokens.all_windows = tokens.calibration.windows;
  tokens.held_out = take_held_out(run.job, tokens.calibration);
  return tokens;
}

std::vector<ProgressPhase> expected_phases_of(const JobContext& run, const JobTokens& tokens) {
  const JobSize size{tokens.calibration.windows.numel(),
                     tokens.evaluation ? tokens.evaluation->windows.numel() : 0,
                     tokens.healing ? tokens.healing->windows.size(0) : 0,
                     tokens.calibration.windows.size(1)};
  return expected_phases(run.config, run.job, run.plan, size, run.environment.device.facts());
}

/// Hashes the inputs. The journal keeps the hashes for a run that resumes with files whose stamps
/// changed.
BackgroundHashes hash_inputs(const JobContext& run) {
  const fs::path journal = run.environment.output.journal();
  return {run.comm, run.input_files(), [journal](const auto& name, const std::string& hash) {
            write_file_atomically(input_hash_file(journal, name), hash);
          }};
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

/// Adds the predicted loss increases of the shortcuts; a stock output has no shortcuts.
void add_loss_increases(const Allocation& chosen, std::vector<ShortcutReport>& shortcuts) {
  for (std::size_t s = 0; s < shortcuts.size(); ++s) {
    shortcuts[s].predicted_loss_increase = chosen.shortcut_loss_increases.at(s);
  }
}

/// Makes the report without perplexities, warnings, ranks and wall time. Runs on rank 0.
Report make_report(const JobContext& run, const JobTokens& tokens, const Calibrated& calibrated,
                   const Hashes& inputs) {
  Report report;
  report.tool_version = kVersion;
  report.job = run.job;
  report.widths = calibrated.widths;
  report.junctions = calibrated.junctions;
  report.shortcuts = report_shortcuts(calibrated.output);
  if (calibrated.allocation) add_loss_increases(*calibrated.allocation, report.shortcuts);
  report.mlps = calibrated.mlps;
  report.attentions = calibrated.attentions;
  report.allocation = calibrated.allocation;
  report.held_out_kl = calibrated.held_out_kl;
  report.dense.parameters = stored_parameters(run.config);
  report.dense.bytes = report.dense.parameters * size_in_bytes(run.job.model.dtype);
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

void add_warnings(const JobContext& run, Report& report) {
  report.warnings = warnings_of(report);
  const std::string& on_cpu = run.environment.device.why_not_cuda;
  if (!on_cpu.empty()) report.warnings.push_back(on_cpu);
}

/// Writes the files that describe the output, and gives it its name. Runs on rank 0.
void publish(OutputDirectory& output, const Report& report, const ModelConfig& config,
             const Hashes& shards) {
  const fs::path& dir = output.partial();
  write_file_atomically(dir / "README.md", model_card(report, config));
  fs::create_directory(dir / kReportDirectory);
  const std::string text = report_to_json(report);
  write_file_atomically(dir / kReportDirectory / kReportFile, text);
  if (report.job.output.report_html) {
    write_file_atomically(dir / kReportDirectory / kPageFile,
                          page_html(report_page(parse_report(text, kReportFile))));
  }
  output.close_journal();
  write_file_atomically(dir / kSumsFile, sha256_sums(dir, shards));
  output.commit();
}

Report run_steps(JobContext& run) {
  const auto start = std::chrono::steady_clock::now();
  const PhaseClock::Scope scope(run.clock, "other");
  if (run.root()) require_regular_companions(run.job.model.path);
  check_weights(run);
  const JobTokens tokens = load_tokens(run);
  run.progress().plan(expected_phases_of(run, tokens));
  OpenedJournal opened = open_journal_of(run, tokens);
  std::optional<StatisticsDirectory> statistics = open_statistics(run, tokens.calibration);
  const auto dense = evaluate_dense(run, tokens, opened.journal);
  BackgroundHashes of_inputs = hash_inputs(run);
  const Calibrated calibrated = calibrate(run, tokens, opened, statistics);
  if (run.job.output.writes_maps) write_maps(run, tokens.calibration, opened, calibrated);
  const std::optional<HealingReport> healed = heal(run, tokens, opened, calibrated);
  BackgroundHashes of_shards(run.comm, shard_files(run, calibrated.layout));
  const auto compressed = evaluate_compressed(run, tokens, dense);
  const Hashes shards = gather(run, of_shards);
  const Hashes inputs = gather(run, of_inputs);
  run.require_unchanged_inputs();
  run.comm.barrier();  // the measured time ends when the last rank is done
  const double wall_time_s = seconds_since(start);

  run.progress().enter("finish");
  if (!run.environment.trace.empty()) write_trace(run.comm, run.clock, run.environment.trace);
  if (!run.root()) run.environment.output.leave();
  std::vector<RankReport> ranks =
      gather_ranks(run.comm, run.plan, run.clock, run.environment.device);
  if (!run.root()) return {};
  Report report = make_report(run, tokens, calibrated, inputs);
  if (tokens.healing) {
    report.healing = healed;
    report.healing_tokens = tokens.healing->windows.numel();
    report.fingerprints["healing_tokens"] = tokens.healing->fingerprint;
  }
  if (dense) add_evaluation(report, dense->loss, *compressed);
  add_warnings(run, report);
  report.ranks = std::move(ranks);
  report.wall_time_s = wall_time_s;
  publish(run.environment.output, report, run.config, shards);
  return report;
}

}  // namespace

std::vector<fs::path> JobContext::input_files() const {
  std::vector<fs::path> files = source.files();
  files.push_back(job.model.path / kConfigFile);
  return files;
}

void JobContext::require_unchanged_inputs() const {
  std::map<std::string, FileStamp> opened = source.stamps();
  opened.emplace(kConfigFile, config_stamp);
  for (const fs::path& file : input_files()) {
    if (InputFile(file.string()).stamp() == opened.at(file.filename().string())) continue;
    throw InputError("model.path", file.string() + " was replaced or changed while the job ran");
  }
}

Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment) {
  const c10::InferenceMode no_autograd;
  environment.progress.plan({{.name = kPreparePhase, .uncounted_seconds = 1.0}});
  environment.progress.enter(kPreparePhase);
  JobContext run{job, config, plan, environment};
  run.comm.barrier();  // gives all ranks the same time origin
  run.clock.set_origin();
  return run_steps(run);
}

}  // namespace dotresize
