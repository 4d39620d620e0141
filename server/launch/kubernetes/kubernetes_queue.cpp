#include "server/launch/kubernetes/kubernetes_queue.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr int kMaxPages = 100;
constexpr size_t kMaxFault = 500;

/// True if the MPIJob has all of these labels.
bool has_labels(const MpiJob& job, const std::map<std::string, std::string>& labels) {
  return std::ranges::includes(job.labels, labels);
}

Failure refused(const std::string& why) {
  return {kInvalidInput, -1, "", "", "Kubernetes refuses the MPIJob: " + why};
}

}  // namespace

KubernetesQueue::KubernetesQueue(KubernetesAccess access, std::chrono::seconds poll)
    : access_(std::move(access)), poll_(poll) {}

KubernetesQueue::~KubernetesQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

KubernetesQueue::Answer KubernetesQueue::follow(const std::string& name, const Order& order) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace(name);
  if (is_new) {
    entry->second.order = order;
    entry->second.answer.created = order.created;
    work_pending_ = true;
    wake_.notify_all();
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  return entry->second.answer;
}

void KubernetesQueue::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry != entries_.end()) set_unwanted(entry->second);
}

void KubernetesQueue::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return;
  entry->second.forgotten = true;
  if (entry->second.answer.gone || entry->second.answer.refusal) {
    entries_.erase(entry);
  } else {
    set_unwanted(entry->second);
  }
}

void KubernetesQueue::set_unwanted(Entry& entry) {
  if (entry.order.unwanted) return;
  entry.order.unwanted = true;
  work_pending_ = true;
  wake_.notify_all();
}

std::string KubernetesQueue::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void KubernetesQueue::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    work_pending_ = false;
    std::chrono::seconds pause{0};
    // After a fault, the API is called even if nothing is followed: no job starts until it answers.
    const bool needed = !entries_.empty() || !fault_.empty();
    lock.unlock();
    try {
      if (needed) ask();
      set_fault("");
    } catch (const ApiFault& fault) {
      pause = fault.retry_after;
      set_fault(fault.what());
    } catch (const std::exception& error) {
      set_fault(error.what());
    }
    lock.lock();
    wake_.wait_for(lock, pause, [this] { return stopping_; });
    wake_.wait_for(lock, poll_, [this] { return stopping_ || work_pending_; });
  }
}

void KubernetesQueue::ask() {
  KubernetesApi api(complete_access(access_));
  create_wanted(api);
  look(api);
  remove_unwanted(api);
}

void KubernetesQueue::create_wanted(KubernetesApi& api) {
  std::map<std::string, std::string> manifests;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      const bool done = entry.answer.created || entry.answer.gone || entry.answer.refusal;
      if (!done && !entry.order.unwanted) manifests[name] = entry.order.manifest;
    }
  }
  for (const auto& [name, manifest] : manifests) create(api, name, manifest);
}

void KubernetesQueue::create(KubernetesApi& api, const std::string& name,
                             const std::string& manifest) {
  const ApiAnswer answer = api.create(manifest);
  std::optional<MpiJob> job;
  std::optional<Failure> refusal;
  if (is_refusal(answer.status)) {
    refusal = refused(api_message(answer.status, answer.body));
  } else if (answer.status == 409) {  // perhaps created by an unanswered call
    const ApiAnswer found = api.get(name);
    if (found.status == 404) return;  // try again next time
    job = parse_mpi_job(found.body);
  } else {
    job = parse_mpi_job(answer.body);
  }
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return;
  if (job && !has_labels(*job, entry->second.order.labels)) {
    refusal = refused("there is one of the name " + name + " that is not of this attempt");
  }
  entry->second.answer.refusal = refusal;
  if (refusal) return;
  entry->second.answer.created = true;
  entry->second.answer.job = std::move(job);
}

void KubernetesQueue::look(KubernetesApi& api) {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) names.push_back(name);
  }
  std::map<std::string, MpiJob> jobs;
  std::string next;
  for (int page = 0; page == 0 || !next.empty(); ++page) {
    if (page == kMaxPages) throw ApiFault("there are too many MPIJobs of dotresize");
    MpiJobPage found = parse_mpi_jobs(api.list(kMpiJobSelector, next).body);
    for (MpiJob& job : found.jobs) jobs[job.name] = std::move(job);
    next = found.next;
  }
  take(names, jobs);
}

void KubernetesQueue::take(const std::vector<std::string>& names,
                           const std::map<std::string, MpiJob>& jobs) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    const auto entry = entries_.find(name);
    if (entry == entries_.end()) continue;
    Answer& answer = entry->second.answer;
    const auto job = jobs.find(name);
    if (job != jobs.end() && has_labels(job->second, entry->second.order.labels)) {
      answer.created = true;
      answer.job = job->second;
    } else if (answer.created || entry->second.order.unwanted) {
      answer.gone = true;
    }
    if (answer.gone && entry->second.forgotten) entries_.erase(entry);
  }
}

void KubernetesQueue::remove_unwanted(KubernetesApi& api) {
  std::map<std::string, std::string> uids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      const Answer& answer = entry.answer;
      const bool there = answer.job && !answer.job->deleting && !answer.gone;
      if (entry.order.unwanted && there) uids[name] = answer.job->uid;
    }
  }
  for (const auto& [name, uid] : uids) api.remove(name, uid);
}

void KubernetesQueue::set_fault(const std::string& fault) {
  const std::string line = printable(fault, kMaxFault);
  const std::lock_guard lock(mutex_);
  if (line == fault_) return;
  fault_ = line;
  if (fault_.empty()) {
    spdlog::info("Kubernetes answers again");
  } else {
    spdlog::warn("Kubernetes does not answer: {}", fault_);
  }
}

}  // namespace dotresize
