#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/model_config.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Sends a folded sublayer of widths k_in and k_out from `root` to all ranks. `owned` is only read
/// at root; it has the dtype and the device. Every rank gets contiguous tensors of that dtype on
/// that device.
SublayerWeights broadcast_sublayer(Communicator& comm, const ModelConfig& config,
                                   const SublayerWeights& owned, int64_t sublayer, int64_t k_in,
                                   int64_t k_out, at::ScalarType dtype, at::Device device,
                                   int root);

}  // namespace dotresize
