"""Checks that the stored page of scripts/quality_table.py is made of the stored figures, and its claims follow from the
rows."""

import json
import re

import pytest
import quality_table
from conftest import ROOT
from quality import claims, measure, models, page
from quality.measure import Dense, Results, Row
from quality.recipes import CUSTOM, METHODS, RECIPES, SIZES, STOCK

DOCS = ROOT / "docs"


def row(recipe, method, perplexity, size=0.8, model=models.EXAMPLE, kl=0.1):
    return Row(model, recipe, method, size, widths="204", net=0.79, perplexity=perplexity, kl=kl, agreement=0.9)


def of_rows(*rows):
    return Results([Dense(name, 10, 20, 26.0, 30) for name in {row.model for row in rows}], rows)


def test_the_page_is_that_of_the_figures(tmp_path):
    (tmp_path / "quality.json").write_text((DOCS / "quality.json").read_text())
    assert quality_table.main(["--page", "--output", str(tmp_path)]) == 0
    made = (tmp_path / "quality.md").read_text()
    assert made == (DOCS / "quality.md").read_text()
    plots = re.findall(r"!\[.*\]\((.*)\)", made)
    assert plots and all((tmp_path / plot).is_file() and (DOCS / plot).is_file() for plot in plots)


def test_figures_come_back_from_their_file(tmp_path):
    file = tmp_path / "quality.json"
    refused = Row(models.EXAMPLE, "one", "dotresize", 0.6, reason="too small")
    file.write_text(of_rows(row("own", "slicegpt", 30.0), refused).json())
    again = measure.read_results(file)
    assert again.json() == file.read_text()
    again.add(None, [row("own", "slicegpt", 29.0)])
    assert [found.perplexity for found in again.of(models.EXAMPLE)] == [29.0]


@pytest.mark.parametrize("ours, left, halves", [(27.9, 0.475, "yes"), (28.1, 0.525, "no")])
def test_half_of_the_loss_is_of_the_best_older_row(ours, left, halves):
    results = of_rows(
        row("own", "slicegpt", 30.0), row("one", "pca_dotresize", 31.0), row("one-fisher", "slicegpt", ours), row("one-mlp", "slicegpt", 29.0)
    )  # fmt: skip
    found = claims.compare(results, models.EXAMPLE, 0.8, page.RECIPE_OF)
    assert (found.before.perplexity, found.ours.perplexity) == (30.0, ours)
    assert found.share == pytest.approx(left)
    (cells,) = page.halves_table(results).rows
    assert cells[-1] == halves


def test_families_are_compared_with_slicegpt_of_their_format():
    of = {"model": "tiny qwen2"}
    results = of_rows(
        row("own", "slicegpt", 30.0, **of, kl=0.3), row("allocate-any", "slicegpt", 30.5, **of, kl=0.2),
        row("one", "slicegpt", 31.0, **of), row("one", "magnitude", 29.0, **of), row("one-fisher-mlp", "slicegpt", 30.0, **of),
    )  # fmt: skip
    rows = page.families_table(results, ["tiny qwen2"]).rows
    assert [(cells[2], cells[3], cells[5], *cells[-2:]) for cells in rows] == [
        (CUSTOM, 30.0, 30.5, "no", "yes"),
        (STOCK, 31.0, 30.0, "yes", "yes"),
    ]


def test_every_recipe_is_a_sweep_of_the_sizes(tmp_path):
    model = models.example()
    for recipe in RECIPES:
        if recipe.drops_layers or recipe.mlps_alone:
            continue
        sweeps = list(measure.sweeps_of(recipe, model, METHODS, SIZES, tmp_path))
        assert [size for sweep in sweeps for size in sweep["sweep"]["method.size"]] == list(SIZES)
        names = None if "allocate" in recipe.options else list(recipe.methods)
        assert all(sweep["sweep"].get("method.name") == names for sweep in sweeps)
        json.dumps(sweeps)


def test_a_tiny_model_is_trained_and_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "WINDOWS", dict.fromkeys(models.WINDOWS, 4))
    models.write_tokens(tmp_path)
    models.train("qwen2", tmp_path / "qwen2", steps=2)
    model = models.tiny_model("qwen2", tmp_path)
    for name in ("one", "one-fisher-mlp"):
        dense, (found,) = measure.measure(page.RECIPE_OF[name], model, METHODS, [0.8], tmp_path / "work")
        assert found.key == ("tiny qwen2", name, "slicegpt", 0.8)
        assert 0.7 < found.net <= 0.8 and found.kl > 0 and 0 < found.agreement <= 1
        assert bool(found.features) == (name == "one-fisher-mlp")
        assert found.perplexity > 0.9 * dense.perplexity > 1
