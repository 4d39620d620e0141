#include "worker/kernels/upper_triangle.h"

#include <algorithm>

#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/parallel_for_each.h"

namespace dotresize {
namespace {

constexpr int64_t kBlock = 32;

/// The rows [first, first + kBlock) from the columns of that name.
void mirror_rows(double* matrix, int64_t width, int64_t first) {
  const int64_t end = std::min(first + kBlock, width);
  for (int64_t column = 0; column < end; column += kBlock) {
    for (int64_t j = first; j < end; ++j) {
      const int64_t column_end = std::min(column + kBlock, j);
      for (int64_t i = column; i < column_end; ++i) matrix[j * width + i] = matrix[i * width + j];
    }
  }
}

}  // namespace

void mirror_upper_triangle(at::Tensor& matrix) {
  TORCH_CHECK(matrix.dim() == 2 && matrix.size(0) == matrix.size(1) &&
                  matrix.scalar_type() == at::kDouble && matrix.is_contiguous(),
              "only a contiguous square float64 matrix can be mirrored, not ", matrix.sizes(), " ",
              matrix.scalar_type());
  if (matrix.is_cuda()) return cuda_kernels().mirror_upper_triangle(matrix);
  const int64_t width = matrix.size(0);
  double* values = matrix.data_ptr<double>();
  parallel_for_each((width + kBlock - 1) / kBlock,
                    [&](int64_t n) { mirror_rows(values, width, n * kBlock); });
}

}  // namespace dotresize
