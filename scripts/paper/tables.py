"""The tables, from the results of the sweeps. A value that was not measured is None."""

import statistics
from pathlib import Path

from .cost import block_bytes, compression, gpu_memory, gpus_to_run
from .inputs import PAPER_SAMPLES
from .order import energy_rows
from .published import DENSE, accuracies_of, models_beside, perplexity_of, source_of, statement_on, title_of
from .sweeps import METHODS, OF_TASKS, PAPER_LAMBDA, TRANSPORT
from .table import Column, Table, percent, share
from .tasks import AVERAGE, five_tasks

PERPLEXITY = "{:.2f}"
GPU_TIME = "GPU·ms/token"


def few_samples_note(inputs):
    return f"The maps are made from all {inputs.samples} samples that the text has; the paper's from {PAPER_SAMPLES}."


def published_cells(models, sparsity, method):
    """Perplexity, and its ratio to the dense model's."""
    for model in models:
        value = perplexity_of(model, sparsity, method)
        yield value and f"{value:.2f} ({value / perplexity_of(model, None, DENSE):.2f})"


def perplexity_table(inputs, plan, results):
    models = models_beside(inputs.config)
    columns = [Column("width reduction"), Column("method"), Column("width"), share("net bytes")]
    columns += [Column("perplexity", PERPLEXITY), Column("of dense", "{:.2f}")]
    columns += [Column(f"paper: {title_of(model)}") for model in models]

    base = results.dense["perplexity"]
    rows = [["0 %", DENSE, inputs.config.get("hidden_size"), 1.0, base, 1.0, *published_cells(models, None, DENSE)]]
    for sparsity in plan.sparsities:
        for method in METHODS:
            row = results.row(name=method, sparsity=sparsity, **{"lambda": PAPER_LAMBDA}) or {}
            value = row.get("perplexity")
            own = [row.get("width"), row.get("bytes_fraction"), value, value and value / base]
            rows.append([percent(sparsity), method, *own, *published_cells(models, sparsity, method)])
    notes = [few_samples_note(inputs)] if inputs.samples != PAPER_SAMPLES else []
    note = f"The paper: {source_of('perplexity')}; in brackets, of that of the dense model. "
    note += "Here widths are multiples of 8, of 64 from a width of 2048 on, so a reduction may be some more than it says."
    return Table("perplexity", "Perplexity of the four methods", columns, rows, [note, *notes])


def lambda_table(plan, results):
    columns = [Column("width reduction"), Column("method")]
    columns += [Column(f"lambda {value:g}", PERPLEXITY) for value in plan.lambdas] + [share("most over least", "{:+.1f} %")]
    rows = []
    for sparsity in plan.sparsities:
        for method in TRANSPORT:
            of = [results.perplexity(name=method, sparsity=sparsity, **{"lambda": value}) for value in plan.lambdas]
            there = [value for value in of if value is not None]
            rows.append([percent(sparsity), method, *of, max(there) / min(there) - 1 if there else None])
    widest = {m: max((row[-1] for row in rows if row[1] == m and row[-1] is not None), default=None) for m in TRANSPORT}
    spreads = [(method, spread) for method, spread in widest.items() if spread is not None]
    notes = [statement_on("lambda")]
    if spreads:
        here = ", ".join(f"{method} by up to {percent(round(spread, 3))}" for method, spread in spreads)
        notes.append(f"Here the perplexities differ: of {here}.")
    return Table("lambda", "Perplexity by the weight of the entropy", columns, rows, notes)


def samples_table(inputs, plan, results, left_out):
    columns = [Column("samples"), Column("tokens", "{:,}"), Column("perplexity", PERPLEXITY)]
    columns.append(share("to the one before", "{:+.1f} %"))
    rows, before = [], None
    for count in plan.sample_counts:
        value = results.perplexity(samples=count)
        rows.append([count, count * inputs.seqlen, value, value and before and value / before - 1])
        before = value
    notes = [statement_on("samples")]
    if left_out:
        counts = ", ".join(map(str, left_out))
        notes.append(
            f"Left out: {counts} samples. {inputs.calibration.name} has {inputs.calibration_tokens:,} tokens, "
            f"{inputs.windows} samples of {inputs.seqlen}."
        )
    title = f"Perplexity of pca_dotresize at {percent(plan.ablation)} by the samples of the calibration"
    return Table("samples", title, columns, rows, notes)


def effective_rank_table(inputs, report):
    """Effective ranks after attention and MLP of each layer; they do not depend on the width."""
    ranks = {j["name"]: j["effective_rank"] for j in report["junctions"] if j["mapped"]}
    layers = range(inputs.config["num_hidden_layers"])
    rows = [[layer, ranks.get(f"layers.{layer}.attention"), ranks.get(f"layers.{layer}.mlp")] for layer in layers]
    mean, width = statistics.mean(ranks.values()), inputs.config["hidden_size"]
    mine = f"Mean over the junctions {mean:.0f} of {width} ({percent(round(mean / width, 2))}), "
    mine += f"least {min(ranks.values())}. A junction without a figure has no map (the last one, whose head is dense)."
    columns = [Column("layer"), Column("after attention"), Column("after the MLP")]
    notes = [mine, statement_on("effective_rank")]
    return Table("effective_rank", "Effective rank (99 % of the energy)", columns, rows, notes)


def cost_table(inputs, plan, results, latency):
    """`latency` by path, {} if it was not measured, or measuring has failed."""
    columns = [Column("width reduction"), share("net bytes"), Column("prompt ms/token", "{:.2f}")]
    columns += [Column("decode ms/token", "{:.2f}"), Column("p10 to p90"), Column("GPUs to run"), Column(GPU_TIME, "{:.2f}")]
    columns += [Column("GPUs to compress"), Column("s to compress", "{:,.1f}")]
    memory = gpu_memory(plan.hardware)

    def row(name, model, fraction, compress):
        gpus = gpus_to_run(block_bytes(model), memory)
        times = latency.get(str(model))
        if not times:
            return [name, fraction, None, None, None, gpus, None, *compress]
        prompt, decode = times["prompt"]["median"], times["decode"]["median"]
        spread = f"{times['decode']['p10']:.2f} to {times['decode']['p90']:.2f}"
        return [name, fraction, prompt, decode, spread, gpus, gpus and gpus * decode, *compress]

    rows = [row("0 %", inputs.model, 1.0, (None, None))]
    for sparsity, best in kept_models(plan, results):
        compress = compression(inputs, plan, sparsity)
        rows.append(row(percent(sparsity), Path(best["model"]), best["bytes_fraction"], compress))
    notes = [
        f"GPUs are those of {plan.hardware.name}, {memory / 1e9:.1f} GB each; to run: with weights of 16 bits, whole layers, "
        "and 1 GiB for CUDA and activations; to compress: the fewest ranks with a plan, and its estimate of the time. Times a "
        "token are of this machine (dotresize eval --latency, 128 tokens of prompt, 32 decoded: medians, and "
        "percentiles of the latter)." + _not_measured(plan, latency),
        statement_on("cost"),
    ]
    return Table("cost", "Latency and GPUs", columns, rows, notes)


def _not_measured(plan, latency):
    why = "measuring has failed" if plan.latency else "--no-latency"
    return "" if latency else f" Latency was not measured ({why})."


def kept_models(plan, results):
    """(sparsity, row) of each size whose best model is there."""
    of = {float(row["values"]["method.sparsity"]): row for row in results.best()}
    return [(sparsity, of[sparsity]) for sparsity in plan.sparsities if sparsity in of]


def energy_table(plan, results):
    columns = [Column("width reduction"), Column("method"), Column("lambda", "{:g}")]
    columns += [share("energy kept", "{:.2f} %"), Column("perplexity", PERPLEXITY)]
    rows = [
        [percent(row.sparsity), row.method, row.lam, row.energy, row.perplexity]
        for row in energy_rows(results, plan.sparsities, plan.lambdas)
    ]
    note = "Energy kept: tr(MᵀGM) / tr(G) of each junction's Gram matrix G, the mean over the junctions."
    return Table("energy", "Energy kept and perplexity", columns, rows, [note])


def tasks_table(inputs, plan, accuracies, missing):
    """`accuracies` of this model by (sparsity, method), the dense one's by (None, DENSE)."""
    names = [*five_tasks(), AVERAGE]
    columns = [Column("model"), Column("width reduction"), Column("method"), *(Column(name, "{:.2f}") for name in names)]
    settings = [(None, DENSE), *((sparsity, method) for sparsity in plan.sparsities for method in OF_TASKS)]
    models = models_beside(inputs.config)
    rows = []
    for setting in settings:
        beside = [(f"paper: {title_of(model)}", accuracies_of(model, *setting)) for model in models]
        for model, of in [("this one", accuracies.get(setting)), *beside]:
            if of:
                rows.append([model, percent(setting[0] or 0), setting[1], *(of.get(name) for name in names)])
    notes = [f"The paper: {source_of('tasks')}. Here acc_norm in %, of tasks without it acc."]
    notes += [f"Left out: {task}: {why}" for task, why in missing.items()]
    if accuracies and inputs.tasks_calibration == inputs.calibration:
        notes.append("The maps are made from the same text as above; the paper's are made from Stanford Alpaca (tasks.txt).")
    return Table("tasks", "Zero-shot tasks", columns, rows, notes)
