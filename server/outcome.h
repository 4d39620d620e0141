#pragma once

#include <optional>
#include <string>

#include "base/failure.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/attempt_files.h"

namespace dotresize {

/// What there is to know when an attempt has ended other than by success.
struct FailureEvidence {
  ExitRecord exit;                       ///< of mpirun
  std::optional<v1::JobError> reported;  ///< by a rank over Workers.ReportFailure
  std::string log_tail;                  ///< what the attempt wrote last
  std::string phase;                     ///< of the last progress
};

/// Why it failed, from the best witness there is: mpirun saw a rank die of a signal, a rank
/// reported, a rank's or anybody's last line in the log.
v1::JobError explain_failure(const FailureEvidence& evidence);

/// The message of the API, with printable texts.
v1::JobError to_job_error(const Failure& failure);

}  // namespace dotresize
