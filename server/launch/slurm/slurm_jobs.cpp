#include "server/launch/slurm/slurm_jobs.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "base/process/program.h"
#include "base/text/parse_number.h"
#include "base/text/printable.h"
#include "server/launch/outcome.h"

namespace dotresize {
namespace {

/// A state of sacct(1), section JOB STATE CODES. States that are not in kStates belong to running
/// jobs.
struct State {
  std::string_view name;
  Liveness liveness = Liveness::kWaiting;
  const char* code = nullptr;  ///< the failure's code; null: the batch script's end decides
  const char* what = "";
};

constexpr std::array<State, 20> kStates = {{
    {"COMPLETING"},  // the batch script has ended
    {"SUSPENDED"},
    {"STOPPED"},
    {"PENDING"},
    {"CONFIGURING"},
    {"REQUEUED"},
    {"REQUEUE_FED"},
    {"REQUEUE_HOLD"},
    {"RESV_DEL_HOLD"},
    {"SPECIAL_EXIT"},
    {"COMPLETED", Liveness::kExited},
    {"FAILED", Liveness::kExited},
    {"CANCELLED", Liveness::kExited, kRankFailed, "was cancelled, not by dotresize-server"},
    {"TIMEOUT", Liveness::kExited, kLost, "has reached its time limit"},
    {"NODE_FAIL", Liveness::kExited, kLost, "has lost a node"},
    {"PREEMPTED", Liveness::kExited, kLost, "was preempted"},
    {"BOOT_FAIL", Liveness::kExited, kLost, "has a node that does not start"},
    {"OUT_OF_MEMORY", Liveness::kExited, kLost, "has taken more memory than it has"},
    {"REVOKED", Liveness::kExited, kLost, "was given to another cluster"},
    {"DEADLINE", Liveness::kExited, kDeadlineExceeded, "has reached its deadline in Slurm"},
}};

// Signal that slurmstepd reports for a batch script that it could not start.
constexpr int kLaunchFailureSignal = 53;

const State* find_state(std::string_view name) {
  const auto* found = std::ranges::find(kStates, name, &State::name);
  return found == kStates.end() ? nullptr : found;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '|');) fields.push_back(field);
  return fields;
}

template <class T>
T number(const std::string& text, const std::string& line) {
  if (const auto value = parse_number<T>(text)) return *value;
  throw std::runtime_error("Slurm has printed " + in_quotes(line));
}

/// Parses a wait status as of waitpid. Slurm prints that number, or exit code and signal, "143:0".
int wait_status(const std::string& exit, const std::string& line) {
  const size_t colon = exit.find(':');
  if (colon == std::string::npos) return number<int>(exit, line);
  return W_EXITCODE(number<int>(exit.substr(0, colon), line),
                    number<int>(exit.substr(colon + 1), line));
}

/// Returns our jobs in the lines of `text`. `parse` makes a job from the fields of a line.
template <class Parse>
std::vector<SlurmJob> parse_lines(const std::string& text, size_t name_field, size_t fields,
                                  const Parse& parse) {
  std::vector<SlurmJob> jobs;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(kSlurmNamePrefix) == std::string::npos) continue;
    const std::vector<std::string> values = split(line);
    if (values.size() < fields) throw std::runtime_error("Slurm has printed " + in_quotes(line));
    if (values[name_field].starts_with(kSlurmNamePrefix)) jobs.push_back(parse(values, line));
  }
  return jobs;
}

/// Sets the end of a batch script that Slurm did not end itself.
void set_end(AttemptStatus& status, const SlurmJob& job) {
  const std::string name = fmt::format("Slurm job {}", job.id);
  if (!WIFSIGNALED(job.wait_status)) {
    status.exit.exit_code = WEXITSTATUS(job.wait_status);
    if (status.exit.exit_code != kExitTryAgain) return;
    status.failure = failure(kLost, name + " was started, and no server has noticed in time");
  } else if (WTERMSIG(job.wait_status) == kLaunchFailureSignal) {
    status.failure = failure(kLost, name +
                                        " could not be started on its node: is the state directory "
                                        "on a file system that all nodes have?");
  } else {
    status.failure = failure(kLost, fmt::format("the script of {} was killed by signal {}", name,
                                                WTERMSIG(job.wait_status)));
  }
}

}  // namespace

std::vector<std::string> squeue_command() {
  // "|" ends each field.
  return {"squeue", "--noheader", "--states=all", "--user=" + std::to_string(::geteuid()),
          "--Format=JobID:|,Name:|,State:|,RestartCnt:|,exit_code:|,Reason:|"};
}

std::vector<SlurmJob> parse_squeue(const std::string& text) {
  return parse_lines(text, 1, 6, [](const std::vector<std::string>& values, const auto& line) {
    return SlurmJob{number<int64_t>(values[0], line),
                    values[1],
                    values[2],
                    number<int>(values[3], line),
                    wait_status(values[4], line),
                    printable(values[5], 64)};
  });
}

std::vector<std::string> sacct_command(const std::vector<std::string>& names) {
  return {"sacct",
          "--noheader",
          "--parsable2",
          "--allocations",
          "--starttime=now-30days",
          "--name=" + fmt::format("{}", fmt::join(names, ",")),
          "--format=JobIDRaw,JobName,State,ExitCode"};
}

std::vector<SlurmJob> parse_sacct(const std::string& text) {
  return parse_lines(text, 1, 4, [](const std::vector<std::string>& values, const auto& line) {
    // The state may be "CANCELLED by 1000".
    const std::string state = values[2].substr(0, values[2].find(' '));
    return SlurmJob{number<int64_t>(values[0], line), values[1], state, 0,
                    wait_status(values[3], line),     ""};
  });
}

bool has_ended(const SlurmJob& job) {
  const State* state = find_state(job.state);
  return state != nullptr && state->liveness == Liveness::kExited;
}

AttemptStatus status_of(const SlurmJob& job, int restart) {
  AttemptStatus status;
  const bool says_why = !job.reason.empty() && job.reason != "None";
  status.note = fmt::format("Slurm job {} is {}{}", job.id, printable(job.state, 64),
                            says_why ? " (" + job.reason + ")" : "");
  const State* state = find_state(job.state);
  if (state != nullptr) status.liveness = state->liveness;
  if (status.liveness != Liveness::kExited) {
    if (job.restarts <= restart) return status;
    status.liveness = Liveness::kRestarted;
    status.failure = failure(
        kLost, fmt::format("Slurm has taken back its nodes and queued job {} again", job.id));
  } else if (state->code != nullptr) {
    status.failure = failure(state->code, fmt::format("Slurm job {} {}", job.id, state->what));
  } else {
    set_end(status, job);
  }
  return status;
}

Failure submission_failure(const std::string& last_line) {
  constexpr std::array<std::string_view, 5> kPassing = {
      "Unable to contact slurm controller", "Socket timed out", "temporarily", "Connection refused",
      "Unable to establish"};
  const bool passes = std::ranges::any_of(
      kPassing, [&](std::string_view text) { return last_line.find(text) != std::string::npos; });
  return passes ? failure(kLaunchFailed, last_line)
                : failure(kInvalidInput, "Slurm refuses the job: " + last_line);
}

}  // namespace dotresize
