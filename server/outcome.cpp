#include "server/outcome.h"

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/exit_codes.h"
#include "base/printable.h"

namespace dotresize {
namespace {

constexpr size_t kLongestLine = 1000;
constexpr size_t kLongestMessage = 2000;
// As in the formats below.
constexpr size_t kLongestHost = 255;
constexpr size_t kLongestPhase = 64;
constexpr int kExitCannotRun = 127;

std::vector<std::string> lines_from_the_end(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.insert(lines.begin(), printable(line, kLongestLine));
  }
  return lines;
}

std::string signal_name(int signal) {
  const char* description = ::sigdescr_np(signal);
  return std::to_string(signal) +
         (description == nullptr ? "" : " (" + std::string(description) + ")");
}

/// mpirun: "... process rank 3 with PID 71 on node HOST exited on signal 9 (Killed)."
std::optional<v1::JobError> killed_rank(const std::vector<std::string>& lines,
                                        const std::string& phase) {
  for (const std::string& line : lines) {
    const size_t begin = line.find("process rank ");
    if (begin == std::string::npos) continue;
    int rank = 0;
    int signal = 0;
    char host[kLongestHost + 1];
    if (std::sscanf(line.c_str() + begin,
                    "process rank %7d with PID %*[0-9] on node %255s exited on signal %3d", &rank,
                    host, &signal) != 3) {
      continue;
    }
    v1::JobError error =
        make_error("RANK_KILLED",
                   "rank " + std::to_string(rank) + " on " + host + " was killed by signal " +
                       signal_name(signal) + (phase.empty() ? "" : " during " + phase),
                   phase);
    error.set_rank(rank);
    error.set_host(host);
    error.set_signal(signal);
    return error;
  }
  return std::nullopt;
}

/// The worker: "dotresize-worker: error: rank 1 on HOST in calibrate: MESSAGE"
std::optional<v1::JobError> rank_error_line(const std::vector<std::string>& lines,
                                            const std::string& code) {
  for (const std::string& line : lines) {
    int rank = 0;
    int message = 0;
    char host[kLongestHost + 1];
    char phase[kLongestPhase + 1];
    if (std::sscanf(line.c_str(), "dotresize-worker: error: rank %7d on %255s in %64[^:]: %n",
                    &rank, host, phase, &message) != 3 ||
        message == 0) {
      continue;
    }
    v1::JobError error = make_error(code, line.substr(static_cast<size_t>(message)), phase);
    error.set_rank(rank);
    error.set_host(host);
    return error;
  }
  return std::nullopt;
}

/// The last line that says "error", else the last one that says anything.
std::string last_words(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (line.find("error") != std::string::npos) return line;
  }
  for (const std::string& line : lines) {
    if (line.find_first_not_of("-=* ") != std::string::npos) return line;
  }
  return "";
}

std::string how_it_ended(const ExitRecord& exit) {
  if (exit.signal != 0) return "mpirun was killed by signal " + signal_name(exit.signal);
  if (exit.exit_code == kExitCancelled) {
    return "the job was stopped by a signal that dotresize-server did not send";
  }
  return "mpirun ended with exit code " + std::to_string(exit.exit_code);
}

std::string code_of(const ExitRecord& exit) {
  if (exit.exit_code == kExitBadData) return "INVALID_INPUT";
  if (exit.exit_code == kExitCannotRun) return "LAUNCH_FAILED";
  return "RANK_FAILED";
}

}  // namespace

v1::JobError make_error(const std::string& code, const std::string& message,
                        const std::string& phase) {
  v1::JobError error;
  error.set_code(code);
  error.set_message(printable(message, kLongestMessage));
  error.set_rank(-1);
  error.set_phase(phase);
  return error;
}

v1::JobError explain_failure(const FailureEvidence& evidence) {
  const std::vector<std::string> lines = lines_from_the_end(evidence.log_tail);
  const std::optional<v1::JobError> killed = killed_rank(lines, evidence.phase);
  // Other ranks may have reported that their peer is gone; only its own word says more.
  const bool own_word = killed && evidence.reported && evidence.reported->rank() == killed->rank();
  if (killed && !own_word) return *killed;
  if (evidence.reported) return *evidence.reported;
  const std::string code = code_of(evidence.exit);
  if (const auto error = rank_error_line(lines, code)) return *error;
  const std::string words = last_words(lines);
  return make_error(code, how_it_ended(evidence.exit) + (words.empty() ? "" : ": " + words),
                    evidence.phase);
}

}  // namespace dotresize
