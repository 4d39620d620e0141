// JobStore methods for remote models and outputs: jobs that are fetched and pushed.

#include "job/remote/transfer.h"
#include "server/store/job_store.h"

namespace dotresize {

std::vector<std::string> JobStore::to_fetch(int limit) {
  const std::lock_guard lock(list_mutex_);
  return lister_.to_fetch(limit);
}

std::vector<v1::Job> JobStore::unended() {
  const std::lock_guard lock(list_mutex_);
  return lister_.in_states({v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING});
}

void JobStore::record_fetch(const std::string& id, const v1::Progress& progress) {
  transact([&] {
    std::optional<JobRow> row = table_.find(id);
    if (!row || row->job.state() != v1::Job::QUEUED || !row->job.fetching()) return;
    tell(*row, progress);
    save(*row);
  });
}

bool JobStore::finish_fetch(const v1::Job& fetched, const std::string& plan) {
  bool done = false;
  transact([&] {
    std::optional<JobRow> row = table_.find(fetched.id());
    if (!row || row->job.state() != v1::Job::QUEUED) return;
    *row->job.mutable_fetched() = fetched.fetched();
    row->job.set_memory_bytes(fetched.memory_bytes());
    row->job.clear_fetching();
    row->job.clear_progress();
    table_.save_plan(row->number, plan);
    table_.enqueue(*row);
    save(*row);
    done = true;
  });
  return done;
}

void JobStore::fail_fetch(const std::string& id, const v1::JobError& error) {
  transact([&] {
    std::optional<JobRow> row = table_.find(id);
    if (!row || row->job.state() != v1::Job::QUEUED) return;
    *row->job.mutable_error() = error;
    enter(*row, v1::Job::FAILED, error.message());
  });
}

bool JobStore::begin_push(const std::string& id, int attempt) {
  bool done = false;
  transact([&] {
    JobRow row = load(id);
    if (!is_launched_attempt(row.job, attempt)) return;
    row.job.set_pushing(true);
    row.job.clear_gpus();
    if (row.job.state() == v1::Job::STARTING) enter(row, v1::Job::RUNNING, "");
    v1::Progress begun = row.job.progress();
    begun.set_phase(kPushPhase);
    tell(row, begun);
    save(row);
    done = true;
  });
  return done;
}

}  // namespace dotresize
