"""Cases of make_models.py: options of small models of every family."""

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def rotary(rope_type, **settings):
    return {"rope_type": rope_type, "rope_theta": 10000.0, **settings}


def longrope(pairs, **settings):
    """Returns longrope settings with factors for this many pairs of channels."""
    short = [1.0 + 0.25 * pair for pair in range(pairs)]
    return rotary(
        "longrope", short_factor=short, long_factor=[3.0 * f for f in short], **settings
    )


YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 32,
}

# Options of transformers' config besides BASE. "v4" rewrites config.json in the dialect of transformers 4.
BASE = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "initializer_range": 0.15,
    "tie_word_embeddings": False,
}
GLM_EXPERTS = {"num_experts_per_tok": 3, "moe_intermediate_size": 40, "pad_token_id": 0}
GPT_OSS_EXPERTS = {"num_local_experts": 5, "num_experts_per_tok": 3, "pad_token_id": 0}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 40}
CASES = {
    "llama-gqa1": {},
    "llama-gqa2-bias": {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True},
    "llama-gqa4-tied": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "llama-gqa8-llama3": {"num_key_value_heads": 1, "rope_parameters": LLAMA3},
    "llama-head-dim": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24},
    "llama-v4": {"v4": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5}},
    "llama-v4-llama3": {"v4": True, "num_key_value_heads": 2, "rope_parameters": LLAMA3},
    "llama-linear": {"rope_parameters": rotary("linear", factor=3.0)},
    "llama-linear-v4": {"v4": True, "rope_parameters": rotary("linear", factor=2.5)},
    "llama-dynamic": {"rope_parameters": rotary("dynamic", factor=4.0)},
    "llama-dynamic-beyond": {
        "max_position_embeddings": 32,
        "rope_parameters": rotary("dynamic", factor=4.0),
    },
    "qwen3-dynamic-beyond-v4": {
        "v4": True,
        "max_position_embeddings": 48,
        "rope_parameters": rotary("dynamic", factor=2.0),
    },
    "mistral-yarn": {
        "rope_parameters": rotary("yarn", factor=8.0, original_max_position_embeddings=32),
    },
    "qwen2-yarn-v4": {
        "v4": True,
        "num_key_value_heads": 2,
        "rope_parameters": rotary("yarn", factor=4.0, original_max_position_embeddings=64),
    },
    "qwen3-yarn-options": {
        "head_dim": 24,
        "rope_parameters": rotary(
            "yarn", factor=4.0, mscale=0.7, mscale_all_dim=0.3, beta_fast=9, beta_slow=0.5,
            truncate=False,
        ),
    },
    "llama-yarn-attention-factor": {
        "rope_parameters": rotary("yarn", factor=4.0, attention_factor=0.8, beta_fast=1.0),
    },
    "llama-longrope-short": {
        "rope_parameters": longrope(4, factor=2.0, original_max_position_embeddings=80),
    },
    "qwen2-longrope-long-v4": {
        "v4": True,
        "rope_parameters": longrope(4, original_max_position_embeddings=79),
    },
    "qwen3-longrope-attention-factor": {
        "head_dim": 24,
        "rope_parameters": longrope(
            12, attention_factor=1.3, original_max_position_embeddings=64
        ),
    },
    "mistral-no-window": {"num_key_value_heads": 2, "sliding_window": None},
    "mistral-window": {"num_key_value_heads": 2, "sliding_window": 7},
    "mistral-long-window": {"num_key_value_heads": 4, "sliding_window": 128},
    "mistral-head-dim-v4": {
        "v4": True,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 24,
        "sliding_window": 40,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "phi3": {"num_key_value_heads": 2, "pad_token_id": 0},
    "phi3-partial-rotary": {
        "num_key_value_heads": 4,
        "pad_token_id": 0,
        "sliding_window": 7,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
    "phi3-partial-rotary-v4": {
        "v4": True,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1234.5,
            "partial_rotary_factor": 0.75,
        },
    },
    "phi3-longrope-short": {
        "pad_token_id": None,
        "original_max_position_embeddings": 96,
        "rope_parameters": longrope(4),
    },
    "phi3-longrope-long-partial": {
        "num_key_value_heads": 2,
        "pad_token_id": 0,
        "original_max_position_embeddings": 64,
        "rope_parameters": longrope(2, partial_rotary_factor=0.5),
    },
    "phi3-longrope-long-partial-v4": {
        "v4": True,
        "pad_token_id": 0,
        "original_max_position_embeddings": 48,
        "rope_parameters": longrope(3, partial_rotary_factor=0.75),
    },
    "qwen2": {"num_key_value_heads": 2},
    "qwen2-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "qwen2-window": {
        "num_key_value_heads": 4,
        "use_sliding_window": True,
        "sliding_window": 7,
        "max_window_layers": 0,
    },
    "qwen2-window-on-the-last-layer": {
        "use_sliding_window": True,
        "sliding_window": 7,
        "max_window_layers": 1,
    },
    "qwen2-window-unused": {"use_sliding_window": True, "sliding_window": 7},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 24},
    "qwen3-bias-tied": {
        "num_key_value_heads": 1,
        "head_dim": 8,
        "attention_bias": True,
        "tie_word_embeddings": True,
    },
    "qwen3-head-dim-of-the-family": {"num_attention_heads": 2, "num_key_value_heads": 1},
    "qwen3-window-on-the-first-layer": {
        "head_dim": 8,
        "use_sliding_window": True,
        "sliding_window": 7,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "smollm3": {"num_key_value_heads": 2, "num_hidden_layers": 4, "pad_token_id": None},
    "smollm3-window-bias-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "attention_bias": True,
        "mlp_bias": True,
        "pad_token_id": None,
        "tie_word_embeddings": True,
        "no_rope_layers": [0, 1],
        "use_sliding_window": True,
        "sliding_window": 7,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "granite": {
        "num_key_value_heads": 2,
        "embedding_multiplier": 3.0,
        "logits_scaling": 1.7,
        "residual_multiplier": 0.4,
        "attention_multiplier": 0.2,
    },
    "granite-bias-tied": {
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "residual_multiplier": 0.22,
    },
    "seed_oss": {"num_key_value_heads": 2, "head_dim": 24, "pad_token_id": None},
    "seed_oss-output-bias": {
        "num_key_value_heads": 4,
        "head_dim": 8,
        "attention_out_bias": True,
        "mlp_bias": True,
        "pad_token_id": None,
    },
    "gemma3_text": {
        "num_key_value_heads": 2,
        "head_dim": 24,
        "query_pre_attn_scalar": 10,
        "pad_token_id": None,
        "sliding_window": 7,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": rotary("linear", factor=3.0),
            "sliding_attention": {"rope_type": "default", "rope_theta": 1234.5},
        },
    },
    "gemma3_text-bias-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "num_hidden_layers": 6,
        "pad_token_id": None,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "sliding_window": 9,
    },
    "gemma": {"num_key_value_heads": 2, "head_dim": 24, "pad_token_id": None},
    "gemma-gelu-bias-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "pad_token_id": None,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5},
    },
    "gemma2": {
        "num_key_value_heads": 2,
        "head_dim": 24,
        "query_pre_attn_scalar": 10,
        "pad_token_id": None,
        "sliding_window": 7,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.0,
    },
    "gemma2-scores-without-cap-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "pad_token_id": None,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "sliding_window": 9,
        "attn_logit_softcapping": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5},
    },
    "olmo2": {"num_key_value_heads": 2, "pad_token_id": None},
    "olmo2-bias-tied-v4": {
        "v4": True,
        "num_key_value_heads": 4,
        "pad_token_id": None,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5},
    },
    "olmo3": {
        "num_key_value_heads": 2,
        "num_hidden_layers": 4,
        "pad_token_id": None,
        "sliding_window": 7,
        "rope_parameters": {
            "full_attention": {**YARN, "rope_theta": 5e5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1234.5},
        },
    },
    "olmo3-bias-v4": {
        "v4": True,
        "num_hidden_layers": 3,
        "pad_token_id": None,
        "attention_bias": True,
        "sliding_window": 9,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {**YARN, "rope_theta": 5e5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 5e5},
        },
    },
    "ministral3": {
        "num_key_value_heads": 2,
        "head_dim": 24,
        "pad_token_id": None,
        "rope_parameters": {
            **YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4
        },
    },
    "ministral3-window-tied": {
        "num_key_value_heads": 1,
        "head_dim": 8,
        "pad_token_id": None,
        "tie_word_embeddings": True,
        "sliding_window": 7,
        "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.1},
    },
    "glm4": {"num_key_value_heads": 2, "head_dim": 24, "pad_token_id": None},
    "glm4-without-bias-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "pad_token_id": None,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 1234.5, "partial_rotary_factor": 0.25
        },
    },
    "exaone4": {
        "num_key_value_heads": 2,
        "num_hidden_layers": 4,
        "head_dim": 24,
        "sliding_window": 7,
    },
    "exaone4-without-window-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "sliding_window": None,
        "sliding_window_pattern": None,
        "layer_types": ["full_attention", "full_attention"],
        "rope_parameters": LLAMA3,
    },
    "hunyuan_v1_dense": {
        "num_key_value_heads": 2,
        "head_dim": 24,
        "pad_token_id": None,
        "rope_parameters": rotary("dynamic", factor=1.0, alpha=50.0),
    },
    "hunyuan_v1_dense-bias-tied-v4": {
        "v4": True,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "pad_token_id": None,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "rope_parameters": rotary("dynamic", factor=1.0, alpha=1000.0, beta_fast=32),
    },
    "qwen3_5_text": {
        "num_key_value_heads": 2,
        "num_hidden_layers": 4,
        "head_dim": 24,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 6,
        "linear_key_head_dim": 10,
        "linear_value_head_dim": 14,
        "layer_types": [
            "linear_attention", "full_attention", "linear_attention", "full_attention"
        ],
    },
    "qwen3_5_text-bias-tied": {
        "num_key_value_heads": 1,
        "num_hidden_layers": 4,
        "head_dim": 16,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "linear_conv_kernel_dim": 3,
        "linear_num_key_heads": 3,
        "linear_num_value_heads": 3,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 1234.5, "partial_rotary_factor": 0.5
        },
    },
    "mixtral": {"num_key_value_heads": 2, "num_local_experts": 8},
    "mixtral-window-tied-v4": {
        "v4": True,
        "num_local_experts": 3,
        "num_experts_per_tok": 1,
        "sliding_window": 7,
        "tie_word_embeddings": True,
    },
    "qwen3_moe": {"num_key_value_heads": 2, "head_dim": 24, "norm_topk_prob": True, **EXPERTS},
    "qwen3_moe-dense-layer-v4": {
        "v4": True,
        "mlp_only_layers": [1],
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": 7,
        **EXPERTS,
    },
    "qwen3_moe-every-second-layer": {"decoder_sparse_step": 2, "sliding_window": 7, **EXPERTS},
    "qwen2_moe": {
        "num_key_value_heads": 2,
        "norm_topk_prob": True,
        "shared_expert_intermediate_size": 88,
        **EXPERTS,
    },
    "qwen2_moe-dense-layer-tied-v4": {
        "v4": True,
        "num_hidden_layers": 4,
        "num_key_value_heads": 1,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
        "qkv_bias": False,
        "shared_expert_intermediate_size": 24,
        "tie_word_embeddings": True,
        **EXPERTS,
    },
    "glm4_moe": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "head_dim": 24,
        "attention_bias": True,
        "use_qk_norm": True,
        "n_routed_experts": 8,
        "n_group": 4,
        "topk_group": 2,
        "n_shared_experts": 2,
        "routed_scaling_factor": 2.5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        **GLM_EXPERTS,
    },
    "glm4_moe-all-mixtures-tied-v4": {
        "v4": True,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "first_k_dense_replace": 0,
        "norm_topk_prob": False,
        "n_routed_experts": 6,
        "rope_parameters": rotary("default", partial_rotary_factor=1.0),
        "tie_word_embeddings": True,
        **GLM_EXPERTS,
    },
    "qwen3_5_moe_text": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "head_dim": 24,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 6,
        "linear_key_head_dim": 12,
        "linear_value_head_dim": 20,
        "rope_parameters": rotary("default", partial_rotary_factor=0.5),
        "shared_expert_intermediate_size": 88,
        "pad_token_id": 0,
        **EXPERTS,
    },
    "gpt_oss": {
        "num_key_value_heads": 2,
        "head_dim": 24,
        "sliding_window": 7,
        "swiglu_limit": 1.1,
        "swiglu_alpha": 1.3,
        "rope_parameters": rotary("yarn", factor=8.0, original_max_position_embeddings=32, truncate=False),
        **GPT_OSS_EXPERTS,
    },
    "gpt_oss-tied-no-biases-v4": {
        "v4": True,
        "num_hidden_layers": 3,
        "head_dim": 8,
        "attention_bias": False,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "sliding_window": 7,
        "tie_word_embeddings": True,
        "rope_parameters": rotary("yarn", factor=4.0, original_max_position_embeddings=64, truncate=False),
        **(GPT_OSS_EXPERTS | {"num_experts_per_tok": 1}),
    },
}
