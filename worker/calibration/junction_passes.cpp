#include "worker/calibration/junction_passes.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "job/model/model_config.h"
#include "worker/calibration/reason.h"
#include "worker/kernels/l1_cost.h"
#include "worker/maps/metric.h"
#include "worker/maps/scoped_threads.h"

namespace dotresize {
namespace {

/// Runs `step`, and names the junction in its errors.
template <typename Step>
auto named(int64_t junction, const Step& step) {
  return with_context("junction " + junction_name(junction), step);
}

/// Runs `step` as a phase, and names the junction in its errors.
template <typename Step>
auto at_junction(const JunctionSetup& setup, const char* phase, const Step& step) {
  const PhaseClock::Scope scope(setup.clock, phase, junction_name(setup.junction));
  return named(setup.junction, step);
}

at::Tensor rotate(const JunctionSetup& setup, const at::Tensor& x, const at::Tensor& rotation) {
  return at_junction(setup, "rotate", [&] { return at::matmul(x, rotation); });
}

/// Encodes the precision as [3] float64: half, error measured, error.
at::Tensor to_tensor(const CostPrecision& precision) {
  return at::tensor({precision.half ? 1.0 : 0.0, precision.half_error ? 1.0 : 0.0,
                     precision.half_error.value_or(0.0)},
                    at::kDouble);
}

/// Returns a copy of the named tensor on the device; undefined if it is absent.
at::Tensor tensor_named(const NamedTensors& tensors, const char* name, at::Device device) {
  const auto found = tensors.find(name);
  return found == tensors.end()
             ? at::Tensor()
             : found->second.to(at::TensorOptions(device), /*non_blocking=*/false,
                                /*copy=*/true);
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

CostPrecision CostPrecision::from(const NamedTensors& tensors) {
  const at::Tensor& values = tensors.at("precision");
  CostPrecision precision{values[0].item<double>() != 0.0};
  if (values[1].item<double>() != 0.0) precision.half_error = values[2].item<double>();
  return precision;
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

CostSums::CostSums(const JunctionSetup& setup, const NamedTensors& tensors)
    : CostSums(setup, CostPrecision::from(tensors)) {
  moments_.abs_sum = tensor_named(tensors, "abs_sum", setup.device);
  moments_.cost = tensor_named(tensors, "cost", setup.device);
}

NamedTensors CostSums::tensors() const {
  NamedTensors tensors = {{"precision", to_tensor(precision_)}};
  if (moments_.abs_sum.defined()) tensors["abs_sum"] = moments_.abs_sum;
  if (moments_.cost.defined()) tensors["cost"] = moments_.cost;
  return tensors;
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
                                       at::Tensor fisher, std::optional<CostSums> costs)
    : setup_(setup),
      tokens_(tokens),
      gram_(std::move(gram)),
      fisher_(std::move(fisher)),
      costs_(std::move(costs)) {
  if (setup_.map.basis == Basis::kIdentity) return;
  at_junction(setup_, "eigen", [&] { decompose(); });
}

void DecomposedJunction::decompose() {
  const ScopedThreads threads(setup_.map.decomposition_threads);
  gram_.div_(static_cast<double>(tokens_));
  if (setup_.map.oblique()) {
    factor_ = metric_factor(fisher_.div_(static_cast<double>(tokens_)));
    fisher_.reset();
    eigenbasis_ = eigenbasis(gram_in_metric(gram_, factor_));
    factor_ = factor_.cpu();
    gram_ = gram_.cpu();
  } else {
    eigenbasis_ = eigenbasis(gram_);
    gram_.reset();
  }
  eigenbasis_.vectors = eigenbasis_.vectors.cpu();
}

DecomposedJunction::DecomposedJunction(const JunctionSetup& setup, int64_t tokens,
                                       const NamedTensors& tensors)
    : setup_(setup),
      tokens_(tokens),
      gram_(tensor_named(tensors, "gram", setup.map.oblique() ? at::kCPU : setup.device)),
      fisher_(tensor_named(tensors, "fisher", setup.device)),
      factor_(tensor_named(tensors, "factor", at::kCPU)) {
  eigenbasis_ = {tensor_named(tensors, "values", setup.device),
                 tensor_named(tensors, "vectors", at::kCPU)};
  if (tensors.contains("precision")) costs_.emplace(setup, tensors);
}

NamedTensors DecomposedJunction::tensors() const {
  NamedTensors tensors = costs_ ? costs_->tensors() : NamedTensors{};
  if (gram_.defined()) tensors["gram"] = gram_;
  if (fisher_.defined()) tensors["fisher"] = fisher_;
  if (factor_.defined()) tensors["factor"] = factor_;
  if (eigenbasis_.values.defined()) tensors["values"] = eigenbasis_.values;
  if (eigenbasis_.vectors.defined()) tensors["vectors"] = eigenbasis_.vectors;
  return tensors;
}

at::Tensor DecomposedJunction::rotation() const {
  const at::Tensor& vectors = eigenbasis_.vectors;
  if (!setup_.map.oblique()) return vectors.to(at::kFloat).to(setup_.device);
  return at::mm(factor_.to(setup_.device), vectors.to(setup_.device)).to(at::kFloat);
}

SolvedJunction DecomposedJunction::solve(int64_t width, std::optional<SecondPass> second) && {
  TORCH_CHECK(second.has_value() == needs_second_pass(setup_.map),
              "a second pass that the map does not need, or none that it needs");
  JunctionStatistics statistics{.tokens = tokens_,
                                .gram = std::move(gram_),
                                .fisher = std::move(fisher_),
                                .metric_factor = std::move(factor_)};
  std::optional<CostSums> costs = second ? std::move(second->costs()) : std::move(costs_);
  second.reset();
  const CostPrecision precision = costs ? costs->precision() : CostPrecision{};
  if (costs) {
    Moments moments = std::move(*costs).take();
    statistics.abs_sum = std::move(moments.abs_sum);
    statistics.cost = std::move(moments.cost);
  }
  const RunStep run = [&](const char* phase, const std::function<void()>& step) {
    const PhaseClock::Scope scope(setup_.clock, phase);
    step();
  };
  SolvedJunction solved = at_junction(setup_, "solve", [&] {
    if (eigenbasis_.vectors.defined()) {
      eigenbasis_.vectors = eigenbasis_.vectors.to(setup_.device);
    }
    if (setup_.map.oblique()) {
      statistics.gram = statistics.gram.to(setup_.device);
      statistics.metric_factor = statistics.metric_factor.to(setup_.device);
    }
    return solve_map(statistics, eigenbasis_, setup_.map, width, run);
  });
  note(precision, solved.solution.diagnostics);
  solved.describe = [junction = setup_.junction,
                     describe = std::move(solved.describe)](MapDiagnostics& diagnostics) {
    named(junction, [&] { describe(diagnostics); });
  };
  return solved;
}

FirstPass::FirstPass(const JunctionSetup& setup, const CostPrecision& precision, bool packed)
    : setup_(setup),
      gram_(setup.hidden_size, {.gram = true}, setup.device,
            {.reproducible = setup.reproducible, .packed = packed}) {
  if (setup.map.metric == Metric::kFisher) {
    fisher_.emplace(
        setup.hidden_size, MomentKinds{.gram = true}, setup.device,
        MomentOptions{
            .reproducible = setup.reproducible, .what = "gradients of the loss", .packed = packed});
  }
  if (setup.sums_in_first_pass()) costs_.emplace(setup, precision);
}

FirstPass::FirstPass(const JunctionSetup& setup, const NamedTensors& tensors)
    : setup_(setup), gram_(setup.hidden_size, {}, setup.device) {
  gram_.gram = tensor_named(tensors, "gram", setup.device);
  if (tensors.contains("fisher")) {
    fisher_.emplace(setup.hidden_size, MomentKinds{}, setup.device);
    fisher_->gram = tensor_named(tensors, "fisher", setup.device);
  }
  if (tensors.contains("precision")) costs_.emplace(setup, tensors);
}

NamedTensors FirstPass::tensors() const {
  NamedTensors tensors = costs_ ? costs_->tensors() : NamedTensors{};
  tensors["gram"] = gram_.upper_gram();
  if (fisher_) tensors["fisher"] = fisher_->upper_gram();
  return tensors;
}

void FirstPass::add(const at::Tensor& x) {
  at_junction(setup_, "gram", [&] { gram_.add(x); });
  if (costs_) costs_->add(x);
}

void FirstPass::add_gradient(const at::Tensor& g) {
  at_junction(setup_, "gram", [&] { fisher_->add(g); });
}

std::vector<at::Tensor> FirstPass::sums() const {
  std::vector<at::Tensor> sums = gram_.sums();
  if (fisher_) sums.push_back(fisher_->gram);
  if (!costs_) return sums;
  for (const at::Tensor& sum : costs_->sums()) sums.push_back(sum);
  return sums;
}

DecomposedJunction FirstPass::finish(int64_t tokens) && {
  gram_.mirror();
  if (fisher_) fisher_->mirror();
  return {setup_, tokens, std::move(gram_.gram), fisher_ ? std::move(fisher_->gram) : at::Tensor(),
          std::move(costs_)};
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
  if (fisher_) fisher_->gram.add_(other.fisher_->gram, mean_square);
  if (costs_) costs_->add_scaled(*other.costs_, 1.0 / std::sqrt(mean_square));
}

MapDiagnostics FirstPass::describe(MapDiagnostics shared, const at::Tensor& M,
                                   const CostPrecision& precision) && {
  gram_.mirror();
  at_junction(setup_, "eigen", [&] {
    const ScopedThreads threads(setup_.map.decomposition_threads);
    const at::Tensor eigenvalues = spectrum(gram_.gram);
    shared.effective_rank = effective_rank(eigenvalues);
    shared.spectrum = energy_over_rank(eigenvalues);
    shared.retained_energy = retained_energy(gram_.gram, M);
  });
  note(precision, shared);
  return shared;
}

}  // namespace dotresize
