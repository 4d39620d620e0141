#include "worker/transformer/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace dotresize {
namespace {

/// Multiplies rows [n, in] by matrix [in, out].
at::Tensor scaled_product(const at::Tensor& rows, const at::Tensor& matrix) {
  TORCH_CHECK(rows.scalar_type() == at::kFloat && matrix.scalar_type() == at::kHalf,
              "float32 is multiplied with float16, not ", rows.scalar_type(), " with ",
              matrix.scalar_type());
  // Powers of two [n, 1] bring the largest entry of each row into [0.5, 1).
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor largest =
      at::linalg_vector_norm(rows, infinity, at::IntArrayRef{-1}, /*keepdim=*/true)
          .clamp_min_(std::numeric_limits<float>::min());
  const at::Tensor scales =
      std::get<0>(at::frexp(largest)).div_(largest);  // mantissa over mantissa · 2^e: exact
  at::Tensor narrow = at::empty(rows.sizes(), matrix.options());
  at::mul_out(narrow, rows, scales);
  return at::div(at::mm(narrow, matrix), scales);
}

class HalfProduct : public torch::autograd::Function<HalfProduct> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& matrix) {
    context->save_for_backward({matrix});
    return scaled_product(rows, matrix);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {scaled_product(gradients.at(0), context->get_saved_variables().at(0).t()), {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gamma, int64_t divisor, double eps) {
  at::Tensor scale = at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true).square();
  scale = scale.div_(divisor).add_(eps).rsqrt();
  at::Tensor normed = x * scale;
  if (gamma.defined()) normed.mul_(gamma);
  return normed;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config,
                    int64_t width) {
  const bool is_gamma = config.norm_offset == 0.0 || !weight.defined();
  return rms_norm(x, is_gamma ? weight : weight.to(at::kFloat) + config.norm_offset, width,
                  config.rms_norm_eps);
}

at::Tensor capped(const at::Tensor& x, const std::optional<double>& cap) {
  return cap ? at::tanh(x / *cap) * *cap : x;
}

at::Tensor logits_of(const at::Tensor& rows, const at::Tensor& states,
                     const std::optional<double>& cap) {
  return capped(at::linear(states, rows).to(at::kFloat), cap);
}

at::ScalarType activation_dtype(at::ScalarType weights) {
  return weights == at::kHalf ? at::kFloat : weights;
}

at::Tensor half_product(const at::Tensor& x, const at::Tensor& matrix) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = matrix.size(1);
  const at::Tensor product =
      x.requires_grad() ? HalfProduct::apply(rows, matrix) : scaled_product(rows, matrix);
  return product.view(shape);
}

at::Tensor apply_linear(const Linear& linear, const at::Tensor& x) {
  at::Tensor y;
  if (linear.weight.scalar_type() != at::kHalf) {
    y = at::linear(x, linear.weight, linear.bias);
  } else {
    y = half_product(x.to(at::kFloat), linear.weight.t());
    if (linear.bias.defined()) y.add_(linear.bias);
  }
  if (!linear.update.A.defined()) return y;
  const at::ScalarType dtype = y.scalar_type();
  const at::Tensor inner = at::linear(x.to(dtype), linear.update.A.to(dtype));
  return y + at::linear(inner, linear.update.B.to(dtype));
}

std::vector<at::Tensor> apply_in_proj(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                      at::IntArrayRef widths) {
  if (in_proj.size() == 1) {
    return apply_linear(in_proj[0], x).split_with_sizes(widths, /*dim=*/-1);
  }
  std::vector<at::Tensor> parts;
  parts.reserve(in_proj.size());
  for (const Linear& linear : in_proj) parts.push_back(apply_linear(linear, x));
  return parts;
}

at::Tensor project(const at::Tensor& x, const at::Tensor& projection) {
  return projection.defined() ? at::linear(x, projection.to(at::kFloat)) : x;
}

at::Tensor scaled_embedding(const at::Tensor& rows, const at::Tensor& projection, double scale) {
  const at::Tensor x = project(rows, projection);
  return scale == 1.0 ? x : x * scale;
}

}  // namespace dotresize
