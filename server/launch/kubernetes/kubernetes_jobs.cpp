#include "server/launch/kubernetes/kubernetes_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "base/process/program.h"
#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "server/launch/outcome.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxWord = 100;
constexpr size_t kMaxText = 500;

/// Reasons of pods and of the launcher's batch Job, as found in the reason of the condition Failed.
struct Reason {
  std::string_view word;
  const char* code;
  const char* what;
};

constexpr std::array<Reason, 6> kReasons = {{
    {"Evicted", kLost, "has lost a pod"},
    {"Preempt", kLost, "has lost a pod"},
    {"NodeLost", kLost, "has lost a node"},
    {"Shutdown", kLost, "has lost a node"},
    {"Terminated", kLost, "has lost a node"},
    {"DeadlineExceeded", kDeadlineExceeded, "has reached its activeDeadlineSeconds"},
}};

// Reason without a launcher pod. If there is one, the operator adds "/" and the pod's reason.
constexpr char kNoLauncherPod[] = "BackoffLimitExceeded";

std::string text_of(const Json& object, const char* key, size_t max_bytes) {
  return object.contains(key) ? printable(object.at(key).get<std::string>(), max_bytes) : "";
}

MpiJob mpi_job_of(const Json& object) {
  MpiJob job;
  const Json& metadata = object.at("metadata");
  job.name = metadata.at("name").get<std::string>();
  job.uid = metadata.at("uid").get<std::string>();
  if (metadata.contains("labels")) metadata.at("labels").get_to(job.labels);
  job.deleting = metadata.contains("deletionTimestamp");
  const Json status = object.value("status", Json::object());
  for (const Json& condition : status.value("conditions", Json::array())) {
    job.conditions[condition.at("type").get<std::string>()] = {
        condition.at("status") == "True", text_of(condition, "reason", kMaxWord),
        text_of(condition, "message", kMaxText)};
  }
  const Json replicas = status.value("replicaStatuses", Json::object());
  job.workers = replicas.value("Worker", Json::object()).value("active", 0);
  return job;
}

/// Parses the text and applies `read`. Throws std::runtime_error for an answer of another form.
template <class Read>
auto read_answer(const std::string& text, const Read& read) {
  try {
    return read(parse_json_object(text, "the answer"));
  } catch (const InputError& error) {
    throw std::runtime_error(error.what());
  } catch (const Json::exception& error) {
    throw std::runtime_error("the answer is no MPIJob: " + json_fault(error));
  }
}

std::optional<Failure> failure_of(const std::string& name, const MpiJob::Condition& failed) {
  const auto with_reason = [&](const char* code, const std::string& what) {
    const std::string why =
        failed.message.empty() ? failed.reason : failed.reason + ": " + failed.message;
    return Failure{code, -1, "", "", fmt::format("MPIJob {} {} ({})", name, what, why)};
  };
  for (const Reason& reason : kReasons) {
    if (failed.reason.find(reason.word) != std::string::npos)
      return with_reason(reason.code, reason.what);
  }
  if (failed.reason == kNoLauncherPod) return with_reason(kLost, "has lost its launcher pod");
  return std::nullopt;  // mpirun has ended: see the ranks and the log
}

/// State of the MPIJob for people, without its name.
std::string standing(const MpiJob& job) {
  if (job.deleting) return "is being deleted";
  if (job.conditions.empty()) return "has no condition yet: does mpi-operator run?";
  for (const char* type : {"Succeeded", "Failed", "Suspended", "Running"}) {
    if (job.is(type)) return fmt::format("is {}, {} active", type, counted(job.workers, "worker"));
  }
  return "waits for its pods, " + counted(job.workers, "worker") + " active";
}

}  // namespace

bool MpiJob::is(const std::string& condition) const {
  const auto found = conditions.find(condition);
  return found != conditions.end() && found->second.holds;
}

MpiJob parse_mpi_job(const std::string& text) { return read_answer(text, mpi_job_of); }

MpiJobPage parse_mpi_jobs(const std::string& text) {
  return read_answer(text, [](const Json& list) {
    MpiJobPage page;
    for (const Json& item : list.at("items")) page.jobs.push_back(mpi_job_of(item));
    page.next = list.at("metadata").value("continue", std::string());
    return page;
  });
}

std::map<std::string, std::string> mpi_job_labels(const std::string& job_id, int attempt,
                                                  const std::string& token) {
  return {{"app.kubernetes.io/managed-by", "dotresize-server"},
          {"dotresize.dev/job", job_id},
          {"dotresize.dev/attempt", std::to_string(attempt)},
          {"dotresize.dev/token", hex_digits(token_hash(token)).substr(0, 32)}};
}

AttemptStatus status_of(const MpiJob& job) {
  AttemptStatus status;
  status.liveness = Liveness::kWaiting;
  status.note = "MPIJob " + job.name + " " + standing(job);
  if (job.is("Succeeded")) {
    status.liveness = Liveness::kExited;
    status.exit.exit_code = kExitOk;
  } else if (job.is("Failed")) {
    status.liveness = Liveness::kExited;
    status.exit.exit_code = kExitJobFailed;  // the API has no exit code of mpirun
    status.failure = failure_of(job.name, job.conditions.at("Failed"));
  } else if (job.is("Running") && !job.is("Suspended") && !job.deleting) {
    status.liveness = Liveness::kAlive;
  }
  return status;
}

bool tells_of_lost_pod(std::string_view log) {
  return log.find("ORTE has lost communication with a remote daemon") != std::string_view::npos;
}

std::string api_message(int status, const std::string& body) {
  const Json answer = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const bool has_message =
      answer.is_object() && answer.contains("message") && answer["message"].is_string();
  const std::string message = has_message ? answer["message"].get<std::string>() : body;
  return fmt::format("{} {}", status, printable(message, kMaxText));
}

bool is_refusal(int status) {
  constexpr std::array<int, 4> kRefusals = {400, 403, 413, 422};
  return std::ranges::find(kRefusals, status) != kRefusals.end();
}

}  // namespace dotresize
