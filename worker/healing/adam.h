#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// Parameter values with the moments of their gradients, all of one shape, float32.
struct AdamState {
  at::Tensor value;
  at::Tensor first;
  at::Tensor second;
};

/// One step of Adam (Kingma and Ba, 2015; β 0.9 and 0.999, ε 1e-8, no weight decay), in place.
/// `steps`: number of steps, including this one.
void adam_step(AdamState& state, const at::Tensor& gradient, int64_t steps, double learning_rate);

/// Learning rate of step `step` of `steps`: falls from `first` with a cosine.
double cosine_rate(double first, int64_t step, int64_t steps);

/// Adam over tensors whose elements are sharded over ranks: each rank has a slice of each tensor in
/// float32, with both moments. Gradients of all ranks are added up reproducibly (docs/method.md,
/// "Moments"), so the results do not depend, bit by bit, on the number of ranks. Inference mode
/// must be off.
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
