#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "dotresize/v1/jobs.pb.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"

namespace dotresize {

/// Snapshot of the server's figures, except its calls.
struct ServerFigures {
  std::map<v1::Job::State, int64_t> jobs;  ///< jobs in the table
  double queue_head_age_s = 0.0;           ///< age of the head of the queue; 0: empty queue
  JobTotals totals;
  double longest_silence_s = 0.0;       ///< running jobs' heartbeats; 0: none runs
  int streams = 0;                      ///< open streaming calls
  bool serving = true;                  ///< state reported by grpc.health.v1
  Amounts capacity;                     ///< machine's resources for jobs
  Amounts used;                         ///< resources used by running jobs
  std::map<std::string, int> launched;  ///< running jobs, for all launchers here
  bool drained = false;
  bool queue_held = false;       ///< true: this machine cannot start jobs
  int without_launcher = 0;      ///< jobs near the head of the queue whose launcher is not ready
  int64_t state_free_bytes = 0;  ///< free on the state directory's disk
  int64_t table_bytes = 0;       ///< size of the job table's files
};

/// The server's metrics for Prometheus (listed in docs/operations.md). Thread-safe.
class Metrics {
 public:
  Metrics();

  /// Counts a finished API call. `seconds`: duration of a unary call.
  void count_call(const std::string& method, int code, std::optional<double> seconds);

  /// Returns all metrics in Prometheus' text format.
  std::string text(const ServerFigures& figures) const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Histogram>& durations_;
};

}  // namespace dotresize
