#pragma once

#include <optional>
#include <string>

#include "base/failure.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/launch/attempt.h"

namespace dotresize {

/// JobError.code of a job that was stopped at its deadline_s.
inline constexpr char kDeadlineExceeded[] = "DEADLINE_EXCEEDED";

/// What is known of an attempt that has ended without success.
struct FailureEvidence {
  ExitRecord exit;                       ///< of mpirun or srun, or of the only rank
  std::optional<v1::JobError> reported;  ///< by a rank over Workers.ReportFailure
  std::string log_tail;                  ///< what the attempt wrote last
  std::string phase;                     ///< of the last progress
  bool alone = false;                    ///< one rank: `exit` is its own, there is no mpirun
  std::string starter = "mpirun";        ///< of several ranks, or srun
  bool sweep = false;                    ///< `exit` is that of the process that runs one
};

/// Whether an attempt has ended of itself without a word of a rank: the worker may not be able to
/// run at all.
bool ended_without_a_word(const FailureEvidence& evidence);

/// Why it failed, from the best evidence: mpirun or srun says that a signal killed a rank, else a
/// rank has reported an error, else the log has a rank's failure line, else its last line.
v1::JobError explain_failure(const FailureEvidence& evidence);

/// What is worth trying after a failure.
enum class Remedy {
  kNone,       ///< it would fail again: bad data, a fault of the program
  kAgain,      ///< its processes were lost or killed, perhaps by chance
  kHoldQueue,  ///< this machine cannot start any job now
};

Remedy remedy_for(const v1::JobError& error);

/// The message of the API, with printable texts.
v1::JobError to_job_error(const Failure& failure);

}  // namespace dotresize
