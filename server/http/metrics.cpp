#include "server/http/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>
#include <utility>
#include <vector>

#include "base/process/program.h"
#include "google/rpc/code.pb.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using MetricLabels = std::vector<ClientMetric::Label>;

// Buckets in seconds, from calls that look up a row to calls that wait for a disk.
const prometheus::Histogram::BucketBoundaries kBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                          0.1,   0.25,   0.5,   1.0,  2.5,   5.0};

/// Metric families of the figures, in the order in which they are added.
struct Families {
  std::vector<MetricFamily> all;

  /// Adds a family, and a value without labels if there is one.
  void add(MetricType type, const std::string& name, const std::string& help,
           std::optional<double> value = std::nullopt) {
    all.push_back({name, help, type, {}});
    if (value) add_value({}, *value);
  }
  /// Adds a value to the family added last.
  void add_value(MetricLabels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
    all.back().metric.push_back(std::move(metric));
  }
};

void add_jobs(const ServerFigures& figures, Families& families) {
  families.add(MetricType::Gauge, "dotresize_jobs", "Jobs in the table, by state.");
  for (int number = v1::Job::QUEUED; number <= v1::Job::State_MAX; ++number) {
    const auto state = static_cast<v1::Job::State>(number);
    const auto found = figures.jobs.find(state);
    families.add_value({{"state", state_name(state)}},
                       found == figures.jobs.end() ? 0.0 : static_cast<double>(found->second));
  }
  families.add(MetricType::Gauge, "dotresize_launched_jobs",
               "Jobs that are starting or running, by launcher.");
  for (const auto& [launcher, count] : figures.launched) {
    families.add_value({{"launcher", launcher}}, count);
  }
  families.add(MetricType::Gauge, "dotresize_queue_head_age_seconds",
               "Time for which the job at the head of the queue has waited; 0 for an empty queue.",
               figures.queue_head_age_s);
  families.add(MetricType::Gauge, "dotresize_queue_held", "1 while this machine cannot start jobs.",
               figures.queue_held ? 1.0 : 0.0);
  families.add(MetricType::Gauge, "dotresize_jobs_without_launcher",
               "Jobs near the head of the queue whose launcher does not answer.",
               figures.without_launcher);
  families.add(MetricType::Gauge, "dotresize_drained", "1 while the server is drained.",
               figures.drained ? 1.0 : 0.0);
  families.add(MetricType::Gauge, "dotresize_heartbeat_age_seconds",
               "Longest time since the last heartbeat of a running job; 0 if none runs.",
               figures.longest_silence_s);
}

void add_totals(const JobTotals& totals, Families& families) {
  families.add(MetricType::Counter, "dotresize_jobs_created_total",
               "Jobs accepted since the start of the server.", static_cast<double>(totals.created));
  families.add(MetricType::Counter, "dotresize_attempts_total",
               "Attempts begun since the start of the server.",
               static_cast<double>(totals.attempts));
  families.add(MetricType::Counter, "dotresize_jobs_ended_total",
               "Jobs ended since the start of the server, by state and code of the error.");
  for (const auto& [end, count] : totals.ended) {
    families.add_value({{"state", state_name(end.first)}, {"code", end.second}},
                       static_cast<double>(count));
  }
  families.add(MetricType::Gauge, "dotresize_last_success_timestamp_seconds",
               "Unix time of the last success of a job; 0 if there was none.", totals.last_success);
  families.add(MetricType::Counter, "dotresize_events_total",
               "Events stored since the start of the server.", static_cast<double>(totals.events));
}

std::vector<MetricFamily> families_of(const ServerFigures& figures) {
  Families families;
  families.add(MetricType::Gauge, "dotresize_server_info", "The server's version.");
  families.add_value({{"version", kVersion}}, 1.0);
  families.add(MetricType::Gauge, "dotresize_serving",
               "1 while jobs can be stored and started, as in grpc.health.v1 and /readyz.",
               figures.serving ? 1.0 : 0.0);
  add_jobs(figures, families);
  const auto add_resource = [&](const std::string& name, const std::string& what, int64_t capacity,
                                int64_t used) {
    families.add(MetricType::Gauge, "dotresize_capacity_" + name,
                 what + " that jobs may take together.", static_cast<double>(capacity));
    families.add(MetricType::Gauge, "dotresize_used_" + name, what + " of jobs that run.",
                 static_cast<double>(used));
  };
  add_resource("ranks", "MPI ranks", figures.capacity.ranks, figures.used.ranks);
  add_resource("gpus", "GPUs", figures.capacity.gpus, figures.used.gpus);
  add_resource("memory_bytes", "Memory of the host", figures.capacity.memory, figures.used.memory);
  add_totals(figures.totals, families);
  families.add(MetricType::Gauge, "dotresize_streams",
               "Open WatchJob, WatchJobs, GetLogs and GetArtifact calls.", figures.streams);
  families.add(MetricType::Gauge, "dotresize_state_free_bytes",
               "Free space on the disk of the state directory.",
               static_cast<double>(figures.state_free_bytes));
  families.add(MetricType::Gauge, "dotresize_table_bytes", "Size of the job table's files.",
               static_cast<double>(figures.table_bytes));
  return std::move(families.all);
}

}  // namespace

Metrics::Metrics()
    : calls_(prometheus::BuildCounter()
                 .Name("dotresize_calls_total")
                 .Help("Completed calls of the API, by method and gRPC code.")
                 .Register(registry_)),
      durations_(prometheus::BuildHistogram()
                     .Name("dotresize_call_duration_seconds")
                     .Help("Duration of calls other than streams.")
                     .Register(registry_)) {}

void Metrics::count_call(const std::string& method, int code, std::optional<double> seconds) {
  const std::string name =
      google::rpc::Code_Name(google::rpc::Code_IsValid(code) ? code : google::rpc::UNKNOWN);
  calls_.Add({{"method", method}, {"code", name}}).Increment();
  if (seconds) durations_.Add({{"method", method}}, kBuckets).Observe(*seconds);
}

std::string Metrics::text(const ServerFigures& figures) const {
  std::ostringstream out;
  const prometheus::TextSerializer serializer;
  serializer.Serialize(out, families_of(figures));
  serializer.Serialize(out, registry_.Collect());
  return out.str();
}

}  // namespace dotresize
