"""Tests that narrowed random models generate, train, save, load and compile like any model of transformers. They need no worker."""

import json

import pytest
import torch
from narrowed_models import (
    DENSE_FAMILIES,
    FULL,
    MIXTURE_FAMILIES,
    NARROW,
    ONE_PER_FAMILY,
    SOURCES,
    assert_same_logits,
    generate,
    load,
    logits,
    narrowed,
    some_ids,
)
from narrowing import code_files, fold, output_keys, random_maps, write_output
from tiny_models import longrope, random_dense, tiny_keys
from torch import nn
from transformers import AutoConfig


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
    for name in code_files(keys):
        assert (saved / name).read_bytes() == (directory / name).read_bytes()
    again = load(saved)
    assert again.config.to_dict() == {**model.config.to_dict(), "_name_or_path": str(saved)}
    assert_same_logits(logits(again, some_ids()), logits(model, some_ids()))


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
    assert_same_logits(logits(placed, some_ids()), logits(load(directory), some_ids()))


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
    keys = SOURCES[source] | {"num_hidden_layers": 2}  # tracing a layer takes half a second
    _, _, directory = narrowed(tmp_path, keys, NARROW[:4] + NARROW[-1:], factors=1)
    model = load(directory)
    torch._dynamo.reset()  # other models of this process count as recompilations
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
