#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/plan/block_sizes.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// One rank's share of token windows: ids [samples, seqlen] int64, or their residual stream
/// [samples, seqlen, k] float32. Each has microbatch_samples(seqlen) samples. The last one may have
/// fewer.
using Microbatches = std::vector<at::Tensor>;

inline int64_t count_microbatches(const at::Tensor& windows) {
  const int64_t samples = microbatch_samples(windows.size(1));
  return (windows.size(0) + samples - 1) / samples;
}

/// Returns the number of microbatches on all ranks before this one.
inline int64_t first_microbatch(const Communicator& comm, const at::Tensor& windows) {
  return count_microbatches(windows) * comm.rank() / comm.size();
}

/// Returns this rank's part of `windows` [samples, seqlen]. Ranks get whole microbatches, which are
/// the same for any number of ranks: a matrix product of another shape would round differently.
inline Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows) {
  const Microbatches all = windows.split(microbatch_samples(windows.size(1)));
  const int64_t end = std::ssize(all) * (comm.rank() + 1) / comm.size();
  return {all.begin() + first_microbatch(comm, windows), all.begin() + end};
}

}  // namespace dotresize
