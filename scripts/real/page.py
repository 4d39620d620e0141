"""Puts tables of measured figures into docs/results.md and README.md, between the markers that name them."""

import re

import yaml
from paper.table import Column, Table, percent, share

from .model import NAMES
from .recipes import RECIPES, SIZES, WINDOWS, method_of
from .speed_tables import speed_tables
from .summary import summary

RECIPE_OF = {recipe.name: recipe for recipe in RECIPES}
BLOCK = re.compile(r"(<!-- table: (?P<name>.*?) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)

COLUMNS = [
    Column("asked"), Column("recipe"), Column("format"), Column("what is left"), share("net"), Column("perplexity", "{:.2f}"),
    Column("over dense", "{:.3f}"), Column("KL", "{:.4f}"), share("agreement"), Column("predicted KL", "{:.4f}"),
    Column("predicted / measured", "{:.2f}"), Column("seconds", "{:.0f}"),
]  # fmt: skip


def keys_text(method, output):
    options = method | {f"output.{key}": value for key, value in output.items()}
    lines = [yaml.safe_dump({key: value}, default_flow_style=True).strip()[1:-1] for key, value in options.items()]
    return ", ".join(f"`{line}`" for line in lines)


def options_text(recipe):
    if not recipe.is_job:
        return "not a job"
    text = keys_text(method_of(recipe, "SIZE", "HIDDEN_SIZE", "FEATURES"), recipe.output)
    if recipe.windows != WINDOWS:
        text += f", `calibration.samples: {recipe.windows}`"
    return text if recipe.heal is None else f"{text}, {keys_text({'heal': recipe.heal}, {})}"


def recipes_table():
    columns = [Column("recipe"), Column("format"), Column("options of `method`, and of others")]
    return Table("recipes", "", columns, [[recipe.title, recipe.format, options_text(recipe)] for recipe in RECIPES])


def left(row):
    """Layers, widths and features, as far as they are fewer."""
    parts = [("{} layers", row.layers), ("width {}", row.widths), ("{} features", row.features)]
    return ", ".join(text.format(value) for text, value in parts if value is not None)


def cells_of(row, dense):
    """The predicted KL is that of the folded output, before any healing."""
    recipe = RECIPE_OF[row.recipe]
    predicted = row.predicted_kl if recipe.heal is None else None
    return [percent(row.size), recipe.title, recipe.format, left(row), row.net, row.perplexity, row.perplexity / dense, row.kl,
            row.agreement, predicted, predicted and predicted / row.kl, row.seconds]  # fmt: skip


def quality_table(results, model):
    """The rows of a model, the largest size first, and the best of a size first."""
    dense = results.dense[model].perplexity
    rows = [cells_of(row, dense) for size in SIZES for row in results.of(model, size)]
    missing = [row for row in results.rows.values() if row.model == model and not row.done]
    missing.sort(key=lambda row: row.place)
    notes = [f"{percent(row.size)}, {RECIPE_OF[row.recipe].title} ({RECIPE_OF[row.recipe].format}): {row.reason}" for row in missing]
    return Table(model, model, COLUMNS, rows, notes)


def dense_table(results):
    columns = [Column("dense model"), Column("parameters", "{:,}"), Column("bytes", "{:,}"), Column("predicted tokens", "{:,}"),
               Column("perplexity", "{:.3f}")]  # fmt: skip
    rows = [[of.model, of.parameters, of.bytes, of.predicted_tokens, of.perplexity] for of in results.dense.values()]
    return Table("dense", "", columns, rows)


def tables(results, speed):
    """Markdown by the name of its block. speed: the rows of docs/speed.json."""
    found = {"summary": summary(results), "recipes": recipes_table().markdown(), "dense": dense_table(results).markdown()}
    found |= {model: quality_table(results, model).markdown() for model in NAMES if model in results.dense}
    return found | {f"speed of {name}": table.markdown() for name, table in speed_tables(speed).items()}


def filled(page, blocks):
    """The page with these blocks. A block of another name stays."""
    return BLOCK.sub(lambda found: found[1] + blocks[found["name"]] + found[3] if found["name"] in blocks else found[0], page)
