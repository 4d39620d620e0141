#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// One rank's share of token windows: ids [samples, seqlen] int64, or their residual stream
/// [samples, seqlen, k] float32. Each has microbatch_samples(seqlen) samples. The last one may have
/// fewer.
using Microbatches = std::vector<at::Tensor>;

/// Returns this rank's part of `windows` [samples, seqlen]. Ranks get whole microbatches, which are
/// the same for any number of ranks: a matrix product of another shape would round differently.
Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows);

/// Returns the number of microbatches on all ranks before this one.
int64_t first_microbatch(const Communicator& comm, const at::Tensor& windows);
int64_t count_microbatches(const at::Tensor& windows);

}  // namespace dotresize
