#include "worker/commands/run/run_job.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/phase_clock.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/sha256.h"
#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/page/page.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/steps/step.h"
#include "job/report/job_identity.h"
#include "job/report/report.h"
#include "worker/checkpoint/verify.h"
#include "worker/commands/run/job_steps.h"
#include "worker/commands/run/output/file_hashes.h"
#include "worker/commands/run/output/output_model.h"
#include "worker/cuda/cuda_module.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

/// Checks every rank's part of the source, so that a missing, misshapen or non-finite tensor is
/// refused before any rank starts to work. The values of tensors that the first step reads anyway
/// are checked there; here only their names and shapes are.
void check_weights(JobContext& run) {
  const PhaseClock::Scope scope(run.clock, "read");
  const RankShard& shard = run.shard;
  // A pipeline does not run the sublayers after the last junction with a map.
  const int64_t last_run = run.job.widths.mapped_count - 1;
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    const bool values = checks_sublayers_first(run.job) || sublayer >= last_run;
    for (const StoredTensor& tensor : shard_tensors(run.config, sublayer, sublayer + 1)) {
      const bool vocabulary =
          tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
      if (values || vocabulary) {
        check_values(run.source, tensor, scalar_type(run.config.files.dtypes.of(tensor.name)));
      } else {
        run.source.check(tensor.name, tensor.shape);
      }
    }
  }
  run.comm.barrier();
}

JobTokens load_tokens(JobContext& run) {
  const PhaseClock::Scope scope(run.clock, "tokenize");
  const JobResources& resources = run.job.resources;
  const TokenReader reader{run.job.model.path,
                           run.config,
                           run.environment.cache_dir,
                           {resources.memory.value_or(usable_memory_bytes()),
                            std::chrono::seconds(resources.timeout_s)}};
  JobTokens tokens{load_calibration_windows(run.comm, run.job.calibration, reader), std::nullopt,
                   std::nullopt, std::nullopt};
  if (run.job.evaluation) {
    tokens.evaluation =
        load_evaluation_windows(run.comm, *run.job.evaluation, run.job.calibration, reader);
  }
  if (run.job.healing) {
    TokenSource source = run.job.calibration;
    source.samples = run.job.healing->samples;
    tokens.healing =
        source.samples ? load_calibration_windows(run.comm, source, reader) : tokens.calibration;
  }
  if (run.job.target.allocation) {  // the job tries its choice
    SplitWindows split = split_windows(tokens.calibration.windows);
    tokens.calibration.windows = split.fitted;
    tokens.calibration.numbers = std::move(split.fitted_numbers);
    tokens.held_out = TokenWindows{split.held_out, "held-out", std::move(split.held_out_numbers)};
  }
  return tokens;
}

/// Returns the phases of a job on rank 0, each with its expected time on a machine like this one
/// (reference_hardware).
std::vector<ProgressPhase> expected_phases(const JobContext& run, const JobTokens& tokens) {
  const ModelConfig& config = run.config;
  const ResolvedJob& job = run.job;
  const ShardPlan& plan = run.plan;
  const FoundTokens found{.calibration = tokens.calibration.windows.numel(),
                          .held_out = tokens.held_out ? tokens.held_out->windows.numel() : 0,
                          .evaluation = tokens.evaluation ? tokens.evaluation->windows.numel() : 0,
                          .healing_windows = tokens.healing ? tokens.healing->windows.size(0) : 0,
                          .seqlen = tokens.calibration.windows.size(1)};
  const TimeEstimate::Steps steps =
      estimate_time(config, job, plan, reference_hardware(run.environment.device.facts())).steps;
  // The estimate is for the requested tokens. The text may have others.
  const auto share = [](int64_t tokens_found, int64_t expected) {
    return static_cast<double>(tokens_found) / static_cast<double>(std::max<int64_t>(expected, 1));
  };
  const double calibration = share(found.calibration, expected_tokens(job, config));
  const double evaluation = share(found.evaluation, expected_evaluation_tokens(job, config));
  const auto counted = [&](std::string_view phase) {
    return counted_tokens({config, job, plan}, phase, found);
  };
  const RankShard& first = plan.of_rank(0);
  double cuts = 0.0;
  for (int64_t s = first.first_sublayer; s < first.end_sublayer; ++s) {
    if (may_be_cut(job, s)) cuts += cut_operations(config, job, s).all();
  }
  return {{.name = kPrepare, .uncounted_seconds = steps.check},
          {.name = kEvaluateDense,
           .tokens = {counted(kEvaluateDense), evaluation * steps.evaluate_dense}},
          {.name = kCalibrate,
           .tokens = {counted(kCalibrate), calibration * steps.tokens},
           .junctions = {job.widths.mapped_count, steps.junctions},
           .cuts = {static_cast<int64_t>(cuts), steps.cuts},
           .sublayers = {first.end_sublayer - first.first_sublayer, steps.sublayers}},
          {.name = kHeal, .tokens = {counted(kHeal), steps.heal}},
          {.name = kEvaluateCompressed,
           .tokens = {counted(kEvaluateCompressed), evaluation * steps.evaluate_compressed}},
          {.name = kFinish, .uncounted_seconds = steps.hash}};
}

using Hashes = BackgroundHashes::Hashes;

/// Returns the target with the features that an allocation has chosen for all MLPs, if layers may
/// not differ.
std::optional<MlpTarget> known_target(std::optional<MlpTarget> target, const ModelConfig& cut) {
  if (!target || !target->allocated || target->by_layer) return target;
  target->allocated = false;
  target->width = dense_features(cut);
  target->expert_width = expert_features(cut);
  return target;
}

/// Makes the report without ranks and wall time. Runs on rank 0.
Report make_report(const JobContext& run, const JobTokens& tokens,
                   const std::optional<DenseEvaluation>& dense, const Calibrated& calibrated,
                   const std::optional<HealingReport>& healed,
                   const std::optional<EvaluationSums>& compressed, const Hashes& inputs) {
  Report report;
  report.tool_version = kVersion;
  report.job = run.job;
  report.widths = calibrated.widths;
  report.junctions = calibrated.junctions;
  report.shortcuts = report_shortcuts(calibrated.output);
  report.cuts = calibrated.cuts;
  report.allocation = calibrated.allocation;
  report.job.mlp = known_target(run.job.mlp, calibrated.cut);
  report.held_out_kl = calibrated.held_out_kl;
  report.dense.parameters = stored_parameters(run.config);
  report.dense.bytes = stored_bytes(run.config);
  report.dense.dtypes = stored_dtypes(run.config);
  const ShardLayout& layout = calibrated.layout;
  report.compressed.parameters = layout.total_parameters - layout.copied_parameters;
  report.compressed.bytes = layout.total_bytes - layout.copied_bytes;
  report.wrapper = run.config.files.wrapper;
  report.quantisation = run.config.files.quantisation;
  report.compressed.dtypes = stored_dtypes(calibrated.output);
  report.calibration_tokens = tokens.calibration.windows.numel();
  report.calibration_s = calibrated.seconds;
  report.fingerprints = inputs;
  report.fingerprints[kJobFingerprint] = run.environment.identity;
  report.fingerprints["calibration_tokens"] = tokens.calibration.fingerprint;
  if (tokens.evaluation) {
    report.evaluation_seqlen = tokens.evaluation->windows.size(1);
    report.fingerprints["evaluation_tokens"] = tokens.evaluation->fingerprint;
  }
  if (tokens.healing) {
    report.healing = healed;
    report.healing_tokens = tokens.healing->windows.numel();
    report.fingerprints["healing_tokens"] = tokens.healing->fingerprint;
  }
  if (dense) {
    report.evaluation_tokens = dense->loss.tokens;
    report.dense.perplexity = dense->loss.perplexity();
    report.compressed.perplexity = compressed->loss.perplexity();
  }
  if (dense && compressed->divergence) {
    report.compressed.kl = compressed->divergence->mean_kl();
    report.compressed.agreement = compressed->divergence->agreement();
  }
  report.warnings = run.environment.model_warnings;
  std::ranges::move(warnings_of(report), std::back_inserter(report.warnings));
  const std::string& on_cpu = run.environment.device.why_not_cuda;
  if (!on_cpu.empty()) report.warnings.push_back(on_cpu);
  return report;
}

/// Returns the pairs and time of this rank's l1 costs, with the limit of its GPU if it has one;
/// nothing if it has computed no costs.
std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device) {
  const auto found = clock.work.find("cost");
  if (found == clock.work.end()) return std::nullopt;
  CostReport report{found->second, clock.seconds().at("cost")};
  if (device.cuda) {
    report.limit_pairs_per_s = l1_cost_limit(device.cuda->info(device.device.index()));
  }
  return report;
}

/// Returns the report's entries of all ranks on rank 0, nothing on the others. `clock`: this rank's
/// times so far. Collective.
std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device) {
  const RankShard& shard = plan.of_rank(comm.rank());
  RankReport mine;
  mine.rank = comm.rank();
  mine.host = host_name();
  mine.first_sublayer = shard.first_sublayer;
  mine.end_sublayer = shard.end_sublayer;
  mine.seconds = clock.seconds();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  mine.peak_memory_bytes = int64_t{1024} * usage.ru_maxrss;
  mine.gpu = device.name;
  if (device.cuda) {
    const DeviceMemory memory = device.cuda->memory();
    mine.peak_device_memory_bytes = memory.peak;
    mine.peak_device_allocated_bytes = memory.peak_allocated;
  }
  mine.cost = cost_report(clock, device);
  std::vector<RankReport> reports;
  for (const std::string& text : gather_strings(comm, to_json(mine).dump(), 0)) {
    reports.push_back(rank_report_from_json(Json::parse(text)));
  }
  return reports;
}

/// Writes all ranks' spans as a timeline in the Trace Event Format of chrome://tracing and
/// Perfetto: a process per rank, an event per span, named after its phase. Rank 0 writes the file,
/// as a whole. The clocks must keep spans and have set their origin when the ranks met. Collective.
void write_trace(Communicator& comm, const PhaseClock& clock, const fs::path& path) {
  constexpr double kMicroseconds = 1e6;
  const int rank = comm.rank();
  Json mine =
      Json::array({{{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", rank},
                    {"args", {{"name", fmt::format("rank {} on {}", rank, host_name())}}}}});
  for (const PhaseClock::Span& span : clock.spans()) {
    Json event = {{"name", span.phase},
                  {"ph", "X"},
                  {"ts", span.begin_s * kMicroseconds},
                  {"dur", (span.end_s - span.begin_s) * kMicroseconds},
                  {"pid", rank},
                  {"tid", rank}};
    if (!span.detail.empty()) event["args"] = {{"junction", span.detail}};
    mine.push_back(std::move(event));
  }
  const std::vector<std::string> ranks = gather_strings(comm, mine.dump(), 0);
  if (comm.rank() != 0) return;
  Json events = Json::array();
  for (const std::string& text : ranks) {
    for (Json& event : Json::parse(text)) events.push_back(std::move(event));
  }
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  write_for_user(path, document.dump() + "\n");
}

/// Writes the files that describe the output, and gives it its name. Runs on rank 0.
void publish(OutputDirectory& output, Report& report, const ModelConfig& config,
             const Hashes& shards) {
  const fs::path& dir = output.partial();
  write_file_atomically(dir / "README.md", model_card(report, config));
  files::create_directory(dir / kReportDirectory);
  report.files = {fs::path(kReportDirectory) / kReportFile};
  if (report.job.output.report_html) {
    report.files.push_back(fs::path(kReportDirectory) / kPageFile);
  }
  for (const std::string& file : output_files(dir)) {
    if (*fs::path(file).begin() != kJournalDirectory) report.files.push_back(file);
  }
  std::ranges::sort(report.files);
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

/// Runs the steps of the job. Returns the report on rank 0.
Report run_steps(JobContext& run) {
  const auto start = std::chrono::steady_clock::now();
  const PhaseClock::Scope scope(run.clock, "other");
  if (run.root) check_companions(run.job.model.path);
  check_weights(run);
  const JobTokens tokens = load_tokens(run);
  run.progress.plan(expected_phases(run, tokens));
  OpenedJournal opened = open_journal_of(run, tokens);
  std::optional<StatisticsDirectory> statistics = open_statistics(run, tokens.calibration);
  const auto dense = evaluate_dense(run, tokens, opened.journal);
  const InputStamps opened_inputs = run.inputs();
  // Kept for a run that resumes, or uses the statistics, with files whose stamps changed.
  std::vector<fs::path> keepers = {run.environment.output.journal()};
  if (statistics && !statistics->whole()) keepers.push_back(statistics->directory());
  const auto keep_hash = [&opened_inputs, keepers](const fs::path& file, const std::string& hash) {
    for (const fs::path& dir : keepers) keep_input_hash(dir, file, opened_inputs.at(file), hash);
  };
  BackgroundHashes of_inputs(run.comm, files_of(opened_inputs), keep_hash);
  const Calibrated calibrated = calibrate(run, tokens, opened, statistics);
  if (run.job.output.writes_maps) write_maps(run, tokens.calibration, opened, calibrated);
  const std::optional<HealingReport> healed = heal(run, tokens, opened, calibrated);
  std::vector<fs::path> files;
  for (const auto& shard : calibrated.layout.shards) files.push_back(run.partial / shard.file);
  BackgroundHashes of_shards(run.comm, files);
  const auto compressed = evaluate_compressed(run, tokens, dense);
  const auto gather = [&run](BackgroundHashes& hashes) {
    const PhaseClock::Scope waits(run.clock, "hash");
    return hashes.gather(run.comm);
  };
  const Hashes shards = gather(of_shards);
  const Hashes inputs = gather(of_inputs);
  run.require_unchanged_inputs();
  run.comm.barrier();  // the measured time ends when the last rank is done
  const double wall_time_s = seconds_since(start);

  run.progress.enter("finish");
  if (!run.environment.trace.empty()) write_trace(run.comm, run.clock, run.environment.trace);
  if (!run.root) run.environment.output.leave();
  std::vector<RankReport> ranks =
      gather_ranks(run.comm, run.plan, run.clock, run.environment.device);
  if (!run.root) return {};
  Report report = make_report(run, tokens, dense, calibrated, healed, compressed, inputs);
  report.ranks = std::move(ranks);
  report.wall_time_s = wall_time_s;
  publish(run.environment.output, report, run.config, shards);
  return report;
}

}  // namespace

InputStamps JobContext::inputs() const {
  InputStamps inputs = {{job.model.path / kConfigFile, config_stamp}};
  for (const auto& [name, stamp] : source.stamps()) inputs.emplace(job.model.path / name, stamp);
  return inputs;
}

std::map<fs::path, std::optional<FileStamp>> stamps_of_companions(const fs::path& model_dir) {
  std::map<fs::path, std::optional<FileStamp>> stamps;
  for (const std::span<const char* const> names : {std::span<const char* const>(kCompanionFiles),
                                                   std::span<const char* const>(kProcessorFiles)}) {
    for (const char* name : names) stamps[model_dir / name] = stamp_of_file(model_dir / name);
  }
  return stamps;
}

void JobContext::require_unchanged_inputs() const {
  std::map<fs::path, std::optional<FileStamp>> before = companions;
  for (const auto& [file, stamp] : inputs()) before.emplace(file, stamp);
  for (const auto& [file, opened] : before) {
    const std::optional<FileStamp> now = stamp_of_file(file);
    if (now == opened) continue;
    throw InputError(
        "model.path",
        file.string() + (now ? " was replaced or changed" : " was removed") + " while the job ran");
  }
}

CheckpointReader JobContext::source_with(const std::vector<fs::path>& replacements) const {
  CheckpointReader reader(job.model.path, config, replacements);
  require_unchanged_inputs();
  return reader;
}

Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment) {
  const c10::InferenceMode no_autograd;
  environment.progress.plan({{.name = kPrepare, .uncounted_seconds = 1.0}});
  environment.progress.enter(kPrepare);
  JobContext run{job, config, plan, environment};
  run.comm.barrier();  // gives all ranks the same time origin
  run.clock.set_origin();
  try {
    return run_steps(run);
  } catch (const InputError&) {
    run.require_unchanged_inputs();  // what it names is the reason
    throw;
  }
}

}  // namespace dotresize
