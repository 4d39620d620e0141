#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// One rank's share of the samples, in microbatches: token ids, or the residual stream.
using Microbatches = std::vector<at::Tensor>;

/// This rank's part of `windows` [samples, seqlen]. Whole microbatches are dealt out, the same ones
/// for any number of ranks: a matrix product of another shape would round differently.
Microbatches microbatches_of_rank(const Communicator& comm, const at::Tensor& windows);

/// The rank that has the first microbatch: those before it have none.
int owner_of_first_microbatch(const Communicator& comm, const at::Tensor& windows);

/// The largest l2 norm of a token x [d], over all ranks. Collective.
double max_token_norm(Communicator& comm, const Microbatches& x);

}  // namespace dotresize
