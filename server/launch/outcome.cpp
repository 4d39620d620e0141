#include "server/launch/outcome.h"

#include <algorithm>
#include <csignal>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr size_t kMaxLine = 1000;
constexpr size_t kMaxHost = 255;  // matches the format below
// Text of mpirun when the machine or the pod of some ranks is gone.
constexpr char kLostHost[] = "ORTE has lost communication with a remote daemon";

std::vector<std::string> lines_from_the_end(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.insert(lines.begin(), printable(line, kMaxLine));
  }
  return lines;
}

std::string signal_name(int signal) {
  const char* description = ::sigdescr_np(signal);
  return std::to_string(signal) +
         (description == nullptr ? "" : " (" + std::string(description) + ")");
}

v1::JobError killed(int rank, const std::string& host, int signal, const std::string& phase) {
  v1::JobError error =
      to_job_error({kRankKilled, rank, host, phase,
                    "rank " + std::to_string(rank) + " on " + host + " was killed by signal " +
                        signal_name(signal) + (phase.empty() ? "" : " during " + phase)});
  error.set_signal(signal);
  return error;
}

/// Finds mpirun's line "... process rank 3 with PID 71 on node HOST exited on signal 9 (Killed)."
std::optional<v1::JobError> killed_rank(const std::vector<std::string>& lines,
                                        const std::string& phase) {
  for (const std::string& line : lines) {
    const size_t begin = line.find("process rank ");
    if (begin == std::string::npos) continue;
    int rank = 0;
    int signal = 0;
    char host[kMaxHost + 1];
    if (std::sscanf(line.c_str() + begin,
                    "process rank %7d with PID %*[0-9] on node %255s exited on signal %3d", &rank,
                    host, &signal) != 3) {
      continue;
    }
    return killed(rank, host, signal, phase);
  }
  return std::nullopt;
}

/// Finds srun's line "srun: error: HOST: task 1: Killed". It comes before the lines on what srun
/// does to the other ranks: "HOST: tasks 0,2-3: Terminated". If a rank reported a failure earlier
/// in the log, MPI_Abort is the cause and the line does not count.
std::optional<v1::JobError> killed_task(const std::vector<std::string>& lines,
                                        const std::string& phase) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (parse_failure_line(*line)) return std::nullopt;
    int rank = 0;
    int end = 0;
    char host[kMaxHost + 1];
    std::sscanf(line->c_str(), "srun: error: %255[^ :]: task %7d: %n", host, &rank, &end);
    if (end == 0) {
      std::sscanf(line->c_str(), "srun: error: %255[^ :]: tasks %7d%*[-,0-9]: %n", host, &rank,
                  &end);
    }
    if (end == 0) continue;
    const std::string_view what = std::string_view(*line).substr(static_cast<size_t>(end));
    for (int signal = 1; signal < SIGRTMIN; ++signal) {
      const char* description = ::sigdescr_np(signal);
      if (description != nullptr && what.starts_with(description)) {
        return killed(rank, host, signal, phase);
      }
    }
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Failure> failure_in(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (auto failure = parse_failure_line(line)) return failure;
  }
  return std::nullopt;
}

std::string how_it_ended(const FailureEvidence& evidence) {
  const ExitRecord& exit = evidence.exit;
  const std::string command = evidence.sweep   ? "the sweep"
                              : evidence.alone ? "the worker"
                                               : evidence.starter;
  if (exit.signal != 0) return command + " was killed by signal " + signal_name(exit.signal);
  if (exit.exit_code == kExitCancelled) {
    return "the job was stopped by a signal that dotresize-server did not send";
  }
  return command + " ended with exit code " + std::to_string(exit.exit_code);
}

}  // namespace

Remedy remedy_for(const v1::JobError& error) {
  if (error.code() == kLaunchFailed) return Remedy::kHoldQueue;
  if (error.code() == kLost) return Remedy::kAgain;
  if (error.signal() == SIGILL) return Remedy::kHoldQueue;  // worker built for another processor
  // All other signals are a rank's own fault.
  const bool from_outside = error.signal() == SIGKILL || error.signal() == SIGTERM;
  return error.code() == kRankKilled && from_outside ? Remedy::kAgain : Remedy::kNone;
}

v1::JobError to_job_error(const Failure& failure) {
  const Failure clean = printable(failure);
  v1::JobError error;
  error.set_code(clean.code);
  error.set_message(clean.message);
  error.set_rank(clean.rank);
  error.set_host(clean.host);
  error.set_phase(clean.phase);
  return error;
}

bool ended_without_a_word(const FailureEvidence& evidence) {
  const int code = evidence.exit.exit_code;
  const bool told = evidence.reported || failure_in(lines_from_the_end(evidence.log_tail));
  return !told && !evidence.sweep && code != kExitOk && code != kExitCancelled &&
         code != kExitBadData && evidence.exit.signal != SIGKILL && evidence.exit.signal != SIGTERM;
}

v1::JobError explain_failure(const FailureEvidence& evidence) {
  const std::vector<std::string> lines = lines_from_the_end(evidence.log_tail);
  const ExitRecord& exit = evidence.exit;
  if (evidence.sweep && exit.signal != 0) {
    v1::JobError error =
        to_job_error({kRankKilled, -1, host_name(), evidence.phase, how_it_ended(evidence)});
    error.set_signal(exit.signal);
    return error;
  }
  if (evidence.alone && exit.signal != 0) {
    return killed(0, host_name(), exit.signal, evidence.phase);
  }
  const bool has_hosts = evidence.starter != kMpirun;  // mpirun of this machine has no other one
  if (has_hosts && evidence.log_tail.find(kLostHost) != std::string::npos) {
    return to_job_error({kLost, -1, "", evidence.phase, "mpirun has lost a host of the job"});
  }
  std::optional<v1::JobError> killed = killed_rank(lines, evidence.phase);
  if (!killed) killed = killed_task(lines, evidence.phase);
  // Other ranks may have reported that their peer is gone; only the killed rank's own report says
  // more.
  const bool own_report =
      killed && evidence.reported && evidence.reported->rank() == killed->rank();
  if (killed && !own_report) return *killed;
  if (evidence.reported) return *evidence.reported;
  const std::string code = failure_code(exit.exit_code);
  if (std::optional<Failure> failure = failure_in(lines)) {
    failure->code = code;
    return to_job_error(*failure);
  }
  // The last line that contains "error", else the last one that is not just a separator.
  auto last_line = std::ranges::find_if(
      lines, [](const std::string& line) { return line.find("error") != std::string::npos; });
  if (last_line == lines.end()) {
    last_line = std::ranges::find_if(lines, [](const std::string& line) {
      return line.find_first_not_of("-=* ") != std::string::npos;
    });
  }
  const std::string silent = evidence.sweep || evidence.alone || has_hosts || exit.signal != 0
                                 ? ""
                                 : " and gave no reason: `dotresize doctor`, run as the server's "
                                   "user, tries to start ranks";
  v1::JobError error = to_job_error(
      {code, -1, "", evidence.phase,
       how_it_ended(evidence) + (last_line == lines.end() ? silent : ": " + *last_line)});
  // Signal that ended mpirun with its ranks, or that ended a rank. If MPI did not know the rank
  // yet, only mpirun's exit code may tell it.
  int signal = exit.signal;
  const bool has_exit_code = std::ranges::any_of(
      lines, [](const std::string& line) { return line.find("Exit code:") != std::string::npos; });
  if (signal == 0 && !evidence.alone && !has_hosts && !has_exit_code) {
    const int told = exit.exit_code - 128;
    if (0 < told && told < SIGRTMIN) signal = told;
  }
  if (signal != 0) {
    error.set_code(kRankKilled);
    error.set_signal(signal);
  }
  return error;
}

}  // namespace dotresize
