#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// One rank's share of token windows: ids [samples, seqlen] int64, or their residual stream
/// [samples, seqlen, k] float32, each of microbatch_samples(seqlen) samples but the last one.
using Microbatches = std::vector<at::Tensor>;

/// This rank's part of `windows` [samples, seqlen]. Whole microbatches are dealt out, the same ones
/// for any number of ranks: a matrix product of another shape would round differently.
Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows);

/// The rank that has the first microbatch: those before it have none.
int owner_of_first_microbatch(const Communicator& comm, const at::Tensor& windows);

/// Microbatches of all ranks before this one.
int64_t first_microbatch(const Communicator& comm, const at::Tensor& windows);
int64_t count_microbatches(const at::Tensor& windows);

}  // namespace dotresize
