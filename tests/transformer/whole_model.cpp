#include "tests/transformer/whole_model.h"

#include "job/model/read_model_config.h"

namespace dotresize::testing {
namespace {

SublayerWeights random_sublayer(const ModelConfig& config, int64_t sublayer) {
  return make_weights(sublayer, sublayer_tensors(config, sublayer), [](const StoredTensor& tensor) {
    const bool norm = tensor.role == TensorRole::kNorm || tensor.role == TensorRole::kHeadNorm;
    const at::Tensor random = at::randn(tensor.shape, at::kFloat);
    return norm ? random * 0.3 + 1 : random * 0.2;
  });
}

}  // namespace

ModelConfig tiny_config() {
  ModelConfig config;
  config.family = "llama";
  config.hidden_size = 24;
  const AttentionSpec attention{.num_heads = 3,
                                .num_kv_heads = 1,
                                .head_dim = 12,
                                .value_head_dim = 12,
                                .bias = true,
                                .output_bias = true};
  config.layers.assign(2, {.attention = attention, .mlp = {.intermediate_size = 40, .bias = true}});
  config.rotaries = {{.channels = 12}};
  config.vocab_size = 50;
  config.max_position_embeddings = 64;
  config.rms_norm_eps = 1e-5;
  config.form.junction_widths.assign(config.num_junctions(), config.hidden_size);
  return config;
}

ModelConfig fused_config() {
  ModelConfig config = tiny_config();
  for (LayerSpec& layer : config.layers) {
    layer.attention.bias = layer.attention.output_bias = layer.mlp.bias = false;
    layer.attention.fused = layer.mlp.fused = true;
    layer.attention.head_norms = HeadNorms();
  }
  config.rotaries.front().partial_factor = 0.5;
  config.rotaries.front().channels = 6;
  return config;
}

ModelConfig mixture_config() {
  ModelConfig config = tiny_config();
  for (LayerSpec& layer : config.layers) layer.mlp.bias = false;
  config.layers.back().mlp = {.intermediate_size = 16,
                              .mixture = {{.experts = 5,
                                           .experts_per_token = 2,
                                           .normed_weights = true,
                                           .names = {"block_sparse_moe", "w1", "w3", "w2"}}}};
  return config;
}

std::string kind_of(const ModelConfig& config) {
  if (config.layers.back().mlp.mixture) return "Mixture";
  return config.layers.back().mlp.fused ? "Fused" : "Plain";
}

WholeModel random_model(const ModelConfig& config, uint64_t seed) {
  at::manual_seed(seed);
  WholeModel model;
  model.config = config;
  model.embedding.weight = at::randn({config.vocab_size, config.hidden_size}, at::kFloat);
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    model.sublayers.push_back(random_sublayer(config, s));
  }
  model.head.norm = at::randn({config.hidden_size}, at::kFloat) * 0.3 + 1;
  model.head.weight = at::randn({config.vocab_size, config.hidden_size}, at::kFloat) * 0.3;
  return model;
}

WholeModel load_model(const std::filesystem::path& dir, at::ScalarType dtype) {
  const ModelConfig config = read_model_config(dir);
  return load_whole_model(CheckpointReader(dir, config), config, dtype);
}

WholeModel to_dtype(const WholeModel& model, at::ScalarType dtype) {
  WholeModel converted = model;
  converted.embedding.weight = model.embedding.weight.to(dtype);
  for (SublayerWeights& sublayer : converted.sublayers) sublayer = to_dtype(sublayer, dtype);
  converted.head.weight = model.head.weight.to(dtype);
  return converted;
}

at::Tensor random_ids(const ModelConfig& config, at::IntArrayRef shape, uint64_t seed) {
  at::manual_seed(seed);
  return at::randint(config.vocab_size, shape, at::kLong);
}

at::Tensor numbers_that_draw(const at::Tensor& labels, const at::Tensor& probabilities) {
  const at::Tensor middles = probabilities.cumsum(1) - probabilities / 2;
  return middles.gather(1, labels.unsqueeze(1)).squeeze(1);
}

at::Tensor random_orthogonal(int64_t n, uint64_t seed) {
  at::manual_seed(seed);
  return std::get<0>(at::linalg_qr(at::randn({n, n}, at::kDouble)));
}

std::vector<at::Tensor> stored_values(const ModelConfig& config, const SublayerWeights& weights) {
  std::vector<at::Tensor> values;
  for_each_stored(weights, sublayer_tensors(config, weights.sublayer),
                  [&](const StoredTensor&, const at::Tensor& tensor) { values.push_back(tensor); });
  return values;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace dotresize::testing
