#include "worker/transformer/shortcut_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace dotresize {
namespace {

constexpr double kFoldingError = 1e-9;  // of maps and products in float64

/// Half the distance of 1 to the next number: the largest relative error of rounding.
double unit_roundoff(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return std::ldexp(1.0, -8);
    case at::kHalf:
      return std::ldexp(1.0, -11);
    default:
      return std::ldexp(1.0, -24);
  }
}

/// The largest absolute error of rounding a number that is too small for that: float16 alone has
/// such numbers here.
double least_roundoff(at::ScalarType dtype) {
  return dtype == at::kHalf ? std::ldexp(1.0, -25) : 0.0;
}

double rounding_norm(const at::Tensor& stored, const at::Tensor& exact) {
  const at::ScalarType dtype = stored.scalar_type();
  return kFoldingError + unit_roundoff(dtype) * exact.norm().item<double>() +
         least_roundoff(dtype) * std::sqrt(static_cast<double>(exact.numel()));
}

/// Ascending, [min(rows, columns)] float64.
at::Tensor squared_singular_values(const at::Tensor& matrix) {
  const bool wide = matrix.size(0) < matrix.size(1);
  return at::linalg_eigvalsh(wide ? at::mm(matrix, matrix.t()) : at::mm(matrix.t(), matrix));
}

}  // namespace

std::optional<std::string> shortcut_problem(const at::Tensor& stored, int64_t hidden_size) {
  const at::Tensor exact = stored.to(at::kDouble);
  const double allowed = rounding_norm(stored, exact);
  const at::Tensor squares = squared_singular_values(exact);
  const double least = std::sqrt(std::max(0.0, squares[0].item<double>()));
  const double greatest = std::sqrt(std::max(0.0, squares[-1].item<double>()));
  if (greatest > 1 + allowed) {
    return "has the singular value " + std::to_string(greatest) +
           ", more than the 1 that orthonormal maps allow";
  }
  const bool rotates = std::max(stored.size(0), stored.size(1)) == hidden_size;
  if (rotates && least < 1 - allowed) {
    return "has the singular value " + std::to_string(least) +
           ", less than the 1 that a junction of full width implies";
  }
  return std::nullopt;
}

}  // namespace dotresize
