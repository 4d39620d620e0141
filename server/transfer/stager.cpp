#include "server/transfer/stager.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/failure.h"
#include "base/files/directory.h"
#include "base/files/file_changes.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "job/spec/spec_paths.h"
#include "job/status/job_rows.h"
#include "server/access/request_budget.h"
#include "server/admission/job_admission.h"
#include "server/common/api_error.h"
#include "server/common/log_format.h"
#include "server/launch/outcome.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kStagePoll{200};
constexpr std::chrono::seconds kPauseAfterFault{2};
constexpr std::chrono::seconds kFirstRetryPause{5};
constexpr int kMostFetches = 6;      // tries per job after network faults
constexpr size_t kStagedAtOnce = 4;  // jobs fetched at a time
constexpr int kFetchWindow = 100;    // jobs looked at, from the queue's head

}  // namespace

Stager::Stager(JobStore& store, const PathPolicy& paths, const Access& access,
               const Machine& machine, KnownModels& models, Trash& trash)
    : store_(store),
      paths_(paths),
      access_(access),
      machine_(machine),
      models_(models),
      trash_(trash),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

void Stager::loop(const std::stop_token& stop) {
  // Copies that an earlier server has fetched for jobs that have not ended are held again.
  for (const v1::Job& job : store_.unended()) {
    if (job.fetching() || job.pushing()) continue;
    for (const v1::FetchedFile& file : job.fetched()) {
      try {
        held_[job.id()].emplace_back(file.path());
      } catch (const TransferError& error) {
        log_job(spdlog::level::warn, job, error.what());
      }
    }
  }
  // Outputs that an earlier server has pushed but not removed are discarded.
  std::error_code missing;
  for (const fs::directory_entry& folder : entries_of(paths_.remote().cache().outputs(), missing)) {
    for (const fs::directory_entry& output : entries_of(folder, missing)) {
      const std::optional<OutputOwner> owner = owner_of_output(output);
      const std::optional<v1::Job> maker = owner ? store_.find(owner->job_id) : std::nullopt;
      if (!maker || maker->state() != v1::Job::SUCCEEDED) continue;
      JobOutput(output, owner->job_id).discard_committed(trash_).remove();
    }
  }
  const auto ended = [&](const auto& entry) {
    const std::optional<v1::Job> job = store_.find(entry.first);
    return !job || has_ended(job->state());
  };
  while (!stop.stop_requested()) {
    const uint64_t version = store_.changes().version();
    try {
      std::erase_if(held_, ended);  // releases the cached copies
      std::erase_if(retries_, ended);
      for (auto next = staged_.begin(); next != staged_.end();) {
        Staging& staging = *next->second;
        const TransferStatus status = staging.transfer->poll();
        if (status.ended) {
          finish(staging, status.error);
          next = staged_.erase(next);
          continue;
        }
        if (!is_queued(next->first)) staging.transfer->request_stop();
        if (status.news) store_.record_fetch(next->first, *status.news);
        ++next;
      }
      begin_next();
    } catch (const std::exception& error) {
      spdlog::error("fetch: {}", error.what());
      std::this_thread::sleep_for(kPauseAfterFault);
    }
    store_.changes().wait_past(version, kStagePoll);
  }
  for (auto& [id, staging] : staged_) staging->transfer->request_stop();
}

void Stager::begin_next() {
  if (staged_.size() >= kStagedAtOnce) return;
  for (const std::string& id : store_.to_fetch(kFetchWindow)) {
    if (staged_.size() >= kStagedAtOnce) return;
    const auto retry = retries_.find(id);
    if (retry != retries_.end() && Clock::now() < retry->second.next) continue;
    if (staged_.contains(id)) continue;
    const std::optional<v1::Job> job = store_.find(id);
    if (job && job->fetching() && job->state() == v1::Job::QUEUED) begin(*job);
  }
}

void Stager::begin(const v1::Job& job) {
  std::unique_ptr<Staging>& staging = staged_[job.id()];
  staging = std::make_unique<Staging>();
  staging->job = job;
  const auto work = [this, &staging = *staging](const BackgroundTransfer::Run& run) {
    const RemoteCache& cache = paths_.remote().cache();
    const v1::Job& wanted = staging.job;
    const v1::Output& output = wanted.spec().output();
    if (is_remote(output.path())) {
      // An output that was pushed makes room for this one; one that still waits for its push not.
      const fs::path made = cache.output_for(output.path());
      files::create_directories(made.parent_path());
      if (const std::optional<OutputOwner> owner = owner_of_output(made)) {
        const std::optional<v1::Job> maker = store_.find(owner->job_id);
        if (maker && maker->state() == v1::Job::FAILED) {
          throw TransferError("EXISTS", "job " + owner->job_id + " has written its output for " +
                                            output.path() +
                                            " but not pushed it: resume or delete that job");
        }
        JobOutput(made, owner->job_id).discard_committed(trash_).remove();
      }
      run(look_command({output.path(), output.overwrite(),
                        rights_of(access_, wanted.owner(), wanted.id(), wanted.attempt())}));
    }
    for (const RemoteInput& input : remote_inputs(wanted.spec())) {
      std::string url = input.url;
      for (const v1::FetchedFile& file : wanted.fetched()) {  // a resumed job reads the same commit
        if (!is_on_hub(input.url) || file.url() != input.url) continue;
        url = at_revision(input.url, file.revision());
        break;
      }
      const TransferResult copy = run(fetch_command(url, input.kind, cache));
      staging.held.emplace_back(copy.path);
      v1::FetchedFile& file = staging.files.emplace_back();
      file.set_url(input.url);
      file.set_revision(copy.revision);
      file.set_path(copy.path.string());
    }
  };
  v1::Progress begun;
  begun.set_phase(kFetchPhase);
  store_.record_fetch(job.id(), begun);
  staging->transfer = std::make_unique<BackgroundTransfer>(kFetchPhase, work);
}

bool Stager::is_queued(const std::string& id) const {
  const std::optional<v1::Job> job = store_.find(id);
  return job && job->state() == v1::Job::QUEUED;
}

void Stager::finish(Staging& staging, std::optional<TransferError> fault) {
  const v1::Job& job = staging.job;
  std::string code = kFetchFailed;
  std::string reason;
  if (!fault) {
    try {
      v1::Job fetched = job;
      fetched.mutable_fetched()->Assign(staging.files.begin(), staging.files.end());
      v1::CreateJobRequest request;
      *request.mutable_spec() = job.spec();
      const BackgroundBudget budget;
      const NewJob admitted = admit(request, {machine_, paths_, models_}, copies_of(fetched));
      fetched.set_memory_bytes(admitted.memory);
      held_[job.id()] = std::move(staging.held);
      if (store_.finish_fetch(fetched, admitted.plan)) {
        log_job(spdlog::level::info, job, "all inputs have been fetched");
      }
      retries_.erase(job.id());
      return;
    } catch (const ApiError& error) {  // a fault found by planning
      code = kInvalidInput;
      reason = error.what();
    } catch (const std::exception& error) {
      fault.emplace(TransferError::kNetwork, error.what());
    }
  }
  if (fault) {
    if (!is_queued(job.id()) || fault->code() == TransferError::kCancelled) return;
    reason = fault->code() + ": " + fault->what();
    Retry& retry = retries_[job.id()];
    if (fault->may_pass() && ++retry.attempts < kMostFetches) {
      retry.next = Clock::now() + kFirstRetryPause * (1 << (retry.attempts - 1));
      return log_job(spdlog::level::warn, job, "will be fetched again: " + reason);
    }
  }
  store_.fail_fetch(job.id(), to_job_error({code, -1, "", kFetchPhase, reason}));
  log_job(spdlog::level::info, job, "FAILED: " + reason);
}

}  // namespace dotresize
