#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/comm/communicator.h"
#include "worker/healing/adam.h"

namespace dotresize {

/// Adam (adam.h) over tensors whose elements are sharded over ranks: each rank has a slice of each
/// tensor in float32, with both moments. Gradients of all ranks are added up reproducibly
/// (docs/method.md, "Moments"), so the results do not depend, bit by bit, on the number of ranks.
/// Inference mode must be off.
class ShardedAdam {
 public:
  /// `start`: parameters of any floating dtype, the same on every rank.
  ShardedAdam(Communicator& comm, const std::vector<at::Tensor>& start);

  /// Takes one step with the sum of all ranks' gradients. `gradients`: for each of this rank's
  /// microbatches, a list with a tensor for each parameter, undefined if it is zero. `summands`:
  /// number of lists on all ranks. Throws std::runtime_error if a gradient is not finite.
  /// Collective.
  void step(const std::vector<std::vector<at::Tensor>>& gradients, int64_t summands,
            double learning_rate);

  /// Writes the parameters to `weights`, rounded to their dtype, on every rank. Collective.
  void write_to(const std::vector<at::Tensor>& weights);

 private:
  /// First of a rank's elements among `count`; they end where those of the next rank begin.
  int64_t begin_of(int rank, int64_t count) const { return count * rank / comm_.size(); }
  /// Returns a rank's slice of a contiguous tensor, [n].
  at::Tensor slice_of(const at::Tensor& tensor, int rank) const;
  /// Returns the largest magnitude of each parameter's gradients, over all ranks' microbatches.
  at::Tensor largest(const std::vector<std::vector<at::Tensor>>& gradients);

  Communicator& comm_;
  std::vector<AdamState> slices_;  ///< this rank's slice [n] of each parameter
  std::vector<int64_t> counts_;    ///< number of elements of each parameter
  at::Device device_;
  int64_t steps_ = 0;
};

}  // namespace dotresize
