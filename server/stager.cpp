#include "server/stager.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <stop_token>
#include <utility>

#include "base/errors.h"
#include "base/failure.h"
#include "base/output_owner.h"
#include "job/spec/job_state.h"
#include "job/spec/remote_url.h"
#include "server/api_error.h"
#include "server/job_admission.h"
#include "server/log_format.h"
#include "server/outcome.h"

namespace dotresize {
namespace {

constexpr std::chrono::milliseconds kStagePoll{200};
constexpr std::chrono::seconds kPauseAfterFault{2};
constexpr std::chrono::seconds kProgressInterval{1};
constexpr std::chrono::seconds kFirstRetryPause{5};
constexpr int kMostFetches = 6;  // of one job, if the network is at fault
constexpr int kStagedAtOnce = 100;

}  // namespace

Stager::Stager(JobStore& store, const PathPolicy& paths, const Machine& machine)
    : store_(store),
      paths_(paths),
      machine_(machine),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

Stager::~Stager() = default;

void Stager::loop(const std::stop_token& stop) {
  for (const v1::Job& job : store_.unended()) {
    for (const v1::FetchedFile& file : job.fetched()) {
      try {
        held_[job.id()].emplace_back(file.path());
      } catch (const TransferError& error) {
        log_job(spdlog::level::warn, job, error.what());
      }
    }
  }
  while (!stop.stop_requested()) {
    const uint64_t version = store_.changes().version();
    try {
      release_ended();
      stage_all(stop);
    } catch (const std::exception& error) {
      spdlog::error("fetch: {}", error.what());
      std::this_thread::sleep_for(kPauseAfterFault);
    }
    store_.changes().wait_past(version, kStagePoll);
  }
}

void Stager::release_ended() {
  const auto ended = [&](const auto& entry) {
    const std::optional<v1::Job> job = store_.find(entry.first);
    return !job || has_ended(job->state());
  };
  std::erase_if(held_, ended);
  std::erase_if(retries_, ended);
}

void Stager::stage_all(const std::stop_token& stop) {
  for (const std::string& id : store_.to_fetch(kStagedAtOnce)) {
    if (stop.stop_requested()) return;
    const auto retry = retries_.find(id);
    if (retry != retries_.end() && Clock::now() < retry->second.next) continue;
    const std::optional<v1::Job> job = store_.find(id);
    if (!job || !job->fetching() || job->state() != v1::Job::QUEUED) continue;
    stage(*job, stop);
    if (!stop.stop_requested()) release_ended();
  }
}

bool Stager::is_queued(const std::string& id) const {
  const std::optional<v1::Job> job = store_.find(id);
  return job && job->state() == v1::Job::QUEUED;
}

TransferResult Stager::transfer(const v1::Job& job, const std::vector<std::string>& command,
                                const std::stop_token& stop) {
  std::stop_source source;
  Clock::time_point told;
  TransferOutput output(
      "fetch",
      [&](const v1::Progress& progress) {
        if (Clock::now() < told + kProgressInterval) return;
        told = Clock::now();
        store_.record_fetch(job.id(), progress);
      },
      [&] {
        if (stop.stop_requested() || !is_queued(job.id())) source.request_stop();
      });
  return run_transfer(command, output, source.get_token());
}

std::vector<v1::FetchedFile> Stager::fetch_all(const v1::Job& job, const std::stop_token& stop) {
  const RemoteCache& cache = paths_.remote().cache();
  const v1::Output& output = job.spec().output();
  if (is_remote(output.path())) {
    const std::filesystem::path made = cache.output_for(output.path());
    std::filesystem::create_directories(made.parent_path());
    const bool there = std::filesystem::exists(made);
    const std::optional<OutputOwner> owner = owner_of_output(made);
    if (there && (!owner || owner->job_id != job.id())) {
      throw TransferError("EXISTS", "job " + (owner ? owner->job_id : "?") +
                                        " has left its output for " + output.path() +
                                        " here: resume that job, which pushes it, or delete it");
    }
    transfer(job, look_command(output.path(), output.overwrite(), there ? made : ""), stop);
  }
  std::vector<v1::FetchedFile> files;
  for (const RemoteInput& input : remote_inputs(job.spec())) {
    const TransferResult copy = transfer(job, fetch_command(input.url, input.kind, cache), stop);
    held_[job.id()].emplace_back(copy.path);
    v1::FetchedFile& file = files.emplace_back();
    file.set_url(input.url);
    file.set_revision(copy.revision);
    file.set_path(copy.path.string());
  }
  return files;
}

void Stager::stage(const v1::Job& job, const std::stop_token& stop) {
  try {
    v1::Job fetched = job;
    for (v1::FetchedFile& file : fetch_all(job, stop)) *fetched.add_fetched() = std::move(file);
    v1::CreateJobRequest request;
    *request.mutable_spec() = job.spec();
    const NewJob admitted = admit(request, machine_, paths_, copies_of(fetched));
    fetched.set_memory_bytes(admitted.memory);
    if (store_.finish_fetch(fetched, admitted.plan)) {
      log_job(spdlog::level::info, job, "all that it reads from elsewhere is here");
    }
    retries_.erase(job.id());
  } catch (const TransferError& error) {
    if (!stop.stop_requested()) take_fault(job, error);
  } catch (const ProgramMissing& error) {
    fail(job, kFetchFailed, error.what());
  } catch (const ApiError& error) {
    // Deleted meanwhile, or refused now that it can be planned.
    if (error.code != grpc::StatusCode::NOT_FOUND) fail(job, kInvalidInput, error.what());
  }
}

void Stager::take_fault(const v1::Job& job, const TransferError& error) {
  if (!is_queued(job.id())) return;
  const std::string reason = error.code() + ": " + error.what();
  Retry& retry = retries_[job.id()];
  if (!error.may_pass() || ++retry.attempts >= kMostFetches) {
    return fail(job, kFetchFailed, reason);
  }
  retry.next = Clock::now() + kFirstRetryPause * (1 << (retry.attempts - 1));
  log_job(spdlog::level::warn, job, "will be fetched again: " + reason);
}

void Stager::fail(const v1::Job& job, const std::string& code, const std::string& message) {
  store_.fail_fetch(job.id(), to_job_error({code, -1, "", "fetch", message}));
  log_job(spdlog::level::info, job, "FAILED: " + message);
}

}  // namespace dotresize
