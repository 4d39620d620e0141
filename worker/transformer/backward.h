#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "job/model/model_config.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// The gradient with respect to x of an outcome whose gradient with respect to f(x) is g, by
/// autograd: f is computed again, and what it keeps is gone when this returns. x, and what f uses
/// beside it, must not be made in inference mode, and none may be on. Returns a tensor of x's
/// shape.
at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g);

/// Of a sublayer (forward.h) that reads x [batch, tokens, d]; g: with respect to what it returns.
/// In float16 the gradients within an attention are scaled by a power of two: the largest one of g
/// to about 1, and if that overflows to less. The result is not scaled. If it is not finite,
/// neither is x or g, or the attention has no scale at which it is.
at::Tensor sublayer_gradient(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x, const at::Tensor& g);

}  // namespace dotresize
