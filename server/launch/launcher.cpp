#include "server/launch/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/files/attempt_file.h"
#include "base/files/file_changes.h"
#include "base/process/program.h"
#include "job/spec/job_file.h"
#include "job/spec/sweep_file.h"
#include "server/store/files.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

std::unique_ptr<Launcher> make_launcher(const LauncherChoice& choice,
                                        const LauncherContext& context) {
  if (choice.name == kLocalLauncher) return make_local_launcher(context);
  if (choice.name == kExternalLauncher) return make_external_launcher(context);
  return make_contract_launcher(context, choice.name, choice.program);
}

}  // namespace

std::vector<std::string> inherited_environment() {
  constexpr std::array<std::string_view, 11> kNames = {"PATH",
                                                       "HOME",
                                                       "LANG",
                                                       "LC_ALL",
                                                       "TMPDIR",
                                                       "LD_LIBRARY_PATH",
                                                       "OMP_NUM_THREADS",
                                                       "OMP_WAIT_POLICY",
                                                       "GOMP_SPINCOUNT",
                                                       "DOTRESIZE_CUDA_MODULE",
                                                       "DOTRESIZE_PYTHON"};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::find(kNames, name) != kNames.end()) variables.emplace_back(text);
  }
  return variables;
}

std::filesystem::path write_job_file(const StateDir& state, const v1::Job& job) {
  files::create_directories(state.job(job.id()));
  write_private_file(state.job_file(job.id()), job.has_sweep()
                                                   ? sweep_to_json(job.spec(), job.sweep())
                                                   : job_spec_to_json(job.spec()));
  return state.job_file(job.id());
}

std::filesystem::path attempt_file(const StateDir& state, const v1::Job& job) {
  return state.attempt(job.id(), job.attempt()) / "attempt.json";
}

void write_attempt_file(const StateDir& state, const RemoteWorkers& server, const v1::Job& job,
                        const AttemptGrant& grant) {
  write_private_file(attempt_file(state, job),
                     attempt_file_text({server.address, server.ca, job.id(), job.attempt(),
                                        grant.token, server.roots, grant.rights}));
}

std::vector<std::string> rank_command(const StateDir& state, const v1::Job& job) {
  return {worker_program().string(),
          "--work-dir",
          state.tokens.string(),
          "--attempt",
          attempt_file(state, job).string(),
          state.job_file(job.id()).string()};
}

std::filesystem::path packaged_launcher(const std::string& name) {
  return folder_of_this_program().parent_path() / "share/dotresize/launchers" / name;
}

Launchers::Launchers(const LauncherContext& context, const std::vector<LauncherChoice>& offered)
    : context_(context), offered_(offered) {
  for (const LauncherChoice& choice : offered_) {
    launchers_[choice.name] = make_launcher(choice, context_);
  }
}

void Launchers::require_ready() const {
  for (const LauncherChoice& choice : offered_) launchers_.at(choice.name)->require_ready();
}

Launcher& Launchers::of(const v1::Job& job) {
  const std::string name = launcher_of(job);
  std::unique_ptr<Launcher>& launcher = launchers_[name];
  if (!launcher) launcher = make_launcher({name, packaged_launcher(name)}, context_);
  return *launcher;
}

}  // namespace dotresize
