"""Tiny models of all families with random weights."""

import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM


def tensors_of(directory):
    """Returns the tensors of a model directory, from all its shards."""
    tensors = {}
    for shard in directory.glob("*.safetensors"):
        tensors.update(load_file(shard))
    return tensors


YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}
WHOLE_VALUES = ("qwen3_5_text", "qwen3_5_moe_text")  # families whose value heads keep their channels


def tiny_keys(family, **changes):
    """Returns the config.json of a tiny dense model, in the dialect of transformers 4."""
    keys = {
        "model_type": family,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "vocab_size": 97,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float32",
    }
    if family in ("mistral", "phi3"):
        keys["sliding_window"] = None
    if family == "mixtral":
        keys |= {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
    if family == "qwen3_moe":
        keys |= {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28}
        keys |= {"mlp_only_layers": [1], "norm_topk_prob": True}
    if family == "qwen2_moe":
        keys |= {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28}
        keys |= {"mlp_only_layers": [1], "norm_topk_prob": True, "shared_expert_intermediate_size": 50}
    if family == "glm4_moe":
        keys |= {"n_routed_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28, "n_shared_experts": 2}
        keys |= {"n_group": 2, "topk_group": 1, "routed_scaling_factor": 1.5, "use_qk_norm": True, "attention_bias": True}
    if family == "gpt_oss":
        keys |= {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 7, "rope_theta": 150000.0}
        keys |= {"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}}
        keys["rope_scaling"]["original_max_position_embeddings"] = 4096  # the default, if transformers 4 reads what 5 has saved
    if family == "gemma3_text":
        keys |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20, "sliding_window": 7}
        keys |= {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "rope_local_base_freq": 500.0}
        del keys["hidden_act"]
    if family == "gemma2":
        keys |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20, "sliding_window": 7}
        keys |= {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0}
        del keys["hidden_act"]
    if family == "qwen3_5_moe_text":
        keys |= {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28, "shared_expert_intermediate_size": 50}
    if family in WHOLE_VALUES:
        keys |= {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "partial_rotary_factor": 0.5}
        keys |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 10}
    if family == "gemma":
        keys["hidden_act"] = "gelu_pytorch_tanh"
    if family in ("exaone4", "olmo3"):
        keys |= {"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    if family == "olmo3":
        keys |= {"rope_theta": 5e5, "rope_scaling": YARN}
    if family == "ministral3":
        keys["rope_parameters"] = {**YARN, "rope_theta": 10000.0, "llama_4_scaling_beta": 0.3}
    if family == "hunyuan_v1_dense":
        keys["rope_scaling"] = {"type": "dynamic", "factor": 1.0, "alpha": 50.0}
    if family not in ("llama", "mistral", "qwen2", "qwen3", "granite", "mixtral", "qwen3_moe"):
        keys["pad_token_id"] = 1  # the family's default is beyond the vocabulary
    return {**keys, **changes}


def longrope(pairs, **more):
    """Returns rope_scaling like phi3's first publications, with factors for this many pairs of channels."""
    short = [1.0 + 0.25 * pair for pair in range(pairs)]
    return {"type": "longrope", "short_factor": short, "long_factor": [3.0 * f for f in short], **more}


# Rotary embeddings other than default and llama3. Their 16 or 12 positions are fewer than the tests' windows have.
ROTARY_SOURCES = {
    "llama-linear": tiny_keys("llama", rope_scaling={"type": "linear", "factor": 2.5}),
    "mistral-dynamic": tiny_keys(
        "mistral",
        max_position_embeddings=16,
        rope_scaling={"rope_type": "dynamic", "factor": 4.0},
    ),
    "qwen2-yarn": tiny_keys(
        "qwen2",
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    ),
    "phi3-longrope": tiny_keys(
        "phi3", original_max_position_embeddings=12, pad_token_id=None, rope_scaling=longrope(6)
    ),
    "phi3-longrope-partial": tiny_keys(
        "phi3",
        original_max_position_embeddings=96,
        partial_rotary_factor=0.5,
        rope_scaling=longrope(3),
    ),
    "qwen3-longrope": tiny_keys(
        "qwen3",
        head_dim=20,
        original_max_position_embeddings=12,
        rope_scaling=longrope(10, factor=256 / 12),
    ),
}


def random_dense(keys, seed=0):
    """Returns a dense model of `keys` whose norm weights and biases are neither all ones nor all zeros."""
    torch.manual_seed(seed)
    # transformers modifies the dictionaries that it is given, so pass a copy.
    config = CONFIG_MAPPING[keys["model_type"]](**json.loads(json.dumps(keys)))
    # The default of transformers 4 leaves the limit of scores out.
    attention = {"attn_implementation": "eager"} if keys["model_type"] == "gemma2" else {}
    model = AutoModelForCausalLM.from_config(config, **attention).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.normal_(std=0.3)
            elif keys["model_type"] == "gpt_oss" and "experts" in name:  # [experts, in, out], so large that some numbers reach the limits
                parameter.normal_(std=3 * parameter.shape[-2] ** -0.5)
            else:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.uniform_(0.0, 0.3)  # transformers 4 puts 0 in place of scores outside a token's groups
    return model


def stored_tensors(model):
    """Returns the tensors that the model's checkpoint holds. transformers 5 fuses experts in memory."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(Path(folder) / "model.safetensors")
