"""docs/real-models.md."""

from paper.table import Column, Table, percent, share
from quality.page import keys_text

from .measure import RANKS, SEQLEN
from .model import NAME
from .recipes import RECIPES, SIZES, WINDOWS, method_of

RECIPE_OF = {recipe.name: recipe for recipe in RECIPES}

HEAD = """\
# Quality of a published model

This page compares recipes for {name} at equal net bytes. The model is a llama of 30 layers, width 576, 49,152 tokens of
vocabulary and tied embeddings, with {parameters:,} parameters in {bytes:,} bytes. `scripts/real_model.sh` fetches it, makes the tokens,
and checks both. Tests and the demo use a model that was trained for this project, which [quality.md](quality.md) is about.

```
scripts/real_model.sh                      # prints the folder of model, texts and tokens; fetches 134 MB the first time
.venv/bin/python scripts/real_quality.py   # makes this page
.venv/bin/python scripts/real_quality.py --recipes slicegpt --sizes 0.8   # one row; the others stay as they are in real-models.json
```

The calibration takes {windows} windows of {seqlen} tokens, spread evenly over `tokens/calibration.safetensors`. The evaluation takes
`tokens/evaluation.safetensors`, {tokens:,} predicted tokens of later parts of the same two texts. The dense model's perplexity over them is
**{dense:.3f}**. Jobs had {ranks} ranks without a GPU; all that the table does not say is the default. A net size counts every stored tensor once,
the tied table too. KL is the [divergence](evaluation.md#divergence-from-the-dense-model) from the dense model in nats a token, and agreement
is how often both models have the same most likely token. Seconds are those of the whole job, evaluations included, on a machine that may have
had other work: they compare recipes roughly. Jobs of *size alone* share their first round ([statistics](sweeps.md#kept-statistics)), which the
seconds at 95 % include and those at other sizes do not. [real-models.json](real-models.json) has the figures with all digits.

| recipe | format | options of `method`, and of others |
| --- | --- | --- |
{recipes}

*Layers dropped by block influence* has nothing of dotresize in it. It drops the layers whose output is most like their input (1 − cos, over
the calibration; ShortGPT, [arXiv 2403.03853](https://arxiv.org/abs/2403.03853)), the fewest with which the size is met. transformers measures
what is left. A layer is 2.6 % of the model, so sizes are met in steps of that. *FEATURES* of *MLPs alone* are the most within the size.
"""

# A second model, by hand: each row takes a quarter of an hour.
GEMMA = """
## Gemma 3 270M

`scripts/real_model.sh gemma3` makes the model, 268,098,176 parameters of which 63 % are the table of its 262,144 tokens. Jobs of *size alone*
with 16 windows of 1024 tokens of the same calibration text; the evaluation takes the text above, at 80 % its first 6 windows:

| asked | net | layers keep | dense perplexity | perplexity | over dense | predicted KL | KL |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 90 % | 90.0 % | 73 % | 49.22 | 80.93 | 1.644 | 0.7429 | 0.7193 |
| 80 % | 80.0 % | 46 % | 46.94 | 2018 | 43 | 4.959 | 4.225 |

The table is not cut, so at 80 % the layers lose more than half of their bytes, and the model all that it knew. `plan` and `run` warn of such a size.

`dotresize vocabulary` [takes tokens away](method.md#fewer-tokens), by the calibration text. Their models divide a text into other tokens, so
`real.text_bits` measures bits a byte: of the evaluation text in 18 pieces of about 4,000 bytes. The last column is the perplexity of as many tokens
as the dense model has.

| | parameters | net | tokens of the text | bits a byte | perplexity over dense |
| --- | ---: | ---: | ---: | ---: | ---: |
| dense | 268,098,176 | 100 % | 15,257 | 1.0424 | 1 |
| `--keep 131072` | 184,212,096 | 68.7 % | 15,331 | 1.0531 | 1.034 |
| `--keep 65536` | 142,269,056 | 53.1 % | 15,441 | 1.0676 | 1.083 |
"""

AT_SIZE = """
## At {size}

"""

COLUMNS = [
    Column("recipe"), Column("format"), Column("what is left"), share("net"), Column("perplexity", "{:.2f}"),
    Column("over dense", "{:.3f}"), Column("KL", "{:.4f}"), share("agreement"), Column("predicted KL", "{:.4f}"),
    Column("predicted / measured", "{:.2f}"), Column("seconds", "{:.0f}"),
]  # fmt: skip


def options_text(recipe):
    if recipe.drops_layers:
        return "not a job"
    text = keys_text(method_of(recipe, "SIZE", "HIDDEN_SIZE", "FEATURES"), recipe.output)
    if recipe.windows != WINDOWS:
        text += f", `calibration.samples: {recipe.windows}`"
    return text if recipe.heal is None else f"{text}, {keys_text({'heal': recipe.heal}, {})}"


def left(row):
    """Layers, widths and features, as far as they are fewer."""
    parts = [("{} layers", row.layers), ("width {}", row.widths), ("{} features", row.features)]
    return ", ".join(text.format(value) for text, value in parts if value is not None)


def size_table(results, size):
    """Rows of a size, best first. The predicted KL is that of the folded output, before any healing."""
    dense = results.dense[NAME].perplexity
    rows = []
    for row in sorted(results.of(NAME, size=size), key=lambda row: row.perplexity):
        recipe = RECIPE_OF[row.recipe]
        predicted = row.predicted_kl if recipe.heal is None else None
        rows.append([recipe.title, recipe.format, left(row), row.net, row.perplexity, row.perplexity / dense, row.kl,
                     row.agreement, predicted, predicted and predicted / row.kl, row.seconds])  # fmt: skip
    missing = [row for row in results.rows.values() if row.size == size and not row.done]
    notes = [f"{RECIPE_OF[row.recipe].title} ({RECIPE_OF[row.recipe].format}): {row.reason}" for row in missing]
    return Table(f"size-{size}", percent(size), COLUMNS, rows, notes)


def not_measured(results):
    """Lists the recipes and sizes that are not measured yet."""
    missing = [(recipe, [percent(size) for size in SIZES if (recipe.name, size) not in results.rows]) for recipe in RECIPES]
    texts = [f"* {recipe.title} ({recipe.format}) at {', '.join(sizes)}" for recipe, sizes in missing if sizes]
    return "\n".join(["\nThese are not measured yet:", "", *texts, ""]) if texts else ""


def page(results):
    dense = results.dense[NAME]
    text = HEAD.format(
        name=NAME,
        parameters=dense.parameters,
        bytes=dense.bytes,
        tokens=dense.predicted_tokens,
        dense=dense.perplexity,
        windows=WINDOWS,
        seqlen=SEQLEN,
        ranks=RANKS,
        recipes="\n".join(f"| {recipe.title} | {recipe.format} | {options_text(recipe)} |" for recipe in RECIPES),
    )
    text += not_measured(results)
    for size in SIZES:
        if results.of(NAME, size=size):
            text += AT_SIZE.format(size=percent(size)) + size_table(results, size).markdown()
    return text + GEMMA
