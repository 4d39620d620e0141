#include "worker/maps/moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/errors.h"
#include "worker/kernels/l1_cost.h"

namespace dotresize {
namespace {

constexpr int64_t kBlockTokens = 1024;
at::Tensor zeros(bool wanted, at::IntArrayRef shape, at::Device device) {
  return wanted ? at::zeros(shape, at::dtype(at::kDouble).device(device)) : at::Tensor();
}

}  // namespace

ReproducibleSum::ReproducibleSum(double bound) {
  if (bound == 0.0) return;
  const double quantum = std::exp2(std::ceil(std::log2(bound)) - 50.0);
  shift = 1.5 * std::exp2(52.0) * quantum;
}

void ReproducibleSum::round(at::Tensor& summand) const {
  if (shift != 0.0) summand.add_(shift).sub_(shift);
}

Moments::Moments(int64_t width, MomentKinds kinds, at::Device device, const MomentOptions& options)
    : gram(zeros(kinds.gram && !options.packed, {width, width}, device)),
      abs_sum(zeros(kinds.sums.abs_sum, {width}, device)),
      cost(zeros(kinds.sums.cost, {width, width}, device)),
      width_(width),
      gram_rows_(std::clamp<int64_t>(width / 8, 64, 1024)),
      device_(device),
      what_(options.what) {
  TORCH_CHECK(!(options.packed && options.reproducible), "packed sums are not reproducible");
  for (int64_t row = 0; kinds.gram && options.packed && row < width; row += gram_rows_) {
    packed_.push_back(at::zeros({std::min(gram_rows_, width - row), width - row},
                                at::dtype(at::kFloat).device(device)));
  }
  // Sums of zeros need no rounding.
  if (!options.reproducible || options.reproducible->max_norm == 0.0) return;
  const auto n = static_cast<double>(options.reproducible->tokens);
  const double norm = options.reproducible->max_norm;
  gram_rounding_ = ReproducibleSum(n * norm * norm);
  abs_sum_rounding_ = ReproducibleSum(n * norm);
  cost_rounding_ = ReproducibleSum(2.0 * n * norm);
}

void Moments::add(const at::Tensor& x) {
  TORCH_CHECK(x.dim() >= 1 && x.size(-1) == width_ && x.scalar_type() == at::kFloat,
              "activations must be float32 of width ", width_, ", not ", x.sizes(), " ",
              x.scalar_type());
  const at::Tensor tokens = x.reshape({-1, width_}).contiguous();
  const std::vector<at::Tensor> blocks = tokens.split(kBlockTokens);
  // A float64 sum of float32 numbers cannot overflow, so it is finite if all of them are. A single
  // check on a GPU waits only once.
  for (const at::Tensor& part :
       tokens.is_cuda() ? at::TensorList(tokens) : at::TensorList(blocks)) {
    if (!std::isfinite(part.sum(at::kDouble).item<double>())) {
      throw NonFiniteError(std::string("the ") + what_ + " are not finite");
    }
  }
  for (const at::Tensor& block : blocks) {
    if (gram.defined()) add_gram(block);
    for (at::Tensor& sum : packed_) {
      const int64_t row = width_ - sum.size(1);
      sum.addmm_(block.narrow(1, row, sum.size(0)).t(), block.narrow(1, row, sum.size(1)));
    }
    if (!abs_sum.defined()) continue;
    at::Tensor part = block.abs().sum(0, /*keepdim=*/false, at::kDouble);
    abs_sum_rounding_.round(part);
    abs_sum += part;
  }
  if (cost.defined()) add_l1_cost(tokens, cost, cost_rounding_.shift);
}

/// Products are summed in float64 on the CPU. With float32 blocks the projectors of a 256-wide
/// model differed by up to 2e-5 between two ways of splitting the same tokens, with float64 by
/// 4e-13: rounding errors change eigenvectors of small eigenvalues in proportion to the largest
/// eigenvalue. Float64 products are too slow on a GPU. There a block is summed in float32, and
/// blocks are added in float64.
void Moments::add_gram(const at::Tensor& tokens) {
  const at::Tensor block = tokens.is_cuda() ? tokens : tokens.to(at::kDouble);
  for (int64_t row = 0; row < width_; row += gram_rows_) {
    const int64_t rows = std::min(gram_rows_, width_ - row);
    const int64_t columns = width_ - row;
    at::Tensor part =
        at::mm(block.narrow(1, row, rows).t(), block.narrow(1, row, columns)).to(at::kDouble);
    gram_rounding_.round(part);
    gram.narrow(0, row, rows).narrow(1, row, columns) += part;
  }
}

at::Tensor Moments::upper_gram() const {
  if (packed_.empty()) return gram;
  at::Tensor upper = zeros(true, {width_, width_}, device_);
  for (const at::Tensor& sum : packed_) {
    const int64_t row = width_ - sum.size(1);
    upper.narrow(0, row, sum.size(0)).narrow(1, row, sum.size(1)).copy_(sum);
  }
  return upper;
}

Moments Moments::copied(bool to_host) const {
  const at::Device device = to_host ? at::Device(at::kCPU) : device_;
  Moments copy = *this;
  const auto move = [&](at::Tensor& sum) {
    if (sum.defined())
      sum = sum.to(at::TensorOptions(device), /*non_blocking=*/false, /*copy=*/true);
  };
  for (at::Tensor* sum : {&copy.gram, &copy.abs_sum, &copy.cost}) move(*sum);
  for (at::Tensor& sum : copy.packed_) move(sum);
  return copy;
}

void Moments::mirror() {
  if (!packed_.empty()) {
    gram = upper_gram();
    packed_.clear();
  }
  if (gram.defined()) mirror_upper_triangle(gram);
  if (cost.defined()) mirror_upper_triangle(cost);
}

std::vector<at::Tensor> Moments::sums() const {
  std::vector<at::Tensor> defined;
  for (const at::Tensor& sum : {gram, abs_sum, cost}) {
    if (sum.defined()) defined.push_back(sum);
  }
  return defined;
}

}  // namespace dotresize
