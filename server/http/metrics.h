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

/// What the server knows of itself at one moment, beside its calls.
struct ServerFigures {
  std::map<v1::Job::State, int64_t> jobs;  ///< in the table
  double queue_head_age_s = 0.0;           ///< since the job at the head was queued; 0: none is
  JobTotals totals;
  double longest_silence_s = 0.0;                   ///< of a running job's heartbeats; 0: none runs
  int streams = 0;                                  ///< open calls that stream
  bool serving = true;                              ///< what grpc.health.v1 says
  Amounts capacity;                                 ///< of the machine for jobs
  Amounts used;                                     ///< by jobs that run
  std::map<v1::Resources::Launcher, int> launched;  ///< jobs that run, of all launchers here
  bool drained = false;
  bool queue_held = false;       ///< this machine cannot start jobs
  int64_t state_free_bytes = 0;  ///< of the disk of the state directory
  int64_t table_bytes = 0;       ///< of the job table's files
};

/// The metrics of the server for Prometheus (docs/operations.md lists them). Safe to use from any
/// thread.
class Metrics {
 public:
  Metrics();

  /// A call of the API is over. `seconds`: what a unary one took.
  void count_call(const std::string& method, int code, std::optional<double> seconds);

  /// All of them in Prometheus' text format.
  std::string text(const ServerFigures& figures) const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Histogram>& durations_;
};

}  // namespace dotresize
