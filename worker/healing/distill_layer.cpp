// Minimizes E ‖f(x) − t‖² / (‖t‖² + d·eps) over the layer's weights by Adam with a cosine learning
// rate. x is the compressed model's input of the layer, t the dense model's output.
#include "worker/healing/distill_layer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "worker/healing/adam.h"

namespace dotresize {
namespace {

/// Returns ‖target‖² + d·eps, [batch, tokens, 1]. d·eps is the term that the norm behind adds.
at::Tensor target_energy(const ModelConfig& config, const at::Tensor& target) {
  const double added = static_cast<double>(config.hidden_size) * config.rms_norm_eps;
  return target.square().sum(/*dim=*/-1, /*keepdim=*/true).add_(added);
}

class LayerDistillation {
 public:
  LayerDistillation(Communicator& comm, const LayerProblem& problem)
      : comm_(comm),
        problem_(problem),
        weights_(copy_of(problem.folded, problem.compute_dtype)),
        trained_(trained_tensors(weights_)),
        steps_(layer_steps_per_epoch(problem.fitted.count)) {
    for (at::Tensor& tensor : trained_) tensor.requires_grad_();
  }

  DistilledLayer run();

 private:
  double held_out_error(const LayerWeights& layer);
  void run_epoch(int64_t epoch, ShardedAdam& adam);
  /// Returns the gradients of one microbatch, in a step of `summands` microbatches.
  std::vector<at::Tensor> gradient(size_t microbatch, int64_t summands);

  Communicator& comm_;
  const LayerProblem& problem_;
  LayerWeights weights_;  ///< weights in the compute dtype
  std::vector<at::Tensor> trained_;
  int64_t steps_;  ///< steps per epoch
};

double LayerDistillation::held_out_error(const LayerWeights& layer) {
  const c10::NoGradGuard no_gradients;
  const LayerTokens& held_out = problem_.held_out;
  at::Tensor sums = at::zeros({held_out.count, 2}, at::kDouble);
  for (size_t i = 0; i < held_out.x.size(); ++i) {
    const at::Tensor y = layer_forward(problem_.config, layer, problem_.rotary, held_out.x[i]);
    // ‖y − target‖² / (‖target‖² + d·eps) of each token
    const at::Tensor squares =
        (y - held_out.targets[i]).square_().sum(/*dim=*/-1, /*keepdim=*/true);
    const at::Tensor errors =
        squares.div_(target_energy(problem_.config, held_out.targets[i])).flatten();
    at::Tensor mine = sums[held_out.first + static_cast<int64_t>(i)];
    mine[0] = errors.sum(at::kDouble).cpu();
    mine[1] = static_cast<double>(errors.numel());
  }
  at::Tensor on_device = sums.to(problem_.device);
  comm_.all_reduce_sum(on_device);  // exact: all summands but one are zero
  double error = 0.0;
  double tokens = 0.0;
  for (const at::Tensor& row : on_device.cpu().unbind()) {
    error += row[0].item<double>();
    tokens += row[1].item<double>();
  }
  return error / tokens;
}

std::vector<at::Tensor> LayerDistillation::gradient(size_t microbatch, int64_t summands) {
  const LayerTokens& fitted = problem_.fitted;
  const at::Tensor experts = fitted.experts.empty() ? at::Tensor() : fitted.experts[microbatch];
  const c10::AutoGradMode with_gradients(true);
  const at::Tensor y =
      layer_forward(problem_.config, weights_, problem_.rotary, fitted.x[microbatch], experts);
  const auto tokens = static_cast<double>(y.size(0) * y.size(1) * summands);
  const at::Tensor& target = fitted.targets[microbatch];
  const at::Tensor g =
      (y.detach() - target).mul_(2.0 * (1.0 / tokens)).div_(target_energy(problem_.config, target));
  return torch::autograd::grad({y}, trained_, {g}, /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

/// Step s takes the microbatches s, s + steps_, ... They lie far apart, so that the ranks share
/// each step.
void LayerDistillation::run_epoch(int64_t epoch, ShardedAdam& adam) {
  const LayerTokens& fitted = problem_.fitted;
  for (int64_t step = 0; step < steps_; ++step) {
    const int64_t summands = (fitted.count - step + steps_ - 1) / steps_;
    std::vector<std::vector<at::Tensor>> gradients;
    for (size_t i = 0; i < fitted.x.size(); ++i) {
      if ((fitted.first + static_cast<int64_t>(i)) % steps_ != step) continue;
      gradients.push_back(gradient(i, summands));
    }
    adam.step(gradients, summands,
              cosine_rate(problem_.options.learning_rate, epoch * steps_ + step,
                          steps_ * problem_.options.epochs));
    adam.write_to(trained_);
    problem_.microbatches_seen(summands);
  }
}

DistilledLayer LayerDistillation::run() {
  DistilledLayer best{problem_.folded, held_out_error(weights_), 0.0, 0};
  best.error = best.folded_error;
  if (trained_.empty()) return best;
  ShardedAdam adam(comm_, trained_tensors(problem_.folded));
  for (int64_t epoch = 0; epoch < problem_.options.epochs; ++epoch) {
    run_epoch(epoch, adam);
    const LayerWeights rounded = copy_of(problem_.folded, problem_.output_dtype);
    adam.write_to(trained_tensors(rounded));
    const double error = held_out_error(copy_of(rounded, problem_.compute_dtype));
    if (!(error < best.error)) break;
    best.weights = rounded;
    best.error = error;
    best.epochs = epoch + 1;
  }
  return best;
}

}  // namespace

DistilledLayer distill_layer(Communicator& comm, const LayerProblem& problem) {
  return LayerDistillation(comm, problem).run();
}

}  // namespace dotresize
