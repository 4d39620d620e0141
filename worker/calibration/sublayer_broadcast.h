#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/model_config.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/sublayer.h"

namespace dotresize {

/// A folded sublayer of widths k_in and k_out goes from `root` to all ranks. `owned` is read at
/// root alone, where its dtype is `dtype` and its device `device`; every rank gets contiguous
/// tensors there.
SublayerWeights broadcast_sublayer(Communicator& comm, const ModelConfig& config,
                                   const SublayerWeights& owned, int64_t sublayer, int64_t k_in,
                                   int64_t k_out, at::ScalarType dtype, at::Device device,
                                   int root);

}  // namespace dotresize
