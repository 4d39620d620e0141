"""The first table of README.md: the published model compressed by the default, and by the simplest alternatives."""

from paper.table import NOTHING, Column, Table, percent

from .model import SMOLLM2

SIZES = (0.9, 0.8, 0.7)
RECIPES = {
    "layers dropped": "dropped",
    "`name: slicegpt`": "slicegpt",
    "`size` alone": "allocate",
    "`size` alone, `format: stock`": "allocate-stock",
    "`size` and `heal: {}`": "healed",
}


def cell(results, recipe, size):
    row = results.rows.get((SMOLLM2, recipe, size))
    return f"{row.perplexity:.1f}" if row and row.done else NOTHING


def summary(results):
    """Perplexity at each size, as Markdown."""
    columns = [Column("net bytes"), *map(Column, RECIPES)]
    rows = [[percent(size), *(cell(results, recipe, size) for recipe in RECIPES.values())] for size in SIZES]
    table = Table("summary", "", columns, rows).markdown()
    return f"The perplexity of {SMOLLM2} is {results.dense[SMOLLM2].perplexity:.1f}. Its compressed models have:\n\n{table}"
