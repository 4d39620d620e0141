"""The page: all tables, with figures, and what is not as in the paper."""

from .order import compare_pairs, energy_rows, perplexities_at, ranking, reason
from .published import models_beside
from .table import percent

HEAD = """\
# The paper's tables for {model}

{samples} samples of {seqlen} tokens of {calibration}, perplexity of {evaluation} in windows of {seqlen} tokens; the dense model
has {dense:.2f}. Beside them are the figures of the paper (Verma, Murray, Duh: DotResize; `scripts/paper/published.yaml`), of {beside}.
A map per junction, the head dense, activations of the dense model, lambda 0.1 unless the table says another.

```
{command}
```
"""


def order_section(inputs, plan, results):
    """A verdict, and for each width reduction lines: the order of the methods, the paper's, what was measured of the
    reason."""
    models = models_beside(inputs.config)
    energy = list(energy_rows(results, plan.sparsities, plan.lambdas))
    sections, differs = [], False
    for sparsity in plan.sparsities:
        perplexities = perplexities_at(results, sparsity)
        pairs = list(compare_pairs(sparsity, perplexities, models))
        found = [pair.sentence() for pair in pairs] or ["The paper has no such size."]
        found.append(reason([row for row in energy if row.sparsity == sparsity]))
        sections.append((f"{percent(sparsity)}: {ranking(perplexities)}", [text for text in found if text]))
        differs = differs or not all(pair.as_in_paper for pair in pairs)
    if differs:
        return "Not all methods are in the order of the paper.", sections
    whose = "that model" if len(models) == 1 else "at least one of the paper's models"
    return f"Each pair of methods is in the order that it has with {whose}.", sections


def order_text(order):
    verdict, sections = order
    text = f"{verdict}\n\n"
    for head, lines in sections:
        text += f"* {head}\n" + "".join(f"  * {line}\n" for line in lines)
    return text


def failures_section(failures):
    if not failures:
        return ""
    return "\n## Not made\n\n" + "".join(f"* {failure}\n" for failure in failures)


def page(inputs, results, order, tables, figures, failures, command):
    models = models_beside(inputs.config)
    text = HEAD.format(
        model=inputs.model.name,
        samples=inputs.samples,
        seqlen=inputs.seqlen,
        calibration=inputs.calibration.name,
        evaluation=inputs.evaluation.name,
        dense=results.dense["perplexity"],
        beside="this model" if len(models) == 1 else "its five models, of which this is none",
        command=command,
    )
    text += f"\n## Order of the methods\n\n{order_text(order)}"
    for table in tables:
        text += f"\n## {table.title}\n\n"
        if table.name in figures:
            text += f"![{table.title}](figures/{table.name}.svg)\n\n"
        text += table.markdown()
    return text + failures_section(failures)
