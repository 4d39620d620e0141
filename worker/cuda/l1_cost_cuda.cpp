#include <ATen/ATen.h>
#include <ATen/ceil_div.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <limits>

#include "worker/cuda/gpu_program.h"

namespace dotresize {
namespace {

// Constants of l1_cost.cu.
constexpr int64_t kTile = 128;
constexpr unsigned int kThreads = 256;
constexpr int64_t kMirrorTile = 32;

void check(const at::Tensor& x, at::ScalarType dtype, const at::Tensor& cost) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == dtype && x.is_contiguous() && x.is_cuda(),
              "l1 cost: x must be a contiguous ", dtype, " matrix on a GPU, not ", x.sizes(), " ",
              x.scalar_type(), " on ", x.device());
  TORCH_CHECK(cost.dim() == 2 && cost.size(0) == x.size(1) && cost.size(1) == x.size(1) &&
                  cost.scalar_type() == at::kDouble && cost.is_contiguous() &&
                  cost.device() == x.device(),
              "l1 cost: the cost of ", x.size(1), " channels must be contiguous, float64, square ",
              "and on ", x.device(), ", not ", cost.sizes(), " ", cost.scalar_type(), " on ",
              cost.device());
  constexpr int64_t kMaxSize = std::numeric_limits<int>::max() / 2;
  TORCH_CHECK(x.size(0) <= kMaxSize && x.size(1) <= kMaxSize, "l1 cost: too large: ", x.sizes());
}

/// `options`: kernel arguments besides x, cost and their sizes.
template <typename... Options>
void launch(const char* kernel, const at::Tensor& x, at::Tensor& cost, Options... options) {
  if (x.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(x.device());
  const GpuProgram& program = loaded_program(l1_cost_program(), x.get_device());
  const auto tokens = static_cast<int>(x.size(0));
  const auto width = static_cast<int>(cost.size(0));
  double* sums = cost.data_ptr<double>();
  const auto tiles = static_cast<unsigned int>(at::ceil_div(int64_t{width}, kTile));
  program.kernel(kernel).launch(tiles * (tiles + 1) / 2, kThreads, x.const_data_ptr(), sums, tokens,
                                width, options...);
}

}  // namespace

void add_l1_cost_cuda(const at::Tensor& x, at::Tensor& cost) {
  check(x, at::kFloat, cost);
  launch("l1_cost_float", x, cost);
}

void add_half_l1_cost_cuda(const at::Tensor& x, double unit, at::Tensor& cost) {
  check(x, at::kHalf, cost);
  // The kernel reads two channels at once.
  const at::Tensor pairs = x.size(1) % 2 == 0 ? x : at::constant_pad_nd(x, {0, 1});
  TORCH_CHECK(reinterpret_cast<uintptr_t>(pairs.const_data_ptr()) % 4 == 0,
              "l1 cost: float16 x must begin at a multiple of four bytes");
  launch("l1_cost_half", pairs, cost, static_cast<int>(pairs.size(1) / 2), unit);
}

void mirror_upper_triangle_cuda(at::Tensor& matrix) {
  if (matrix.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(matrix.device());
  const GpuProgram& program = loaded_program(l1_cost_program(), matrix.get_device());
  const auto width = static_cast<int>(matrix.size(0));
  const auto mirrors = static_cast<unsigned int>(at::ceil_div(int64_t{width}, kMirrorTile));
  program.kernel("mirror_upper_triangle")
      .launch({mirrors, mirrors}, {static_cast<unsigned int>(kMirrorTile), 8},
              matrix.data_ptr<double>(), width);
}

}  // namespace dotresize
