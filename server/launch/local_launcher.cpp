#include "server/launch/local_launcher.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "base/files/attempt_file.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/text/printable.h"
#include "job/spec/validate_spec.h"
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

/// Makes a folder in shared memory for the messages of an attempt's ranks, because killed ranks
/// leave segments behind. Nobody can guess its name or have made it before.
fs::path make_shared_memory(const v1::Job& job, const fs::path& attempt_dir) {
  const std::string name = "dotresize-" + job.id() + "-" + std::to_string(job.attempt()) + "-" +
                           hex_digits(random_bytes(8));
  fs::create_directories(attempt_dir);
  write_private_file(attempt_dir / kSharedMemoryFile, name);  // first: no crash may lose it
  const fs::path dir = fs::path(kSharedMemory) / name;
  if (::mkdir(dir.c_str(), 0700) != 0) throw_errno("cannot make " + dir.string());
  return dir;
}

/// The attempt's folder in shared memory, if it has one.
std::optional<fs::path> shared_memory_of(const fs::path& attempt_dir) {
  constexpr size_t kMaxName = 255;
  const auto name = read_file_start(attempt_dir / kSharedMemoryFile, kMaxName);
  if (!name || !is_plain_word(*name, "-")) return std::nullopt;
  return fs::path(kSharedMemory) / *name;
}

}  // namespace

LocalLauncher::LocalLauncher(const LauncherContext& context)
    : state_(context.state),
      umask_(context.umask),
      coordinator_(context.coordinator),
      roots_(context.remote.roots) {}

void LocalLauncher::require_ready() const {
  worker_program();
  require_program("mpirun");
}

std::string LocalLauncher::worker_fault() const { return dotresize::worker_fault(); }

void LocalLauncher::launch(const v1::Job& job, const std::string& token) {
  const fs::path job_file = write_job_file(state_, job);
  AttemptCommand attempt;
  attempt.dir = state_.attempt(job.id(), job.attempt());
  const fs::path shared_memory = make_shared_memory(job, attempt.dir);
  if (job.has_sweep()) {
    // This process's own binary, even if its path names another file now.
    attempt.command = {"/proc/self/exe", "sweep", job_file.string(),
                       std::to_string(job.sweep_size().parallel()), shared_memory.string()};
  } else {
    attempt.command = launch_command(
        ranks_of(job.spec()), shared_memory,
        {worker_program().string(), "--work-dir", state_.tokens.string(), job_file.string()});
  }
  attempt.umask = umask_;
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
  attempt.environment.push_back("DOTRESIZE_COORDINATOR=" + coordinator_);
  attempt.environment.push_back("DOTRESIZE_ATTEMPT_TOKEN=" + token);
  if (!roots_.empty()) attempt.environment.push_back(roots_variable(roots_));
  supervisors_.push_back(start_attempt(attempt));
}

AttemptStatus LocalLauncher::check(const v1::Job& job) {
  reap_supervisors();
  return check_attempt(state_.attempt(job.id(), job.attempt()));
}

bool LocalLauncher::stop(const v1::Job& job) {
  if (stop_attempt(state_.attempt(job.id(), job.attempt()))) return true;
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
  const auto dir = shared_memory_of(state_.attempt(job.id(), job.attempt()));
  if (!dir) return;
  std::error_code error;
  fs::remove_all(*dir, error);
  if (error) spdlog::error("cannot remove {}: {}", dir->string(), error.message());
}

std::string LocalLauncher::log_tail(const v1::Job& job) {
  const auto supervisor = read_supervisor_record(state_.attempt(job.id(), job.attempt()));
  return read_tail(state_.log(job.id()), supervisor ? supervisor->log_offset : 0, kLogTailBytes);
}

void LocalLauncher::reap_supervisors() {
  std::erase_if(supervisors_, [](pid_t pid) {
    const pid_t reaped = ::waitpid(pid, nullptr, WNOHANG);
    return reaped == pid || (reaped < 0 && errno == ECHILD);
  });
}

}  // namespace dotresize
