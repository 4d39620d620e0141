#include "worker/healing/distill_layer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <utility>

#include "job/model/tensor_table.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/healing/adam.h"
#include "worker/transformer/forward.h"

// Minimizes E ‖f(x) − t‖² / (‖t‖² + d·eps) over the layer's weights by Adam with a cosine learning
// rate. x is the compressed model's input of the layer, t the dense model's output.
namespace dotresize {
namespace {

/// Returns ‖target‖² + d·eps, [batch, tokens, 1]. d·eps is the term that the norm behind adds.
at::Tensor target_energy(const ModelConfig& config, const at::Tensor& target) {
  const double added = static_cast<double>(config.hidden_size) * config.rms_norm_eps;
  return target.square().sum(/*dim=*/-1, /*keepdim=*/true).add_(added);
}

struct LayerDistillation {
  Communicator& comm;
  const LayerProblem& problem;
  /// Weights in the compute dtype.
  LayerWeights weights = copy_of(problem.folded, problem.compute_dtype);
  std::vector<at::Tensor> trained = trained_tensors(weights);
  const int64_t steps = layer_steps_per_epoch(problem.fitted.count);  ///< per epoch

  double held_out_error(const LayerWeights& layer);
  void run_epoch(int64_t epoch, ShardedAdam& adam);
  /// Returns the gradients of one microbatch, in a step of `summands` microbatches.
  std::vector<at::Tensor> gradient(size_t microbatch, int64_t summands);
};

double LayerDistillation::held_out_error(const LayerWeights& layer) {
  const c10::NoGradGuard no_gradients;
  const LayerTokens& held_out = problem.held_out;
  at::Tensor sums = at::zeros({held_out.count, 2}, at::kDouble);
  for (size_t i = 0; i < held_out.x.size(); ++i) {
    const at::Tensor y = layer_forward(problem.config, layer, problem.context, held_out.x[i]);
    // ‖y − target‖² / (‖target‖² + d·eps) of each token
    const at::Tensor squares =
        (y - held_out.targets[i]).square_().sum(/*dim=*/-1, /*keepdim=*/true);
    const at::Tensor errors =
        squares.div_(target_energy(problem.config, held_out.targets[i])).flatten();
    at::Tensor mine = sums[held_out.first + static_cast<int64_t>(i)];
    mine[0] = errors.sum(at::kDouble).cpu();
    mine[1] = static_cast<double>(errors.numel());
  }
  at::Tensor on_device = sums.to(problem.device);
  comm.all_reduce_sum(on_device);  // exact: all summands but one are zero
  double error = 0.0;
  double tokens = 0.0;
  for (const at::Tensor& row : on_device.cpu().unbind()) {
    error += row[0].item<double>();
    tokens += row[1].item<double>();
  }
  return error / tokens;
}

std::vector<at::Tensor> LayerDistillation::gradient(size_t microbatch, int64_t summands) {
  const LayerTokens& fitted = problem.fitted;
  const at::Tensor experts = fitted.experts.empty() ? at::Tensor() : fitted.experts[microbatch];
  const c10::AutoGradMode with_gradients(true);
  const at::Tensor y =
      layer_forward(problem.config, weights, problem.context, fitted.x[microbatch], experts);
  const auto tokens = static_cast<double>(y.size(0) * y.size(1) * summands);
  const at::Tensor& target = fitted.targets[microbatch];
  const at::Tensor g =
      (y.detach() - target).mul_(2.0 * (1.0 / tokens)).div_(target_energy(problem.config, target));
  return torch::autograd::grad({y}, trained, {g}, /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

/// Step s takes the microbatches s, s + steps, ... They lie far apart, so that the ranks share
/// each step.
void LayerDistillation::run_epoch(int64_t epoch, ShardedAdam& adam) {
  const LayerTokens& fitted = problem.fitted;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t summands = (fitted.count - step + steps - 1) / steps;
    std::vector<std::vector<at::Tensor>> gradients;
    for (size_t i = 0; i < fitted.x.size(); ++i) {
      if ((fitted.first + static_cast<int64_t>(i)) % steps != step) continue;
      gradients.push_back(gradient(i, summands));
    }
    adam.step(gradients, summands,
              cosine_rate(problem.options.learning_rate, epoch * steps + step,
                          steps * problem.options.epochs));
    adam.write_to(trained);
    problem.microbatches_seen(summands);
  }
}

at::Tensor copied(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.to(dtype, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

bool is_trained(TensorRole role) {
  return role == TensorRole::kInProjWeight || role == TensorRole::kInProjBias ||
         role == TensorRole::kOutProjWeight || role == TensorRole::kOutProjBias;
}

}  // namespace

DistilledLayer distill_layer(Communicator& comm, const LayerProblem& problem) {
  LayerDistillation layer{comm, problem};
  for (at::Tensor& tensor : layer.trained) tensor.requires_grad_();
  DistilledLayer best{problem.folded, layer.held_out_error(layer.weights), 0.0, 0};
  best.error = best.folded_error;
  if (layer.trained.empty()) return best;
  ShardedAdam adam(comm, trained_tensors(problem.folded));
  for (int64_t epoch = 0; epoch < problem.options.epochs; ++epoch) {
    layer.run_epoch(epoch, adam);
    const LayerWeights rounded = stored_copy_of(problem.folded, problem.config);
    adam.write_to(trained_tensors(rounded));
    const double error = layer.held_out_error(copy_of(rounded, problem.compute_dtype));
    if (!(error < best.error)) break;
    best.weights = rounded;
    best.error = error;
    best.epochs = epoch + 1;
  }
  return best;
}

LayerWeights copy_of(const LayerWeights& layer, at::ScalarType dtype) {
  LayerWeights copy = layer;
  for (SublayerWeights* sublayer : {&copy.attention, &copy.mlp}) {
    for_each_slot(*sublayer, [&](TensorRole role, size_t, at::Tensor& tensor) {
      if (tensor.defined()) tensor = copied(tensor, held_dtype(role, dtype));
    });
  }
  return copy;
}

LayerWeights stored_copy_of(const LayerWeights& layer, const ModelConfig& config) {
  LayerWeights copy = layer;
  for (SublayerWeights* sublayer : {&copy.attention, &copy.mlp}) {
    std::map<std::pair<TensorRole, size_t>, at::ScalarType> dtypes;
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer->sublayer)) {
      dtypes[{stored.role, stored.index}] = scalar_type(config.files.dtypes.of(stored.name));
    }
    for_each_slot(*sublayer, [&](TensorRole role, size_t index, at::Tensor& tensor) {
      if (tensor.defined()) tensor = copied(tensor, dtypes.at({role, index}));
    });
  }
  return copy;
}

std::vector<at::Tensor> trained_tensors(const LayerWeights& layer) {
  std::vector<at::Tensor> tensors;
  for (const SublayerWeights* sublayer : {&layer.attention, &layer.mlp}) {
    for_each_slot(*sublayer, [&](TensorRole role, size_t, const at::Tensor& tensor) {
      if (is_trained(role) && tensor.defined()) tensors.push_back(tensor);
    });
  }
  return tensors;
}

std::vector<std::string> trained_names(const ModelConfig& config, int64_t layer) {
  std::vector<std::string> names;
  for (const int64_t sublayer : {2 * layer, 2 * layer + 1}) {
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer)) {
      if (is_trained(stored.role)) names.push_back(stored.name);
    }
  }
  return names;
}

at::Tensor layer_forward(const ModelConfig& config, const LayerWeights& layer,
                         const LayerContext& context, const at::Tensor& x,
                         const at::Tensor& experts) {
  const at::Tensor between = sublayer_forward(config, layer.attention, context, x);
  return sublayer_forward(config, layer.mlp, context, between, nullptr, nullptr, experts);
}

}  // namespace dotresize
