#include "job/model/mixture_config.h"

namespace dotresize {
namespace {

using Mixture = ModelFamily::Mixture;
using nlohmann::json;

// Upper limits, larger than those of any existing model. kMaxRows bounds the rows of all experts of
// a layer together, so that no product of sizes overflows 64 bits.
constexpr int64_t kMaxExperts = 2048;
constexpr int64_t kMaxRows = int64_t{1} << 22;

int64_t read_experts(const ConfigFields& fields, const Mixture& family) {
  // transformers 5 writes num_local_experts for every family.
  constexpr const char* kVersion5 = "num_local_experts";
  const std::string key = fields.has(family.experts_key) ? family.experts_key : kVersion5;
  if (!fields.has(key)) fields.fail(family.experts_key, "is missing");
  const int64_t experts = fields.required_integer(key, 1, kMaxExperts);
  if (fields.has(kVersion5) && fields.integer(kVersion5, 1, kMaxExperts) != experts) {
    fields.fail(kVersion5, "contradicts " + key + ", " + std::to_string(experts));
  }
  return experts;
}

/// [num_layers] true: the layer's MLP is a mixture.
std::vector<bool> read_layers(const ConfigFields& fields, const Mixture& family,
                              int64_t num_layers) {
  std::vector<bool> layers(static_cast<std::size_t>(num_layers), true);
  if (!family.offers_dense_layers) return layers;
  const int64_t step = fields.integer("decoder_sparse_step", 1, kMaxLayers).value_or(1);
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    layers[static_cast<std::size_t>(layer)] = (layer + 1) % step == 0;
  }
  const json& dense = fields.raw("mlp_only_layers");
  if (!dense.is_null() && !dense.is_array()) {
    fields.fail("mlp_only_layers", "must be a list of layers");
  }
  for (const json& layer : dense) {
    const int64_t number = fields.required_integer("mlp_only_layers", layer, 0, num_layers - 1);
    layers[static_cast<std::size_t>(number)] = false;
  }
  return layers;
}

}  // namespace

std::optional<MixtureConfig> read_mixture_config(const ConfigFields& fields,
                                                 const ModelFamily& family,
                                                 const ModelConfig& config) {
  if (!family.mixture) return std::nullopt;
  MixtureConfig mixture;
  mixture.names = family.mixture->names;
  mixture.experts = read_experts(fields, *family.mixture);
  mixture.experts_per_token = fields.required_integer("num_experts_per_tok", 1, kMaxExperts);
  if (mixture.experts_per_token > mixture.experts) {
    fields.fail("num_experts_per_tok", std::to_string(mixture.experts_per_token) + " is above " +
                                           std::to_string(mixture.experts) +
                                           ", the number of experts");
  }
  const std::string rows_key = family.mixture->intermediate_size_key;
  mixture.intermediate_size = fields.required_integer(rows_key, 1, kMaxRows);
  if (mixture.experts > kMaxRows / mixture.intermediate_size) {
    fields.fail(rows_key, std::to_string(mixture.intermediate_size) + " rows in each of " +
                              std::to_string(mixture.experts) + " experts are above " +
                              std::to_string(kMaxRows) + " together");
  }
  mixture.normed_weights =
      !family.mixture->offers_plain_weights || fields.boolean("norm_topk_prob", false);
  mixture.layers = read_layers(fields, *family.mixture, config.num_layers);
  return mixture;
}

}  // namespace dotresize
