#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <csignal>
#include <optional>
#include <utility>

#include "base/files/attempt_file.h"
#include "base/files/file_changes.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/process/rank_start.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/spec/validate_spec.h"
#include "server/launch/launcher.h"
#include "server/launch/process_table.h"
#include "server/store/files.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> attempt_environment(const v1::Job& job) {
  return {"DOTRESIZE_JOB_ID=" + job.id(), "DOTRESIZE_ATTEMPT=" + std::to_string(job.attempt())};
}

/// File in the attempt's directory that holds the name of its shared-memory folder.
constexpr char kSharedMemoryFile[] = "shared-memory";

/// Runs jobs with mpirun on this machine.
class LocalLauncher final : public Launcher {
 public:
  explicit LocalLauncher(const LauncherContext& context) : context_(context) {}

  void require_ready() const override;
  void launch(const v1::Job& job, const AttemptGrant& grant) override;
  AttemptStatus check(const v1::Job& job) override;
  /// See stop_attempt(). Kills the leftovers of an attempt whose supervisor cannot be asked.
  bool stop(const v1::Job& job) override;
  bool clear_leftovers(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;

 private:
  const LauncherContext context_;
  std::vector<Child> supervisors_;  ///< not yet reaped
};

void LocalLauncher::require_ready() const {
  worker_program();
  require_program("mpirun");
}

void LocalLauncher::launch(const v1::Job& job, const AttemptGrant& grant) {
  if (!job.has_sweep()) require_rank_start(ranks_of(job.spec()));
  const fs::path job_file = write_job_file(context_.state, job);
  AttemptCommand attempt;
  attempt.dir = context_.state.attempt(job.id(), job.attempt());
  // A folder in shared memory for the messages of the ranks, because killed ranks leave segments
  // behind. Nobody can guess its name or have made it before.
  const std::string folder = "dotresize-" + job.id() + "-" + std::to_string(job.attempt()) + "-" +
                             hex_digits(random_bytes(8));
  files::create_directories(attempt.dir);
  write_private_file(attempt.dir / kSharedMemoryFile, folder);  // first: no crash may lose it
  const fs::path shared_memory = fs::path(kSharedMemory) / folder;
  if (!files::create_directory(shared_memory, 0700)) {
    throw std::runtime_error(shared_memory.string() + " exists already");
  }
  if (job.has_sweep()) {
    // This process's own binary, even if its path names another file now.
    attempt.command = {"/proc/self/exe", "sweep", job_file.string(),
                       std::to_string(job.sweep_size().parallel()), shared_memory.string()};
  } else {
    attempt.command = launch_command(ranks_of(job.spec()), shared_memory,
                                     {worker_program().string(), "--work-dir",
                                      context_.state.tokens.string(), job_file.string()});
  }
  attempt.umask = context_.umask;
  attempt.environment = inherited_environment();
  for (std::string& variable : attempt_environment(job)) {
    attempt.environment.push_back(std::move(variable));
  }
  if (job.has_sweep()) {
    attempt.environment.push_back("DOTRESIZE_WORKER=" + worker_program().string());
  }
  if (job.has_traceparent()) {
    attempt.environment.push_back("TRACEPARENT=" + job.traceparent());
  }
  attempt.environment.push_back("CUDA_VISIBLE_DEVICES=" + job.gpus());
  attempt.environment.push_back("DOTRESIZE_COORDINATOR=" + context_.coordinator);
  attempt.environment.push_back("DOTRESIZE_ATTEMPT_TOKEN=" + grant.token);
  attempt.environment.push_back(rights_variable(grant.rights));
  if (!context_.remote.roots.empty())
    attempt.environment.push_back(roots_variable(context_.remote.roots));
  supervisors_.push_back(start_attempt(attempt));
}

AttemptStatus LocalLauncher::check(const v1::Job& job) {
  std::erase_if(supervisors_, [](Child& child) { return child.exit_code().has_value(); });
  return check_attempt(context_.state.attempt(job.id(), job.attempt()));
}

bool LocalLauncher::stop(const v1::Job& job) {
  if (stop_attempt(context_.state.attempt(job.id(), job.attempt()))) return true;
  clear_leftovers(job);  // no supervisor that can be asked
  return false;
}

bool LocalLauncher::clear_leftovers(const v1::Job& job) {
  const std::vector<pid_t> left = processes_with_environment(attempt_environment(job));
  for (const pid_t pid : left) {
    if (const auto start_time = process_start_time(pid)) signal_process(pid, *start_time, SIGKILL);
  }
  return left.empty();
}

void LocalLauncher::clean_up(const v1::Job& job) {
  constexpr size_t kMaxName = 255;
  const fs::path file = context_.state.attempt(job.id(), job.attempt()) / kSharedMemoryFile;
  const std::optional<std::string> folder = read_file_start(file, kMaxName);
  if (!folder || !is_plain_word(*folder, "-")) return;
  const fs::path shared_memory = fs::path(kSharedMemory) / *folder;
  std::error_code error;
  files::remove_all(shared_memory, error);
  if (error) spdlog::error("cannot remove {}: {}", shared_memory.string(), error.message());
}

std::string LocalLauncher::log_tail(const v1::Job& job) {
  const auto supervisor = read_supervisor_record(context_.state.attempt(job.id(), job.attempt()));
  return read_tail(context_.state.log(job.id()), supervisor ? supervisor->log_offset : 0,
                   kLogTailBytes);
}

}  // namespace

std::unique_ptr<Launcher> make_local_launcher(const LauncherContext& context) {
  return std::make_unique<LocalLauncher>(context);
}

}  // namespace dotresize
