"""The figures of the paper (published.yaml), by model, width reduction and method."""

import functools
from pathlib import Path

import yaml

DENSE = "dense"


@functools.cache
def published():
    return yaml.safe_load((Path(__file__).parent / "published.yaml").read_text(encoding="utf-8"))


def title_of(model):
    return published()["models"][model]["title"]


def model_of(config):
    """Name of the paper's model with this config.json; None if there is none."""
    for name, model in published()["models"].items():
        if all(config.get(key) == value for key, value in model["config"].items()):
            return name
    return None


def models_beside(config):
    """The paper's models whose figures stand beside those of a model: its own, or all of them."""
    own = model_of(config)
    return [own] if own else published()["perplexity"]["models"]


def perplexity_of(model, sparsity, method):
    """Perplexity in the paper; None if it has no such figure. Method DENSE: the dense model's, whatever the sparsity."""
    table = published()["perplexity"]
    row = table[DENSE] if method == DENSE else table.get(sparsity, {}).get(method)
    return row and row[table["models"].index(model)]


def accuracies_of(model, sparsity, method):
    """Accuracies in %, by task of the harness, and the printed "average"; None if the paper has none."""
    table = published()["tasks"]
    row = table[model][DENSE] if method == DENSE else table[model].get(sparsity, {}).get(method)
    return row and dict(zip(table["tasks"], row, strict=True))


def source_of(name):
    return published()[name]["source"]


def statement_on(name):
    """The paper's words about a figure, with their source."""
    statement = published()["statements"][name]
    return f"The paper ({statement['source']}): {statement['says']}."
