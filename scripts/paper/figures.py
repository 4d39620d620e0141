"""The paper's figures as SVG and PNG."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, ScalarFormatter  # noqa: E402

from .published import DENSE, models_beside, perplexity_of  # noqa: E402
from .sweeps import METHODS, PAPER_LAMBDA, TRANSPORT  # noqa: E402
from .table import percent  # noqa: E402

# The same text, and no date: the same results give the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dotresize", "axes.grid": True, "grid.alpha": 0.3})
COLORS = dict(zip(METHODS, ("tab:gray", "tab:orange", "tab:blue", "tab:green"), strict=True))
LINES = dict(zip(METHODS, ("-", "-", "-", "--"), strict=True))  # the PCA methods may lie on each other
WIDTH_REDUCTION = "width reduction (%)"


def log_axis(axis, ticks=None):
    """Makes the axis logarithmic, with plain numbers, at these ticks if there are some."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(FixedLocator(ticks) if ticks else LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_formatter(NullFormatter())


def save(figure, folder, name):
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=150)
    plt.close(figure)
    return name


def without_gaps(points):
    """x and y of those that have a y."""
    there = [(x, y) for x, y in points if y is not None]
    return [x for x, _ in there], [y for _, y in there]


def perplexity_figure(inputs, plan, results, folder):
    """Our lines, and beside them the range of the paper's models."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    models = models_beside(inputs.config)
    base = results.dense["perplexity"]
    for shift, method in enumerate(METHODS):
        of = {s: results.perplexity(name=method, sparsity=s, **{"lambda": PAPER_LAMBDA}) for s in plan.sparsities}
        x, y = without_gaps([(0.0, base), *of.items()])
        ratios = [value / base for value in y]
        axes.plot([100 * s for s in x], ratios, LINES[method], marker="o", color=COLORS[method], label=method)
        for sparsity in plan.sparsities:
            published = [(perplexity_of(m, sparsity, method), perplexity_of(m, None, DENSE)) for m in models]
            ratios = [value / dense for value, dense in published if value]
            if ratios:
                place = 100 * sparsity + 0.7 + 0.4 * shift
                style = {"marker": "_", "linewidth": 3, "alpha": 0.5}
                axes.plot([place, place], [min(ratios), max(ratios)], color=COLORS[method], **style)
    axes.set(xlabel=WIDTH_REDUCTION, ylabel="perplexity / that of the dense model")
    log_axis(axes.yaxis)
    axes.legend(title="bars: the paper's models")
    return save(figure, folder, "perplexity")


def lambda_figure(plan, results, folder):
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    styles = ("-", "--", ":", "-.")
    for method in TRANSPORT:
        for number, sparsity in enumerate(plan.sparsities):
            of = [(v, results.perplexity(name=method, sparsity=sparsity, **{"lambda": v})) for v in plan.lambdas]
            style = styles[number % len(styles)]
            axes.plot(*without_gaps(of), style, marker="o", color=COLORS[method], label=f"{method}, {percent(sparsity)}")
    axes.set(xlabel="lambda", ylabel="perplexity")
    log_axis(axes.xaxis, plan.lambdas)
    log_axis(axes.yaxis)
    axes.legend(fontsize="small")
    return save(figure, folder, "lambda")


def samples_figure(inputs, plan, results, folder):
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    of = [(count, results.perplexity(samples=count)) for count in plan.sample_counts]
    axes.plot(*without_gaps(of), marker="o", color=COLORS["pca_dotresize"], label=f"pca_dotresize, {percent(plan.ablation)}")
    axes.set(xlabel=f"samples of {inputs.seqlen} tokens", ylabel="perplexity")
    log_axis(axes.xaxis, plan.sample_counts)
    axes.legend()
    return save(figure, folder, "samples")


def effective_rank_figure(table, width, folder):
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for column, color in ((1, "tab:blue"), (2, "tab:orange")):
        points = [(row[0], row[column]) for row in table.rows]
        axes.plot(*without_gaps(points), marker="o", color=color, label=table.columns[column].name)
    axes.axhline(width, color="tab:gray", linestyle=":", label="width of the dense model")
    axes.set(xlabel="layer", ylabel="effective rank (99 % of the energy)")
    axes.legend()
    return save(figure, folder, "effective_rank")


def cost_figure(costs, folder):
    """`costs`: (sparsity, GPU ms a token, perplexity)."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    x = [100 * sparsity for sparsity, _, _ in costs]
    axes.plot(x, [cost for _, cost, _ in costs], marker="o", color="tab:blue")
    axes.set(xlabel=WIDTH_REDUCTION, ylabel="GPU·ms/token")
    axes.yaxis.label.set_color("tab:blue")
    axes.set_ylim(bottom=0)
    right = axes.twinx()
    right.grid(False)
    right.plot(x, [perplexity for _, _, perplexity in costs], marker="s", color="tab:red")
    right.set_ylabel("perplexity (best method)", color="tab:red")
    return save(figure, folder, "cost")
