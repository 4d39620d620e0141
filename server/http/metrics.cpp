#include "server/http/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

#include "base/process/program.h"
#include "google/rpc/code.pb.h"

namespace dotresize {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using MetricLabels = std::vector<ClientMetric::Label>;

// Buckets in seconds, from calls that look up a row to calls that wait for a disk.
const prometheus::Histogram::BucketBoundaries kBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                          0.1,   0.25,   0.5,   1.0,  2.5,   5.0};

/// Name of the code as gRPC spells it.
std::string code_name(int code) {
  return google::rpc::Code_Name(google::rpc::Code_IsValid(code) ? code : google::rpc::UNKNOWN);
}

std::string lower_case(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

/// Metric families of the figures, in the order in which they are added.
class Families {
 public:
  void add(MetricType type, const std::string& name, const std::string& help) {
    families_.push_back({name, help, type, {}});
  }
  void gauge(const std::string& name, const std::string& help, double value) {
    add(MetricType::Gauge, name, help);
    value_of({}, value);
  }
  void counter(const std::string& name, const std::string& help, int64_t value) {
    add(MetricType::Counter, name, help);
    value_of({}, static_cast<double>(value));
  }
  /// Adds a value to the family added last.
  void value_of(MetricLabels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }

  const std::vector<MetricFamily>& all() const { return families_; }

 private:
  std::vector<MetricFamily> families_;
};

void add_jobs(const ServerFigures& figures, Families& families) {
  families.add(MetricType::Gauge, "dotresize_jobs", "Jobs in the table, by state.");
  for (int number = v1::Job::QUEUED; number <= v1::Job::State_MAX; ++number) {
    const auto state = static_cast<v1::Job::State>(number);
    const auto found = figures.jobs.find(state);
    families.value_of({{"state", lower_case(v1::Job::State_Name(state))}},
                      found == figures.jobs.end() ? 0.0 : static_cast<double>(found->second));
  }
  families.add(MetricType::Gauge, "dotresize_launched_jobs",
               "Jobs that start or run, by launcher.");
  for (const auto& [launcher, count] : figures.launched) {
    families.value_of({{"launcher", launcher}}, count);
  }
  families.gauge("dotresize_queue_head_age_seconds",
                 "Since the job at the head of the queue was queued; 0 if none is.",
                 figures.queue_head_age_s);
  families.gauge("dotresize_queue_held", "1 while this machine cannot start jobs.",
                 figures.queue_held ? 1.0 : 0.0);
  families.gauge("dotresize_drained", "1 while an operator lets no job be started.",
                 figures.drained ? 1.0 : 0.0);
  families.gauge("dotresize_heartbeat_age_seconds",
                 "Longest time since a heartbeat of a job that runs; 0 if none does.",
                 figures.longest_silence_s);
}

void add_resources(const ServerFigures& figures, Families& families) {
  const auto add = [&](const std::string& name, const std::string& what, int64_t capacity,
                       int64_t used) {
    families.gauge("dotresize_capacity_" + name, what + " that jobs may take together.",
                   static_cast<double>(capacity));
    families.gauge("dotresize_used_" + name, what + " of jobs that run.",
                   static_cast<double>(used));
  };
  add("ranks", "MPI ranks", figures.capacity.ranks, figures.used.ranks);
  add("gpus", "GPUs", figures.capacity.gpus, figures.used.gpus);
  add("memory_bytes", "Memory of the host", figures.capacity.memory, figures.used.memory);
}

void add_totals(const JobTotals& totals, Families& families) {
  families.counter("dotresize_jobs_created_total", "Jobs accepted since the start of the server.",
                   totals.created);
  families.counter("dotresize_attempts_total", "Attempts begun since the start of the server.",
                   totals.attempts);
  families.add(MetricType::Counter, "dotresize_jobs_ended_total",
               "Jobs ended since the start of the server, by state and code of the error.");
  for (const auto& [end, count] : totals.ended) {
    families.value_of({{"state", lower_case(v1::Job::State_Name(end.first))}, {"code", end.second}},
                      static_cast<double>(count));
  }
  families.gauge("dotresize_last_success_timestamp_seconds",
                 "Unix time at which a job succeeded last; 0 if none has.", totals.last_success);
  families.counter("dotresize_events_total", "Events stored since the start of the server.",
                   totals.events);
}

std::vector<MetricFamily> families_of(const ServerFigures& figures) {
  Families families;
  families.add(MetricType::Gauge, "dotresize_server_info", "The server's version.");
  families.value_of({{"version", kVersion}}, 1.0);
  families.gauge("dotresize_serving",
                 "1 while jobs can be stored and started: what grpc.health.v1 and /readyz say.",
                 figures.serving ? 1.0 : 0.0);
  add_jobs(figures, families);
  add_resources(figures, families);
  add_totals(figures.totals, families);
  families.gauge("dotresize_streams", "Open WatchJob, WatchJobs, GetLogs and GetArtifact calls.",
                 figures.streams);
  families.gauge("dotresize_state_free_bytes", "Free space on the disk of the state directory.",
                 static_cast<double>(figures.state_free_bytes));
  families.gauge("dotresize_table_bytes", "Size of the job table's files.",
                 static_cast<double>(figures.table_bytes));
  return families.all();
}

}  // namespace

Metrics::Metrics()
    : calls_(prometheus::BuildCounter()
                 .Name("dotresize_calls_total")
                 .Help("Calls of the API that are over, by method and gRPC code.")
                 .Register(registry_)),
      durations_(prometheus::BuildHistogram()
                     .Name("dotresize_call_duration_seconds")
                     .Help("How long calls took that are no streams.")
                     .Register(registry_)) {}

void Metrics::count_call(const std::string& method, int code, std::optional<double> seconds) {
  calls_.Add({{"method", method}, {"code", code_name(code)}}).Increment();
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
