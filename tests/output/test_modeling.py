"""Tests that narrowed random models compute the dense model projected. They need no worker."""

import json

import pytest
import torch
from narrowed_models import (
    FULL,
    NARROW,
    OFTEN,
    ONE_PER_FAMILY,
    SLICED,
    SOURCES,
    load,
    logits,
    narrowed,
    saved_and_loaded,
    some_ids,
    tied,
)
from narrowing import aligned, fold, output_keys, projected_logits, random_maps, write_output
from safetensors.torch import load_file
from tiny_models import random_dense


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


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"embedding_projection": False}, "embedding_projection is false, but the junction is 32 wide"),
        ({"head_projection": False}, "head_projection is false, but the junction is 33 wide"),
        ({"tie_word_embeddings": False}, "embedding_projection is true, but tie_word_embeddings is not"),
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
