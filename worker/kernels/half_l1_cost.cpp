#include "worker/kernels/half_l1_cost.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/kernels/add_rounded.h"
#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/l1_cost.h"

namespace dotresize {
namespace {

constexpr int64_t kSampleTokens = 512;
/// Twice as much is the largest difference, eight such ones are summed in float16.
constexpr double kMaxMagnitude = 4094.0;
constexpr int kMaxExponent = 126;  // 2^s is a normal float32 number

/// The largest s with |x| 2^s <= kMaxMagnitude for all of x. 0 if it does not matter: all
/// values are zero, or one is not finite.
int scale_exponent(const at::Tensor& x) {
  const double largest =
      at::linalg_vector_norm(x, std::numeric_limits<double>::infinity()).item<double>();
  if (!(largest > 0.0) || !std::isfinite(largest)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);
  int scale = 12 - exponent;  // to 2048 .. 4096
  if (std::ldexp(largest, scale) > kMaxMagnitude) --scale;
  return std::clamp(scale, -kMaxExponent, kMaxExponent);
}

}  // namespace

void add_half_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift) {
  if (x.numel() == 0) return;
  const int scale = scale_exponent(x);
  const at::Tensor scaled = at::mul(x, std::ldexp(1.0, scale)).to(at::kHalf);
  const double unit = std::ldexp(1.0, -scale);
  add_rounded(cost, shift,
              [&](at::Tensor& sums) { cuda_kernels().add_half_l1_cost(scaled, unit, sums); });
}

double half_l1_cost_error(const at::Tensor& x) {
  const at::Tensor sample = x.narrow(0, 0, std::min(kSampleTokens, x.size(0)));
  at::Tensor exact = at::zeros({x.size(1), x.size(1)}, x.options().dtype(at::kDouble));
  at::Tensor half = at::zeros_like(exact);
  add_l1_cost(sample, exact);
  add_half_l1_cost(sample, half);
  half.sub_(exact).abs_().div_(exact.clamp_min_(std::numeric_limits<double>::min()));
  return half.triu_(/*diagonal=*/1).max().item<double>();
}

}  // namespace dotresize
