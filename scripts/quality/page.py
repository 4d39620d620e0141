"""docs/quality.md."""

import math

import yaml
from paper.table import Column, Table, percent, share

from .claims import compare
from .models import EXAMPLE, NAMES, SEQLEN, WINDOWS, example
from .recipes import BASELINE, CUSTOM, NO_METHOD, RECIPES, SIZES, STOCK, UNHEALED

RECIPE_OF = {recipe.name: recipe for recipe in RECIPES}
FIGURES = [share("net"), Column("perplexity", "{:.2f}"), Column("KL", "{:.4f}"), share("agreement")]

HEAD = """\
# Quality at equal net size

{real}
SmolLM2 is a published model; [real-models.md](real-models.md) has all its figures. Everything below is about models that were made for this
project, which tests and the demo use. They show how recipes compare on each family, not what a model of yours will lose.
The rows of `size` alone were measured while it searched for maps too, which won on these small models. It makes none any more, because
no published model has chosen one ([method.md](method.md#all-sizes-by-loss)).

The tables have the best models at 95, 90, 80, 70 and 60 % of the net bytes, with perplexity and divergence from the dense model. Only
those of the table [Healed](#healed) were trained. The example model ([examples/docs-llama](../examples/docs-llama/README.md)) has
{parameters:,} parameters in {bytes:,} bytes. Its perplexity is **{dense:.2f}**, over {tokens:,} predicted tokens.

```
.venv/bin/python scripts/quality_table.py                                          # makes this page
.venv/bin/python scripts/quality_table.py --recipes one-fisher --models docs-llama # a recipe again, the other rows as they are in quality.json
```

![Perplexity over net size]({figure})

The plot has slicegpt in every recipe. *Custom* outputs come with their code, *stock* ones are models of a known family
([serving.md](serving.md)). KL is the divergence from the dense model in nats a token, and agreement is how often both models have the same
most likely token ([evaluation.md](evaluation.md#divergence-from-the-dense-model)).

The calibration takes 64 windows of 512 tokens of `tests/data/calibration.safetensors`, the evaluation `tests/data/evaluation.safetensors`.
Widths and features of MLPs are multiples of {round_to} (`round_to`), so that all sizes are met closely. All that the table does not say is the
default. [quality.json](quality.json) has the figures with all digits.

| recipe | format | options of `method`, and of others |
| --- | --- | --- |
{recipes}
"""

HALVES = """
## Half of the loss

The table has, for each size, the best row of the paper's methods, with nothing of ours but shortcuts that compute the same in fewer bytes,
and the best row of all. *Left* is the part of the increase over the dense model that remains.
An eighth of the calibration's windows is held out. The choice of these windows decides the second digit: at 80 %, eight orders of the windows
(moved round by 0 to 7) gave 26.58 ± 0.01, from 26.56 to 26.61.

"""

AT_SIZE = """
## At {size}

"""

PREDICTED = """
## Predicted and measured

The table has three divergences of `size` alone: the predicted one ([method.md](method.md#all-sizes-by-loss)), the one on held-out windows,
which nothing was fitted to, and the one on the evaluation's text. Without maps the trial has scaled the prediction to the held-out windows, so
both are one figure.

"""

SIMPLE = """
## Simple recipes

The table has the perplexity of `size` alone beside that of stock recipes without a choice, at the same bytes: slicegpt with one map,
*MLPs alone* (every junction keeps its width), and *layers dropped by block influence* ([real-models.md](real-models.md)), which meets sizes
in steps of a layer.

"""

HEALED = """
## Healed

The table has `size` alone, and the same job with `heal: {}` ([method.md](method.md#healing)), which trains the output on the calibration's
windows.
*Removed* is the part of the increase of log perplexity over the dense model that is gone.

Outside of a job, [examples/heal_lora.py](../examples/heal_lora.py) (LoRA by PEFT, KL to the dense model) took SmolLM2-135M-Instruct at 80 % from
perplexity 35.02 and KL 0.344 to 32.00 and 0.297, with 300 steps of 256 tokens, `--steps 300 --windows 300 --seqlen 256`, in seven minutes on two
cores. [recipes.md](recipes.md#healing) has jobs that heal it.

"""

FAMILIES_HEAD = """
## Other families

Each other family has a model of 3 layers and width 48, with {parameters:,} to {most:,} parameters. These models were trained for this table
for a minute on the bytes of the example's calibration text (`scripts/quality/models.py`); perplexity is that of a byte. The calibration takes
{windows} windows of {seqlen} bytes. The models show that a recipe does for the family what it does for the example. They cannot show what it
does for a large model of that family. Trained on another machine they differ, and so do their figures a little.

![KL over net size, for each family]({figure})

The table has, for each format, the best row of slicegpt alone, and the best of the others:

"""


def named(row):
    recipe = RECIPE_OF[row.recipe]
    says_all = recipe.drops_layers or recipe.mlps_alone or "allocate" in recipe.options
    return recipe.title if says_all else f"{row.method}, {recipe.title}"


def yes(claim):
    return "yes" if claim else "no"


def options_text(recipe):
    """The recipe's options, as a job file has them."""
    if recipe.drops_layers:
        return "not a job"
    options = dict(recipe.options)
    if recipe.mlps_alone:
        options["mlp"] = {"width": "FEATURES"}
    if recipe.cut:
        options["mlp"] = {"sparsity": " or ".join(map(str, sorted(set(recipe.cut.values()))))}
    return keys_text(options, recipe.output) or "the defaults"


def keys_text(method, output):
    options = method | {f"output.{key}": value for key, value in output.items()}
    lines = [yaml.safe_dump({key: value}, default_flow_style=True).strip()[1:-1] for key, value in options.items()]
    return ", ".join(f"`{line}`" for line in lines)


def recipes_rows(results):
    used = {row.recipe for row in results.rows.values() if row.model == EXAMPLE}
    return "\n".join(
        f"| {recipe.title} | {recipe.format} | {options_text(recipe)} |" for recipe in RECIPES if recipe.name in used
    )


def left_out(results):
    """The recipes that the example has no rows of."""
    titles = [f"{recipe.title} ({recipe.format})" for recipe in RECIPES
              if recipe.heal is None and not results.of(EXAMPLE, recipe=recipe.name)]  # fmt: skip
    return f"\nNot measured yet: {', '.join(titles)}.\n" if titles else ""


def size_table(results, size):
    """Rows of the example, best first."""
    columns = [Column("format"), Column("method, recipe"), Column("widths"), Column("features"), *FIGURES]
    rows = sorted(results.of(EXAMPLE, size=size), key=lambda row: row.perplexity)
    cells = [
        [RECIPE_OF[row.recipe].format, named(row), row.widths, row.features, row.net, row.perplexity, row.kl, row.agreement]
        for row in rows
    ]
    missing = [row for row in results.rows.values() if (row.model, row.size) == (EXAMPLE, size) and not row.done]
    notes = [f"{named(row)}: {row.reason}" for row in missing]
    return Table(f"size-{size}", percent(size), columns, cells, notes)


def halves_table(results):
    columns = [Column("size"), Column("best of the paper's methods"), Column("perplexity", "{:.2f}"), Column("best of all"),
               Column("perplexity", "{:.2f}"), share("left"), Column("at most half")]  # fmt: skip
    rows = []
    for size in SIZES:
        if found := compare(results, EXAMPLE, size, RECIPE_OF):
            rows.append([percent(size), named(found.before), found.before.perplexity, named(found.ours), found.ours.perplexity,
                         found.share, yes(found.halves)])  # fmt: skip
    return Table("halves", "", columns, rows)


def predicted_table(results):
    columns = [Column("model"), Column("size"), Column("format"), Column("predicted KL", "{:.4f}"), Column("held-out KL", "{:.4f}"),
               Column("measured KL", "{:.4f}"), Column("predicted / measured", "{:.2f}"), Column("held-out / measured", "{:.2f}")]  # fmt: skip
    rows = [
        [row.model, percent(row.size), RECIPE_OF[row.recipe].format, row.predicted_kl, row.held_out_kl, row.kl, row.predicted_kl / row.kl,
         row.held_out_kl / row.kl]  # fmt: skip
        for model in NAMES
        for row in results.of(model)
        if row.predicted_kl is not None
    ]
    return Table("predicted", "", columns, rows)


def simple_table(results, models):
    """Perplexities of `size` alone, and of what takes no choice, at the same bytes."""
    shown = ("allocate-any", "allocate-stock", "one", "mlps", "dropped")
    titles = ("size alone (custom)", "size alone (stock)", "one map", "MLPs alone", "layers dropped")
    columns = [Column("model"), Column("size"), *[Column(title, "{:.3f}") for title in titles], Column("a simple one is better")]
    rows = []
    for model in models:
        for size in SIZES:
            found = {row.recipe: row.perplexity for row in results.of(model, size=size) if row.method in (BASELINE, NO_METHOD)}
            perplexities = [found.get(recipe) for recipe in shown]
            if None in perplexities[:2] or not any(perplexities[2:]):
                continue
            simple = min(filter(None, perplexities[2:]))
            rows.append([model, percent(size), *perplexities, yes(simple < min(perplexities[:2]))])
    return Table("simple", "", columns, rows)


def healed_table(results):
    columns = [Column("model"), Column("size"), Column("format"), Column("perplexity", "{:.3f}"), Column("KL", "{:.4f}"), Column("healed", "{:.3f}"),
               Column("KL", "{:.4f}"), share("removed"), Column("worse")]  # fmt: skip
    rows = []
    for model in NAMES:
        for healed in [row for row in results.of(model) if row.recipe in UNHEALED]:
            for row in results.of(model, recipe=UNHEALED[healed.recipe], size=healed.size):
                removed = math.log(row.perplexity / healed.perplexity) / math.log(row.perplexity / results.dense[model].perplexity)
                worse = healed.perplexity > row.perplexity or healed.kl > row.kl
                rows.append([model, percent(row.size), RECIPE_OF[row.recipe].format, row.perplexity, row.kl, healed.perplexity, healed.kl,
                             removed, yes(worse)])  # fmt: skip
    return Table("healed", "", columns, rows)


def families_table(results, models):
    columns = [Column("model"), Column("size"), Column("format"), Column("slicegpt", "{:.3f}"), Column("KL", "{:.4f}"),
               Column("best", "{:.3f}"), Column("KL", "{:.4f}"), Column("its recipe"), share("left"),
               Column("no worse in perplexity"), Column("in KL")]  # fmt: skip
    rows = []
    for model in models:
        for size in SIZES:
            for form in (CUSTOM, STOCK):
                recipes = {recipe.name for recipe in RECIPES if recipe.format == form}
                if found := compare(results, model, size, recipes, BASELINE):
                    rows.append([model, percent(size), form, found.before.perplexity, found.before.kl, found.ours.perplexity,
                                 found.ours.kl, RECIPE_OF[found.ours.recipe].title, found.share, yes(found.no_worse),
                                 yes(found.no_further)])  # fmt: skip
    return Table("families", "", columns, rows)


def page(measured, models, figures, real):
    """The page: the published model's table (real), the example's, and those of the tiny models. figures: names of the plots."""
    results = measured.without_healed()
    dense = results.dense[EXAMPLE]
    shape = example()
    text = HEAD.format(
        real=real,
        parameters=dense.parameters,
        bytes=dense.bytes,
        tokens=dense.predicted_tokens,
        dense=dense.perplexity,
        figure=figures[0],
        round_to=shape.round_to,
        recipes=recipes_rows(results),
    )
    text += left_out(results)
    if (halves := halves_table(results)).rows:
        text += HALVES + halves.markdown()
    for size in SIZES:
        text += AT_SIZE.format(size=percent(size)) + size_table(results, size).markdown()
    if (predicted := predicted_table(results)).rows:
        text += PREDICTED + predicted.markdown()
    if (simple := simple_table(results, [EXAMPLE, *models])).rows:
        text += SIMPLE + simple.markdown()
    if (healed := healed_table(measured)).rows:
        text += HEALED + healed.markdown()
    if models:
        sizes = [results.dense[model].parameters for model in models]
        text += FAMILIES_HEAD.format(parameters=min(sizes), most=max(sizes), windows=WINDOWS["calibration"], seqlen=SEQLEN, figure=figures[1])
        text += families_table(results, models).markdown()
    return text
