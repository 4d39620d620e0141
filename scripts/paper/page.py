"""The page: all tables, with figures, and what is not as in the paper."""

from .order import compare_pairs, energy_rows, perplexities_at, ranking, reason
from .published import models_beside, perplexity_of
from .sweeps import METHODS
from .table import percent

HEAD = """\
# The paper's tables for {model}

The calibration has {samples} samples of {seqlen} tokens of {calibration}. Perplexities are those of {evaluation} in windows of {seqlen}
tokens; the dense model has {dense:.2f}. Beside them are the figures of the paper (Verma, Murray, Duh: DotResize;
`scripts/paper/published.yaml`), of {beside}. Jobs have a map per junction, a dense head, activations of the dense model, and lambda 0.1 unless
the table says another.

```
{command}
```
"""


def why_no_pair(sparsity, models):
    published = any(perplexity_of(model, sparsity, method) for model in models for method in METHODS)
    return "Too few methods are done to compare." if published else "The paper has no such size."


def verdict(pairs, models):
    """The verdict on the pairs of all width reductions."""
    if not pairs:
        return "No pair of methods could be compared with the paper."
    if not all(pair.as_in_paper for pair in pairs):
        return "Not all methods are in the order of the paper."
    whose = "that model" if len(models) == 1 else "at least one of the paper's models"
    return f"Each pair of methods that could be compared is in the order that it has with {whose}."


def order_section(inputs, plan, results):
    """A verdict, and for each width reduction lines: the order of the methods, the paper's, what was measured of the
    reason."""
    models = models_beside(inputs.config)
    energy = list(energy_rows(results, plan.sparsities, plan.lambdas))
    sections, compared = [], []
    for sparsity in plan.sparsities:
        perplexities = perplexities_at(results, sparsity)
        pairs = list(compare_pairs(sparsity, perplexities, models))
        found = [pair.sentence() for pair in pairs] or [why_no_pair(sparsity, models)]
        found.append(reason([row for row in energy if row.sparsity == sparsity]))
        head = f"{percent(sparsity)}: {ranking(perplexities) or 'no method is done'}"
        sections.append((head, [text for text in found if text]))
        compared += pairs
    return verdict(compared, models), sections


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
