"""The plots of docs/quality.md, as SVG."""

from matplotlib.ticker import PercentFormatter
from paper.figures import log_axis, plt

from .recipes import BASELINE, CUSTOM, RECIPES

COLORS = plt.get_cmap("tab10")


def save(figure, file):
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def lines_of(results, model):
    """(recipe, its rows by net size), of slicegpt."""
    for recipe in RECIPES:
        rows = results.of(model, recipe=recipe.name, method=BASELINE)
        if rows:
            yield recipe, sorted(rows, key=lambda row: row.net)


def draw(axes, recipe, rows, figure_of):
    style = {"linestyle": "-", "marker": "o"} if recipe.format == CUSTOM else {"linestyle": "--", "marker": "s"}
    if "allocate" in recipe.options:
        style["linewidth"] = 2.5
    color = COLORS([of.name for of in RECIPES].index(recipe.name) % COLORS.N)
    label = f"{recipe.title} ({recipe.format})"
    return axes.plot([row.net for row in rows], [figure_of(row) for row in rows], color=color, label=label, markersize=4, **style)[0]


def perplexity_figure(results, model, file):
    """Perplexity over net size."""
    figure, axes = plt.subplots(figsize=(8, 5.4))
    for recipe, rows in lines_of(results, model):
        draw(axes, recipe, rows, lambda row: row.perplexity)
    axes.plot([1.0], [results.dense[model].perplexity], "k*", label="dense")
    axes.set(xlabel="net size", ylabel="perplexity")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    log_axis(axes.yaxis)
    axes.legend(fontsize="small")
    figure.tight_layout()
    save(figure, file)


def families_figure(results, models, file):
    """KL over net size, a panel for each model."""
    figure, panels = plt.subplots(2, (len(models) + 1) // 2, figsize=(10, 6), sharex=True, squeeze=False)
    drawn = {}
    for axes, model in zip(panels.flat, models, strict=False):
        for recipe, rows in lines_of(results, model):
            line = draw(axes, recipe, rows, lambda row: row.kl)
            drawn.setdefault(line.get_label(), line)
        axes.set(title=model, yscale="log")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for axes in panels[-1]:
        axes.set_xlabel("net size")
    figure.supylabel("KL to the dense model")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(drawn.values(), drawn.keys(), fontsize="small", ncols=3, loc="lower center")
    save(figure, file)
