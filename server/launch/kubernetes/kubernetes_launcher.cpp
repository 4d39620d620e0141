#include "server/launch/kubernetes/kubernetes_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/files/unique_fd.h"
#include "base/process/program.h"
#include "base/text/checked_json.h"
#include "job/manifest/mpi_job.h"
#include "server/store/files.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxRecord = size_t{4} << 20;

std::string name_of(const v1::Job& job) {
  return fmt::format("dotresize-{}-{}", job.id(), job.attempt());
}

AttemptStatus exited(const Failure& why) {
  AttemptStatus status;
  status.liveness = Liveness::kExited;
  status.exit.exit_code = kExitJobFailed;
  status.failure = why;
  return status;
}

/// Creates the private log that the launcher pod appends to.
void create_log(const fs::path& log) {
  const UniqueFd file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot write " + log.string());
}

}  // namespace

void check_kubernetes(const KubernetesOptions& options, const fs::path& state) {
  complete_access(options.access);
  if (!mounts_directory(read_mpi_job_template(options.job_template), state)) {
    throw InputError("--kubernetes-template",
                     "launcher and workers need a volume at the state directory, " +
                         state.string() + ", or above it");
  }
}

KubernetesLauncher::KubernetesLauncher(const LauncherContext& context)
    : state_(context.state),
      server_(context.remote),
      options_(context.kubernetes),
      queue_(context.kubernetes.access, context.kubernetes.poll) {}

void KubernetesLauncher::require_ready() const {
  try {
    check_kubernetes(options_, state_.root());
  } catch (const InputError& error) {
    throw ProgramMissing(error.what());
  }
  const std::string fault = queue_.fault();
  if (!fault.empty()) throw ProgramMissing("Kubernetes does not answer: " + fault);
}

KubernetesLauncher::Record KubernetesLauncher::make_record(const v1::Job& job,
                                                           const std::string& token) const {
  Record record;
  record.order.labels = mpi_job_labels(job.id(), job.attempt(), token);
  MpiJobParts parts;
  parts.name = name_of(job);
  parts.labels = record.order.labels;
  parts.ranks = ranks_of(job.spec());
  parts.cpus = options_.cpus;
  parts.rank_memory = job.memory_bytes() / parts.ranks;
  parts.gpus = job.spec().resources().device() == v1::Resources::cuda;
  parts.arguments = {"--work-dir", state_.tokens().string(), "--attempt",
                     attempt_file(job).string(), state_.job_file(job.id()).string()};
  parts.log = state_.log(job.id()).string();
  record.order.manifest = make_mpi_job(read_mpi_job_template(options_.job_template), parts).dump();
  record.log_offset = static_cast<int64_t>(fs::file_size(state_.log(job.id())));
  return record;
}

void KubernetesLauncher::launch(const v1::Job& job, const std::string& token) {
  write_job_file(state_, job);
  create_log(state_.log(job.id()));
  fs::create_directory(state_.attempt(job.id(), job.attempt()));
  write_attempt_file(attempt_file(job), server_, job.id(), job.attempt(), token);
  const Record record = make_record(job, token);
  save(job, record);
  records_[{job.id(), job.attempt()}] = record;
  queue_.follow(name_of(job), record.order);
}

AttemptStatus KubernetesLauncher::check(const v1::Job& job) {
  Record* record = record_of(job);
  if (record == nullptr) {
    return {Liveness::kVanished, {}, /*ran=*/fs::exists(record_file(job))};
  }
  if (job.cancelling()) stop(job);  // before it can be created
  const KubernetesQueue::Answer answer = queue_.follow(name_of(job), record->order);
  if (answer.created && !record->order.created) {
    record->order.created = true;
    save(job, *record);
  }
  AttemptStatus status = standing(job, *record, answer);
  const bool has_job = answer.job && !answer.gone;
  return has_job && status.liveness == Liveness::kExited ? ended(job, *record, std::move(status))
                                                         : status;
}

AttemptStatus KubernetesLauncher::standing(const v1::Job& job, const Record& record,
                                           const KubernetesQueue::Answer& answer) {
  const std::string name = "MPIJob " + name_of(job);
  if (answer.refusal) return exited(*answer.refusal);
  if (answer.gone) {
    return exited(record.removal.empty()
                      ? failure(kRankFailed, name + " was deleted, not by dotresize-server")
                      : failure(kLost, record.removal));
  }
  AttemptStatus status;
  if (answer.job) {
    status = status_of(*answer.job);
  } else {
    status.liveness = job.state() == v1::Job::STARTING ? Liveness::kWaiting : Liveness::kAlive;
    status.note = name + ": Kubernetes has not answered yet";
  }
  const std::string fault = queue_.fault();
  if (!fault.empty()) status.note += "; no answer since: " + fault;
  return status;
}

AttemptStatus KubernetesLauncher::ended(const v1::Job& job, Record& record, AttemptStatus status) {
  const bool went_wrong = status.exit.exit_code != kExitOk;
  if (went_wrong && !status.failure && tells_of_lost_pod(log_tail(job))) {
    status.failure = failure(kLost, "mpirun has lost a worker pod of MPIJob " + name_of(job));
  }
  if (status.failure && status.failure->code == kLost) remove(job, record, status.failure->message);
  if (record.removal.empty()) return status;
  status.liveness = Liveness::kWaiting;  // pods are not gone yet
  status.failure.reset();
  return status;
}

void KubernetesLauncher::remove(const v1::Job& job, Record& record, const std::string& why) {
  if (record.removal.empty()) {
    record.removal = why;
    record.order.unwanted = true;
    save(job, record);
  }
  queue_.remove(name_of(job));
}

bool KubernetesLauncher::stop(const v1::Job& job) {
  Record* record = record_of(job);
  if (record == nullptr) return false;
  remove(job, *record, "the job was stopped by dotresize-server");
  return true;
}

bool KubernetesLauncher::clear_leftovers(const v1::Job&) { return true; }

void KubernetesLauncher::clean_up(const v1::Job& job) {
  queue_.forget(name_of(job));
  records_.erase({job.id(), job.attempt()});
  std::error_code error;
  fs::remove(attempt_file(job), error);
}

std::string KubernetesLauncher::log_tail(const v1::Job& job) {
  const Record* record = record_of(job);
  return read_tail(state_.log(job.id()), record == nullptr ? 0 : record->log_offset, kLogTailBytes);
}

fs::path KubernetesLauncher::attempt_file(const v1::Job& job) const {
  return state_.attempt(job.id(), job.attempt()) / "attempt.json";
}

fs::path KubernetesLauncher::record_file(const v1::Job& job) const {
  return state_.attempt(job.id(), job.attempt()) / "kubernetes.json";
}

KubernetesLauncher::Record* KubernetesLauncher::record_of(const v1::Job& job) {
  const Key key = {job.id(), job.attempt()};
  const auto known = records_.find(key);
  if (known != records_.end()) return &known->second;
  const std::optional<std::string> text = read_file_start(record_file(job), kMaxRecord);
  if (!text) return nullptr;
  try {
    const Json content = Json::parse(*text);
    Record record;
    content.at("manifest").get_to(record.order.manifest);
    content.at("labels").get_to(record.order.labels);
    content.at("created").get_to(record.order.created);
    content.at("log_offset").get_to(record.log_offset);
    content.at("removal").get_to(record.removal);
    record.order.unwanted = !record.removal.empty();
    return &(records_[key] = std::move(record));
  } catch (const Json::exception& error) {
    spdlog::error("{} is damaged: {}", record_file(job).string(), json_fault(error));
    return nullptr;
  }
}

void KubernetesLauncher::save(const v1::Job& job, const Record& record) const {
  const Json content = {{"manifest", record.order.manifest},
                        {"labels", record.order.labels},
                        {"created", record.order.created},
                        {"log_offset", record.log_offset},
                        {"removal", record.removal}};
  write_private_file(record_file(job), content.dump() + "\n");
}

}  // namespace dotresize
