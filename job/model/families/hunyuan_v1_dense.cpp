#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

/// Notes what the releases have besides. transformers computes with none of it; engines look at
/// some, such as use_qk_norm, so outputs keep it.
void note_published_keys(const ConfigFields& fields) {
  fields.note({"add_classification_head",
               "attention_head_dim",
               "cla_share_factor",
               "class_num",
               "dense_list",
               "eod_token_id",
               "im_end_id",
               "im_newline_id",
               "im_start_id",
               "mask_init_id",
               "norm_type",
               "num_experts",
               "org_vocab_size",
               "pad_id",
               "pool_type",
               "text_end_id",
               "text_start_id",
               "use_cla",
               "use_qk_norm",
               "use_rotary_pos_emb"});
  for (const char* section : {"rope_scaling", "rope_parameters"}) {
    const auto rotary = fields.object(section);
    if (rotary) rotary->note({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"});
  }
}

void read_hunyuan_v1_dense(const ConfigFields& fields, ModelConfig& config) {
  note_published_keys(fields);
  refuse_biases(fields, {"mlp_bias"}, config);
  read_attention_biases(fields, /*if_absent=*/false, config);
  for (LayerSpec& layer : config.layers) {
    layer.attention.head_norms =
        HeadNorms{.behind_rotary = true, .query = "query_layernorm", .key = "key_layernorm"};
  }
  read_rotary(fields, {.offers_alpha = true}, config);
}

}  // namespace

constinit const ModelFamily kHunyuanV1Dense{
    .model_type = "hunyuan_v1_dense",
    .architecture = "HunYuanDenseV1ForCausalLM",
    .absent = {.max_position_embeddings = 2048, .rms_norm_eps = 1e-5},
    .read = read_hunyuan_v1_dense};

}  // namespace dotresize
