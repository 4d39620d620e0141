#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr MixtureKeys kMixtralKeys{.experts = "num_local_experts",
                                   .intermediate_size = "intermediate_size"};

void read_mixtral(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias"}, config);
  read_window(fields, /*if_absent=*/std::nullopt, config);
  read_rotary(fields, {.theta_if_absent = 1e6}, config);
  const std::vector<bool> all(config.layers.size(), true);
  read_mixtures(fields, kMixtralKeys,
                {.normed_weights = true, .names = {"block_sparse_moe", "w1", "w3", "w2"}}, all,
                config);
}

void write_mixtral(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kMixtralKeys, config, output);
}

}  // namespace

constinit const ModelFamily kMixtral{
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .absent = {.kv_heads = 8, .max_position_embeddings = 131072, .rms_norm_eps = 1e-5},
    .read = read_mixtral,
    .write = write_mixtral};

}  // namespace dotresize
