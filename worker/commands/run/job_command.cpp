#include "worker/commands/run/job_command.h"

#include <fmt/ranges.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/failure.h"
#include "base/files/attempt_file.h"
#include "base/files/confinement.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "job/attempt/attempt_client.h"
#include "job/model/read_model_config.h"
#include "job/plan/make_shard_plan.h"
#include "job/plan/plan_table.h"
#include "job/plan/resolve_job.h"
#include "job/report/phase_table.h"
#include "job/report/report.h"
#include "job/report/result_table.h"
#include "job/spec/job_file.h"
#include "job/spec/remote_url.h"
#include "job/spec/spec_paths.h"
#include "worker/calibration/reason.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/comm/heartbeats.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/commands/progress.h"
#include "worker/commands/progress_records.h"
#include "worker/commands/run/ranks/rank_links.h"
#include "worker/commands/run/ranks/rank_process.h"
#include "worker/commands/run/resume.h"
#include "worker/commands/run/run_job.h"
#include "worker/commands/run/trace.h"
#include "worker/cuda/choose_device.h"
#include "worker/cuda/self_test.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Checks the number of launched ranks. A server has planned the job for a fixed number, so others
/// are an error. By hand any number may be launched, with a note.
void check_ranks(const v1::JobSpec& spec, int launched, bool of_server) {
  const int asked = spec.resources().has_ranks() ? static_cast<int>(spec.resources().ranks()) : 1;
  if (asked == launched) return;
  if (of_server) {
    throw std::runtime_error(fmt::format(
        "the job has {} ranks, and MPI knows of {}: start all of them at once, with the "
        "mpirun of OpenMPI or srun --mpi=pmix",
        asked, launched));
  }
  if (!spec.resources().has_ranks()) return;
  fmt::print(stderr, "note: the job asks for {} ranks and was launched with {}\n", asked, launched);
}

/// Reads the job file on rank 0 and shares it with all ranks. `of_server`: a server started the
/// job.
v1::JobSpec share_spec(Communicator& comm, const fs::path& job_file,
                       const std::vector<std::string>& changes, bool of_server) {
  v1::JobSpec spec;
  if (comm.rank() == 0) {
    spec = read_job_file(job_file, changes);
    require_local_paths(spec);
    check_ranks(spec, comm.size(), of_server);
  }
  spec.ParseFromString(broadcast_string(comm, spec.SerializeAsString(), 0));
  return spec;
}

/// Minimum over all ranks. Collective.
int64_t least(Communicator& comm, int64_t mine) {
  return std::ranges::min(gather_numbers(comm, mine));
}

/// Returns the resources of this launch. Collective.
LaunchFacts launch_facts(Communicator& comm, const HostRanks& ranks, const ChosenDevice& device) {
  LaunchFacts facts{comm.size(), device.facts()};
  facts.memory = least(comm, usable_memory_bytes() / ranks.size());
  if (device.cuda != nullptr) facts.device_memory = least(comm, device.cuda->memory().free);
  return facts;
}

/// Shares the schedule of an interrupted run (journal_schedule) with all ranks. Collective.
std::string share_journal_schedule(Communicator& comm, const fs::path& output) {
  return broadcast_string(comm, comm.rank() == 0 ? journal_schedule(output) : "", 0);
}

/// Returns advice on non-finite numbers, if float16 may be the cause; otherwise empty.
std::string overflow_advice(const ResolvedJob& job, const ChosenDevice& device) {
  if (job.resources.compute_dtype != Dtype::kFloat16) return "";
  const bool bfloat16 = device.cuda == nullptr || device.least_capability >= 80;
  return fmt::format(" (float16 ends at 65504; resources.compute_dtype: float32{} has the range)",
                     bfloat16 ? " or bfloat16" : "");
}

void print_summary(const Report& report) {
  using enum Align;
  std::vector<std::vector<std::string>> rows = {
      {"target", target_text(report.job)},
      {"width", width_text(report.widths, report.job.model.hidden_size)}};
  if (report.allocation) {
    rows.push_back({"features", fmt::format("{}", fmt::join(report.allocation->features, ", "))});
    rows.push_back({"predicted KL", format_nats(report.allocation->predicted_loss_increase())});
  }
  rows.push_back({"output", report.job.output.path.string()});
  rows.push_back({"took", format_duration(report.wall_time_s)});
  fmt::print("{}\n{}\n{}", result_table(report.dense, report.compressed),
             format_table(rows, {kLeft, kLeft}), phase_table(report));
  for (const std::string& warning : report.warnings) fmt::print("warning: {}\n", warning);
}

v1::Progress progress_message(const ProgressState& state) {
  v1::Progress message;
  message.set_phase(state.phase);
  message.set_junctions_done(static_cast<int32_t>(state.junctions_done));
  message.set_junctions_total(static_cast<int32_t>(state.junctions_total));
  message.set_tokens_per_second(state.tokens_per_second);
  message.set_eta_s(state.eta_s);
  message.set_fraction(state.fraction);
  return message;
}

class JobCommand {
 public:
  JobCommand(const JobCommandOptions& options, MakeTransport transport)
      : transport_(std::move(transport)),
        job_file_(options.job_file),
        cache_dir_((options.work_dir.empty() ? fs::absolute(options.job_file).parent_path()
                                             : options.work_dir) /
                   ".dotresize-cache"),
        trace_(options.trace),
        dense_loss_(options.dense_loss),
        decomposition_threads_(options.decomposition_threads),
        fresh_(options.fresh),
        changes_(options.changes),
        progress_records_(options.progress_records),
        coordinator_(options.attempt.empty() ? attempt_from_environment()
                                             : read_attempt_file(options.attempt)),
        progress_([this](const ProgressState& state) {
          if (rank_ != 0) return;
          progress_records_ ? records_.show(state) : lines_.show(state);
        }) {}

  int run(StopSignals& signals);

 private:
  void run_job_here(StopSignals& signals);
  /// Confines the process to the server's allowed roots and its own cache.
  void confine() const;
  /// Refuses GPUs and links that fail the self-test. Returns the faster driver of singular values,
  /// if GPUs compute.
  std::optional<SvdDriver> prove_device(const ChosenDevice& device, Dtype compute_dtype);
  /// Opens the output directory on every rank.
  void open_output(const ResolvedJob& job, Communicator& comm, StopSignals& signals);
  HeartbeatOptions heartbeat_options(const ResolvedJob& job);
  /// Reports the failure of this rank once, to the log and to the coordinator. Callable from any
  /// thread.
  void tell(const char* code, const std::string& message);
  /// Reports the failure. Does not return if there are other ranks.
  int fail(int exit_code, const std::string& message);

  MakeTransport transport_;
  fs::path job_file_;
  fs::path cache_dir_;
  fs::path trace_;
  fs::path dense_loss_;
  int decomposition_threads_;
  bool fresh_;
  std::vector<std::string> changes_;
  bool progress_records_;
  std::optional<AttemptFile> coordinator_;
  int rank_ = world_rank();
  std::once_flag told_;
  std::string overflow_advice_;
  ProgressLines lines_;
  ProgressRecords records_;
  Progress progress_;
  // These are members so that they live while a failure is reported and MPI is aborted: destroying
  // a communicator of failed ranks may block.
  std::optional<AttemptHeartbeats> to_coordinator_;
  std::optional<OutputDirectory> output_;
  std::optional<RankLinks> links_;
};

int JobCommand::run(StopSignals& signals) {
  try {
    run_job_here(signals);
    return kExitOk;
  } catch (const OutputBusy& error) {
    // The output may belong to this very attempt, started twice. Its failure must not be reported
    // then.
    coordinator_.reset();
    return fail(kExitBadData, error.what());
  } catch (const InputError& error) {
    return fail(kExitBadData, error.what());
  } catch (const ProgramMissing& error) {
    return fail(kExitUnavailable, error.what());
  } catch (const NonFiniteError& error) {
    return fail(kExitJobFailed, error.what() + overflow_advice_);
  } catch (const std::exception& error) {
    return fail(kExitJobFailed, reason_of(error));
  }
}

void JobCommand::run_job_here(StopSignals& signals) {
  const HostRanks ranks = ranks_on_this_host();
  set_threads(ranks);
  if (rank_ == 0 && !trace_.empty()) check_trace_path(trace_);
  MpiCommunicator before_job(MPI_COMM_WORLD, wait_at_most(std::chrono::minutes(10)));
  const v1::JobSpec spec = share_spec(before_job, job_file_, changes_, coordinator_.has_value());
  confine();
  const ChosenDevice device = choose_device(asked_device(spec), before_job, ranks.rank);
  if (rank_ == 0 && !device.why_not_cuda.empty()) {
    fmt::print(stderr, "dotresize-worker: warning: {}\n", device.why_not_cuda);
  }
  const ModelConfig config = read_model_config(spec.model().path());
  LaunchFacts launch = launch_facts(before_job, ranks, device);
  if (!fresh_) launch.schedule = share_journal_schedule(before_job, spec.output().path());
  const ResolvedJob job = resolve_job(spec, config, launch);
  overflow_advice_ = overflow_advice(job, device);
  const ShardPlan plan = make_shard_plan(config, job);
  open_output(job, before_job, signals);
  if (rank_ == 0 && coordinator_) {
    to_coordinator_.emplace(*coordinator_, [this] { return progress_message(progress_.state()); });
  }
  links_.emplace(before_job, transport_ ? transport_ : transport_of(device.cuda),
                 heartbeat_options(job));
  std::optional<SvdDriver> svd_driver;
  if (device.cuda != nullptr) svd_driver = prove_device(device, job.resources.compute_dtype);
  const Report report =
      run_job(job, config, plan,
              {links_->comm(), progress_, *output_, cache_dir_, trace_, dense_loss_,
               decomposition_threads_, device, svd_driver, usable_cores(ranks)});
  links_->comm().barrier();  // notices ranks that fell silent before the output was complete
  if (rank_ == 0) print_summary(report);
}

void JobCommand::confine() const {
  const std::vector<std::string> allowed =
      coordinator_ ? coordinator_->roots : roots_from_environment();
  if (allowed.empty()) return;
  std::vector<fs::path> roots(allowed.begin(), allowed.end());
  roots.push_back(cache_dir_);
  confine_process(roots);
}

std::optional<SvdDriver> JobCommand::prove_device(const ChosenDevice& device, Dtype compute_dtype) {
  const SelfTestResult result =
      self_test(self_test_subject(device, scalar_type(compute_dtype)), links_->comm());
  if (rank_ == 0) fmt::print(stderr, "{}\n", self_test_text(result));
  if (!result.svd) return std::nullopt;
  return faster_svd(*result.svd);
}

void JobCommand::open_output(const ResolvedJob& job, Communicator& comm, StopSignals& signals) {
  if (rank_ == 0) {
    const OutputOwner owner =
        coordinator_ ? OutputOwner{coordinator_->job_id, coordinator_->attempt} : OutputOwner{};
    output_.emplace(job.output.path, job.output.overwrite, fresh_, owner);
  } else {
    comm.barrier();  // waits until rank 0 has created it
    output_.emplace(job.output.path);
  }
  signals.watch([this] { output_->stop(); });
  if (rank_ == 0) comm.barrier();
}

HeartbeatOptions JobCommand::heartbeat_options(const ResolvedJob& job) {
  HeartbeatOptions options;
  options.timeout = std::chrono::seconds(job.resources.timeout_s);
  options.phase = [this] { return progress_.phase(); };
  options.on_silence = [this](const std::string& silence) {
    tell(kLost, silence);
    output_->discard();
    ::_exit(kExitJobFailed);  // mpirun then ends the other ranks
  };
  return options;
}

void JobCommand::tell(const char* code, const std::string& message) {
  std::call_once(told_, [&] {
    const Failure failure{code, rank_, host_name(),
                          progress_.phase().empty() ? "start" : progress_.phase(), message};
    fmt::print(stderr, "{}\n", failure_line(failure));
    if (coordinator_) report_failure(*coordinator_, failure);
  });
}

int JobCommand::fail(int exit_code, const std::string& message) {
  if (output_ && output_->stopped()) {
    exit_code = kExitCancelled;  // the stop caused this failure
  } else {
    const bool lost = exit_code == kExitJobFailed && links_ && links_->is_peer_silent();
    tell(lost ? kLost : failure_code(exit_code), message);
  }
  // Every rank discards, because the abort may end rank 0 before it can.
  if (output_) output_->discard();
  if (world_size() > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
  return exit_code;
}

}  // namespace

int run_job_command(const JobCommandOptions& options, const MakeTransport& transport) {
  StopSignals signals;
  die_with_launcher();
  const MpiSession mpi;
  return JobCommand(options, transport).run(signals);
}

}  // namespace dotresize
