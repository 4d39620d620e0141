#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worker/maps/describe/spectrum.h"

namespace dotresize {
namespace {

double reference(const at::Tensor& R) {
  const at::Tensor values = at::linalg_svdvals(R);
  return (values.max() / values.min()).item<double>();
}

/// Returns R of a random matrix whose column sizes fall to 10^-decades (no fall if `decades` is 0).
at::Tensor triangle(int64_t k, double decades) {
  at::manual_seed(static_cast<uint64_t>(k));
  const at::Tensor sizes = at::pow(10.0, at::linspace(0, -decades, k, at::kDouble));
  return std::get<1>(at::linalg_qr(at::randn({k + 20, k}, at::kDouble) * sizes));
}

class ConditionOfSize : public testing::TestWithParam<int64_t> {};

TEST_P(ConditionOfSize, IsTheRatioOfSingularValues) {
  for (const double decades : {0.0, 3.0, 9.0}) {
    const at::Tensor R = triangle(GetParam(), decades);
    EXPECT_NEAR(triangular_condition(R) / reference(R), 1.0, 1e-6) << decades;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ConditionOfSize, testing::Values(1, 2, 37, 400));

TEST(Condition, OfADiagonalMatrixIsTheRatioOfItsEntries) {
  EXPECT_NEAR(triangular_condition(at::diag(at::arange(1, 101, at::kDouble))), 100.0, 1e-6);
  EXPECT_NEAR(triangular_condition(at::eye(50, at::kDouble)), 1.0, 1e-12);
}

}  // namespace
}  // namespace dotresize
