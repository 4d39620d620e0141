#include "worker/kernels/removal_steps.h"

#include <ATen/ATen.h>

#include <limits>

#include "worker/kernels/cuda_kernels.h"

namespace dotresize {
namespace {

/// Returns a row of a symmetric matrix from its lower triangle.
at::Tensor symmetric_row(const at::Tensor& matrix, int64_t row) {
  const int64_t behind = matrix.size(0) - row;
  return at::cat(
      {matrix.select(0, row).narrow(0, 0, row), matrix.select(1, row).narrow(0, row, behind)});
}

}  // namespace

RemovalSteps removal_steps(RemovalState& state, int64_t count) {
  TORCH_CHECK(count <= kMaxRemovalSteps, count, " steps of a removal at once");
  if (state.inverse.is_cuda()) return cuda_kernels().removal_steps(state, count);
  at::Tensor& squares = state.squares;
  at::Tensor& diagonal = state.diagonal;
  const at::Tensor rows = at::empty({count, state.inverse.size(1)}, state.inverse.options());
  const at::Tensor changes = at::empty_like(rows);
  const at::Tensor costs = at::empty({count}, rows.options());
  const at::Tensor removed = at::empty({count}, rows.options().dtype(at::kLong));
  for (int64_t step = 0; step < count; ++step) {
    const auto [least, at] = (squares / diagonal).min(0, /*keepdim=*/true);
    costs.narrow(0, step, 1).copy_(least);
    removed.narrow(0, step, 1).copy_(at);
    const auto of_removed = [&at = at](const at::Tensor& t) { return t.index_select(-1, at); };
    const at::Tensor past_rows = rows.narrow(0, 0, step);
    const at::Tensor past_changes = changes.narrow(0, 0, step);
    const at::Tensor of_rows = of_removed(past_rows).squeeze(1);
    const auto p = at.item<int64_t>();
    at::Tensor row = symmetric_row(state.inverse, p).sub_(at::mv(past_rows.t(), of_rows));
    const at::Tensor pivot = of_removed(row).sqrt();
    row.div_(pivot);
    at::Tensor change = symmetric_row(state.products, p)
                            .sub_(at::mv(past_changes.t(), of_rows))
                            .sub_(at::mv(past_rows.t(), of_removed(past_changes).squeeze(1)));
    change.div_(pivot).sub_(row * (of_removed(squares) / (2.0 * pivot.square())));
    squares.addcmul_(row, change, -2.0);
    diagonal.sub_(row.square());
    squares.index_fill_(0, at, std::numeric_limits<double>::infinity());
    diagonal.index_fill_(0, at, 1.0);
    rows[step].copy_(row);
    changes[step].copy_(change);
  }
  return {rows, changes, costs, removed};
}

}  // namespace dotresize
