"""Tests of scripts/real_quality.py and scripts/real_model.sh without the model that they fetch (see
tests/output/test_real_model.py)."""

import json
import os
import subprocess

import pytest
import real_quality
import torch
from conftest import ROOT
from paper.programs import dotresize
from real import dropping, measure, page, pins
from real.model import SMOLLM2, RealModel
from real.recipes import CUSTOM, RECIPES, SIZES
from real.results import Dense, Results, Row, read_results
from real.scoring import Reference
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

DOCS = ROOT / "docs"
SHAPE = {"hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 200, "max_position_embeddings": 64, "tie_word_embeddings": True, "initializer_range": 0.2}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Makes a tied llama and tokens in place of the real ones."""
    folder = tmp_path_factory.mktemp("real")
    torch.manual_seed(3)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder / "smollm2")
    (folder / "tokens").mkdir()
    for name in ("calibration", "evaluation"):
        save_file({"tokens": torch.randint(200, (20, 64), dtype=torch.int32)}, folder / "tokens" / f"{name}.safetensors")
    return RealModel("smollm2", SMOLLM2, folder / "smollm2", folder / "tokens")


def test_the_tables_are_those_of_the_figures(tmp_path):
    (tmp_path / "docs").mkdir()
    pages = ("README.md", "docs/results.md")
    for name in (*pages, "docs/results.json", "docs/speed.json"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name in pages:  # with no table in it
        empty = page.BLOCK.sub(r"\1\3", (ROOT / name).read_text())
        assert empty.count("<!-- table: ") >= 1 and "|:-" not in empty
        (tmp_path / name).write_text(empty)
    assert real_quality.main(["--page", "--root", str(tmp_path)]) == 0
    for name in pages:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()


def test_every_block_has_a_table():
    results, speed = read_results(DOCS / "results.json"), json.loads((DOCS / "speed.json").read_text())
    blocks = [found["name"] for found in page.BLOCK.finditer((DOCS / "results.md").read_text())]
    assert sorted(blocks) == sorted(page.tables(results, speed))


def test_a_table_has_the_best_row_of_a_size_first_and_says_what_is_missing(tmp_path):
    results = Results([Dense(SMOLLM2, 10, 40, 25.0, 30)])
    best = Row("allocate", 0.8, SMOLLM2, widths="16 to 32", net=0.799, perplexity=30.0, kl=0.2, agreement=0.8, predicted_kl=0.1, seconds=60)
    results.add(None, [Row("dropped", 0.8, SMOLLM2, layers=4, net=0.75, perplexity=90.0, kl=1.0, agreement=0.5, seconds=9)])
    results.add(None, [best, Row("slicegpt", 0.8, SMOLLM2, reason="too small")])
    file = tmp_path / "results.json"
    file.write_text(results.json())
    assert read_results(file).json() == file.read_text()
    table = page.quality_table(results, SMOLLM2)
    assert [cells[1] for cells in table.rows] == ["size alone", "layers dropped by block influence"]
    assert table.rows[0][6] == pytest.approx(1.2) and table.rows[0][10] == pytest.approx(0.5)
    assert table.notes == [f"80 %, slicegpt ({CUSTOM}): too small"]


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.is_job], ids=lambda recipe: recipe.name)
def test_every_recipe_is_a_job_that_meets_its_size(tiny, tmp_path, recipe):
    file = tmp_path / "job.json"
    for size in SIZES:
        job = measure.job_of(recipe, tiny, size, tmp_path / "out")
        job["calibration"].update(seqlen=64, samples=min(16, job["calibration"]["samples"]))  # the tokens of the tiny model
        if "samples" in job.get("heal", {}):
            job["heal"]["samples"] = 16
        file.write_text(json.dumps(job))
        compressed = dotresize("plan", file)["compressed"]
        if "mlp" in recipe.method:
            of_eight_features = 8 * 3 * 32 * 6 / tiny.parameters
            assert size - of_eight_features < compressed["bytes_fraction"] <= size


def test_a_job_is_run_once(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "SEQLEN", 64)
    recipe = page.RECIPE_OF["mlps"]
    dense, row = measure.run_job(recipe, tiny, 0.8, tmp_path)
    assert row.features == str(tiny.features_at(0.8)) and row.widths is None
    assert dense.parameters == tiny.parameters and row.net <= 0.8 and row.kl > 0 and row.seconds > 0
    monkeypatch.setattr(measure, "dotresize", None)
    assert measure.run_job(recipe, tiny, 0.8, tmp_path) == (dense, row)


def test_the_fewest_layers_of_least_influence_are_dropped(tiny):
    model = LlamaForCausalLM.from_pretrained(tiny.directory).eval()
    layers = model.model.layers
    with torch.no_grad():  # these two change nothing
        for number in (1, 4):
            layers[number].self_attn.o_proj.weight.zero_()
            layers[number].mlp.down_proj.weight.zero_()
    windows = torch.randint(200, (3, 64))
    influence = dropping.block_influence(model, windows)
    assert max(influence[1], influence[4]) < 1e-6 < min(influence[number] for number in (0, 2, 3, 5))
    assert dropping.dropped_at(influence, 0.8, 100, 10) == [1, 4]
    assert dropping.dropped_at(influence, 0.81, 100, 10) == [1, 4]
    assert dropping.dropped_at(influence, 0.95, 100, 10) in ([1], [4])

    reference = Reference(model, windows)
    with dropping.without_layers(model, [1, 4]) as shallow:
        assert len(shallow.model.layers) == 4
        same = reference.score(shallow)
    assert (same.perplexity, same.agreement) == (pytest.approx(reference.perplexity, rel=1e-6), 1)
    assert same.kl == pytest.approx(0, abs=1e-6)
    with dropping.without_layers(model, [0]) as shallow:
        assert reference.score(shallow).kl > 1e-3
    assert len(model.model.layers) == 6


def test_a_baseline_counts_the_tied_table_once(tiny):
    baseline = measure.Others(tiny)
    row = baseline.row(page.RECIPE_OF["dropped"], 0.8)
    of_a_layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 96 + 2 * 32
    assert tiny.parameters == baseline.dense.parameters == 200 * 32 + 32 + 6 * of_a_layer
    assert row.layers == 4 and row.net == pytest.approx(1 - 2 * of_a_layer / tiny.parameters)


def run_real_model(folder, *arguments):
    environment = {**os.environ, "DOTRESIZE_REAL_MODEL": str(folder), "PIP_NO_INDEX": "1"}
    return subprocess.run([ROOT / "scripts" / "real_model.sh", *arguments], env=environment, capture_output=True, text=True)


def test_without_an_index_the_script_says_that_it_cannot_fetch(tmp_path):
    done = run_real_model(tmp_path / "cache")
    assert (done.returncode, done.stdout) == (69, "")
    assert "cannot be fetched: is there a network" in done.stderr
    assert not (tmp_path / "cache" / "ready").exists()


def test_without_fetching_only_what_this_script_has_made_counts(tmp_path):
    missing = run_real_model(tmp_path / "cache", "--no-fetch")
    assert missing.returncode == 69 and "run scripts/real_model.sh first" in missing.stderr
    assert not (tmp_path / "cache").exists()
    (tmp_path / "ready").write_text("of another edition\n")
    assert run_real_model(tmp_path, "--no-fetch").returncode == 69


def test_another_text_is_refused_by_its_digest(tmp_path):
    (tmp_path / "text").mkdir()
    for name in pins.DIGESTS:
        (tmp_path / name).write_text("another text")
    found = pins.faults(tmp_path)
    assert len(found) == len(pins.DIGESTS) and all("pinned" in fault for fault in found)
