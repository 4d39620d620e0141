"""Tests that `dotresize export` writes each family as llama.cpp computes it, and refuses by name what it computes otherwise.
docs/families.md has llama.cpp's own perplexities."""

import numpy
import pytest
import torch
from exports import MOE, VOCABULARY, content_of, export, make_model, read_back
from gguf import GGUFReader
from safetensors.torch import load_file

LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 64, "beta_fast": 32.0,
        "beta_slow": 1.0, "truncate": True}  # fmt: skip
GPT_OSS = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 64, "sliding_window": 128, "rope_parameters": YARN}
FAMILIES = {
    "llama": {},
    "llama tied": {"tie_word_embeddings": True},
    "llama of wide heads": {"head_dim": 24},
    "mistral": {"head_dim": 24, "sliding_window": None},
    "qwen2": {},
    "qwen3": {"head_dim": 128},  # the reader assumes this, and 768 features per expert
    "qwen3_moe": MOE,
    "phi3": {"vocab_size": 32100},  # the reader requires a padding token 32000
    "qwen2_moe": {"num_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": True},  # features are those that the reader assumes
}
# Settings in the files of families that the reader does not know, or whose settings it does not read. llama.cpp's perplexities are in
# docs/families.md.
WINDOWS = {"num_hidden_layers": 3, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
PATTERN = [True, False, True]
STATED = {
    "gemma2": (
        {"head_dim": 16, "query_pre_attn_scalar": 16, "tie_word_embeddings": True, **WINDOWS},
        {"gemma2.attention.sliding_window_pattern": PATTERN, "gemma2.attention.sliding_window": 8, "gemma2.attn_logit_softcapping": 50.0,
         "gemma2.final_logit_softcapping": 30.0},
    ),
    "gemma3_text": (
        {"head_dim": 16, "query_pre_attn_scalar": 16, "tie_word_embeddings": True, **WINDOWS},
        {"gemma3.attention.sliding_window_pattern": PATTERN, "gemma3.rope.freq_base": 1e6, "gemma3.rope.freq_base_swa": 1e4},
    ),
    "gemma": ({"head_dim": 16, "tie_word_embeddings": True}, {"gemma.attention.key_length": 16}),
    "smollm3": ({"num_hidden_layers": 4}, {"smollm3.rope.dimension_count": 16}),
    "granite": (
        {"embedding_multiplier": 3.0, "attention_multiplier": 0.25, "residual_multiplier": 0.5, "logits_scaling": 4.0},
        {"granite.embedding_scale": 3.0, "granite.attention.scale": 0.25, "granite.residual_scale": 0.5, "granite.logit_scale": 4.0},
    ),
    "seed_oss": ({"head_dim": 16}, {"seed_oss.block_count": 2}),
    "olmo2": ({}, {"olmo2.rope.freq_base": 10000.0}),
    "olmo3": ({"num_hidden_layers": 4, "sliding_window": 8},
              {"olmo2.attention.sliding_window": 8, "olmo2.attention.sliding_window_pattern": [True, True, True, False]}),
    "glm4": ({"head_dim": 16}, {"glm4.rope.dimension_count": 8}),
    "exaone4": ({"sliding_window": None, "sliding_window_pattern": 4, "layer_types": ["full_attention"] * 2}, {"exaone4.block_count": 2}),
    "hunyuan_v1_dense": ({"head_dim": 16}, {"hunyuan-dense.attention.head_count": 4}),
}  # fmt: skip
GLM_MOE = {"head_dim": 16, "num_hidden_layers": 3, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
           "n_shared_experts": 2, "moe_intermediate_size": 40, "routed_scaling_factor": 2.5, "use_qk_norm": True}  # fmt: skip
DELTA_NET = {"head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
             "layer_types": ["linear_attention", "full_attention"]}  # fmt: skip
# Settings that an architecture lacks, or assumes otherwise.
UNSTATED = [
    ("gemma3_text", {**WINDOWS, "rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
     "a rotary embedding of type yarn"),
    ("gemma", {"tie_word_embeddings": False}, "a head with a matrix of its own"),
    ("gemma2", {"tie_word_embeddings": True, "attention_bias": True}, "a bias of o_proj"),
    ("qwen3", {"rope_parameters": LLAMA3}, "a rotary embedding of type llama3"),
    ("qwen3", {"rope_parameters": {**YARN, "beta_fast": 9.0}}, "a rotary embedding with beta_fast and beta_slow other than 32 and 1"),
    ("qwen3", {"attention_bias": True}, "a bias of o_proj"),
    ("phi3", {"partial_rotary_factor": 0.5}, "a partial rotary embedding"),
    ("smollm3", {"no_rope_layers": [1, 0, 1, 1], "num_hidden_layers": 4},
     "a layer without rotary embedding, or with one, where llama.cpp has it otherwise,"),
    ("olmo2", {"head_dim": 32}, "a width of heads other than hidden_size / num_attention_heads"),
    ("olmo3", {**WINDOWS, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e5},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
     "a rotary embedding of the layers with a window other than the one that llama.cpp gives them (default, of the same base)"),
    ("exaone4", {"sliding_window": 8, "num_hidden_layers": 4}, "a sliding window in a model of other than 64 layers"),
    ("qwen2_moe", MOE | {"norm_topk_prob": True}, "norm_topk_prob true, of which llama.cpp assumes the opposite,"),
    ("qwen2_moe", MOE | {"norm_topk_prob": False, "mlp_only_layers": [0]}, "a mixture with layers of one MLP"),
    ("gpt_oss", GPT_OSS | {"swiglu_limit": 5.0}, "swiglu_limit or swiglu_alpha other than 7.0 and 1.702"),
    ("gpt_oss", GPT_OSS | {"attention_bias": False}, "an attention without biases"),
    ("qwen3_5_text", DELTA_NET | {"linear_value_head_dim": 12}, "a DeltaNet whose keys and values differ in width"),
    ("qwen3_5_text", DELTA_NET | {"rms_norm_eps": 1e-5}, "a DeltaNet with rms_norm_eps other than 1e-06"),
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_reads_the_same_model(family, tmp_path):
    dense = make_model(tmp_path / "model", family, **FAMILIES[family]).eval()
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    ids = torch.randint(0, VOCABULARY, (2, 32))
    with torch.no_grad():
        difference = (read_back(tmp_path / "model.gguf")(ids).logits - dense(ids).logits).abs().max()
    assert difference < 1e-5


@pytest.mark.parametrize("family", STATED)
def test_other_families_keep_their_numbers_and_state_their_settings(family, tmp_path):
    changes, expected = STATED[family]
    dense = make_model(tmp_path / "model", family, intermediate_size=96, **changes)
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    settings, tensors = content_of(tmp_path / "model.gguf")
    assert {key: settings.get(key) for key in expected} == expected
    offset = 1.0 if family.startswith("gemma") else 0.0
    source = load_file(tmp_path / "model" / "model.safetensors")
    numbers = [tensor + offset if name.endswith("norm.weight") else tensor for name, tensor in source.items()]
    written = [torch.frombuffer(bytearray(content), dtype=torch.float32) for kind, _, content in tensors.values()]
    assert sum(map(len, written)) == dense.num_parameters()
    query = source["model.layers.1.self_attn.q_proj.weight"]
    if family in ("smollm3", "granite"):  # pairs of neighbours turn there
        query = query.unflatten(0, (4, 2, -1)).swapaxes(1, 2).reshape(query.shape)
    assert tensors["blk.1.attn_q.weight"][2] == query.numpy().tobytes()
    in_order = [torch.cat([tensor.flatten().float() for tensor in of]).sort().values for of in (numbers, written)]
    torch.testing.assert_close(*in_order, rtol=0, atol=0)


@pytest.mark.parametrize("family, changes, why", UNSTATED)
def test_what_an_architecture_assumes_otherwise_is_refused_by_name(family, changes, why, tmp_path):
    make_model(tmp_path / "model", family, **changes)
    assert f"{why} is not exported" in export(tmp_path / "model", tmp_path / "model.gguf", exit_code=65)


def exported(tmp_path, family, **changes):
    """Returns the model, and settings and tensors of its file."""
    model = make_model(tmp_path / "model", family, **changes)
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    reader = GGUFReader(tmp_path / "model.gguf")
    settings = {key: field.contents() for key, field in reader.fields.items()}
    return model, settings, {tensor.name: torch.tensor(tensor.data) for tensor in reader.tensors}


@pytest.mark.parametrize("family, folded", [("gemma3_text", "attn_q_norm"), ("gemma2", "attn_q")])
def test_a_factor_of_scores_that_llama_cpp_does_not_assume_is_in_the_queries(family, folded, tmp_path):
    model, _, tensors = exported(tmp_path, family, head_dim=16, query_pre_attn_scalar=64, tie_word_embeddings=True)
    attention = model.model.layers[1].self_attn
    source = attention.q_norm.weight + 1.0 if folded.endswith("norm") else attention.q_proj.weight
    torch.testing.assert_close(tensors[f"blk.1.{folded}.weight"], 0.5 * source.detach())


def test_gemma2_without_limits_and_windows_states_ones_that_change_nothing(tmp_path):
    changes = {"attn_logit_softcapping": None, "final_logit_softcapping": None, "layer_types": ["full_attention"] * 2}
    _, settings, _ = exported(tmp_path, "gemma2", head_dim=16, query_pre_attn_scalar=16, tie_word_embeddings=True, **changes)
    assert settings["gemma2.attn_logit_softcapping"] == settings["gemma2.final_logit_softcapping"] == 2.0**30
    assert (settings["gemma2.attention.sliding_window"], settings["gemma2.attention.sliding_window_pattern"]) == (256, [True] * 2)


def test_a_yarn_is_divisors_of_frequencies_where_llama_cpp_has_them(tmp_path):
    rotary = YARN | {"factor": 8.0, "beta_fast": 9.0, "truncate": False, "mscale": 1.0, "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.4}
    model, settings, tensors = exported(tmp_path, "ministral3", head_dim=16, rope_parameters=rotary)
    plain = 150000.0 ** (-torch.arange(0, 16, 2) / 16)
    torch.testing.assert_close(plain / tensors["rope_freqs.weight"], model.model.rotary_emb.inv_freq, rtol=1e-5, atol=0)
    assert settings["mistral3.rope.scaling.attn_factor"] == pytest.approx(model.model.rotary_emb.attention_scaling)
    assert settings["mistral3.attention.temperature_scale"] == pytest.approx(0.4)
    assert settings["mistral3.rope.scaling.original_context_length"] == 64 and "mistral3.rope.scaling.type" not in settings


def test_experts_of_a_glm4_moe_have_what_chooses_them(tmp_path):
    model, settings, tensors = exported(tmp_path, "glm4_moe", **GLM_MOE)
    expected = {"leading_dense_block_count": 1, "expert_count": 4, "expert_used_count": 2, "expert_group_count": 2, "expert_group_used_count": 1,
                "expert_shared_count": 2, "expert_feed_forward_length": 64, "expert_weights_scale": 2.5, "expert_weights_norm": True,
                "feed_forward_length": 128, "rope.dimension_count": 8}  # fmt: skip
    assert {key: settings[f"glm4moe.{key}"] for key in expected} == expected
    moe = model.model.layers[1].mlp
    torch.testing.assert_close(tensors["blk.1.exp_probs_b.bias"], moe.gate.e_score_correction_bias)
    shared = tensors["blk.1.ffn_up_shexp.weight"]
    assert shared.shape == (128, 64) and not shared[80:].any()  # as wide as two of the others, which are filled up
    torch.testing.assert_close(shared[:80], moe.shared_experts.up_proj.weight.detach())


def test_gate_and_up_of_a_gpt_oss_are_told_apart(tmp_path):
    """transformers' reader fails at the yarn of such a file."""
    model, settings, tensors = exported(tmp_path, "gpt_oss", **GPT_OSS, tie_word_embeddings=True)
    layer = model.model.layers[1]
    experts = layer.mlp.experts
    both, biases = experts.gate_up_proj.detach().mT, experts.gate_up_proj_bias.detach()
    for part, first in (("gate", 0), ("up", 1)):
        torch.testing.assert_close(tensors[f"blk.1.ffn_{part}_exps.weight"][:, :100], both[:, first::2])
        torch.testing.assert_close(tensors[f"blk.1.ffn_{part}_exps.bias"][:, :100], biases[:, first::2])
        assert tensors[f"blk.1.ffn_{part}_exps.weight"].shape == (4, 128, 64)
    torch.testing.assert_close(tensors["blk.1.ffn_down_exps.weight"][..., :100], experts.down_proj.detach().mT)
    torch.testing.assert_close(tensors["blk.1.ffn_down_exps.bias"], experts.down_proj_bias.detach())
    torch.testing.assert_close(tensors["blk.1.ffn_gate_inp.bias"], layer.mlp.router.bias.detach())
    torch.testing.assert_close(tensors["blk.1.attn_sinks.weight"], layer.self_attn.sinks.detach())
    torch.testing.assert_close(tensors["output.weight"], tensors["token_embd.weight"])
    assert settings["gpt-oss.rope.scaling.type"] == "yarn" and settings["gpt-oss.attention.sliding_window_pattern"] == [True, False]


def test_value_heads_of_a_delta_net_are_in_turn(tmp_path):
    """Value heads 0, 1, 2 belong to key head 0, which GGUF repeats every second head."""
    model, settings, tensors = exported(tmp_path, "qwen3_5_text", **DELTA_NET)
    net, order = model.model.layers[0].linear_attn, torch.tensor([0, 3, 1, 4, 2, 5])
    by_head = (order[:, None] * 8 + torch.arange(8)).flatten()
    mixed = torch.cat((torch.arange(32), 32 + by_head))  # two heads of queries and two of keys stay
    expected = {"attn_qkv.weight": net.in_proj_qkv.weight[mixed], "attn_gate.weight": net.in_proj_z.weight[by_head],
                "ssm_alpha.weight": net.in_proj_a.weight[order], "ssm_beta.weight": net.in_proj_b.weight[order],
                "ssm_conv1d.weight": net.conv1d.weight[mixed, 0], "ssm_a": -net.A_log.exp()[order], "ssm_dt.bias": net.dt_bias[order],
                "ssm_norm.weight": net.norm.weight, "ssm_out.weight": net.out_proj.weight[:, by_head]}  # fmt: skip
    for name, values in expected.items():
        torch.testing.assert_close(tensors[f"blk.0.{name}"], values.detach())
    assert settings["qwen35.attention.recurrent_layers"] == [True, False]
    assert (settings["qwen35.rope.dimension_count"], settings["qwen35.rope.dimension_sections"]) == (4, [1, 1, 0, 0])


@pytest.mark.parametrize("family, settings", [("qwen2", {"attention_bias": True}), ("phi3", {})])
def test_a_family_whose_heads_llama_cpp_takes_for_others_is_a_llama(family, settings, tmp_path):
    dense = make_model(tmp_path / "model", family, head_dim=24).eval()
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    assert GGUFReader(tmp_path / "model.gguf").fields["general.architecture"].contents() == "llama"
    ids = torch.randint(0, VOCABULARY, (2, 32))
    read = read_back(tmp_path / "model.gguf", **settings)  # GGUF does not store that a llama has biases
    with torch.no_grad():
        assert (read(ids).logits - dense(ids).logits).abs().max() < 1e-5


def test_experts_of_a_mixtral_are_stacked(tmp_path):
    model = make_model(tmp_path / "model", "mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    found = {tensor.name: tensor.data for tensor in GGUFReader(tmp_path / "model.gguf").tensors}
    state = model.state_dict()
    assert found["blk.1.ffn_down_exps.weight"].shape == (4, 64, 128)  # padded with zeros to whole blocks
    assert not found["blk.1.ffn_down_exps.weight"][..., 100:].any() and not found["blk.1.ffn_gate_exps.weight"][:, 100:].any()
    both = state["model.layers.1.mlp.experts.gate_up_proj"].numpy()
    numpy.testing.assert_array_equal(found["blk.1.ffn_gate_exps.weight"][:, :100], both[:, :100])
    numpy.testing.assert_array_equal(found["blk.1.ffn_up_exps.weight"][:, :100], both[:, 100:])
    numpy.testing.assert_array_equal(found["blk.1.ffn_gate_inp.weight"], state["model.layers.1.mlp.gate.weight"].numpy())


def test_frequencies_of_llama3_are_divided_as_in_transformers(tmp_path):
    model = make_model(tmp_path / "model", "llama", rope_parameters=LLAMA3)
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    (factors,) = (tensor.data for tensor in GGUFReader(tmp_path / "model.gguf").tensors if tensor.name == "rope_freqs.weight")
    plain = 10000.0 ** (-torch.arange(0, 16, 2) / 16)
    numpy.testing.assert_allclose(plain / factors, model.model.rotary_emb.inv_freq, rtol=1e-5)
    assert factors.max() == 8.0 and factors.min() == 1.0
