#include "worker/calibration/junction_passes.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "job/model/model_config.h"
#include "worker/calibration/reason.h"
#include "worker/maps/metric.h"
#include "worker/maps/scoped_threads.h"

namespace dotresize {
namespace {

/// Runs `step` as a phase, and names the junction in its errors.
template <typename Step>
auto at_junction(const JunctionSetup& setup, const char* phase, const Step& step) {
  const PhaseClock::Scope scope(setup.clock, phase, junction_name(setup.junction));
  return with_context("junction " + junction_name(setup.junction), step);
}

/// Returns x in the basis `rotation`; x itself if it is undefined.
at::Tensor rotated(const JunctionSetup& setup, const at::Tensor& x, const at::Tensor& rotation) {
  if (!rotation.defined()) return x;
  return at_junction(setup, "rotate", [&] { return at::matmul(x, rotation); });
}

/// Returns a copy of the named tensor on the device; undefined if it is absent.
at::Tensor tensor_named(const NamedTensors& tensors, const char* name, at::Device device) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return {};
  return found->second.to(at::TensorOptions(device), /*non_blocking=*/false, /*copy=*/true);
}

bool has_cost_sums(const NamedTensors& tensors) {
  return tensors.contains("abs_sum") || tensors.contains("cost");
}

}  // namespace

CostSums::CostSums(const JunctionSetup& setup_of, at::Tensor basis)
    : setup(setup_of),
      moments(setup.hidden_size, {.sums = setup.map.sums().in_basis()}, setup.device,
              {setup.reproducible}),
      rotation(std::move(basis)) {}

CostSums::CostSums(const JunctionSetup& setup_of, const NamedTensors& tensors)
    : CostSums(setup_of) {
  moments.abs_sum = tensor_named(tensors, "abs_sum", setup.device);
  moments.cost = tensor_named(tensors, "cost", setup.device);
}

void CostSums::add(const at::Tensor& x) {
  const at::Tensor z = rotated(setup, x, rotation);
  at_junction(setup, "cost", [&] { moments.add(z); });
  if (!moments.cost.defined()) return;
  const double pairs = static_cast<double>(z.numel()) * static_cast<double>(z.size(-1)) / 2.0;
  setup.clock.work["cost"] += pairs;
}

void CostSums::add_scaled(const CostSums& other, double scale) {
  std::vector<at::Tensor> mine = moments.sums();
  const std::vector<at::Tensor> others = other.moments.sums();
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i].add_(others[i], scale);
}

NamedTensors CostSums::tensors() const {
  NamedTensors tensors;
  if (moments.abs_sum.defined()) tensors["abs_sum"] = moments.abs_sum;
  if (moments.cost.defined()) tensors["cost"] = moments.cost;
  return tensors;
}

std::vector<std::string> CostSums::names(const MapSums& sums) {
  std::vector<std::string> names;
  if (sums.abs_sum) names.push_back("abs_sum");
  if (sums.cost) names.push_back("cost");
  return names;
}

DecomposedJunction::DecomposedJunction(const JunctionSetup& setup_of, int64_t tokens_of_all,
                                       const NamedTensors& tensors)
    : setup(setup_of),
      tokens(tokens_of_all),
      gram(tensor_named(tensors, "gram", setup.map.oblique() ? at::kCPU : setup.device)),
      fisher(tensor_named(tensors, "fisher", setup.device)),
      factor(tensor_named(tensors, "factor", at::kCPU)),
      eigenbasis{tensor_named(tensors, "values", setup.device),
                 tensor_named(tensors, "vectors", at::kCPU)} {
  if (has_cost_sums(tensors)) costs.emplace(setup, tensors);
}

NamedTensors DecomposedJunction::tensors() const {
  NamedTensors tensors = costs ? costs->tensors() : NamedTensors{};
  if (gram.defined()) tensors["gram"] = gram;
  if (fisher.defined()) tensors["fisher"] = fisher;
  if (factor.defined()) tensors["factor"] = factor;
  if (eigenbasis.values.defined()) tensors["values"] = eigenbasis.values;
  if (eigenbasis.vectors.defined()) tensors["vectors"] = eigenbasis.vectors;
  return tensors;
}

at::Tensor DecomposedJunction::rotation() const {
  const at::Tensor& vectors = eigenbasis.vectors;
  if (!setup.map.oblique()) return vectors.to(at::kFloat).to(setup.device);
  return at::mm(factor.to(setup.device), vectors.to(setup.device)).to(at::kFloat);
}

SolvedJunction DecomposedJunction::solve(int64_t width, std::optional<CostSums> second) && {
  TORCH_CHECK(second.has_value() == setup.map.sums().second.any(),
              "the second pass does not match what the map needs");
  JunctionStatistics statistics{.tokens = tokens,
                                .gram = std::move(gram),
                                .fisher = std::move(fisher),
                                .metric_factor = std::move(factor)};
  if (std::optional<CostSums> sums = second ? std::move(second) : std::move(costs)) {
    sums->moments.mirror();
    statistics.abs_sum = std::move(sums->moments.abs_sum);
    statistics.cost = std::move(sums->moments.cost);
  }
  second.reset();  // frees the basis
  const RunStep run = [&](const char* phase, const std::function<void()>& step) {
    const PhaseClock::Scope scope(setup.clock, phase);
    step();
  };
  SolvedJunction solved = at_junction(setup, "solve", [&] {
    if (eigenbasis.vectors.defined()) {
      eigenbasis.vectors = eigenbasis.vectors.to(setup.device);
    }
    if (setup.map.oblique()) {
      statistics.gram = statistics.gram.to(setup.device);
      statistics.metric_factor = statistics.metric_factor.to(setup.device);
    }
    return solve_map(statistics, eigenbasis, setup.map, width, run);
  });
  solved.describe = [where = "junction " + junction_name(setup.junction),
                     describe = std::move(solved.describe)](MapDiagnostics& diagnostics) {
    with_context(where, [&] { describe(diagnostics); });
  };
  return solved;
}

FirstPass::FirstPass(const JunctionSetup& setup_of, bool packed)
    : setup(setup_of),
      gram(setup.hidden_size, {.gram = true}, setup.device,
           {.reproducible = setup.reproducible, .packed = packed}) {
  if (setup.map.metric == Metric::kFisher) {
    fisher.emplace(
        setup.hidden_size, MomentKinds{.gram = true}, setup.device,
        MomentOptions{
            .reproducible = setup.reproducible, .what = "gradients of the loss", .packed = packed});
  }
  if (setup.map.sums().first.any()) costs.emplace(setup);
}

FirstPass::FirstPass(const JunctionSetup& setup_of, const NamedTensors& tensors)
    : setup(setup_of), gram(setup.hidden_size, {}, setup.device) {
  gram.gram = tensor_named(tensors, "gram", setup.device);
  if (tensors.contains("fisher")) {
    fisher.emplace(setup.hidden_size, MomentKinds{}, setup.device);
    fisher->gram = tensor_named(tensors, "fisher", setup.device);
  }
  if (has_cost_sums(tensors)) costs.emplace(setup, tensors);
}

NamedTensors FirstPass::tensors() const {
  NamedTensors tensors = costs ? costs->tensors() : NamedTensors{};
  tensors["gram"] = gram.upper_gram();
  if (fisher) tensors["fisher"] = fisher->upper_gram();
  return tensors;
}

std::vector<std::string> FirstPass::names(const SumsOfPasses& sums) {
  std::vector<std::string> names = CostSums::names(sums.first);
  names.insert(names.begin(), "gram");
  return names;
}

void FirstPass::add(const at::Tensor& x) {
  at_junction(setup, "gram", [&] { gram.add(x); });
  if (costs) costs->add(x);
}

void FirstPass::add_gradient(const at::Tensor& g) {
  at_junction(setup, "gram", [&] { fisher->add(g); });
}

std::vector<at::Tensor> FirstPass::sums() const {
  std::vector<at::Tensor> sums = gram.sums();
  if (fisher) sums.push_back(fisher->gram);
  if (!costs) return sums;
  for (const at::Tensor& sum : costs->moments.sums()) sums.push_back(sum);
  return sums;
}

DecomposedJunction FirstPass::finish(int64_t tokens) && {
  gram.mirror();
  if (fisher) fisher->mirror();
  DecomposedJunction junction(setup, tokens, {});
  junction.gram = std::move(gram.gram);
  if (fisher) junction.fisher = std::move(fisher->gram);
  if (costs) junction.costs.emplace(std::move(*costs));
  if (setup.map.basis == Basis::kIdentity) return junction;
  at_junction(setup, "eigen", [&] {
    const ScopedThreads threads(setup.map.decomposition_threads);
    Eigenbasis& basis = junction.eigenbasis;
    junction.gram.div_(static_cast<double>(tokens));
    if (setup.map.oblique()) {
      junction.factor = metric_factor(junction.fisher.div_(static_cast<double>(tokens)));
      junction.fisher.reset();
      basis = eigenbasis(gram_in_metric(junction.gram, junction.factor));
      junction.factor = junction.factor.cpu();
      junction.gram = junction.gram.cpu();
    } else {
      basis = eigenbasis(junction.gram);
      junction.gram.reset();
    }
    basis.vectors = basis.vectors.cpu();
  });
  return junction;
}

double FirstPass::mean_square(int64_t tokens) const {
  const double sum = gram.gram.trace().item<double>();
  if (!(sum > 0)) {
    throw std::runtime_error("junction " + junction_name(setup.junction) +
                             ": all activations of the junction are zero");
  }
  return sum / static_cast<double>(gram.gram.size(0) * tokens);
}

void FirstPass::add_scaled(const FirstPass& other, int64_t tokens) {
  const double mean_square = other.mean_square(tokens);
  gram.gram.add_(other.gram.gram, 1.0 / mean_square);
  if (fisher) fisher->gram.add_(other.fisher->gram, mean_square);
  if (costs) costs->add_scaled(*other.costs, 1.0 / std::sqrt(mean_square));
}

MapDiagnostics FirstPass::describe(MapDiagnostics shared, const at::Tensor& M) && {
  gram.mirror();
  at_junction(setup, "eigen", [&] {
    const ScopedThreads threads(setup.map.decomposition_threads);
    const at::Tensor eigenvalues = spectrum(gram.gram);
    shared.effective_rank = effective_rank(eigenvalues);
    shared.spectrum = energy_over_rank(eigenvalues);
    shared.retained_energy = retained_energy(gram.gram, M);
  });
  return shared;
}

}  // namespace dotresize
