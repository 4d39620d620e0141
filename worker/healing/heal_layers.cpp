#include "worker/healing/heal_layers.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/core.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "job/plan/block_sizes.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/healing/distill_layer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/load.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// Returns the number of leading layers that an interrupted run has distilled, as rank 0 sees it.
int64_t healed_before(Communicator& comm, const Journal& journal) {
  int64_t layers = 0;
  while (journal.has(entries::kHealing(layers))) {
    const auto report = journal.value(entries::kHealing(layers)).get<HealedLayerReport>();
    // A damaged entry was removed from the journal.
    if (report.epochs > 0 && !journal.has(entries::kHealed(layers))) break;
    ++layers;
  }
  return gather_numbers(comm, layers).front();
}

/// Dtype that holds the values of all of the model's tensors exactly.
at::ScalarType common_dtype(const ModelConfig& config) {
  const StoredDtypes dtypes = stored_dtypes(config);
  return dtypes.others.empty() ? scalar_type(dtypes.main) : at::kFloat;
}

/// This rank's share of some windows, as streams of both models.
struct Streams {
  Microbatches dense;
  LayerTokens tokens;  ///< x is the stream of the output
};

class LayerHealingRun {
 public:
  LayerHealingRun(Communicator& comm, const LayerHealingJob& job,
                  const LayerHealingObserver& observer, PhaseClock& clock)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        device_(job.calibration.device),
        compute_dtype_(job.calibration.compute_dtype == at::kHalf ? at::kFloat
                                                                  : job.calibration.compute_dtype),
        tokens_per_microbatch_(microbatch_samples(job.fitted.size(1)) * job.fitted.size(1)),
        dense_context_(make_layer_context(job.dense_config, job.fitted.size(1), device_)),
        context_(make_layer_context(job.output, job.fitted.size(1), device_)),
        dense_layers_(comm, job.dense, job.dense_config, compute_dtype_, device_),
        folded_layers_(comm, job.folded, job.output, common_dtype(job.output), device_),
        maps_(maps_of_output(comm, job.calibration, job.output, clock)),
        fitted_(streams(job.fitted)),
        held_out_(streams(job.held_out)),
        found_(healed_before(comm, job.calibration.journal)) {}

  HealedLayerReport heal(int64_t layer);

 private:
  Streams streams(const at::Tensor& windows) const;
  /// M: map from the dense model's stream to the output's behind the layer; undefined: the
  /// identity.
  HealedLayerReport distilled(int64_t layer, LayerWeights& weights, const at::Tensor& M);
  HealedLayerReport found(int64_t layer, LayerWeights& weights) const;

  Communicator& comm_;
  const LayerHealingJob& job_;
  const LayerHealingObserver& observer_;
  PhaseClock& clock_;
  const at::Device device_;
  /// Float16 products have no gradient of their weights (linear.h), so float32 replaces float16.
  const at::ScalarType compute_dtype_;
  const int64_t tokens_per_microbatch_;
  LayerContext dense_context_;
  LayerContext context_;
  SublayerStream dense_layers_;
  SublayerStream folded_layers_;
  std::optional<AlignedMaps> maps_;
  Streams fitted_;
  Streams held_out_;
  int64_t found_;  ///< number of layers that are in the journal
};

Streams LayerHealingRun::streams(const at::Tensor& windows) const {
  const PhaseClock::Scope scope(clock_, "read");
  Streams streams;
  for (const at::Tensor& ids : microbatches_of_rank(comm_, windows)) {
    streams.dense.push_back(
        embed_from(job_.dense, job_.dense_config, ids, compute_dtype_, device_));
    streams.tokens.x.push_back(embed_from(job_.folded, job_.output, ids, compute_dtype_, device_));
  }
  streams.tokens.first = first_microbatch(comm_, windows);
  streams.tokens.count = count_microbatches(windows);
  return streams;
}

HealedLayerReport LayerHealingRun::distilled(int64_t layer, LayerWeights& weights,
                                             const at::Tensor& M) {
  for (Streams* streams : {&fitted_, &held_out_}) {
    streams->tokens.targets.clear();
    for (const at::Tensor& batch : streams->dense) {
      streams->tokens.targets.push_back(M.defined() ? at::matmul(batch, M) : batch);
    }
  }
  const PhaseClock::Scope scope(clock_, "heal", fmt::format("layers.{}", layer));
  const int64_t all = job_.options.epochs * fitted_.tokens.count;
  int64_t seen = 0;
  const auto microbatches_seen = [&](int64_t microbatches) {
    seen += microbatches;
    observer_.tokens_seen(microbatches * tokens_per_microbatch_);
  };
  const DistilledLayer result =
      distill_layer(comm_, {job_.output, context_, weights, fitted_.tokens, held_out_.tokens,
                            job_.options, device_, compute_dtype_, microbatches_seen});
  microbatches_seen(all - seen);  // the epochs that were not needed
  weights = result.weights;
  HealedLayerReport report{fmt::format("layers.{}", layer), result.folded_error, result.error,
                           result.epochs};
  if (rank_in_turn(comm_, layer) != comm_.rank()) return report;
  Journal& journal = job_.calibration.journal;
  if (result.epochs > 0) {
    std::map<std::string, at::Tensor> tensors;
    const std::vector<std::string> names = trained_names(job_.output, layer);
    const std::vector<at::Tensor> trained = trained_tensors(weights);
    for (size_t i = 0; i < names.size(); ++i) tensors.emplace(names[i], trained.at(i).cpu());
    journal.put(entries::kHealed(layer), tensors);
  }
  journal.put_value(entries::kHealing(layer), report);
  return report;
}

HealedLayerReport LayerHealingRun::found(int64_t layer, LayerWeights& weights) const {
  const Journal& journal = job_.calibration.journal;
  HealedLayerReport report = journal.value(entries::kHealing(layer));
  observer_.tokens_seen(job_.options.epochs * fitted_.tokens.count * tokens_per_microbatch_);
  if (report.epochs == 0) return report;
  const std::map<std::string, at::Tensor> tensors = journal.get(entries::kHealed(layer));
  const std::vector<std::string> names = trained_names(job_.output, layer);
  const std::vector<at::Tensor> trained = trained_tensors(weights);
  for (size_t i = 0; i < names.size(); ++i) at::Tensor(trained.at(i)).copy_(tensors.at(names[i]));
  return report;
}

HealedLayerReport LayerHealingRun::heal(int64_t layer) {
  {
    // The streams of the dense model, with the experts that it chooses.
    const SublayerWeights attention = dense_layers_.next();
    const SublayerWeights mlp = dense_layers_.next();
    const PhaseClock::Scope scope(clock_, "forward");
    const ModelConfig& config = job_.dense_config;
    const bool keeps_experts =
        mlp_count(config, 2 * layer + 1) == mlp_count(job_.output, 2 * layer + 1);
    const bool mixture = config.is_mixture(2 * layer + 1) && keeps_experts;
    for (Streams* streams : {&fitted_, &held_out_}) {
      streams->tokens.experts.clear();
      for (at::Tensor& batch : streams->dense) {
        batch = sublayer_forward(config, attention, dense_context_, batch);
        if (mixture) streams->tokens.experts.push_back(chosen_experts(config, mlp, batch));
        batch = sublayer_forward(config, mlp, dense_context_, batch);
      }
    }
  }
  LayerWeights weights =
      stored_copy_of({folded_layers_.next(), folded_layers_.next()}, job_.output);
  at::Tensor M;
  if (maps_) {
    maps_->next();
    maps_->next();
    M = maps_->map().M;
    if (M.defined()) M = M.to(at::kFloat);
  }
  const bool is_found = layer < found_;
  HealedLayerReport report = is_found ? found(layer, weights) : distilled(layer, weights, M);
  {
    const LayerWeights computing = copy_of(weights, compute_dtype_);
    const PhaseClock::Scope scope(clock_, "forward");
    for (Streams* streams : {&fitted_, &held_out_}) {
      for (at::Tensor& batch : streams->tokens.x) {
        batch = layer_forward(job_.output, computing, context_, batch);
      }
    }
  }
  observer_.layer_healed(report, is_found);
  return report;
}

}  // namespace

std::vector<HealedLayerReport> heal_layers(Communicator& comm, const LayerHealingJob& job,
                                           const LayerHealingObserver& observer,
                                           PhaseClock& clock) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_gradients;
  LayerHealingRun run(comm, job, observer, clock);
  std::vector<HealedLayerReport> layers;
  for (int64_t layer = 0; layer < job.output.num_layers(); ++layer)
    layers.push_back(run.heal(layer));
  comm.barrier();  // every layer is in the journal
  return layers;
}

void write_healed_layers(Communicator& comm, const Journal& journal, const ModelConfig& output,
                         const std::vector<HealedLayerReport>& layers,
                         const std::filesystem::path& dir, const ShardLayout& layout) {
  std::vector<int64_t> mine;
  std::set<std::string> names;
  for (int64_t layer = 0; layer < std::ssize(layers); ++layer) {
    const bool healed = layers[static_cast<size_t>(layer)].epochs > 0;
    if (!healed || rank_in_turn(comm, layer) != comm.rank()) continue;
    mine.push_back(layer);
    const std::vector<std::string> trained = trained_names(output, layer);
    names.insert(trained.begin(), trained.end());
  }
  ShardWriter writer(dir, layout, names);
  for (const int64_t layer : mine) {
    for (const auto& [name, tensor] : journal.get(entries::kHealed(layer)))
      writer.write(name, tensor);
  }
  writer.finish();
  comm.barrier();
}

}  // namespace dotresize
