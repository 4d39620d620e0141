#include "server/launch/slurm/slurm_queue.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/process/child_process.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr std::chrono::seconds kQuestionLimit{15};  // per query
constexpr size_t kMaxReason = 300;

/// Keeps the newest job of each name: accounting may list a requeued job more than once.
void add(std::map<std::string, SlurmJob>& jobs, std::vector<SlurmJob> more) {
  for (SlurmJob& job : more) {
    const auto found = jobs.find(job.name);
    if (found == jobs.end() || found->second.id <= job.id) jobs[job.name] = std::move(job);
  }
}

}  // namespace

SlurmQueue::SlurmQueue(std::chrono::seconds poll) : poll_(poll) {}

SlurmQueue::~SlurmQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

SlurmQueue::Answer SlurmQueue::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  return entries_[name].answer;
}

void SlurmQueue::cancel(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    entries_[name].cancel = true;
    work_pending_ = true;
  }
  wake_.notify_all();
}

void SlurmQueue::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  entries_.erase(name);
}

std::string SlurmQueue::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void SlurmQueue::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    work_pending_ = false;
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    lock.unlock();
    try {
      if (!names.empty()) ask(names);
      cancel_unwanted();
    } catch (const std::exception& error) {
      set_fault(error.what());
    }
    lock.lock();
    wake_.wait_for(lock, poll_, [this] { return stopping_ || work_pending_; });
  }
}

void SlurmQueue::ask(const std::vector<std::string>& names) {
  const CapturedChild listed = capture_child(squeue_command(), kQuestionLimit);
  if (listed.exit_code != 0) {
    return set_fault(listed.last_line.empty() ? "squeue does not answer" : listed.last_line);
  }
  std::map<std::string, SlurmJob> jobs;
  add(jobs, parse_squeue(listed.output));
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (!jobs.contains(name)) unknown.push_back(name);
  }
  if (!unknown.empty()) {
    const CapturedChild accounted = capture_child(sacct_command(unknown), kQuestionLimit);
    // If there is no accounting, squeue's answer is all there is.
    if (accounted.exit_code == 0) add(jobs, parse_sacct(accounted.output));
  }
  take(names, jobs);
  set_fault("");
}

void SlurmQueue::take(const std::vector<std::string>& names,
                      const std::map<std::string, SlurmJob>& jobs) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    const auto entry = entries_.find(name);
    if (entry == entries_.end()) continue;
    const auto job = jobs.find(name);
    entry->second.answer = {true, job == jobs.end() ? std::nullopt : std::optional(job->second)};
  }
}

void SlurmQueue::cancel_unwanted() {
  std::vector<std::string> command = {"scancel"};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      const std::optional<SlurmJob>& job = entry.answer.job;
      if (entry.cancel && job && !has_ended(*job)) command.push_back(std::to_string(job->id));
    }
  }
  if (command.size() == 1) return;
  const CapturedChild done = capture_child(command, kQuestionLimit);
  if (done.exit_code != 0) set_fault(done.last_line);
}

void SlurmQueue::set_fault(const std::string& fault) {
  const std::string line = printable(fault, kMaxReason);
  const std::lock_guard lock(mutex_);
  if (line == fault_) return;
  fault_ = line;
  if (fault_.empty()) {
    spdlog::info("Slurm answers again");
  } else {
    spdlog::warn("Slurm does not answer: {}", fault_);
  }
}

}  // namespace dotresize
