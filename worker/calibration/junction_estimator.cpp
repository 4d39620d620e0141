#include "worker/calibration/junction_estimator.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>

#include "job/model/sublayers.h"

namespace dotresize {
namespace {

/// Runs `step` as the phase; its errors name the junction.
template <typename Step>
auto at_junction(int64_t junction, PhaseClock& clock, const char* phase, const Step& step) {
  const PhaseClock::Scope scope(clock, phase, junction_name(junction));
  try {
    return step();
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("junction " + junction_name(junction) + ": " + error.what());
  }
}

}  // namespace

JunctionEstimator::JunctionEstimator(int64_t junction, int64_t width, const MapOptions& options,
                                     PhaseClock& clock, at::Device device)
    : junction_(junction),
      options_(options),
      clock_(clock),
      gram_(width, MomentKinds{.gram = true}, device) {
  if (options.transport) {
    cost_.emplace(width, MomentKinds{.abs_sum = options.pca, .cost = true}, device);
  }
}

void JunctionEstimator::make_reproducible(int64_t tokens, double largest_norm) {
  // A rotation keeps norms but for its rounding, so one bound serves both bases.
  constexpr double kSlack = 1.01;
  gram_.make_reproducible(tokens, kSlack * largest_norm);
  if (cost_) cost_->make_reproducible(tokens, kSlack * largest_norm);
}

double JunctionEstimator::half_cost_error(const at::Tensor& x) const {
  return sampled_half_cost_error(options_.pca ? rotated(x) : x);
}

double JunctionEstimator::sampled_half_cost_error(const at::Tensor& z) const {
  return at_junction(junction_, clock_, "cost", [&] {
    return half_l1_cost_error(z.reshape({-1, z.size(-1)}).contiguous());
  });
}

void JunctionEstimator::settle_cost_dtype(double error) {
  half_cost_error_ = error;
  if (takes_half_costs()) cost_->take_cost_in_half();
}

void JunctionEstimator::add(const at::Tensor& x) {
  at_junction(junction_, clock_, "gram", [&] { gram_.add(x); });
  if (cost_ && !options_.pca) add_cost(x);
}

void JunctionEstimator::add_cost(const at::Tensor& z) {
  if (must_settle_cost_dtype()) settle_cost_dtype(sampled_half_cost_error(z));
  at_junction(junction_, clock_, "cost", [&] { cost_->add(z); });
  const double pairs = static_cast<double>(z.numel()) * static_cast<double>(z.size(-1)) / 2.0;
  clock_.count_work(takes_half_costs() ? "cost_float16" : "cost", pairs);
}

std::vector<at::Tensor> JunctionEstimator::first_sums() const {
  std::vector<at::Tensor> sums = gram_.sums();
  if (cost_ && !options_.pca) {
    for (const at::Tensor& sum : cost_->sums()) sums.push_back(sum);
  }
  return sums;
}

void JunctionEstimator::decompose(int64_t tokens) {
  gram_.mirror();
  at_junction(junction_, clock_, "eigen",
              [&] { basis_ = eigenbasis(gram_.gram / static_cast<double>(tokens)); });
  rotation_ = basis_->vectors.to(at::kFloat);
}

void JunctionEstimator::add_rotated(const at::Tensor& x) { add_cost(rotated(x)); }

at::Tensor JunctionEstimator::rotated(const at::Tensor& x) const {
  return at_junction(junction_, clock_, "rotate", [&] { return at::matmul(x, rotation_); });
}

std::vector<at::Tensor> JunctionEstimator::second_sums() const { return cost_->sums(); }

double JunctionEstimator::mean_square(int64_t tokens) const {
  const double sum = gram_.gram.trace().item<double>();
  if (!(sum > 0)) {
    throw std::runtime_error("junction " + junction_name(junction_) +
                             ": all activations of the junction are zero");
  }
  return sum / static_cast<double>(gram_.gram.size(0) * tokens);
}

void JunctionEstimator::add_first_sums(const JunctionEstimator& other, int64_t tokens) {
  gram_.gram.add_(other.gram_.gram, 1.0 / other.mean_square(tokens));
  if (cost_ && !options_.pca) add_second_sums(other, tokens);
}

void JunctionEstimator::add_second_sums(const JunctionEstimator& other, int64_t tokens) {
  const double scale = 1.0 / std::sqrt(other.mean_square(tokens));
  std::vector<at::Tensor> mine = second_sums();
  const std::vector<at::Tensor> others = other.second_sums();
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i].add_(others[i], scale);
}

JunctionSolution JunctionEstimator::solve(int64_t tokens) {
  if (cost_) cost_->mirror();
  JunctionStatistics statistics;
  statistics.tokens = tokens;
  statistics.gram = gram_.gram;
  if (cost_) {
    statistics.abs_sum = cost_->abs_sum;
    statistics.cost = cost_->cost;
  }
  JunctionSolution solution = at_junction(junction_, clock_, "solve", [&] {
    return solve_junction(statistics, *basis_, options_, &clock_);
  });
  note_costs(solution.diagnostics);
  return solution;
}

void JunctionEstimator::note_costs(MapDiagnostics& diagnostics) const {
  diagnostics.half_cost = takes_half_costs();
  diagnostics.half_cost_error = half_cost_error_;
}

void JunctionEstimator::describe(JunctionSolution& shared) {
  gram_.mirror();
  at_junction(junction_, clock_, "eigen", [&] {
    shared.diagnostics.effective_rank = effective_rank(at::linalg_eigvalsh(gram_.gram).flip(0));
    shared.diagnostics.retained_energy = retained_energy(gram_.gram, shared.map.M);
  });
  note_costs(shared.diagnostics);
}

}  // namespace dotresize
