#include "worker/commands/run/run_job.h"

#include <ATen/ATen.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/durable_file.h"
#include "job/plan/energy_widths.h"
#include "job/plan/work_estimate.h"
#include "worker/calibration/background_sink.h"
#include "worker/calibration/calibration.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/verify.h"
#include "worker/comm/timed_communicator.h"
#include "worker/commands/run/output_model.h"
#include "worker/commands/run/rank_summary.h"
#include "worker/commands/run/trace.h"
#include "worker/commands/token_input.h"
#include "worker/evaluation/evaluate_model.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

MapOptions map_options(const ResolvedJob& job) {
  MapOptions options{job.method.basis, job.method.map, job.cost_scale};
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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What a phase waits for at its end.
std::function<void()> synchronize_of(const ChosenDevice& device) {
  if (device.cuda == nullptr) return nullptr;
  return [cuda = device.cuda] { cuda->synchronize(); };
}

/// The steps of run_job and what they share.
class JobRun {
 public:
  JobRun(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
         const RunEnvironment& environment)
      : job_(job),
        config_(config),
        plan_(plan),
        progress_(environment.progress),
        cache_dir_(environment.cache_dir),
        trace_(environment.trace),
        device_(environment.device),
        clock_(!environment.trace.empty(), synchronize_of(environment.device)),
        comm_(environment.comm, clock_),
        source_(job.model_path),
        output_(environment.output),
        shards_(partial_path(job.output_path), comm_.rank(), config_, job_, plan_) {}

  Report run();

 private:
  bool root() const { return comm_.rank() == 0; }
  void check_weights();
  void plan_progress();
  void load_tokens();
  void evaluate_dense();
  void calibrate();
  void take_hashes();
  void write_companions();
  void evaluate_compressed();
  void finish();
  double perplexity(const CheckpointReader& reader, const ModelConfig& config,
                    const std::string& phase);

  ResolvedJob job_;  // its widths too, once they are known
  const ModelConfig& config_;
  const ShardPlan& plan_;
  Progress& progress_;
  fs::path cache_dir_;
  fs::path trace_;
  ChosenDevice device_;
  PhaseClock clock_;
  TimedCommunicator comm_;
  CheckpointReader source_;
  OutputDirectory* output_;  // rank 0's
  TokenWindows calibration_;
  std::optional<TokenWindows> evaluation_;
  OutputShards shards_;
  std::map<std::string, std::string> shard_hashes_;  // rank 0
  Report report_;
};

Report JobRun::run() {
  progress_.plan({{"prepare", 1.0, 0, 0}});
  progress_.enter("prepare");
  comm_.barrier();  // the output directory is there
  clock_.set_origin();
  const auto start = std::chrono::steady_clock::now();
  const PhaseClock::Scope scope(clock_, "other");
  check_weights();
  load_tokens();
  plan_progress();
  evaluate_dense();
  calibrate();
  take_hashes();
  write_companions();
  evaluate_compressed();
  report_.wall_time_s = seconds_since(start);
  finish();
  return std::move(report_);
}

/// Every rank reads its part once, so that a missing, misshapen or non-finite tensor is refused
/// before any rank starts to work.
void JobRun::check_weights() {
  const PhaseClock::Scope scope(clock_, "read");
  const RankShard& shard = plan_.ranks.at(static_cast<size_t>(comm_.rank()));
  const at::ScalarType dtype = scalar_type(job_.source_dtype);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    load_sublayer(source_, config_, sublayer, dtype);
  }
  if (shard.first_sublayer == 0) load_embedding(source_, config_, dtype);
  if (shard.end_sublayer == config_.num_sublayers()) load_head(source_, config_, dtype);
  comm_.barrier();
}

void JobRun::load_tokens() {
  const PhaseClock::Scope scope(clock_, "tokenize");
  calibration_ =
      load_token_windows(comm_, job_.calibration, true, job_.model_path, config_, cache_dir_);
  if (job_.evaluation) {
    TokenSource source = *job_.evaluation;
    if (!source.seqlen) source.seqlen = calibration_.windows.size(1);
    evaluation_ = load_token_windows(comm_, source, false, job_.model_path, config_, cache_dir_);
  }
}

/// Expected times in units of one token through the dense model.
void JobRun::plan_progress() {
  const int64_t evaluation = evaluation_ ? evaluation_->windows.numel() : 0;
  const int64_t calibration = calibration_.windows.numel();
  const bool pipeline = job_.schedule == Schedule::kPipeline;
  const int64_t passes = pipeline ? job_.method.passes() : 1;
  const int64_t mapped = mapped_junctions(config_, job_.head_sliced);
  // In token_parallel every rank counts its share of the tokens once per sublayer; in the pipeline
  // all tokens per pass.
  const int64_t seen = pipeline ? calibration * passes : calibration / comm_.size() * (mapped - 1);
  progress_.plan({{"prepare", 0.02 * static_cast<double>(calibration), 0, 0},
                  {"evaluate_dense", static_cast<double>(evaluation), evaluation, 0},
                  {"calibrate", 2.0 * static_cast<double>(calibration * passes), seen, mapped},
                  {"evaluate_compressed", static_cast<double>(evaluation), evaluation, 0},
                  {"finish", 0.02 * static_cast<double>(calibration), 0, 0}});
}

double JobRun::perplexity(const CheckpointReader& reader, const ModelConfig& config,
                          const std::string& phase) {
  const PhaseClock::Scope scope(clock_, phase);
  progress_.enter(phase);
  const NegativeLogLikelihood sum = evaluate_model(
      comm_, reader, config, plan_, evaluation_->windows, scalar_type(job_.compute_dtype),
      device_.device, [&](int64_t tokens) { progress_.tokens_seen(tokens); });
  report_.evaluation_tokens = sum.tokens;
  return sum.perplexity();
}

void JobRun::evaluate_dense() {
  if (evaluation_) report_.dense.perplexity = perplexity(source_, config_, "evaluate_dense");
}

void JobRun::calibrate() {
  const auto start = std::chrono::steady_clock::now();
  progress_.enter("calibrate");
  CalibrationJob calibration{config_,
                             source_,
                             plan_,
                             calibration_.windows,
                             map_options(job_),
                             job_.width,
                             job_.head_sliced,
                             scalar_type(job_.compute_dtype),
                             job_.junction_groups};
  calibration.device = device_.device;
  calibration.fold_dtype = fold_dtype(job_.output_dtype);
  if (job_.energy) {
    calibration.choose_widths = [&](const at::Tensor& spectra) {
      job_ = with_energy_widths(job_, config_, rows_of(spectra));
      return job_.junction_widths;
    };
  }
  std::map<int64_t, MapDiagnostics> solved;
  const CalibrationObserver observer{
      [&](int64_t tokens) { progress_.tokens_seen(tokens); },
      [&](int64_t junction, const JunctionSolution& solution) {
        solved[junction] = solution.diagnostics;
      },
      [&](int64_t junctions) { progress_.junctions_solved(junctions); }};
  const auto schedule =
      job_.schedule == Schedule::kPipeline ? calibrate_pipeline : calibrate_token_parallel;
  BackgroundSink sink(shards_, device_.device, clock_);
  schedule(comm_, calibration, sink, observer, clock_);
  sink.finish();
  shards_.finish();
  report_.calibration_s = seconds_since(start);
  report_.junctions = gather_junctions(comm_, job_, config_, solved);
}

void JobRun::take_hashes() {
  const PhaseClock::Scope scope(clock_, "hash");
  shard_hashes_ = gather_hashes(comm_, partial_path(job_.output_path), shards_.layout());
  report_.fingerprints = gather_input_hashes(comm_, job_.model_path, source_.files());
}

void JobRun::write_companions() {
  if (root()) {
    const PhaseClock::Scope scope(clock_, "write");
    write_companion_files(output_->partial(), shards_.layout(), shards_.config(), job_);
  }
  comm_.barrier();
}

void JobRun::evaluate_compressed() {
  if (!evaluation_) return;
  const fs::path written = partial_path(job_.output_path);
  report_.compressed.perplexity =
      perplexity(CheckpointReader(written), read_model_config(written), "evaluate_compressed");
}

void JobRun::finish() {
  progress_.enter("finish");
  if (!trace_.empty()) write_trace(comm_, clock_, trace_);
  report_.ranks = gather_ranks(comm_, plan_, clock_, device_);
  if (!root()) return;
  complete_report(report_, job_, config_, shards_.layout());
  report_.calibration_tokens = calibration_.windows.numel();
  if (evaluation_) report_.job.evaluation->seqlen = evaluation_->windows.size(1);
  report_.fingerprints["calibration_tokens"] = calibration_.fingerprint;
  if (evaluation_) report_.fingerprints["evaluation_tokens"] = evaluation_->fingerprint;
  const fs::path& dir = output_->partial();
  write_file_atomically(dir / "README.md", model_card(report_, config_));
  fs::create_directory(dir / "dotresize");
  write_file_atomically(dir / "dotresize" / "report.json", report_to_json(report_));
  write_file_atomically(dir / "SHA256SUMS", sha256_sums(dir, shard_hashes_));
  output_->commit();
}

}  // namespace

Report run_job(const ResolvedJob& job, const ModelConfig& config, const ShardPlan& plan,
               const RunEnvironment& environment) {
  const c10::InferenceMode no_autograd;
  return JobRun(job, config, plan, environment).run();
}

}  // namespace dotresize
