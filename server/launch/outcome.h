#pragma once

#include <optional>
#include <string>

#include "base/failure.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/launch/attempt.h"

namespace dotresize {

/// FailureEvidence.starter of ranks that mpirun starts on this machine.
inline constexpr char kMpirun[] = "mpirun";

/// Evidence about an attempt that ended without success.
struct FailureEvidence {
  ExitRecord exit;  ///< exit of mpirun, of what a launcher has started, or of the only rank
  std::optional<v1::JobError> reported;  ///< a rank's Workers.ReportFailure
  std::string log_tail;                  ///< end of the attempt's log
  std::string phase;                     ///< phase of the last progress
  bool alone = false;                    ///< single rank without mpirun: `exit` is its own
  std::string starter = kMpirun;         ///< what starts several ranks (Launcher::starter)
  bool sweep = false;                    ///< `exit` is that of the process that runs a sweep
};

/// True if an attempt ended by itself before any rank reported or logged a failure: the worker may
/// not be able to run at all.
bool ended_without_a_word(const FailureEvidence& evidence);

/// Explains the failure from the best evidence, in this order: mpirun has lost another host; mpirun
/// or srun says that a signal killed a rank that reported nothing; a rank reported an error; the
/// log has a rank's failure line; the log's last line.
v1::JobError explain_failure(const FailureEvidence& evidence);

/// Action after a failure.
enum class Remedy {
  kNone,       ///< no retry: bad data, or a fault of the program
  kAgain,      ///< retry: its processes were lost or killed
  kHoldQueue,  ///< this machine cannot start any job now
};

Remedy remedy_for(const v1::JobError& error);

/// Converts to the API's message; its texts are made printable.
v1::JobError to_job_error(const Failure& failure);

}  // namespace dotresize
