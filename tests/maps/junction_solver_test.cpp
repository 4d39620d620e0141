#include "worker/maps/junction_solver.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/maps/activations.h"
#include "tests/maps/solve_junction.h"
#include "worker/maps/describe/transport_picture.h"
#include "worker/maps/map_algorithm.h"
#include "worker/maps/moments.h"

namespace dotresize {
namespace {

constexpr int64_t kWidth = 48;
constexpr int64_t kTokens = 600;

constexpr Method kMagnitude = {"magnitude", Basis::kIdentity, MapKind::kSelection};
constexpr Method kDotResize = {"dotresize", Basis::kIdentity, MapKind::kTransport};
constexpr Method kSliceGpt = {"slicegpt", Basis::kPca, MapKind::kSelection};
constexpr Method kPcaDotResize = {"pca_dotresize", Basis::kPca, MapKind::kTransport};
constexpr Method kMethods[] = {kMagnitude, kDotResize, kSliceGpt, kPcaDotResize};

/// Data of a junction during calibration.
struct Junction {
  at::Tensor x;
  JunctionStatistics statistics;
  Eigenbasis basis;
};

Junction junction(bool pca, int64_t tokens = kTokens) {
  Junction result;
  result.x = stream_activations(tokens, kWidth);
  Moments gram(kWidth, {.gram = true});
  gram.add(result.x);
  gram.mirror();
  result.basis = eigenbasis(gram.gram / static_cast<double>(tokens));
  Moments costs(kWidth, {.sums = {.abs_sum = true, .cost = true}});
  costs.add(pca ? at::mm(result.x, result.basis.vectors.to(at::kFloat)) : result.x);
  costs.mirror();
  result.statistics = {tokens, gram.gram, costs.abs_sum, costs.cost};
  return result;
}

MapOptions options_of(const Method& method) { return {method.basis, method.map}; }

JunctionSolution solve(const Method& method, int64_t width) {
  const Junction given = junction(method.pca());
  return solve_junction(given.statistics, given.basis, options_of(method), width);
}

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

at::Tensor projector(const at::Tensor& M) { return at::mm(M, M.t()); }

class JunctionSolver : public testing::TestWithParam<Method> {};

TEST_P(JunctionSolver, YieldsOrthonormalMaps) {
  for (const int64_t width : {1, 31, 40}) {
    const JunctionMap map = solve(GetParam(), width).map;
    ASSERT_EQ(map.M.sizes(), at::IntArrayRef({kWidth, width}));
    EXPECT_LE(largest(at::mm(map.M.t(), map.M) - at::eye(width, at::kDouble)), 1e-13);
    EXPECT_TRUE(map.M_inv.equal(map.M.t()));
    EXPECT_TRUE(map.M.is_contiguous());
  }
}

TEST_P(JunctionSolver, LosesNothingAtFullWidth) {
  const JunctionSolution solution = solve(GetParam(), kWidth);
  EXPECT_LE(largest(projector(solution.map.M) - at::eye(kWidth, at::kDouble)), 1e-13);
  EXPECT_NEAR(solution.diagnostics.retained_energy, 1.0, 1e-13);
  EXPECT_TRUE(solution.support.equal(at::arange(kWidth)));
}

TEST_P(JunctionSolver, MeasuresTheRetainedEnergyOfTheActivations) {
  const Junction given = junction(GetParam().pca());
  const JunctionSolution solution =
      solve_junction(given.statistics, given.basis, options_of(GetParam()), 31);
  const at::Tensor x = given.x.to(at::kDouble);
  const double energy =
      (at::mm(x, solution.map.M).square().sum() / x.square().sum()).item<double>();
  EXPECT_NEAR(solution.diagnostics.retained_energy, energy, 1e-12);
  EXPECT_EQ(solution.diagnostics.effective_rank, effective_rank(given.basis.values));
}

TEST_P(JunctionSolver, RefusesStatisticsThatAreNotFinite) {
  Junction given = junction(GetParam().pca());
  given.statistics.gram[2][2] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(solve_junction(given.statistics, given.basis, options_of(GetParam()), 31),
               std::runtime_error);
}

TEST_P(JunctionSolver, RefusesAJunctionThatSawNothing) {
  Junction given = junction(GetParam().pca());
  given.statistics.gram.zero_();
  EXPECT_THROW(solve_junction(given.statistics, given.basis, options_of(GetParam()), 31),
               std::runtime_error);
}

TEST_P(JunctionSolver, RefusesAWidthBeyondTheStream) {
  EXPECT_THROW(solve(GetParam(), 0), c10::Error);
  EXPECT_THROW(solve(GetParam(), kWidth + 1), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Methods, JunctionSolver, testing::ValuesIn(kMethods),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Magnitude, KeepsTheChannelsOfLargestMeanSquare) {
  const JunctionSolution solution = solve(kMagnitude, 31);
  const at::Tensor mean_square = junction(false).x.to(at::kDouble).square().mean(0);
  EXPECT_TRUE(solution.support.equal(select_support(mean_square, 31)));
  EXPECT_TRUE(solution.map.M.equal(at::eye(kWidth, at::kDouble).index_select(1, solution.support)));
}

TEST(SliceGpt, KeepsTheLeadingEigenvectors) {
  const JunctionSolution solution = solve(kSliceGpt, 31);
  EXPECT_TRUE(solution.support.equal(at::arange(31)));
  EXPECT_TRUE(solution.map.M.equal(junction(true).basis.vectors.narrow(1, 0, 31)));
}

TEST(DotResize, TransportsToTheChannelsOfLargestMeanSquare) {
  const Junction given = junction(false);
  const JunctionSolution solution = solve(kDotResize, 31);
  const at::Tensor S = select_support(given.x.to(at::kDouble).square().mean(0), 31);
  const TransportMap transport =
      transport_map(given.statistics.cost.index_select(1, S), options_of(kDotResize));
  EXPECT_TRUE(solution.support.equal(S));
  EXPECT_TRUE(solution.map.M.equal(transport.Q));
  EXPECT_EQ(solution.diagnostics.transport, transport_picture(transport.sinkhorn.plan, S));
  EXPECT_EQ(solution.diagnostics.sinkhorn_iterations, transport.sinkhorn.iterations);
  EXPECT_LE(solution.diagnostics.sinkhorn_violation, 1e-8);
  EXPECT_GT(solution.diagnostics.qr_condition, 1.0);
}

TEST(PcaDotResize, TransportsToTheRotatedChannelsOfLargestL1Norm) {
  const Junction given = junction(true);
  const JunctionSolution solution = solve(kPcaDotResize, 31);
  const at::Tensor z = at::mm(given.x.to(at::kDouble), given.basis.vectors);
  const at::Tensor S = select_support(z.abs().mean(0), 31);
  const TransportMap transport =
      transport_map(given.statistics.cost.index_select(1, S), options_of(kPcaDotResize));
  EXPECT_TRUE(solution.support.equal(S));
  EXPECT_TRUE(solution.map.M.equal(at::mm(given.basis.vectors, transport.Q)));
  EXPECT_EQ(solution.diagnostics.transport, transport_picture(transport.sinkhorn.plan, S));
}

TEST(SliceGpt, HasNoPlan) { EXPECT_FALSE(solve(kSliceGpt, 31).diagnostics.transport); }

TEST(DotResize, RecordsThatItAcceptedAPlanThatDidNotConverge) {
  const Junction given = junction(false);
  MapOptions options = options_of(kDotResize);
  options.sinkhorn.max_iterations = 2;
  EXPECT_THROW(solve_junction(given.statistics, given.basis, options, 31), std::runtime_error);
  options.accept_nonconvergence = true;
  const MapDiagnostics diagnostics =
      solve_junction(given.statistics, given.basis, options, 31).diagnostics;
  EXPECT_FALSE(diagnostics.sinkhorn_converged);
  EXPECT_EQ(diagnostics.sinkhorn_iterations, 2);
  EXPECT_GT(diagnostics.sinkhorn_violation, 1e-8);
}

/// Fewer tokens than channels leave directions without tokens, whose costs are rounding errors.
TEST(PcaDotResize, LosesNothingAtFullWidthIfTokensAreFew) {
  const Junction given = junction(true, 20);
  const JunctionSolution solution =
      solve_junction(given.statistics, given.basis, options_of(kPcaDotResize), kWidth);
  EXPECT_LE(largest(projector(solution.map.M) - at::eye(kWidth, at::kDouble)), 1e-13);
}

}  // namespace
}  // namespace dotresize
