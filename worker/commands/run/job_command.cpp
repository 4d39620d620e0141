#include "worker/commands/run/job_command.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/errors.h"
#include "base/failure.h"
#include "base/human_text.h"
#include "base/program.h"
#include "job/plan/plan_table.h"
#include "job/plan/shard_plan.h"
#include "job/report/phase_table.h"
#include "job/report/report.h"
#include "job/spec/job_file.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/commands/progress.h"
#include "worker/commands/reason.h"
#include "worker/commands/run/progress_client.h"
#include "worker/commands/run/rank_process.h"
#include "worker/commands/run/run_job.h"
#include "worker/commands/run/trace.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Rank 0 reads the job file, and every rank gets it.
v1::JobSpec share_spec(Communicator& comm, const fs::path& job_file) {
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

/// The least of all ranks' numbers. Collective.
int64_t least(Communicator& comm, int64_t mine) {
  at::Tensor all = at::zeros({comm.size()}, at::kLong);
  all[comm.rank()] = mine;
  comm.all_reduce_sum(all);
  return all.min().item<int64_t>();
}

/// What this launch has. Collective.
LaunchFacts launch_facts(Communicator& comm, const HostRanks& ranks, const ChosenDevice& device) {
  LaunchFacts facts{comm.size(), device.facts()};
  facts.memory = least(comm, usable_memory_bytes() / ranks.size);
  if (device.cuda != nullptr) facts.device_memory = least(comm, device.cuda->free_memory_bytes());
  return facts;
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
        fresh_(options.fresh),
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
  bool fresh_;
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
    return fail(kExitJobFailed, reason_of(error));
  }
}

void JobCommand::run_job_here(StopSignals& signals) {
  const HostRanks ranks = ranks_on_this_host();
  set_threads(ranks);
  if (rank_ == 0 && !trace_.empty()) check_trace_path(trace_);
  MpiCommunicator before_job(MPI_COMM_WORLD, std::chrono::minutes(10));
  const v1::JobSpec spec = share_spec(before_job, job_file_);
  const ChosenDevice device = choose_device(asked_device(spec), before_job, ranks.rank);
  const ModelConfig config = read_model_config(spec.model().path());
  const ResolvedJob job = resolve_job(spec, config, launch_facts(before_job, ranks, device));
  const ShardPlan plan = make_shard_plan(config, job);
  if (rank_ != 0) before_job.barrier();  // rank 0 has created the output
  OutputDirectory output = rank_ == 0 ? OutputDirectory(job.output_path, job.overwrite, fresh_)
                                      : OutputDirectory(job.output_path);
  signals.watch([&output] { output.discard(); });
  if (rank_ == 0) before_job.barrier();
  std::optional<ProgressClient> heartbeat;
  if (rank_ == 0 && coordinator_) heartbeat.emplace(*coordinator_, progress_);

  const std::chrono::seconds timeout(job.timeout_s);
  MpiCommunicator host(MPI_COMM_WORLD, timeout);
  const auto between_gpus = device.cuda ? device.cuda->make_communicator(host, timeout) : nullptr;
  Communicator& comm = between_gpus ? *between_gpus : host;
  const Report report =
      run_job(job, config, plan, {comm, progress_, output, cache_dir_, trace_, device});
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
