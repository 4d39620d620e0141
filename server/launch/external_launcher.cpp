#include <spdlog/spdlog.h>

#include <chrono>
#include <set>
#include <utility>

#include "base/files/file_changes.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "job/spec/validate_spec.h"
#include "server/common/log_format.h"
#include "server/launch/launcher.h"
#include "server/store/job_output.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

// Ranks call every two seconds, a call takes at most two seconds, and ranks end when told to.
constexpr std::chrono::seconds kSilenceAfterStop{6};

/// Launcher for ranks that somebody else starts. It shows the command to run, waits for rank 0's
/// first call, and knows about the ranks only what they report. Ranks are asked to end in the
/// answers to their calls. An attempt that was asked to end and has been silent for some seconds
/// has ended.
class ExternalLauncher final : public Launcher {
 public:
  explicit ExternalLauncher(const LauncherContext& context) : context_(context) {}

  void require_ready() const override { worker_program(); }
  void launch(const v1::Job& job, const AttemptGrant& grant) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;

 private:
  /// Command line for a shell.
  std::string command(const v1::Job& job) const;

  const LauncherContext context_;
  std::set<std::pair<std::string, int>> stopped_;  ///< attempts asked to end
};

void ExternalLauncher::launch(const v1::Job& job, const AttemptGrant& grant) {
  write_job_file(context_.state, job);
  files::create_directory(context_.state.attempt(job.id(), job.attempt()));
  write_attempt_file(context_.state, context_.remote, job, grant);
  log_job(spdlog::level::info, job, "to be run: " + command(job));
}

AttemptStatus ExternalLauncher::check(const v1::Job& job) {
  if (!fs::exists(attempt_file(context_.state, job)))
    return {Liveness::kVanished, {}, /*ran=*/false};
  const JobOutput output(context_.store.output_of(job.id()), job.id());
  if (output.is_committed(job.attempt())) return ended(kExitOk);
  if (context_.store.reported_failure(job.id(), job.attempt())) return ended(kExitJobFailed);
  const bool called = job.state() == v1::Job::RUNNING;
  if (stopped_.contains({job.id(), job.attempt()}) &&
      (!called || context_.heartbeats.silence(job.id()) > kSilenceAfterStop)) {
    return ended(kExitCancelled);
  }
  if (called) return {};
  AttemptStatus status;
  status.liveness = Liveness::kWaiting;
  status.note = "waits for somebody to run its command";
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
  files::remove(attempt_file(context_.state, job), error);
}

std::string ExternalLauncher::command(const v1::Job& job) const {
  std::string line = "mpirun -np " + std::to_string(ranks_of(job.spec()));
  for (const std::string& word : rank_command(context_.state, job)) {
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

}  // namespace

std::unique_ptr<Launcher> make_external_launcher(const LauncherContext& context) {
  return std::make_unique<ExternalLauncher>(context);
}

}  // namespace dotresize
