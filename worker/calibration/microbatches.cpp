#include "worker/calibration/microbatches.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "worker/transformer/stage.h"

namespace dotresize {
namespace {

/// The end of a rank's part of the microbatches; it begins at the end of the rank before.
int64_t end_of(int rank, const Communicator& comm, int64_t microbatches) {
  return microbatches * (rank + 1) / comm.size();
}

}  // namespace

Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows) {
  const Microbatches all = windows.split(microbatch_samples(windows.size(1)));
  const auto count = static_cast<int64_t>(all.size());
  return {all.begin() + end_of(comm.rank() - 1, comm, count),
          all.begin() + end_of(comm.rank(), comm, count)};
}

int owner_of_first_microbatch(const Communicator& comm, const at::Tensor& windows) {
  const int64_t samples = microbatch_samples(windows.size(1));
  const int64_t microbatches = (windows.size(0) + samples - 1) / samples;
  int rank = 0;
  while (end_of(rank, comm, microbatches) == 0) ++rank;
  return rank;
}

double max_token_norm(Communicator& comm, const Microbatches& x) {
  at::Tensor norms = at::zeros({comm.size()}, at::kDouble);
  for (const at::Tensor& batch : x) {
    const double norm = at::linalg_vector_norm(batch, 2, at::IntArrayRef{-1}, false, at::kDouble)
                            .max()
                            .item<double>();
    norms[comm.rank()] = std::max(norms[comm.rank()].item<double>(), norm);
  }
  comm.all_reduce_sum(norms);  // exact: all summands but one are zero
  return norms.max().item<double>();
}

}  // namespace dotresize
