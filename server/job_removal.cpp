#include "server/job_removal.h"

#include "job/spec/remote_url.h"
#include "server/job_output.h"

namespace dotresize {

void remove_job(JobStore& store, const StateDir& state, Trash& trash, const std::string& id) {
  TrashedDirectory unfinished;
  TrashedDirectory unpushed;
  TrashedDirectory folder;
  store.remove(id, [&](const v1::Job& job, const std::string& output) {
    if (job.state() != v1::Job::SUCCEEDED && job.attempt() > 0) {
      unfinished = JobOutput(output, id).discard(trash);
    }
    if (is_remote(job.spec().output().path())) {
      unpushed = JobOutput(output, id).discard_committed(trash);
    }
    folder = trash.take(state.job(id));
  });
  unfinished.remove();
  unpushed.remove();
  folder.remove();
}

}  // namespace dotresize
