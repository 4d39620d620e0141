"""Narrowed random models of all families, for the tests of the output's custom code."""

import os

import torch
from narrowing import aligned, exact_ranks, fold, output_keys, random_maps, tie, write_output
from tiny_models import ROTARY_SOURCES, random_dense, tiny_keys
from transformers import AutoModelForCausalLM

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
SOURCES = {
    "llama": tiny_keys("llama"),
    "llama-multi-head": tiny_keys("llama", num_key_value_heads=4),
    "llama-multi-query": tiny_keys("llama", num_key_value_heads=1),
    "llama-biases": tiny_keys("llama", attention_bias=True, mlp_bias=True),
    "llama-tied": tiny_keys("llama", tie_word_embeddings=True),
    "llama-wide-heads": tiny_keys("llama", head_dim=20),
    "llama3-rope": tiny_keys("llama", rope_scaling=LLAMA3_ROPE, rope_theta=500000.0),
    "mistral": tiny_keys("mistral"),
    "mistral-sliding": tiny_keys("mistral", sliding_window=7),
    "mistral-narrow-heads": tiny_keys("mistral", head_dim=8),
    "phi3": tiny_keys("phi3"),
    "phi3-partial-sliding": tiny_keys("phi3", partial_rotary_factor=0.5, sliding_window=7),
    "qwen2": tiny_keys("qwen2", use_sliding_window=False, sliding_window=7),
    "qwen2-tied": tiny_keys("qwen2", tie_word_embeddings=True),
    "qwen2-sliding": tiny_keys(
        "qwen2", use_sliding_window=True, sliding_window=7, max_window_layers=0
    ),
    "qwen2-sliding-later": tiny_keys("qwen2", use_sliding_window=True, sliding_window=7),
    "qwen3": tiny_keys("qwen3"),
    "qwen3-biases-wide-heads": tiny_keys("qwen3", attention_bias=True, head_dim=20),
    "seed_oss": tiny_keys("seed_oss", attention_out_bias=True, mlp_bias=True),
    "smollm3": tiny_keys("smollm3", no_rope_layers=[1, 0, 1]),
    "mixtral": tiny_keys("mixtral"),
    "mixtral-sliding": tiny_keys("mixtral", sliding_window=7),
    "qwen3_moe": tiny_keys("qwen3_moe"),
    "qwen3_moe-every-second": tiny_keys(
        "qwen3_moe", decoder_sparse_step=2, mlp_only_layers=[], norm_topk_prob=False
    ),
    "qwen3_moe-sliding": tiny_keys("qwen3_moe", use_sliding_window=True, sliding_window=7),
    "qwen3_moe-window-unused": tiny_keys("qwen3_moe", sliding_window=7),
    **ROTARY_SOURCES,
}
DENSE_FAMILIES = ("llama", "mistral-sliding", "phi3-partial-sliding", "qwen2-sliding", "qwen3", "smollm3")
MIXTURE_FAMILIES = ("mixtral-sliding", "qwen3_moe-window-unused")
ONE_PER_FAMILY = DENSE_FAMILIES + MIXTURE_FAMILIES
# Enough every day for tests with another form that runs all sources.
OFTEN = SOURCES if os.environ.get("DOTRESIZE_ALL_CASES") else ONE_PER_FAMILY
FULL = [48] * 7
NARROW = [32, 40, 24, 31, 16, 36, 48]
SLICED = [32, 40, 24, 31, 16, 36, 33]


def load(directory, **options):
    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, **options)
    return model.eval()


def narrowed(tmp_path, keys, widths, dtype="float32", rotary="both", factors=None):
    """Returns the dense model, its maps, and the narrowed model's directory. factors: number per shortcut."""
    dense = random_dense(keys)
    maps = random_maps(keys["hidden_size"], widths)
    out = output_keys(keys, widths, dtype=dtype, rotary=rotary)
    forms = None
    if factors:
        maps = aligned(maps)
        ranks = exact_ranks(keys["hidden_size"], widths)
        forms = [(rank, factors) for rank in ranks]
        out |= {"shortcut_ranks": ranks, "shortcut_factors": factors}
    return dense, maps, write_output(tmp_path / "model", fold(dense, maps, forms), out)


def some_ids(batch=2, tokens=19, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, 97, (batch, tokens), generator=generator)


@torch.no_grad()
def logits(model, ids, **inputs):
    return model(ids, **inputs).logits


def assert_same_logits(found, expected):
    """Checks logits of the same numbers at other addresses: a processor may sum a product in another order there."""
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def generate(model, ids, **options):
    return model.generate(
        ids,
        attention_mask=options.pop("attention_mask", torch.ones_like(ids)),
        max_new_tokens=12,
        do_sample=False,
        pad_token_id=1,
        eos_token_id=None,
        **options,
    )


def tied(tmp_path, source, widths):
    """Returns the dense model with tied embeddings, its maps, and the narrowed model's directory."""
    dense = random_dense(SOURCES[source])
    maps = random_maps(48, widths)
    tensors, keys = tie(fold(dense, maps), dense, maps)
    keys = {**output_keys(SOURCES[source], widths), **keys}
    return dense, maps, write_output(tmp_path / "model", tensors, keys)


def saved_and_loaded(model, folder):
    """Saves the model and loads it again. Returns the copy, which has the same tensors."""
    model.save_pretrained(folder / "saved")
    again = load(folder / "saved")
    before, after = model.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    return again
