#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/launch/attempt.h"

namespace dotresize {

/// What the API says of an MPIJob.
struct MpiJob {
  struct Condition {
    bool holds = false;
    std::string reason;
    std::string message;
  };

  std::string name;
  std::string uid;
  std::map<std::string, std::string> labels;
  bool deleting = false;                        ///< it is there until its pods are gone
  std::map<std::string, Condition> conditions;  ///< by type: Created, Running, Succeeded, ...
  int workers = 0;                              ///< worker pods that run

  bool is(const std::string& condition) const;
};

/// A part of the list of MPIJobs.
struct MpiJobPage {
  std::vector<MpiJob> jobs;
  std::string next;  ///< asks for the part behind it; empty: there is none
};

// Both throw std::runtime_error for an answer of another form.
MpiJob parse_mpi_job(const std::string& text);
MpiJobPage parse_mpi_jobs(const std::string& text);

/// Labels of the MPIJob of an attempt. The last one tells it from those of other servers and of an
/// earlier table: it is made of the attempt's secret, which cannot be found by it.
std::map<std::string, std::string> mpi_job_labels(const std::string& job_id, int attempt,
                                                  const std::string& token);
/// Selects what has such labels.
inline constexpr char kMpiJobSelector[] = "app.kubernetes.io/managed-by=dotresize-server";

/// How an attempt stands whose MPIJob this is. Of an end: the failure if the cluster is its cause.
AttemptStatus status_of(const MpiJob& job);

/// Whether mpirun says in what it has written last that a pod was lost.
bool tells_of_lost_pod(std::string_view log);

/// What the API says of a fault, a Status object, for people.
std::string api_message(int status, const std::string& body);

/// Whether the object that was sent is at fault, or what the server may do: another try would end
/// as this one.
bool is_refusal(int status);

}  // namespace dotresize
