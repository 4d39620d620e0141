#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/comm/communicator.h"
#include "worker/healing/adam.h"

namespace dotresize {

/// Adam (adam.h) over tensors whose elements the ranks share: of each tensor a rank has a slice in
/// float32, with both of its moments. All ranks' gradients are added up reproducibly
/// (docs/method.md, "Moments"): the results do not depend on the number of ranks, bit by bit.
/// Neither gradients nor parameters are kept in inference mode.
class ShardedAdam {
 public:
  /// `start`: the parameters, of any floating dtype, the same on every rank.
  ShardedAdam(Communicator& comm, const std::vector<at::Tensor>& start);

  /// One step with the sum of the gradients of all ranks. `gradients`: one list for each of this
  /// rank's microbatches, a tensor for each parameter, undefined if it is zero; `summands`: lists
  /// on all ranks. Throws std::runtime_error if one is not finite. Collective.
  void step(const std::vector<std::vector<at::Tensor>>& gradients, int64_t summands,
            double learning_rate);

  /// The parameters, rounded to the dtype of the `weights`, on every rank. Collective.
  void write_to(const std::vector<at::Tensor>& weights);

 private:
  /// Elements [begin of the rank, begin of the next one) of `count`.
  int64_t begin_of(int rank, int64_t count) const { return count * rank / comm_.size(); }
  /// The slice of a rank of a contiguous tensor, [n].
  at::Tensor slice_of(const at::Tensor& tensor, int rank) const;
  /// The largest magnitude of each parameter's gradients, over all ranks' microbatches.
  at::Tensor largest(const std::vector<std::vector<at::Tensor>>& gradients);

  Communicator& comm_;
  std::vector<AdamState> slices_;  ///< [n] of this rank, of each parameter
  std::vector<int64_t> counts_;    ///< elements of each parameter
  at::Device device_;
  int64_t steps_ = 0;
};

}  // namespace dotresize
