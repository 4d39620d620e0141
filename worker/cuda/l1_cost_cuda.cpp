#include <ATen/ceil_div.h>
#include <ATen/ops/linalg_vector_norm.h>
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

void check(const at::Tensor& x, const at::Tensor& cost) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kFloat && x.is_contiguous() && x.is_cuda(),
              "l1 cost: x must be a contiguous float32 matrix on a GPU, not ", x.sizes(), " ",
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

}  // namespace

void add_l1_cost_cuda(const at::Tensor& x, at::Tensor& cost) {
  check(x, cost);
  if (x.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(x.device());
  const GpuProgram& program = loaded_program(l1_cost_program(), x.get_device());
  const at::Tensor largest =
      at::linalg_vector_norm(x, std::numeric_limits<double>::infinity());  // NaN if x has one
  const auto tokens = static_cast<int>(x.size(0));
  const auto width = static_cast<int>(x.size(1));
  const auto tiles = static_cast<unsigned int>(at::ceil_div(int64_t{width}, kTile));
  program.kernel("l1_cost").launch(tiles * (tiles + 1) / 2, kThreads, x.const_data_ptr(),
                                   largest.const_data_ptr(), cost.data_ptr<double>(), tokens,
                                   width);
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
