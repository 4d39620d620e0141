#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/failure.h"
#include "dotresize/v1/workers.grpc.pb.h"
#include "job/sweep/sweep_run.h"

namespace dotresize {

/// Which attempt of which job this process is, and where its server listens.
struct AttemptIdentity {
  std::string coordinator;  ///< as gRPC names it
  std::string job_id;
  int attempt = 0;
  std::string token;  ///< secret
};

/// From the environment, which lacks coordinator and token afterwards: programs that this one
/// starts do not call the server. Before any thread is started.
AttemptIdentity take_attempt_identity();

/// Tells the server how far the sweep is, and writes what it prints to stdout, the job's log. A
/// thread of its own, which takes no signals, calls the server at once when something has changed,
/// else every two seconds. A server that is away is tried again. If it answers `stop`, SIGTERM is
/// raised in this process.
class SweepHeartbeats final : public SweepObserver {
 public:
  explicit SweepHeartbeats(AttemptIdentity identity);
  ~SweepHeartbeats() override;

  void show(const v1::Progress& progress) override;
  void print(const std::string& line) override;
  void tick() override {}

  /// Why the sweep fails; waits at most two seconds for the answer. The log says the same.
  void report_failure(const Failure& failure);

 private:
  void loop();
  void send(v1::Workers::Stub& stub, const v1::Progress& progress);

  const AttemptIdentity identity_;
  std::mutex mutex_;
  std::condition_variable wake_;
  v1::Progress progress_;
  bool changed_ = false;
  bool ended_ = false;
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace dotresize
