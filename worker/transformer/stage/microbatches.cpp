#include "worker/transformer/stage/microbatches.h"

#include <ATen/ATen.h>

#include "job/plan/block_sizes.h"

namespace dotresize {

int64_t count_microbatches(const at::Tensor& windows) {
  const int64_t samples = microbatch_samples(windows.size(1));
  return (windows.size(0) + samples - 1) / samples;
}

int64_t first_microbatch(const Communicator& comm, const at::Tensor& windows) {
  return count_microbatches(windows) * comm.rank() / comm.size();
}

Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows) {
  const Microbatches all = windows.split(microbatch_samples(windows.size(1)));
  const int64_t end = std::ssize(all) * (comm.rank() + 1) / comm.size();
  return {all.begin() + first_microbatch(comm, windows), all.begin() + end};
}

}  // namespace dotresize
