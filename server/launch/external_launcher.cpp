#include "server/launch/external_launcher.h"

#include <spdlog/spdlog.h>

#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "server/launch/outcome.h"
#include "server/log_format.h"
#include "server/schedule/job_output.h"
#include "server/store/files.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

// Ranks call every two seconds, a call takes at most two seconds, and ranks end when told to.
constexpr std::chrono::seconds kSilenceAfterStop{6};

}  // namespace

ExternalLauncher::ExternalLauncher(const LauncherContext& context)
    : state_(context.state),
      store_(context.store),
      heartbeats_(context.heartbeats),
      server_(context.remote),
      timeout_(context.external_timeout) {}

void ExternalLauncher::require_ready() const { worker_program(); }

void ExternalLauncher::launch(const v1::Job& job, const std::string& token) {
  write_job_file(state_, job);
  fs::create_directory(state_.attempt(job.id(), job.attempt()));
  write_attempt_file(state_, server_, job, token);
  log_job(spdlog::level::info, job, "to be run: " + command(job));
}

AttemptStatus ExternalLauncher::check(const v1::Job& job) {
  if (!fs::exists(attempt_file(state_, job))) return {Liveness::kVanished, {}, /*ran=*/false};
  const JobOutput output(store_.output_of(job.id()), job.id());
  if (output.is_committed(job.attempt())) return ended(kExitOk);
  if (store_.reported_failure(job.id(), job.attempt())) return ended(kExitJobFailed);
  const bool called = job.state() == v1::Job::RUNNING;
  if (stopped_.contains({job.id(), job.attempt()}) &&
      (!called || heartbeats_.silence(job.id()) > kSilenceAfterStop)) {
    return ended(kExitCancelled);
  }
  if (called) return {};
  const auto age =
      fs::file_time_type::clock::now() - fs::last_write_time(attempt_file(state_, job));
  if (timeout_.count() > 0 && age > timeout_) {
    return ended(kExitJobFailed,
                 failure(kDeadlineExceeded, "nobody has run the job's command for " +
                                                std::to_string(timeout_.count()) +
                                                " s (--external-timeout)"));
  }
  AttemptStatus status;
  status.liveness = Liveness::kWaiting;
  status.note = "waits until somebody runs its command";
  status.command = command(job);
  return status;
}

bool ExternalLauncher::stop(const v1::Job& job) {
  stopped_.insert({job.id(), job.attempt()});
  return true;
}

void ExternalLauncher::clean_up(const v1::Job& job) {
  stopped_.erase({job.id(), job.attempt()});
  std::error_code error;
  fs::remove(attempt_file(state_, job), error);
}

std::string ExternalLauncher::command(const v1::Job& job) const {
  std::string line = "mpirun -np " + std::to_string(ranks_of(job.spec()));
  for (const std::string& word :
       {worker_program().string(), std::string("--work-dir"), state_.tokens().string(),
        std::string("--attempt"), attempt_file(state_, job).string(),
        state_.job_file(job.id()).string()}) {
    if (!word.empty() && is_plain_word(word, "/._-+=:,@%")) {
      line += " " + word;
      continue;
    }
    line += " '";
    for (const char c : word) line += c == '\'' ? "'\\''" : std::string(1, c);
    line += "'";
  }
  return line;
}

}  // namespace dotresize
