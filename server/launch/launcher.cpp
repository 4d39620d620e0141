#include "server/launch/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/files/attempt_file.h"
#include "job/spec/job_file.h"
#include "job/spec/sweep_message.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

bool is_inherited(std::string_view variable) {
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
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace

std::vector<std::string> inherited_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (is_inherited(*variable)) variables.emplace_back(*variable);
  }
  return variables;
}

std::filesystem::path write_job_file(const StateDir& state, const v1::Job& job) {
  std::filesystem::create_directories(state.job(job.id()));
  write_private_file(state.job_file(job.id()), job.has_sweep()
                                                   ? sweep_to_json(job.spec(), job.sweep())
                                                   : job_spec_to_json(job.spec()));
  return state.job_file(job.id());
}

std::filesystem::path attempt_file(const StateDir& state, const v1::Job& job) {
  return state.attempt(job.id(), job.attempt()) / "attempt.json";
}

void write_attempt_file(const StateDir& state, const RemoteWorkers& server, const v1::Job& job,
                        const std::string& token) {
  write_private_file(
      attempt_file(state, job),
      attempt_file_text({server.address, server.ca, job.id(), job.attempt(), token, server.roots}));
}

}  // namespace dotresize
