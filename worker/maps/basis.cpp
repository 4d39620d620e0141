#include "worker/maps/basis.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace dotresize {
namespace {

/// Narrower matrices are decomposed on the host, wherever they are: a GPU is no faster there.
constexpr int64_t kMinWidthOnGpu = 512;

/// Multiplies each column by ±1 so that its entry of largest magnitude, the first of equals, is
/// positive. Without it the l1 costs in the basis would depend on the eigen-solver.
at::Tensor fix_signs(const at::Tensor& vectors) {
  const at::Tensor largest = vectors.abs().argmax(/*dim=*/0, /*keepdim=*/true);
  return vectors * vectors.gather(0, largest).sign();
}

}  // namespace

Eigenbasis eigenbasis(const at::Tensor& gram) {
  TORCH_CHECK(gram.dim() == 2 && gram.size(0) == gram.size(1) && gram.scalar_type() == at::kDouble,
              "a Gram matrix must be square and float64, not ", gram.sizes(), " ",
              gram.scalar_type());
  if (!gram.isfinite().all().item<bool>()) {
    throw std::runtime_error("the Gram matrix of the activations is not finite");
  }
  if (gram.is_cuda() && gram.size(0) < kMinWidthOnGpu) {
    const Eigenbasis basis = eigenbasis(gram.cpu());
    return {basis.values.to(gram.device()), basis.vectors.to(gram.device())};
  }
  const auto [ascending, vectors] = at::linalg_eigh(gram);
  return {ascending.flip(0), fix_signs(vectors.flip(1)).contiguous()};
}

int64_t effective_rank(const at::Tensor& values, double share) {
  TORCH_CHECK(values.dim() == 1 && values.scalar_type() == at::kDouble,
              "eigenvalues must be a float64 vector, not ", values.sizes(), " ",
              values.scalar_type());
  const at::Tensor held = at::cat({at::zeros({1}, values.options()), values.cumsum(0)}).cpu();
  const auto sums = held.accessor<double, 1>();
  const double trace = sums[values.size(0)];
  int64_t rank = 0;
  while (rank < values.size(0) && sums[rank] < share * trace) ++rank;
  return rank;
}

}  // namespace dotresize
