#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_ministral3(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias"}, config);
  read_window(fields, /*if_absent=*/std::nullopt, config);
  if (!fields.has("rope_parameters")) fields.fail("rope_parameters", "is missing");
  read_rotary(fields, {.scales_queries = true}, config);
}

}  // namespace

constinit const ModelFamily kMinistral3{.model_type = "ministral3",
                                        .architecture = "Ministral3ForCausalLM",
                                        .absent = {.kv_heads = 8,
                                                   .head_dim = 128,
                                                   .max_position_embeddings = 262144,
                                                   .rms_norm_eps = 1e-5},
                                        .read = read_ministral3};

}  // namespace dotresize
