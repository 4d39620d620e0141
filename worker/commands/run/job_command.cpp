#include "worker/commands/run/job_command.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/errors.h"
#include "base/exit_codes.h"
#include "base/failure.h"
#include "base/text_table.h"
#include "job/plan/device_memory_estimate.h"
#include "job/plan/shard_plan.h"
#include "job/plan/target_text.h"
#include "job/report/phase_table.h"
#include "job/report/report.h"
#include "job/spec/job_file.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/commands/progress.h"
#include "worker/commands/run/progress_client.h"
#include "worker/commands/run/run_job.h"
#include "worker/commands/run/stop_signals.h"
#include "worker/commands/run/trace.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

class MpiSession {
 public:
  MpiSession() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  }
  ~MpiSession() { MPI_Finalize(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// The ranks of the job on this host.
struct HostRanks {
  int rank = 0;  ///< of this process among them
  int size = 1;
};

HostRanks ranks_on_this_host() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  HostRanks ranks;
  MPI_Comm_rank(host, &ranks.rank);
  MPI_Comm_size(host, &ranks.size);
  MPI_Comm_free(&host);
  return ranks;
}

/// The cores that this process may use, shared fairly by the ranks on the host, unless
/// OMP_NUM_THREADS decides.
void set_threads(const HostRanks& ranks) {
  at::set_num_interop_threads(1);
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof(cores), &cores);
  at::set_num_threads(std::max(1, CPU_COUNT(&cores) / ranks.size));
}

/// Rank 0 reads the job file, and every rank gets it.
v1::JobSpec share_spec(const fs::path& job_file) {
  MpiCommunicator comm(MPI_COMM_WORLD, std::chrono::minutes(10));
  v1::JobSpec spec;
  if (comm.rank() == 0) {
    spec = read_job_file(job_file);
    const auto asked = static_cast<int>(spec.resources().ranks());
    if (spec.resources().has_ranks() && asked != comm.size()) {
      fmt::print(stderr, "note: the job asks for {} ranks and was launched with {}\n", asked,
                 comm.size());
    }
  }
  spec.ParseFromString(broadcast_string(comm, spec.SerializeAsString(), 0));
  return spec;
}

ChosenDevice choose_device_for(const v1::JobSpec& spec, const HostRanks& ranks) {
  MpiCommunicator comm(MPI_COMM_WORLD, std::chrono::minutes(10));
  return choose_device(asked_device(spec), comm, ranks.rank);
}

/// To the log: an estimate is no reason to refuse.
void warn_of_little_memory(int rank, const RankShard& shard, const ChosenDevice& device) {
  if (device.cuda == nullptr) return;
  const std::string warning = device_memory_warning(shard, device.cuda->free_memory_bytes());
  if (warning.empty()) return;
  fmt::print(stderr, "dotresize-worker: warning: rank {} on {}: {}\n", rank, host_name(), warning);
}

void print_summary(const Report& report) {
  const auto row = [](const char* name, const ModelReport& model) {
    return std::vector<std::string>{
        name, std::to_string(model.parameters), std::to_string(model.bytes),
        model.perplexity ? fmt::format("{:.4f}", *model.perplexity) : "-"};
  };
  using enum Align;
  fmt::print("{}", format_table({{"", "parameters", "bytes", "perplexity"},
                                 row("dense", report.dense),
                                 row("compressed", report.compressed)},
                                {kLeft, kRight, kRight, kRight}));
  fmt::print("{}: {}, {:.1f} % of the dense bytes\n", target_text(report.job),
             widths_text(report.widths, report.job.hidden_size),
             100.0 * net_size(report).bytes_fraction());
  fmt::print("{} in {:.1f} s\n\n{}", report.job.output_path.string(), report.wall_time_s,
             phase_table(report));
}

class JobCommand {
 public:
  explicit JobCommand(const JobCommandOptions& options)
      : job_file_(options.job_file),
        cache_dir_((options.work_dir.empty() ? fs::absolute(options.job_file).parent_path()
                                             : options.work_dir) /
                   ".dotresize-cache"),
        trace_(options.trace),
        coordinator_(CoordinatorAddress::from_environment()),
        progress_([this](const ProgressState& state) {
          if (rank_ == 0) lines_.show(state);
        }) {}

  int run(StopSignals& signals);

 private:
  void run_job_here(StopSignals& signals);
  /// Last words of a failing rank: to the log and to the coordinator. Never returns if there are
  /// other ranks.
  int fail(int exit_code, const std::string& message);

  fs::path job_file_;
  fs::path cache_dir_;
  fs::path trace_;
  std::optional<CoordinatorAddress> coordinator_;
  int rank_ = world_rank();
  ProgressLines lines_;
  Progress progress_;
};

int JobCommand::run(StopSignals& signals) {
  try {
    run_job_here(signals);
    return kExitOk;
  } catch (const InputError& error) {
    return fail(kExitBadData, error.what());
  } catch (const std::exception& error) {
    return fail(kExitJobFailed, error.what());
  }
}

void JobCommand::run_job_here(StopSignals& signals) {
  const HostRanks ranks = ranks_on_this_host();
  set_threads(ranks);
  if (rank_ == 0 && !trace_.empty()) check_trace_path(trace_);
  const v1::JobSpec spec = share_spec(job_file_);
  const ChosenDevice device = choose_device_for(spec, ranks);
  const ModelConfig config = read_model_config(spec.model().path());
  const ResolvedJob job = resolve_job(spec, config, LaunchFacts{world_size(), device.facts()});
  const ShardPlan plan = make_shard_plan(config, job);
  warn_of_little_memory(rank_, plan.ranks.at(static_cast<size_t>(rank_)), device);
  std::optional<OutputDirectory> output;
  if (rank_ == 0) output.emplace(job.output_path, job.overwrite);
  signals.watch([&output] {
    if (output) output->discard();
  });
  std::optional<ProgressClient> heartbeat;
  if (rank_ == 0 && coordinator_) heartbeat.emplace(*coordinator_, progress_);

  const std::chrono::seconds timeout(job.timeout_s);
  MpiCommunicator host(MPI_COMM_WORLD, timeout);
  const auto between_gpus = device.cuda ? device.cuda->make_communicator(host, timeout) : nullptr;
  Communicator& comm = between_gpus ? *between_gpus : host;
  const Report report =
      run_job(job, config, plan,
              {comm, progress_, cache_dir_, output ? &*output : nullptr, trace_, device});
  if (rank_ == 0) print_summary(report);
}

int JobCommand::fail(int exit_code, const std::string& message) {
  const Failure failure{failure_code(exit_code), rank_, host_name(),
                        progress_.phase().empty() ? "start" : progress_.phase(), message};
  fmt::print(stderr, "{}\n", failure_line(failure));
  if (coordinator_) report_failure(*coordinator_, failure);
  if (world_size() > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
  return exit_code;
}

}  // namespace

int run_job_command(const JobCommandOptions& options) {
  StopSignals signals;
  die_with_launcher();
  const MpiSession mpi;
  return JobCommand(options).run(signals);
}

}  // namespace dotresize
