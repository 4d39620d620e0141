#include "worker/calibration/junction_passes.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "job/model/model_config.h"
#include "worker/calibration/reason.h"
#include "worker/kernels/l1_cost.h"
#include "worker/maps/junction_solver.h"

namespace dotresize {
namespace {

/// Runs `step` as the phase; its errors name the junction.
template <typename Step>
auto at_junction(const JunctionSetup& setup, const char* phase, const Step& step) {
  const PhaseClock::Scope scope(setup.clock, phase, junction_name(setup.junction));
  return with_context("junction " + junction_name(setup.junction), step);
}

at::Tensor rotate(const JunctionSetup& setup, const at::Tensor& x, const at::Tensor& rotation) {
  return at_junction(setup, "rotate", [&] { return at::matmul(x, rotation); });
}

void note(const CostPrecision& precision, MapDiagnostics& diagnostics) {
  diagnostics.half_cost = precision.half;
  diagnostics.half_cost_error = precision.half_error;
}

}  // namespace

bool JunctionSetup::sums_in_first_pass() const {
  const MomentKinds kinds = moments_in_basis(map);
  return (kinds.abs_sum || kinds.cost) && !needs_second_pass(map);
}

bool JunctionSetup::costs_in_first_pass() const {
  return moments_in_basis(map).cost && sums_in_first_pass();
}

CostPrecision CostPrecision::from_half_error(double error) {
  return {error <= kMaxHalfL1CostError, error};
}

double half_cost_error(const JunctionSetup& setup, const at::Tensor& x,
                       const at::Tensor& rotation) {
  const at::Tensor z = rotation.defined() ? rotate(setup, x, rotation) : x;
  return at_junction(setup, "cost", [&] {
    return half_l1_cost_error(z.reshape({-1, z.size(-1)}).contiguous());
  });
}

CostSums::CostSums(const JunctionSetup& setup, const CostPrecision& precision)
    : setup_(setup),
      precision_(precision),
      moments_(setup.hidden_size, moments_in_basis(setup.map), setup.device,
               {precision.half, setup.reproducible}) {}

void CostSums::add(const at::Tensor& z) {
  at_junction(setup_, "cost", [&] { moments_.add(z); });
  if (!moments_.cost.defined()) return;
  const double pairs = static_cast<double>(z.numel()) * static_cast<double>(z.size(-1)) / 2.0;
  setup_.clock.count_work(precision_.half ? "cost_float16" : "cost", pairs);
}

void CostSums::add_scaled(const CostSums& other, double scale) {
  std::vector<at::Tensor> mine = sums();
  const std::vector<at::Tensor> others = other.sums();
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i].add_(others[i], scale);
}

Moments CostSums::take() && {
  moments_.mirror();
  return std::move(moments_);
}

SecondPass::SecondPass(const JunctionSetup& setup, at::Tensor rotation,
                       const CostPrecision& precision)
    : setup_(setup), rotation_(std::move(rotation)), costs_(setup, precision) {}

void SecondPass::add(const at::Tensor& x) { costs_.add(rotate(setup_, x, rotation_)); }

DecomposedJunction::DecomposedJunction(const JunctionSetup& setup, int64_t tokens, at::Tensor gram,
                                       std::optional<CostSums> costs)
    : setup_(setup), tokens_(tokens), gram_(std::move(gram)), costs_(std::move(costs)) {
  at_junction(setup_, "eigen",
              [&] { eigenbasis_ = eigenbasis(gram_ / static_cast<double>(tokens)); });
  if (setup_.map.basis == Basis::kIdentity) eigenbasis_.vectors.reset();
  if (needs_second_pass(setup_.map)) rotation_ = eigenbasis_.vectors.to(at::kFloat);
}

JunctionSolution DecomposedJunction::solve(int64_t width, std::optional<SecondPass> second) && {
  TORCH_CHECK(second.has_value() == needs_second_pass(setup_.map),
              "a second pass that the map does not need, or none that it needs");
  JunctionStatistics statistics{.tokens = tokens_, .gram = gram_};
  std::optional<CostSums> costs = second ? std::move(second->costs()) : std::move(costs_);
  const CostPrecision precision = costs ? costs->precision() : CostPrecision{};
  if (costs) {
    const Moments moments = std::move(*costs).take();
    statistics.abs_sum = moments.abs_sum;
    statistics.cost = moments.cost;
  }
  const RunStep run = [&](const char* phase, const std::function<void()>& step) {
    const PhaseClock::Scope scope(setup_.clock, phase);
    step();
  };
  JunctionSolution solution = at_junction(setup_, "solve", [&] {
    return solve_junction(statistics, eigenbasis_, setup_.map, width, run);
  });
  note(precision, solution.diagnostics);
  return solution;
}

FirstPass::FirstPass(const JunctionSetup& setup, const CostPrecision& precision)
    : setup_(setup),
      gram_(setup.hidden_size, {.gram = true}, setup.device, {.reproducible = setup.reproducible}) {
  if (setup.sums_in_first_pass()) costs_.emplace(setup, precision);
}

void FirstPass::add(const at::Tensor& x) {
  at_junction(setup_, "gram", [&] { gram_.add(x); });
  if (costs_) costs_->add(x);
}

std::vector<at::Tensor> FirstPass::sums() const {
  std::vector<at::Tensor> sums = gram_.sums();
  if (!costs_) return sums;
  for (const at::Tensor& sum : costs_->sums()) sums.push_back(sum);
  return sums;
}

DecomposedJunction FirstPass::finish(int64_t tokens) && {
  gram_.mirror();
  return {setup_, tokens, std::move(gram_.gram), std::move(costs_)};
}

double FirstPass::mean_square(int64_t tokens) const {
  const double sum = gram_.gram.trace().item<double>();
  if (!(sum > 0)) {
    throw std::runtime_error("junction " + junction_name(setup_.junction) +
                             ": all activations of the junction are zero");
  }
  return sum / static_cast<double>(gram_.gram.size(0) * tokens);
}

void FirstPass::add_scaled(const FirstPass& other, int64_t tokens) {
  const double mean_square = other.mean_square(tokens);
  gram_.gram.add_(other.gram_.gram, 1.0 / mean_square);
  if (costs_) costs_->add_scaled(*other.costs_, 1.0 / std::sqrt(mean_square));
}

JunctionSolution FirstPass::describe(JunctionSolution shared,
                                     const std::optional<SecondPass>& second) && {
  gram_.mirror();
  at_junction(setup_, "eigen", [&] {
    shared.diagnostics.effective_rank = effective_rank(at::linalg_eigvalsh(gram_.gram).flip(0));
    shared.diagnostics.retained_energy = retained_energy(gram_.gram, shared.map.M);
  });
  if (second) {
    note(second->costs().precision(), shared.diagnostics);
  } else {
    note(costs_ ? costs_->precision() : CostPrecision{}, shared.diagnostics);
  }
  return shared;
}

}  // namespace dotresize
