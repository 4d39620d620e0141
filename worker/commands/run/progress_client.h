#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/failure.h"
#include "worker/commands/progress.h"

namespace dotresize {

/// Where the coordinator is and who this attempt is, as the launcher says.
struct CoordinatorAddress {
  std::string target;  ///< as gRPC names it: unix:/path or HOST:PORT
  std::string ca;      ///< PEM of the authority of its certificate; empty: no TLS
  std::string job_id;
  int attempt = 0;
  std::string token;  ///< secret

  /// Empty if the job runs without a server.
  static std::optional<CoordinatorAddress> from_environment();
  /// See base/attempt_file.h. Throws InputError.
  static CoordinatorAddress from_file(const std::filesystem::path& attempt_file);
};

/// Sends heartbeats with the progress to the coordinator, from a thread of its own: at once when
/// something changed (at most five a second), else every two seconds. A coordinator that is away is
/// tried again; the job goes on meanwhile. If it answers `stop`, SIGTERM is raised in this
/// process.
class ProgressClient {
 public:
  ProgressClient(CoordinatorAddress address, const Progress& progress);
  ~ProgressClient();
  ProgressClient(const ProgressClient&) = delete;
  ProgressClient& operator=(const ProgressClient&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Tells the coordinator why this rank fails; waits at most two seconds for the answer and ignores
/// failure: the exit code and the log tell the same.
void report_failure(const CoordinatorAddress& address, const Failure& failure);

}  // namespace dotresize
