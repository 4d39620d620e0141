#include "server/job_removal.h"

#include "server/job_output.h"

namespace dotresize {

void remove_job(JobStore& store, const StateDir& state, Trash& trash, const std::string& id) {
  TrashedDirectory unfinished;
  TrashedDirectory folder;
  store.remove(id, [&](const v1::Job& job, const std::string& output) {
    if (job.state() != v1::Job::SUCCEEDED && job.attempt() > 0) {
      unfinished = JobOutput(output, id).discard(trash);
    }
    folder = trash.take(state.job(id));
  });
  unfinished.remove();
  folder.remove();
}

}  // namespace dotresize
