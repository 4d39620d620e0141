#include "worker/transformer/shortcut_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace dotresize {
namespace {

constexpr double kFoldingError = 1e-9;  // error of maps and products in float64

/// Returns a bound of the Frobenius norm of the error of the stored matrix.
double rounding_norm(const at::Tensor& stored, const at::Tensor& exact) {
  // Half the distance from 1 to the next number: the largest relative error of rounding.
  double unit_roundoff = std::ldexp(1.0, -24);
  // Largest absolute error of rounding a subnormal number. Only float16 has them here.
  double least_roundoff = 0.0;
  if (stored.scalar_type() == at::kBFloat16) unit_roundoff = std::ldexp(1.0, -8);
  if (stored.scalar_type() == at::kHalf) {
    unit_roundoff = std::ldexp(1.0, -11);
    least_roundoff = std::ldexp(1.0, -25);
  }
  return kFoldingError + unit_roundoff * exact.norm().item<double>() +
         least_roundoff * std::sqrt(static_cast<double>(exact.numel()));
}

/// Returns the least and the greatest singular value.
std::pair<double, double> singular_range(const at::Tensor& matrix) {
  const bool wide = matrix.size(0) < matrix.size(1);
  const at::Tensor squares =
      at::linalg_eigvalsh(wide ? at::mm(matrix, matrix.t()) : at::mm(matrix.t(), matrix));
  const auto root_of = [](const at::Tensor& square) {
    return std::sqrt(std::max(0.0, square.item<double>()));
  };
  return {root_of(squares[0]), root_of(squares[-1])};
}

std::optional<std::string> stretch_problem(double greatest, double allowed) {
  if (greatest <= 1 + allowed) return std::nullopt;
  return "has the singular value " + std::to_string(greatest) +
         ", more than the 1 that orthonormal maps allow";
}

}  // namespace

std::optional<std::string> shortcut_problem(const at::Tensor& stored, int64_t hidden_size) {
  const at::Tensor exact = stored.to(at::kDouble);
  const double allowed = rounding_norm(stored, exact);
  const auto [least, greatest] = singular_range(exact);
  if (auto problem = stretch_problem(greatest, allowed)) return problem;
  const bool rotates = std::max(stored.size(0), stored.size(1)) == hidden_size;
  if (rotates && least < 1 - allowed) {
    return "has the singular value " + std::to_string(least) +
           ", less than the 1 that a junction of full width implies";
  }
  return std::nullopt;
}

std::optional<std::string> shortcut_factor_problem(const at::Tensor& stored, int64_t k_out) {
  const at::Tensor A = stored.to(at::kDouble).t();
  const int64_t common = std::min(A.size(0), k_out);
  const at::Tensor upper = A.narrow(0, 0, common);
  const double rounding = rounding_norm(stored, A);
  if (auto problem = stretch_problem(singular_range(upper).second, rounding)) return problem;
  if (A.size(0) <= k_out) return std::nullopt;  // eigenvalues 1 - s² with s in [0, 1]
  const at::Tensor shortcut = at::eye(A.size(0), common, A.options()) - at::mm(A, upper.t());
  const double norms = A.norm().item<double>() + upper.norm().item<double>();
  return stretch_problem(singular_range(shortcut).second, rounding * (1.0 + norms));
}

}  // namespace dotresize
