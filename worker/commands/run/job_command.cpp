#include <fmt/ranges.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/failure.h"
#include "base/files/attempt_file.h"
#include "base/files/confinement.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "job/attempt/attempt_client.h"
#include "job/checkpoint/source_model.h"
#include "job/model/tokenizer_steps.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/check_files.h"
#include "job/plan/plan_job.h"
#include "job/plan/plan_table.h"
#include "job/plan/resolve/job_resources.h"
#include "job/report/job_identity.h"
#include "job/report/report.h"
#include "job/report/report_tables.h"
#include "job/spec/job_file.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "worker/calibration/reason.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/comm/heartbeats.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/commands/progress.h"
#include "worker/commands/run/rank_process.h"
#include "worker/commands/run/resume.h"
#include "worker/commands/run/run_job.h"
#include "worker/commands/token_input.h"
#include "worker/commands/worker_program.h"
#include "worker/cuda/choose_device.h"
#include "worker/cuda/self_test.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kBegun[] = "begun";

/// Reads the job file on rank 0 and shares it with all ranks. `of_server`: a server started the
/// job.
v1::JobSpec share_spec(Communicator& comm, const JobCommandOptions& options, bool of_server) {
  v1::JobSpec spec;
  if (comm.rank() == 0) {
    spec = open_job_file(options.job_file, options.changes).spec;
    require_local_paths(spec);
    const int asked = ranks_of(spec);
    if (asked != comm.size() && of_server) {  // the server has planned it for this number
      throw std::runtime_error(fmt::format(
          "the job has {} ranks, but MPI knows of {}: start all of them at once, with the "
          "mpirun of OpenMPI or srun --mpi=pmix",
          asked, comm.size()));
    }
    if (asked != comm.size() &&
        spec.resources().has_ranks()) {  // any number may be launched by hand
      fmt::print(stderr, "note: the job asks for {} ranks and was launched with {}\n", asked,
                 comm.size());
    }
  }
  spec.ParseFromString(broadcast_string(comm, spec.SerializeAsString(), 0));
  return spec;
}

/// Returns the resources of this launch, and the schedule of an interrupted run, if its journal
/// counts. Collective.
LaunchFacts launch_facts(Communicator& comm, const HostRanks& ranks, const ChosenDevice& device,
                         const fs::path& output, bool fresh) {
  const auto least = [&](int64_t mine) { return std::ranges::min(gather_numbers(comm, mine)); };
  LaunchFacts facts{comm.size(), device.facts()};
  const int64_t share = usable_memory_bytes() / std::ssize(ranks.cores);
  facts.memory = least(std::min(share, process_memory_limit().value_or(share)));
  if (device.cuda != nullptr) facts.device_memory = least(device.cuda->memory().free);
  if (!fresh) {
    facts.schedule = broadcast_string(comm, comm.rank() == 0 ? journal_schedule(output) : "", 0);
  }
  return facts;
}

/// Throws InputError if the file cannot be created.
void check_trace_path(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder, error)) {
    throw InputError("--trace", folder.string() + ": no such directory");
  }
  if (fs::is_directory(path, error)) throw InputError("--trace", path.string() + " is a directory");
  const bool in_folder = !fs::exists(path, error) || fs::is_regular_file(path, error);
  const fs::path written = in_folder ? folder : path;
  if (::access(written.c_str(), W_OK) != 0) {
    throw InputError("--trace", written.string() + " is not writable");
  }
}

void print_summary(const Report& report) {
  using enum Align;
  std::vector<std::vector<std::string>> rows = {
      {"target", target_text(report.job)},
      {"width", width_text(report.widths, report.job.model.hidden_size)}};
  if (report.allocation) {
    for (const Unit* unit : kUnits) {
      const std::vector<int64_t> left = sizes_left(report.cuts, *unit);
      if (!left.empty())
        rows.push_back({std::string(unit->parts), fmt::format("{}", fmt::join(left, ", "))});
    }
    rows.push_back({"predicted KL", format_nats(report.allocation->predicted_loss_increase())});
  }
  if (report.wrapper) {
    const int64_t copied = report.wrapper->other_bytes;
    rows.push_back(
        {"whole " + report.wrapper->model_type, human_bytes(report.dense.bytes + copied) + " -> " +
                                                    human_bytes(report.compressed.bytes + copied)});
  }
  rows.push_back({"output", report.job.output.path.string()});
  rows.push_back({"took", format_duration(report.wall_time_s)});
  fmt::print("{}\n{}\n{}", result_table(report.dense, report.compressed),
             format_table(rows, {kLeft, kLeft}), phase_table(report));
  for (const std::string& warning : report.warnings) fmt::print("warning: {}\n", warning);
}

/// Returns the end of a message about memory or threads that were denied, if this process has a
/// limit that may be the reason.
std::string limit_note(const std::string& message) {
  const auto limit = process_memory_limit();
  const auto says = [&](const char* text) { return message.find(text) != std::string::npos; };
  if (!limit || !(says("bad_alloc") || says("allocate memory") || says("Resource temporarily"))) {
    return "";
  }
  return ": each process may map " + human_bytes(*limit) +
         ", by its parent's limit (ulimit -v, h_vmem), and that is too little";
}

class JobCommand {
 public:
  JobCommand(const JobCommandOptions& options, const MakeTransport& transport)
      : options_(options),
        transport_(transport),
        cache_(options.work_dir.empty() ? TokenCache::beside(fs::absolute(options.job_file))
                                        : TokenCache(options.work_dir / kTokenCacheName)),
        coordinator_(options.attempt.empty() ? attempt_from_environment()
                                             : read_attempt_file(options.attempt)),
        printer_(options.progress_records),
        progress_([this](const v1::Progress& state) {
          if (rank_ == 0) printer_.show(state);
        }) {}

  int run(StopSignals& signals);

 private:
  void run_job_here(StopSignals& signals);
  /// Opens the output directory on every rank. Returns false if an earlier run of this very job has
  /// made the output, up to its last step at least, which is then made up for.
  bool open_output(const ResolvedJob& job, Communicator& comm, StopSignals& signals);
  /// Does so on rank 0. Returns what rank 0 has found: kBegun, or a text for people.
  std::string begin_output(const ResolvedJob& job);
  HeartbeatOptions heartbeat_options(const ResolvedJob& job);
  /// Reports the failure of this rank once, to the log and to the coordinator. Callable from any
  /// thread.
  void tell(const char* code, const std::string& message);
  /// Reports the failure. Does not return if there are other ranks.
  int fail(int exit_code, const std::string& message);

  const JobCommandOptions& options_;
  const MakeTransport& transport_;
  const TokenCache cache_;
  std::optional<AttemptFile> coordinator_;
  const int rank_ = world_rank();
  std::string identity_;  ///< the job's; rank 0 only
  std::once_flag told_;
  std::string overflow_advice_;  ///< end of a message on numbers that are not finite
  ProgressPrinter printer_;
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
    return fail(kExitJobFailed, reason_of(error) + limit_note(reason_of(error)));
  }
}

void JobCommand::run_job_here(StopSignals& signals) {
  const HostRanks ranks = ranks_on_this_host();
  set_threads(ranks);
  if (rank_ == 0 && !options_.trace.empty()) check_trace_path(options_.trace);
  MpiCommunicator before_job(MPI_COMM_WORLD, wait_at_most(std::chrono::minutes(10)));
  const v1::JobSpec spec = share_spec(before_job, options_, coordinator_.has_value());
  const std::vector<std::string> allowed =
      coordinator_ ? coordinator_->roots : roots_from_environment();
  if (!allowed.empty()) {
    std::vector<fs::path> roots(allowed.begin(), allowed.end());
    roots.push_back(cache_.path());
    confine_process(roots);
  }
  const ChosenDevice device = choose_device(asked_device(spec), before_job, ranks.rank);
  if (rank_ == 0 && !device.why_not_cuda.empty()) {
    fmt::print(stderr, "dotresize-worker: warning: {}\n", device.why_not_cuda);
  }
  const SourceModel source = read_source_model(spec.model().path());
  const ModelConfig& config = source.config;
  const auto warn = [&](const std::string& warning) {
    if (rank_ == 0) fmt::print(stderr, "dotresize-worker: warning: {}\n", warning);
  };
  if (rank_ == 0) identity_ = job_identity(spec);
  std::vector<std::string> warnings = source.warnings;
  std::ranges::for_each(warnings, warn);
  const JobPlan plan = plan_job(
      spec, config, launch_facts(before_job, ranks, device, spec.output().path(), options_.fresh));
  const ResolvedJob& job = plan.job;
  for (const std::string& warning :
       {allocation_warning(config, job),
        gives_text(job) ? warning_about_tokenizer(job.model.path, config) : ""}) {
    if (warning.empty()) continue;
    warnings.push_back(warning);
    warn(warning);
  }
  require_weights(spec.model().path(), source);
  if (job.resources.compute_dtype == Dtype::kFloat16) {
    const bool bfloat16 =
        device.cuda == nullptr || auto_gpu_dtype(device.least_capability) == Dtype::kBFloat16;
    overflow_advice_ =
        fmt::format(" (float16 ends at 65504; resources.compute_dtype: float32{} has the range)",
                    bfloat16 ? " or bfloat16" : "");
  }
  if (!open_output(job, before_job, signals)) return;
  if (rank_ == 0 && coordinator_) {
    to_coordinator_.emplace(*coordinator_, [this] { return progress_.state(); });
  }
  links_.emplace(before_job, transport_, device.cuda, heartbeat_options(job));
  std::optional<SvdDriver> svd_driver;
  if (device.cuda != nullptr) {
    const SelfTestResult proof = self_test(
        self_test_subject(device, scalar_type(job.resources.compute_dtype)), links_->comm());
    if (rank_ == 0) fmt::print(stderr, "{}\n", self_test_text(proof));
    if (proof.svd) svd_driver = faster_svd(*proof.svd);
  }
  const Report report =
      run_job(job, config, plan.shards,
              {links_->comm(), progress_, *output_, cache_.path(), identity_, warnings,
               options_.trace, options_.dense_loss, options_.decomposition_threads, device,
               svd_driver, usable_cores(ranks)});
  links_->comm().barrier();  // notices ranks that fell silent before the output was complete
  if (rank_ == 0) print_summary(report);
}

std::string JobCommand::begin_output(const ResolvedJob& job) {
  const fs::path& path = job.output.path;
  // On a server the output that is there belongs to another job, or to an attempt that has ended.
  const bool may_be_done = !coordinator_ && !options_.fresh && !job.output.overwrite;
  if (may_be_done && is_output_of(path, identity_)) {
    return fmt::format("done already: {} is the complete output of this job\n", path.string());
  }
  // The job of a sweep does not call the server, but makes its output for the sweep's owner.
  const OutputRights rights = coordinator_ ? coordinator_->rights : rights_from_environment();
  output_.emplace(path, job.output.overwrite, options_.fresh, rights, identity_);
  if (!output_->is_complete()) return kBegun;
  output_->commit();
  return fmt::format("done: {} lacked only its name, which it now has\n", path.string());
}

bool JobCommand::open_output(const ResolvedJob& job, Communicator& comm, StopSignals& signals) {
  const std::string found = broadcast_string(comm, rank_ == 0 ? begin_output(job) : "", 0);
  if (found != kBegun) {
    if (rank_ == 0) fmt::print("{}", found);
    return false;
  }
  if (rank_ != 0) output_.emplace(job.output.path);
  signals.watch([this] { output_->stop(); });
  return true;
}

HeartbeatOptions JobCommand::heartbeat_options(const ResolvedJob& job) {
  HeartbeatOptions options;
  options.timeout = std::chrono::seconds(job.resources.timeout_s);
  options.phase = [this] { return progress_.state().phase(); };
  options.on_silence = [this](const std::string& silence) {
    tell(kLost, silence);
    output_->discard();
    ::_exit(kExitJobFailed);  // mpirun then ends the other ranks
  };
  return options;
}

void JobCommand::tell(const char* code, const std::string& message) {
  std::call_once(told_, [&] {
    const std::string phase = progress_.state().phase();
    const Failure failure{code, rank_, host_name(), phase.empty() ? "start" : phase, message};
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
  if (!options.held.first.empty()) hold_directory(options.held.first, options.held.second);
  return JobCommand(options, transport).run(signals);
}

}  // namespace dotresize
