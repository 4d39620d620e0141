#include "worker/maps/describe/spectrum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/errors.h"

namespace dotresize {
namespace {

/// Smallest width to decompose on a GPU. Below it the GPU is no faster than the host.
constexpr int64_t kMinWidthOnGpu = 512;

/// Columns or rows of a matrix to process at a time, to avoid a full copy.
constexpr int64_t kBlock = 512;

constexpr int kSpectrumPoints = 32;

void check_gram(const at::Tensor& gram) {
  TORCH_CHECK(gram.dim() == 2 && gram.size(0) == gram.size(1) && gram.scalar_type() == at::kDouble,
              "a Gram matrix must be square and float64, not ", gram.sizes(), " ",
              gram.scalar_type());
  if (!std::isfinite(gram.sum().item<double>()) && !gram.isfinite().all().item<bool>()) {
    throw NonFiniteError("the Gram matrix of the activations is not finite");
  }
}

void check_eigenvalues(const at::Tensor& values) {
  TORCH_CHECK(values.dim() == 1 && values.scalar_type() == at::kDouble,
              "eigenvalues must be a float64 vector, not ", values.sizes(), " ",
              values.scalar_type());
}

// κ(R)² = λmax(RᵀR) · λmax((RᵀR)⁻¹). Both are found by the Lanczos method: the largest eigenvalue
// of the symmetric A restricted to span{q, Aq, A²q, ...}. A is tridiagonal in the orthonormal basis
// of that space (Golub and Van Loan, "Matrix Computations", chapter 10).

constexpr int64_t kMaxSteps = 300;
constexpr double kRelativeChange =
    1e-9;  // relative change of the eigenvalue in each of the last steps
constexpr int kSteadySteps = 3;

double largest_of_tridiagonal(const std::vector<double>& diagonal,
                              const std::vector<double>& beside) {
  const auto size = static_cast<int64_t>(diagonal.size());
  at::Tensor matrix = at::zeros({size, size}, at::kDouble);
  auto entries = matrix.accessor<double, 2>();
  for (int64_t i = 0; i < size; ++i) {
    entries[i][i] = diagonal[static_cast<size_t>(i)];
    if (i > 0) entries[i][i - 1] = entries[i - 1][i] = beside[static_cast<size_t>(i - 1)];
  }
  return at::linalg_eigvalsh(matrix).max().item<double>();
}

/// Returns the largest eigenvalue of x -> apply(x), symmetric and positive, on vectors [size].
template <class Apply>
double largest_eigenvalue(int64_t size, const Apply& apply) {
  at::Tensor basis = at::zeros({std::min(size, kMaxSteps), size}, at::kDouble);
  // The start is the same in every run. It must not be orthogonal to an eigenvector.
  at::Tensor q = at::arange(1, size + 1, at::kDouble).square().sin().add(1.5);
  q = q / q.norm();
  std::vector<double> diagonal;
  std::vector<double> beside;
  double value = 0.0;
  int steady = 0;
  for (int64_t step = 0; step < basis.size(0) && steady < kSteadySteps; ++step) {
    basis[step] = q;
    const at::Tensor image = apply(q);
    diagonal.push_back(q.dot(image).item<double>());
    const double before = value;
    value = largest_of_tridiagonal(diagonal, beside);
    steady = std::abs(value - before) <= kRelativeChange * value ? steady + 1 : 0;
    // Orthogonalized twice, because one pass loses accuracy by cancellation.
    const at::Tensor known = basis.narrow(0, 0, step + 1);
    at::Tensor rest = image - at::mv(known.t(), at::mv(known, image));
    rest -= at::mv(known.t(), at::mv(known, rest));
    beside.push_back(rest.norm().item<double>());
    if (!(beside.back() > 0)) break;
    q = rest / beside.back();
  }
  return value;
}

}  // namespace

Eigenbasis eigenbasis(const at::Tensor& gram) {
  check_gram(gram);
  if (gram.is_cuda() && gram.size(0) < kMinWidthOnGpu) {
    const Eigenbasis basis = eigenbasis(gram.cpu());
    return {basis.values.to(gram.device()), basis.vectors.to(gram.device())};
  }
  const auto [values, ascending] = at::linalg_eigh(gram);
  // The sign of a column is that of its largest entry by magnitude, the first of equal ones. Fixed
  // signs keep the l1 costs in the basis independent of the eigensolver.
  at::Tensor signs = at::empty({ascending.size(1)}, ascending.options());
  for (int64_t first = 0; first < ascending.size(1); first += kBlock) {
    const int64_t count = std::min(kBlock, ascending.size(1) - first);
    const at::Tensor columns = ascending.narrow(1, first, count);
    const at::Tensor largest = columns.abs().argmax(/*dim=*/0, /*keepdim=*/true);
    signs.narrow(0, first, count).copy_(columns.gather(0, largest).sign().squeeze(0));
  }
  signs = signs.flip(0);
  at::Tensor basis = at::empty(ascending.sizes(), ascending.options());  // contiguous
  for (int64_t first = 0; first < basis.size(0); first += kBlock) {
    const int64_t count = std::min(kBlock, basis.size(0) - first);
    basis.narrow(0, first, count).copy_(ascending.narrow(0, first, count).flip(1) * signs);
  }
  return {values.flip(0), basis};
}

at::Tensor spectrum(const at::Tensor& gram) {
  check_gram(gram);
  if (gram.is_cuda() && gram.size(0) < kMinWidthOnGpu) {
    return spectrum(gram.cpu()).to(gram.device());
  }
  return at::linalg_eigvalsh(gram).flip(0);
}

int64_t effective_rank(const at::Tensor& values, double share) {
  check_eigenvalues(values);
  const at::Tensor held = at::cat({at::zeros({1}, values.options()), values.cumsum(0)}).cpu();
  const auto sums = held.accessor<double, 1>();
  const double trace = sums[values.size(0)];
  int64_t rank = 0;
  while (rank < values.size(0) && sums[rank] < share * trace) ++rank;
  return rank;
}

EnergyOverRank energy_over_rank(const at::Tensor& values) {
  check_eigenvalues(values);
  const at::Tensor held = values.cumsum(0).cpu();
  const auto sums = held.accessor<double, 1>();
  const int64_t d = values.size(0);
  EnergyOverRank points;
  int64_t last = 0;
  for (int i = 0; i < kSpectrumPoints; ++i) {
    const double share = static_cast<double>(i) / (kSpectrumPoints - 1);
    const auto rank = static_cast<int64_t>(std::lround(std::pow(static_cast<double>(d), share)));
    if (rank <= last || rank > d) continue;
    last = rank;
    points.emplace_back(rank, sums[rank - 1] / sums[d - 1]);
  }
  return points;
}

double triangular_condition(const at::Tensor& R) {
  TORCH_CHECK(
      R.dim() == 2 && R.size(0) == R.size(1) && R.size(0) > 0 && R.scalar_type() == at::kDouble,
      "a triangular matrix must be square and float64, not ", R.sizes(), " ", R.scalar_type());
  const at::Tensor upper = R.cpu().contiguous();  // many small steps are faster on the host
  const at::Tensor lower = upper.t();
  const auto solve = [](const at::Tensor& triangle, const at::Tensor& x, bool is_upper) {
    return at::linalg_solve_triangular(triangle, x.unsqueeze(1), is_upper).squeeze(1);
  };
  const double largest = largest_eigenvalue(
      R.size(0), [&](const at::Tensor& x) { return at::mv(lower, at::mv(upper, x)); });
  const double inverse_of_smallest = largest_eigenvalue(R.size(0), [&](const at::Tensor& x) {
    return solve(upper, solve(lower, x, /*is_upper=*/false), /*is_upper=*/true);
  });
  return std::sqrt(largest) * std::sqrt(inverse_of_smallest);
}

}  // namespace dotresize
