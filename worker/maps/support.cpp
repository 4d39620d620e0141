#include "worker/maps/support.h"

#include <ATen/ATen.h>

namespace dotresize {

at::Tensor select_support(const at::Tensor& scores, int64_t k) {
  TORCH_CHECK(scores.dim() == 1, "scores must be a vector, not ", scores.sizes());
  TORCH_CHECK(k >= 0 && k <= scores.size(0), "cannot select ", k, " of ", scores.size(0));
  const at::Tensor best_first =
      std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  return std::get<0>(best_first.narrow(0, 0, k).sort());
}

}  // namespace dotresize
