#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/files/file_changes.h"
#include "base/files/unique_fd.h"
#include "base/process/program.h"
#include "base/text/checked_json.h"
#include "job/spec/validate_spec.h"
#include "server/launch/launcher.h"
#include "server/launch/launcher_queue.h"
#include "server/store/files.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kRecordFile[] = "launcher.json";
constexpr size_t kMaxRecord = size_t{1} << 20;

std::string attempt_name(const v1::Job& job) {
  return fmt::format("dotresize-{}-{}", job.id(), job.attempt());
}

/// Has a launcher's program start, follow and cancel attempts (docs/server.md, Launchers). The
/// ranks find the state directory and the worker under the same paths. What is submitted is written
/// to the attempt's folder first, so a later server submits it or finds it submitted. An attempt
/// that has ended is cancelled, and over only when the launcher says once more that it has ended,
/// or no longer knows it: no process of it runs beside the next attempt.
class ContractLauncher final : public Launcher {
 public:
  ContractLauncher(const LauncherContext& context, const std::string& name,
                   const fs::path& program);

  /// Also throws ProgramMissing while the launcher does not answer.
  void require_ready() const override;
  /// Queues the attempt for submission; does not wait for it.
  void launch(const v1::Job& job, const AttemptGrant& grant) override;
  AttemptStatus check(const v1::Job& job) override;
  bool stop(const v1::Job& job) override;
  void clean_up(const v1::Job& job) override;
  std::string log_tail(const v1::Job& job) override;
  std::string starter() const override { return "the job under " + name_; }

 private:
  /// Content of attempt-N/launcher.json.
  struct Record {
    std::string request;  ///< JSON object for `submit`
    int64_t log_offset = 0;
    bool fresh = false;  ///< made by this server; not stored
    bool submitted = false;
    std::optional<LauncherAnswer> end;  ///< the first answer that it has ended
  };
  using Key = std::pair<std::string, int>;  ///< job and attempt

  /// Returns null if the attempt has not been launched. A damaged record is logged, and is that of
  /// a lost attempt.
  Record* record_of(const v1::Job& job);
  void save(const v1::Job& job, const Record& record) const;
  LauncherQueue::Order order_of(const v1::Job& job, const Record& record) const;

  const std::string name_;
  const fs::path program_;
  const StateDir& state_;
  const mode_t umask_;
  const RemoteWorkers server_;
  std::map<Key, Record> records_;  ///< cache of read records
  LauncherQueue queue_;
};

ContractLauncher::ContractLauncher(const LauncherContext& context, const std::string& name,
                                   const fs::path& program)
    : name_(name),
      program_(program),
      state_(context.state),
      umask_(context.umask),
      server_(context.remote),
      queue_(name, LauncherProgram{program}) {}

void ContractLauncher::require_ready() const {
  worker_program();
  if (::access(program_.c_str(), X_OK) != 0) {
    throw ProgramMissing(
        fmt::format("launcher {}: {} cannot be executed", name_, program_.string()));
  }
  const std::string fault = queue_.faults().start;
  if (!fault.empty()) {
    throw ProgramMissing(fmt::format("launcher {} does not answer: {}", name_, fault));
  }
}

void ContractLauncher::launch(const v1::Job& job, const AttemptGrant& grant) {
  const fs::path dir = state_.attempt(job.id(), job.attempt());
  const fs::path log = state_.log(job.id());
  write_job_file(state_, job);
  if (!UniqueFd(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600))) {
    throw_errno("cannot write " + log.string());
  }
  files::create_directories(dir / "launcher");
  write_attempt_file(state_, server_, job, grant);
  Json variables = Json::object();
  for (const std::string& variable : inherited_environment()) {
    const size_t end = variable.find('=');
    variables[variable.substr(0, end)] = variable.substr(end + 1);
  }
  variables["DOTRESIZE_JOB_ID"] = job.id();
  if (job.has_traceparent()) variables["TRACEPARENT"] = job.traceparent();
  const int ranks = ranks_of(job.spec());
  const bool gpus = job.spec().resources().device() == v1::Resources::cuda;
  const Json request = {{"name", attempt_name(job)},
                        {"ranks", ranks},
                        {"memory_bytes", job.memory_bytes() / ranks},
                        {"gpus_per_rank", gpus ? 1 : 0},
                        {"command", rank_command(state_, job)},
                        {"environment", variables},
                        {"umask", fmt::format("{:04o}", umask_)},
                        {"log", log.string()},
                        {"folder", (dir / "launcher").string()}};
  Record record;
  record.request = request.dump();
  record.log_offset = static_cast<int64_t>(fs::file_size(log));
  record.fresh = true;
  save(job, record);
  records_[{job.id(), job.attempt()}] = record;
  queue_.follow(attempt_name(job), order_of(job, record));
}

LauncherQueue::Order ContractLauncher::order_of(const v1::Job& job, const Record& record) const {
  const fs::path dir = state_.attempt(job.id(), job.attempt());
  const bool unwanted = job.cancelling() || job.has_stop_reason() || record.end;
  return {record.request, dir / "launcher", dir / "lock", record.fresh, record.submitted, unwanted};
}

AttemptStatus ContractLauncher::check(const v1::Job& job) {
  Record* record = record_of(job);
  if (record == nullptr) {
    return {Liveness::kVanished, {}, /*ran=*/false};
  }
  const LauncherQueue::Standing standing = queue_.follow(attempt_name(job), order_of(job, *record));
  if (standing.refusal) {
    return ended(kExitBadData, failure(kInvalidInput, *standing.refusal));
  }
  using State = LauncherAnswer::State;
  const bool has_ended = standing.answer && standing.answer->state == State::kEnded;
  const bool is_new_end = has_ended && !record->end;
  if (is_new_end || standing.submitted != record->submitted) {
    Record next = *record;
    if (is_new_end) next.end = standing.answer;
    next.submitted = standing.submitted;
    save(job, next);  // what could not be saved is new again at the next poll
    *record = std::move(next);
  }
  if (is_new_end) queue_.cancel(attempt_name(job));
  const bool over = standing.over && !is_new_end;  // a cancel follows each end
  if (over && record->end) return ended(record->end->exit_code, record->end->failure);
  if (over) {
    return ended(kExitJobFailed,
                 failure(kLost, fmt::format("{} does not know {}", name_, attempt_name(job))));
  }
  AttemptStatus status;
  const bool starting = job.state() == v1::Job::STARTING;
  const bool waiting = standing.answer ? standing.answer->state != State::kRunning : starting;
  status.liveness = waiting || record->end ? Liveness::kWaiting : Liveness::kAlive;
  const std::string fault = queue_.faults().last_round;
  if (standing.answer) {
    status.note = standing.answer->note + (fault.empty() ? "" : "; no answer since: " + fault);
  } else {
    status.note = name_ + " has not answered yet" + (fault.empty() ? "" : ": " + fault);
  }
  return status;
}

bool ContractLauncher::stop(const v1::Job& job) {
  if (record_of(job) == nullptr) return false;
  queue_.cancel(attempt_name(job));
  return true;
}

void ContractLauncher::clean_up(const v1::Job& job) {
  queue_.forget(attempt_name(job));
  records_.erase({job.id(), job.attempt()});
  std::error_code error;
  files::remove(attempt_file(state_, job), error);
}

std::string ContractLauncher::log_tail(const v1::Job& job) {
  const Record* record = record_of(job);
  return read_tail(state_.log(job.id()), record == nullptr ? 0 : record->log_offset, kLogTailBytes);
}

ContractLauncher::Record* ContractLauncher::record_of(const v1::Job& job) {
  const Key key = {job.id(), job.attempt()};
  const auto known = records_.find(key);
  if (known != records_.end()) return &known->second;
  const fs::path file = state_.attempt(job.id(), job.attempt()) / kRecordFile;
  const std::optional<std::string> text = read_file_start(file, kMaxRecord);
  if (!text) return nullptr;
  try {
    const Json content = Json::parse(*text);
    Record record;
    content.at("request").get_to(record.request);
    content.at("log_offset").get_to(record.log_offset);
    content.at("submitted").get_to(record.submitted);
    if (content.contains("end")) {
      const Json& end = content.at("end");
      record.end =
          LauncherAnswer{LauncherAnswer::State::kEnded, "", end.at("exit_code").get<int>(), {}};
      if (end.contains("code")) {
        record.end->failure = failure(end.at("code").get<std::string>().c_str(),
                                      end.at("message").get<std::string>());
      }
    }
    return &(records_[key] = std::move(record));
  } catch (const Json::exception& error) {
    spdlog::error("{} is damaged: {}", file.string(), json_fault(error));
    Record lost;
    lost.submitted = true;
    lost.end = LauncherAnswer{LauncherAnswer::State::kEnded, "", kExitJobFailed,
                              failure(kLost, "the record of the attempt is damaged")};
    return &(records_[key] = std::move(lost));
  }
}

void ContractLauncher::save(const v1::Job& job, const Record& record) const {
  Json content = {{"request", record.request},
                  {"log_offset", record.log_offset},
                  {"submitted", record.submitted}};
  if (record.end) {
    content["end"] = {{"exit_code", record.end->exit_code}};
    if (record.end->failure) {
      content["end"]["code"] = record.end->failure->code;
      content["end"]["message"] = record.end->failure->message;
    }
  }
  write_private_file(state_.attempt(job.id(), job.attempt()) / kRecordFile, content.dump() + "\n");
}

}  // namespace

std::unique_ptr<Launcher> make_contract_launcher(const LauncherContext& context,
                                                 const std::string& name, const fs::path& program) {
  return std::make_unique<ContractLauncher>(context, name, program);
}

}  // namespace dotresize
