#include "server/api/job_removal.h"

#include "server/schedule/job_output.h"

namespace dotresize {

void remove_job(JobStore& store, const StateDir& state, Trash& trash, const std::string& id) {
  DiscardedOutput left;
  TrashedDirectory folder;
  store.remove(id, [&](const v1::Job& job, const std::string& output) {
    if (job.attempt() > 0) left = discard_output(job, output, trash);
    folder = trash.take(state.job(id));
  });
  left.remove();
  folder.remove();
}

}  // namespace dotresize
