"""Tests of the output's custom code on narrowed random models. They need no worker."""

import json
import os

import pytest
import torch
from narrowing import (
    CODE_FILES,
    ROTARY_SOURCES,
    aligned,
    exact_ranks,
    fold,
    longrope,
    output_keys,
    projected_logits,
    random_dense,
    random_maps,
    silence_features,
    silence_values,
    stored_tensors,
    tie,
    tiny_keys,
    without_features,
    without_sublayers,
    without_values,
    write_output,
)
from safetensors.torch import load_file
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

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
DENSE_FAMILIES = ("llama", "mistral-sliding", "phi3-partial-sliding", "qwen2-sliding", "qwen3")
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


@pytest.mark.parametrize("source", OFTEN)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_full_width_gives_the_dense_logits(tmp_path, source, attention):
    dense, _, directory = narrowed(tmp_path, SOURCES[source], FULL)
    model = load(directory, attn_implementation=attention)
    assert model.config._attn_implementation == attention
    ids = some_ids()
    torch.testing.assert_close(logits(model, ids), logits(dense, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("source", "widths"),
    [
        *(pytest.param(source, NARROW, id=f"{source}-dense head") for source in SOURCES),
        *(pytest.param(source, SLICED, id=f"{source}-sliced head") for source in OFTEN),
    ],
)
def test_narrow_model_is_the_dense_model_projected(tmp_path, source, widths):
    dense, maps, directory = narrowed(tmp_path, SOURCES[source], widths)
    ids = some_ids()
    expected = projected_logits(dense, maps, ids)
    assert (expected - logits(dense, ids)).abs().max() > 0.1  # the projection must matter
    torch.testing.assert_close(logits(load(directory), ids), expected, atol=1e-4, rtol=0)


def tied(tmp_path, source, widths):
    """Returns the dense model with tied embeddings, its maps, and the narrowed model's directory."""
    dense = random_dense(SOURCES[source])
    maps = random_maps(48, widths)
    tensors, keys = tie(fold(dense, maps), dense, maps)
    keys = {**output_keys(SOURCES[source], widths), **keys}
    return dense, maps, write_output(tmp_path / "model", tensors, keys)


@pytest.mark.parametrize("source", ["llama-tied", "qwen2-tied"])
@pytest.mark.parametrize("widths", [NARROW, SLICED], ids=["dense head", "sliced head"])
def test_a_tied_model_is_the_dense_model_projected(tmp_path, source, widths):
    dense, maps, directory = tied(tmp_path, source, widths)
    model = load(directory)
    expected = projected_logits(dense, maps, some_ids())
    torch.testing.assert_close(logits(model, some_ids()), expected, atol=1e-4, rtol=0)
    assert torch.equal(model.model.embed_tokens.weight, dense.model.embed_tokens.weight)


def test_a_tied_model_has_one_table_after_it_is_saved(tmp_path):
    _, _, directory = tied(tmp_path, "llama-tied", SLICED)
    model = load(directory)
    again = saved_and_loaded(model, tmp_path)
    stored = load_file(tmp_path / "saved" / "model.safetensors")
    assert "lm_head.weight" not in stored
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in again.parameters())
    for loaded in (model, again):
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
        assert loaded.get_input_embeddings().weight.shape == (97, 48)


def test_a_tied_model_takes_embeddings_of_its_table(tmp_path):
    _, _, directory = tied(tmp_path, "llama-tied", SLICED)
    model = load(directory)
    with torch.no_grad():
        rows = model.get_input_embeddings()(some_ids())
        assert torch.equal(model(inputs_embeds=rows).logits, logits(model, some_ids()))


@pytest.mark.parametrize("source", ["llama", "llama-tied", "qwen3_moe"])
def test_without_maps_the_tensors_are_the_sources(tmp_path, source):
    dense = random_dense(SOURCES[source])
    keys = output_keys(SOURCES[source], FULL) | {
        "tie_word_embeddings": SOURCES[source]["tie_word_embeddings"],
        "norm_weights": True,
        "shortcut_ranks": [0] * 6,
    }
    model = load(write_output(tmp_path / "model", stored_tensors(dense), keys))
    torch.testing.assert_close(logits(model, some_ids()), logits(dense, some_ids()), atol=1e-5, rtol=0)
    assert saved_and_loaded(model, tmp_path).config.norm_weights


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"embedding_projection": False}, "embedding_projection is false, but the junction is 32 wide"),
        ({"head_projection": False}, "head_projection is false, but the junction is 33 wide"),
        ({"tie_word_embeddings": False}, "embedding_projection is true, but tie_word_embeddings is not"),
        ({"norm_weights": True}, "norm_weights is true"),
    ],
)
def test_ends_that_do_not_fit_are_refused(tmp_path, keys, said):
    _, _, directory = tied(tmp_path, "llama-tied", SLICED)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **keys}))
    with pytest.raises(ValueError, match=said):
        load(directory)


@pytest.mark.parametrize("source", ONE_PER_FAMILY)
@pytest.mark.parametrize("widths", [NARROW, SLICED], ids=["dense head", "sliced head"])
@pytest.mark.parametrize("factors", [1, 2])
def test_shortcuts_of_low_rank_are_as_exact_as_matrices(tmp_path, source, widths, factors):
    dense, maps, directory = narrowed(tmp_path, SOURCES[source], widths, factors=factors)
    ids = some_ids()
    expected = projected_logits(dense, maps, ids)
    torch.testing.assert_close(logits(load(directory), ids), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("factors", [1, 2])
def test_at_full_width_no_shortcut_is_stored(tmp_path, factors):
    dense, _, directory = narrowed(tmp_path, SOURCES["llama"], FULL, factors=factors)
    model = load(directory)
    assert not [name for name in model.state_dict() if "shortcut" in name]
    torch.testing.assert_close(logits(model, some_ids()), logits(dense, some_ids()), atol=1e-4, rtol=0)


def test_some_shortcuts_may_be_matrices(tmp_path):
    dense, maps = random_dense(SOURCES["llama"]), aligned(random_maps(48, NARROW))
    ranks = [8, None, 17, None, 12, 0]
    forms = [None if rank is None else (rank, 1) for rank in ranks]
    out = output_keys(SOURCES["llama"], NARROW) | {"shortcut_ranks": ranks, "shortcut_factors": 1}
    directory = write_output(tmp_path / "model", fold(dense, maps, forms), out)
    expected = projected_logits(dense, maps, some_ids())
    torch.testing.assert_close(logits(load(directory), some_ids()), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rotary", ["4", "5", "both"])
@pytest.mark.parametrize(
    "source",
    ["llama", "llama3-rope", "phi3-partial-sliding", "phi3-longrope", "phi3-longrope-partial"]
    + ["qwen2-yarn", "qwen3-longrope"],
)
def test_rotary_settings_of_either_transformers_are_read(tmp_path, source, rotary):
    keys = {**SOURCES[source], "rope_theta": 700.0}
    dense, maps, directory = narrowed(tmp_path, keys, NARROW, rotary=rotary)
    ids = some_ids()
    expected = projected_logits(dense, maps, ids)
    torch.testing.assert_close(logits(load(directory), ids), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("source", ONE_PER_FAMILY)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_generation_is_the_same_with_and_without_cache(tmp_path, source, attention):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW)
    model = load(directory, attn_implementation=attention)
    ids = some_ids()
    cached = generate(model, ids, use_cache=True)
    assert cached.shape == (2, 19 + 12)
    assert torch.equal(cached, generate(model, ids, use_cache=False))


@pytest.mark.parametrize("family", ["phi3", "llama"])
def test_generation_past_the_short_factors_is_the_same_with_and_without_cache(tmp_path, family):
    keys = tiny_keys(
        family, original_max_position_embeddings=24, rope_scaling=longrope(6, factor=256 / 24)
    )
    if family == "phi3":
        del keys["rope_scaling"]["factor"]
    _, _, directory = narrowed(tmp_path, keys, NARROW)
    model = load(directory)
    ids = some_ids()
    ids[1, :4] = 1
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    cached = generate(model, ids, attention_mask=mask, use_cache=True)
    assert torch.equal(cached, generate(model, ids, attention_mask=mask, use_cache=False))


def test_generation_with_a_static_cache_is_the_same(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    ids = some_ids()
    static = generate(model, ids, cache_implementation="static", disable_compile=True)
    assert torch.equal(static, generate(model, ids))


@pytest.mark.parametrize("source", ONE_PER_FAMILY)
def test_cached_steps_give_the_logits_of_the_whole(tmp_path, source):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW)
    model = load(directory)
    ids = some_ids()
    with torch.no_grad():
        steps = [first := model(ids[:, :10], use_cache=True)]
        for position in range(10, ids.shape[1]):
            token = ids[:, position : position + 1]
            steps.append(model(token, past_key_values=first.past_key_values, use_cache=True))
    together = torch.cat([step.logits for step in steps], dim=1)
    torch.testing.assert_close(together, logits(model, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize("source", ONE_PER_FAMILY)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_left_padding_changes_nothing(tmp_path, source, attention):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW)
    model = load(directory, attn_implementation=attention)
    long, short = some_ids(1, 19), some_ids(1, 11, seed=4)
    batch = torch.cat([long, nn.functional.pad(short, (8, 0), value=1)])
    mask = torch.ones_like(batch)
    mask[1, :8] = 0
    together = generate(model, batch, attention_mask=mask)
    assert torch.equal(together[:1], generate(model, long))
    assert torch.equal(together[1:, 8:], generate(model, short))


def test_a_batch_gives_what_its_rows_give(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    ids = some_ids(batch=3)
    rows = torch.cat([logits(model, row[None]) for row in ids])
    torch.testing.assert_close(logits(model, ids), rows, atol=1e-5, rtol=0)


def test_attention_can_be_chosen_after_loading(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory, attn_implementation="sdpa")
    before = logits(model, some_ids())
    model.set_attn_implementation("eager")
    with torch.no_grad():
        after = model(some_ids(), output_attentions=True)
    assert [a.shape for a in after.attentions] == [(2, 4, 19, 19)] * 3
    torch.testing.assert_close(after.logits, before, atol=1e-5, rtol=0)


def test_hidden_states_have_the_junctions_widths(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    with torch.no_grad():
        outputs = load(directory)(some_ids(), output_hidden_states=True)
    assert [h.shape[-1] for h in outputs.hidden_states] == [32, 24, 16, 48]
    assert outputs.attentions is None


def test_tuples_are_returned_on_request(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    first = model(some_ids(), return_dict=False, use_cache=False)[0]
    assert torch.equal(first, logits(model, some_ids()))


def test_logits_to_keep_selects_the_last_positions(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    every = logits(model, some_ids())
    torch.testing.assert_close(logits(model, some_ids(), logits_to_keep=3), every[:, -3:])


def test_labels_give_the_mean_negative_log_likelihood(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    ids = some_ids()
    with torch.no_grad():
        outputs = model(ids, labels=ids)
    expected = nn.functional.cross_entropy(
        outputs.logits[:, :-1].reshape(-1, 97), ids[:, 1:].reshape(-1)
    )
    torch.testing.assert_close(outputs.loss, expected)


def saved_and_loaded(model, folder):
    """Saves the model and loads it again. Returns the copy, which has the same tensors."""
    model.save_pretrained(folder / "saved")
    again = load(folder / "saved")
    before, after = model.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    return again


@pytest.mark.parametrize("source", ["llama-biases", "phi3", "mixtral", "qwen3_moe"])
def test_layers_may_have_mlps_of_different_sizes(tmp_path, source):
    sizes = [20, 31, 7]  # the experts of qwen3_moe have 28 features, the MLP between them 80
    dense = random_dense(SOURCES[source])
    silence_features(dense, lambda layer, feature: feature >= sizes[layer])
    maps = random_maps(48, NARROW)
    keys = {**output_keys(SOURCES[source], NARROW), "intermediate_sizes": sizes}
    tensors = without_features(fold(dense, maps), sizes)
    model = load(write_output(tmp_path / "model", tensors, keys))
    expected = projected_logits(dense, maps, some_ids())
    torch.testing.assert_close(logits(model, some_ids()), expected, atol=1e-4, rtol=0)

    assert saved_and_loaded(model, tmp_path).config.intermediate_sizes == sizes


def with_narrow_values(folder, source, dims):
    """Returns the dense model, its maps, and the directory of the narrowed model with value heads of these widths."""
    dense = random_dense(SOURCES[source])
    silence_values(dense, dims)
    maps = random_maps(48, NARROW)
    keys = {**output_keys(SOURCES[source], NARROW), "value_head_dims": dims}
    tensors = without_values(fold(dense, maps), SOURCES[source], dims)
    return dense, maps, write_output(folder / "model", tensors, keys)


# Cases: heads that share values, fused projections, biases, heads of any width, mixtures of experts.
@pytest.mark.parametrize("source", ["llama-biases", "phi3", "qwen2", "qwen3-biases-wide-heads", "mixtral"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_value_heads_may_be_narrower_than_the_others(tmp_path, source, attention):
    dims = [5, SOURCES[source]["head_dim"], 1]
    dense, maps, directory = with_narrow_values(tmp_path, source, dims)
    model = load(directory, attn_implementation=attention)
    expected = projected_logits(dense, maps, some_ids())
    torch.testing.assert_close(logits(model, some_ids()), expected, atol=1e-4, rtol=0)
    cached = generate(model, some_ids(), use_cache=True)
    assert torch.equal(cached, generate(model, some_ids(), use_cache=False))

    assert saved_and_loaded(model, tmp_path).config.value_head_dims == dims


# The first attention is missing, from which transformers takes the number of cached tokens.
@pytest.mark.parametrize("source", ["llama", "phi3", "qwen2", "mixtral", "qwen3_moe"])
def test_a_layer_may_lack_its_attention_or_its_mlp(tmp_path, source):
    sizes, dims = [20, 0, 7], [0, SOURCES[source]["head_dim"], 5]
    dense = random_dense(SOURCES[source])
    silence_features(dense, lambda layer, feature: feature >= sizes[layer])
    silence_values(dense, dims)
    maps = random_maps(48, NARROW)
    keys = {**output_keys(SOURCES[source], NARROW), "intermediate_sizes": sizes, "value_head_dims": dims}
    tensors = without_values(without_features(fold(dense, maps), sizes), SOURCES[source], dims)
    model = load(write_output(tmp_path / "model", without_sublayers(tensors, [1], [0]), keys))
    expected = projected_logits(dense, maps, some_ids())
    torch.testing.assert_close(logits(model, some_ids()), expected, atol=1e-4, rtol=0)
    cached = generate(model, some_ids(), use_cache=True)
    assert torch.equal(cached, generate(model, some_ids(), use_cache=False))
    saved_and_loaded(model, tmp_path)


def test_narrower_value_heads_are_trainable_and_compile(tmp_path):
    _, _, directory = with_narrow_values(tmp_path, "llama-biases", [5, 12, 1])
    model = load(directory)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        result = compiled(some_ids(), use_cache=False).logits
    torch.testing.assert_close(result, logits(model, some_ids()), atol=1e-5, rtol=0)
    model.train()(some_ids(), labels=some_ids()).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("source", ["llama-biases", "mixtral", "qwen3_moe"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("factors", [None, 1, 2])
def test_every_weight_is_trainable(tmp_path, source, checkpointing, factors):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW, factors=factors)
    model = load(directory).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    ids = some_ids()
    model(ids, labels=ids).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_projections_are_plain_linear_layers_of_the_usual_names(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    layer = load(directory).model.layers[0]
    shapes = {
        name: tuple(module.weight.shape)
        for name, module in layer.named_modules()
        if type(module) is nn.Linear
    }
    assert shapes == {
        "self_attn.q_proj": (48, 32),
        "self_attn.k_proj": (24, 32),
        "self_attn.v_proj": (24, 32),
        "self_attn.o_proj": (40, 48),
        "mlp.gate_proj": (80, 40),
        "mlp.up_proj": (80, 40),
        "mlp.down_proj": (24, 80),
        "attention_shortcut": (40, 32),
        "mlp_shortcut": (24, 40),
    }


@pytest.mark.parametrize(
    "source",
    [
        "llama3-rope",
        "mistral-sliding",
        "phi3-partial-sliding",
        "phi3-longrope",
        "qwen2",
        "qwen3",
        "mixtral",
        "qwen3_moe",
    ],
)
@pytest.mark.parametrize("factors", [None, 1, 2])
def test_a_saved_model_loads_and_is_the_same(tmp_path, source, factors):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW, factors=factors)
    model = load(directory)
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    keys = json.loads((saved / "config.json").read_text())
    assert keys["auto_map"]["AutoConfig"] == "configuration_dotresize.DotResizeConfig"
    assert keys["auto_map"]["AutoModelForCausalLM"] == "modeling_dotresize.DotResizeForCausalLM"
    assert keys["junction_widths"] == NARROW
    for name in CODE_FILES:
        assert (saved / name).read_bytes() == (directory / name).read_bytes()
    again = load(saved)
    assert again.config.to_dict() == {**model.config.to_dict(), "_name_or_path": str(saved)}
    assert torch.equal(logits(again, some_ids()), logits(model, some_ids()))


@pytest.mark.parametrize("source", ["llama", "mixtral"])
@pytest.mark.parametrize("factors", [None, 1])
def test_bfloat16_stays_near_float32(tmp_path, source, factors):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW, dtype="bfloat16", factors=factors)
    model = load(directory, torch_dtype="auto")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert logits(model, some_ids()).dtype == torch.bfloat16
    exact = logits(model.float(), some_ids())
    error = (logits(load(directory, torch_dtype="auto"), some_ids()).float() - exact).abs()
    # Compared per token: one with nearly tied experts may choose another, which later tokens see too.
    assert error.mean(-1).median() < 0.03 * exact.abs().mean()


def test_device_map_auto_places_the_model(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    placed = load(directory, device_map="auto")
    assert placed._no_split_modules and "DotResizeDecoderLayer" in placed._no_split_modules
    assert torch.equal(logits(placed, some_ids()), logits(load(directory), some_ids()))


@pytest.mark.parametrize("factors", [None, 1, 2])
def test_layers_offloaded_to_disk_give_the_same_logits(tmp_path, factors):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW, factors=factors)
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    places["lm_head"] = "cpu"
    spread = load(directory, device_map=places, offload_folder=tmp_path / "offload")
    torch.testing.assert_close(logits(spread, some_ids()), logits(load(directory), some_ids()))


@pytest.mark.parametrize("source", DENSE_FAMILIES)
def test_the_model_compiles_as_one_graph(tmp_path, source):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW, factors=1)
    model = load(directory)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        result = compiled(some_ids(), use_cache=False).logits
    torch.testing.assert_close(result, logits(model, some_ids()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("source", MIXTURE_FAMILIES)
def test_a_mixture_says_that_it_does_not_compile_as_one_graph(tmp_path, source):
    _, _, directory = narrowed(tmp_path, SOURCES[source], NARROW)
    assert not load(directory)._can_compile_fullgraph


def test_absent_keys_take_the_familys_defaults(tmp_path):
    keys = tiny_keys("mistral")
    for key in ("sliding_window", "rope_theta", "hidden_act", "rms_norm_eps"):
        del keys[key]
    out = output_keys({**keys, "rope_theta": 1.0}, NARROW, rotary="4")
    del out["rope_theta"]
    tensors = fold(random_dense(tiny_keys("mistral")), random_maps(48, NARROW))
    config = load(write_output(tmp_path / "model", tensors, out)).config
    assert (config.sliding_window, config.hidden_act, config.rms_norm_eps) == (4096, "silu", 1e-6)
    assert config.use_cache is True and config.attention_dropout == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_model_type": "gpt2"}, "source_model_type is 'gpt2', must be one of"),
        ({"junction_widths": [48] * 6}, "junction_widths has 6 entries"),
        ({"junction_widths": [48] * 6 + [49]}, r"junction_widths\[6\] is 49"),
        ({"junction_widths": [0] + [48] * 6}, r"junction_widths\[0\] is 0"),
        ({"junction_widths": [48] * 6 + [47.5]}, r"junction_widths\[6\] is 47.5"),
        ({"junction_groups": [0] * 6}, "junction_groups has 6 entries"),
        ({"junction_groups": [1] * 6 + [0]}, r"junction_groups\[6\] is 0"),
        (
            {"junction_groups": [0] * 7, "junction_widths": [40] * 6 + [48]},
            r"junction_groups\[6\] puts the widths 40 and 48",
        ),
        ({"shortcut_ranks": [0] * 7}, "shortcut_ranks has 7 entries"),
        ({"shortcut_ranks": [0] * 5 + [49]}, r"shortcut_ranks\[5\] is 49"),
        ({"shortcut_ranks": [0] * 5 + [-1]}, r"shortcut_ranks\[5\] is -1"),
        ({"shortcut_ranks": [0] * 6, "shortcut_factors": 3}, "shortcut_factors is 3"),
        ({"intermediate_sizes": [80] * 2}, "intermediate_sizes has 2 entries"),
        ({"intermediate_sizes": [80, 81, 80]}, r"intermediate_sizes\[1\] is 81"),
        ({"intermediate_sizes": [80, 80, -1]}, r"intermediate_sizes\[2\] is -1"),
        ({"value_head_dims": [12] * 2}, "value_head_dims has 2 entries"),
        ({"value_head_dims": [12, 13, 12]}, r"value_head_dims\[1\] is 13"),
        ({"value_head_dims": [12, 12, -1]}, r"value_head_dims\[2\] is -1"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path, changes, message):
    keys = {**output_keys(SOURCES["llama"], FULL), **changes}
    directory = write_output(tmp_path / "model", {"a": torch.zeros(1), "b": torch.zeros(1)}, keys)
    with pytest.raises(ValueError, match=message):
        AutoConfig.from_pretrained(directory, trust_remote_code=True)


@pytest.mark.parametrize("inputs", [{}, {"both": True}])
def test_ids_and_embeddings_exclude_each_other(tmp_path, inputs):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    given = {"input_ids": some_ids(), "inputs_embeds": torch.zeros(2, 19, 32)} if inputs else {}
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model(**given)


def test_embeddings_can_be_given_instead_of_ids(tmp_path):
    _, _, directory = narrowed(tmp_path, SOURCES["llama"], NARROW)
    model = load(directory)
    embeds = model.get_input_embeddings()(some_ids())
    with torch.no_grad():
        result = model(inputs_embeds=embeds).logits
    assert torch.equal(result, logits(model, some_ids()))
