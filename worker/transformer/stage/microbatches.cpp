#include "worker/transformer/stage/microbatches.h"

#include <ATen/ATen.h>

#include "job/plan/block_sizes.h"

namespace dotresize {
namespace {

/// Returns the end of a rank's part of the microbatches, which begins at the end of the previous
/// rank's.
int64_t end_of(int rank, const Communicator& comm, int64_t microbatches) {
  return microbatches * (rank + 1) / comm.size();
}

}  // namespace

int64_t count_microbatches(const at::Tensor& windows) {
  const int64_t samples = microbatch_samples(windows.size(1));
  return (windows.size(0) + samples - 1) / samples;
}

int64_t first_microbatch(const Communicator& comm, const at::Tensor& windows) {
  return end_of(comm.rank() - 1, comm, count_microbatches(windows));
}

Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows) {
  const Microbatches all = windows.split(microbatch_samples(windows.size(1)));
  const auto count = static_cast<int64_t>(all.size());
  return {all.begin() + end_of(comm.rank() - 1, comm, count),
          all.begin() + end_of(comm.rank(), comm, count)};
}

}  // namespace dotresize
