#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/launch/attempt.h"

namespace dotresize {

/// State of an MPIJob as the API reports it.
struct MpiJob {
  struct Condition {
    bool holds = false;
    std::string reason;
    std::string message;
  };

  std::string name;
  std::string uid;
  std::map<std::string, std::string> labels;
  bool deleting = false;  ///< marked for deletion; present until its pods are gone
  std::map<std::string, Condition> conditions;  ///< keyed by type: Created, Running, Succeeded, ...
  int workers = 0;                              ///< number of running worker pods

  bool is(const std::string& condition) const;
};

/// One page of the list of MPIJobs.
struct MpiJobPage {
  std::vector<MpiJob> jobs;
  std::string next;  ///< token of the next page; empty: last page
};

// Both parsers throw std::runtime_error for an answer of another form.
MpiJob parse_mpi_job(const std::string& text);
MpiJobPage parse_mpi_jobs(const std::string& text);

/// Labels of an attempt's MPIJob. The last one tells the MPIJob from those of other servers and of
/// an earlier job table. It is derived from the attempt's secret but does not reveal it.
std::map<std::string, std::string> mpi_job_labels(const std::string& job_id, int attempt,
                                                  const std::string& token);
/// Selector for objects with these labels.
inline constexpr char kMpiJobSelector[] = "app.kubernetes.io/managed-by=dotresize-server";

/// Status of the attempt that `job` runs. An attempt that has ended has a failure if the cluster is
/// the cause.
AttemptStatus status_of(const MpiJob& job);

/// True if the end of mpirun's log says that a pod was lost.
bool tells_of_lost_pod(std::string_view log);

/// Error text from the API's answer, a Status object.
std::string api_message(int status, const std::string& body);

/// True if the status blames the object that was sent, or the server's permissions: a retry would
/// fail the same way.
bool is_refusal(int status);

}  // namespace dotresize
