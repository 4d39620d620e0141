#include "tests/job/model/test_configs.h"

namespace dotresize {

// Configs whose keys or values differ from those of other models of the same family.

const char* const kPhi4MiniConfig = R"({
  "architectures": ["Phi3ForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "auto_map": {
    "AutoConfig": "configuration_phi3.Phi3Config",
    "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM",
    "AutoTokenizer": "Xenova/gpt-4o"
  },
  "bos_token_id": 199999,
  "embd_pdrop": 0.0,
  "eos_token_id": 199999,
  "full_attn_mod": 1,
  "hidden_act": "silu",
  "hidden_size": 3072,
  "initializer_range": 0.02,
  "intermediate_size": 8192,
  "interpolate_factor": 1,
  "lm_head_bias": false,
  "max_position_embeddings": 131072,
  "mlp_bias": false,
  "model_type": "phi3",
  "num_attention_heads": 24,
  "num_hidden_layers": 32,
  "num_key_value_heads": 8,
  "original_max_position_embeddings": 4096,
  "pad_token_id": 199999,
  "partial_rotary_factor": 0.75,
  "resid_pdrop": 0.0,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "long_factor": [
      1, 1.118320672, 1.250641126, 1.398617824, 1, 1.118320672, 1.250641126, 1.398617824,
      1, 1.118320672, 1.250641126, 1.398617824, 1, 1.118320672, 1.250641126, 1.398617824,
      1, 1.118320672, 1.250641126, 1.398617824, 1, 1.118320672, 1.250641126, 1.398617824,
      1, 1.118320672, 1.250641126, 1.398617824, 1, 1.118320672, 1.250641126, 1.398617824,
      1, 1.118320672, 1.250641126, 1.398617824, 1, 1.118320672, 1.250641126, 1.398617824,
      1, 1.118320672, 1.250641126, 1.398617824, 1, 1.118320672, 1.250641126, 1.398617824
    ],
    "short_factor": [
      1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
      1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
      1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0
    ],
    "type": "longrope"
  },
  "rope_theta": 10000.0,
  "sliding_window": 262144,
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.45.0",
  "use_cache": true,
  "vocab_size": 200064
})";

const char* const kDevstral2Config = R"({
  "architectures": ["Ministral3ForCausalLM"],
  "attention_dropout": 0.0,
  "bos_token_id": 1,
  "dtype": "bfloat16",
  "eos_token_id": 2,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 12288,
  "initializer_range": 0.02,
  "intermediate_size": 28672,
  "max_position_embeddings": 262144,
  "model_type": "ministral3",
  "num_attention_heads": 96,
  "num_hidden_layers": 88,
  "num_key_value_heads": 8,
  "pad_token_id": 11,
  "quantization_config": {
    "activation_scheme": "static",
    "dequantize": false,
    "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"],
    "quant_method": "fp8",
    "weight_block_size": null
  },
  "rms_norm_eps": 1e-05,
  "rope_parameters": {
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "factor": 64.0,
    "llama_4_scaling_beta": 0.0,
    "mscale": 1.0,
    "mscale_all_dim": 0.0,
    "original_max_position_embeddings": 4096,
    "rope_theta": 1000000.0,
    "rope_type": "yarn",
    "type": "yarn"
  },
  "sliding_window": null,
  "tie_word_embeddings": false,
  "transformers_version": "5.0.0.dev0",
  "use_cache": true,
  "vocab_size": 131072
})";

const char* const kHunyuanConfig = R"({
  "add_classification_head": false,
  "architectures": ["HunYuanDenseV1ForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.1,
  "attention_head_dim": 128,
  "bos_token_id": 127958,
  "cla_share_factor": 2,
  "class_num": 0,
  "dense_list": [4096, 0],
  "torch_dtype": "bfloat16",
  "eos_token_id": 127960,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 4096,
  "im_end_id": 5,
  "im_newline_id": 11,
  "im_start_id": 4,
  "initializer_range": 0.02,
  "intermediate_size": 14336,
  "mask_init_id": 12,
  "max_position_embeddings": 262144,
  "mlp_bias": false,
  "model_type": "hunyuan_v1_dense",
  "norm_type": "rms",
  "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "num_key_value_heads": 8,
  "org_vocab_size": 128167,
  "pad_id": 127961,
  "pad_token_id": 127961,
  "pool_type": "last",
  "pretraining_tp": 1,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "alpha": 1000.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "type": "dynamic"
  },
  "rope_theta": 10000.0,
  "sep_token_id": 127962,
  "text_end_id": 7,
  "text_start_id": 6,
  "tie_word_embeddings": true,
  "transformers_version": "4.57.6",
  "use_cache": true,
  "use_cla": false,
  "use_qk_norm": true,
  "use_rotary_pos_emb": true,
  "vocab_size": 128167
})";

}  // namespace dotresize
