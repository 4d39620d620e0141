#!/usr/bin/env python3
"""Quality at equal net size: runs recipes over sizes for the example and for a tiny model of each other family, and writes
docs/quality.md with its plots. The figures are kept in docs/quality.json.

    .venv/bin/python scripts/quality_table.py [--models NAME...] [--recipes NAME...] [--methods NAME...]
                                                       [--sizes S...] [--page]

Rows that are not chosen stay as they are in quality.json; --page runs nothing. Needs the built programs. Calibration and
evaluation are the token files of tests/data/, so the figures are those of model and method alone; tiny models are trained
first, on the text of the calibration. With --work DIR the sweeps are kept there, and the same command goes on.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from paper.programs import ROOT, Failure
from quality.figures import families_figure, perplexity_figure
from quality.measure import measure, read_results
from quality.models import EXAMPLE, NAMES, models_named
from quality.page import page
from quality.recipes import METHODS, RECIPES, SIZES
from real.measure import read_results as read_real_results
from real.summary import summary

RECIPE_NAMES = [recipe.name for recipe in RECIPES]


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--recipes", nargs="+", choices=RECIPE_NAMES, default=RECIPE_NAMES, metavar="NAME",
                        help=f"some of {', '.join(RECIPE_NAMES)}")  # fmt: skip
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="NAME")
    parser.add_argument("--sizes", nargs="+", type=float, choices=SIZES, default=SIZES, metavar="S")
    parser.add_argument("--page", action="store_true", help="only the page and its plots, from quality.json")
    parser.add_argument("--work", type=Path, metavar="DIR", help="directory of the sweeps (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", metavar="DIR", help="directory of quality.md, quality.json and plots")
    return parser.parse_args(arguments)


def run(options, results, file, work):
    """Measures what is chosen. The file has each recipe as soon as it is measured."""
    chosen = [recipe for recipe in RECIPES if recipe.name in options.recipes]
    for model in models_named(options.models, work / "models"):
        for recipe in chosen:
            if not (model.is_example or recipe.of_families):
                continue
            dense, rows = measure(recipe, model, options.methods, options.sizes, work / model.name.replace(" ", "-"))
            results.add(dense, rows)
            file.write_text(results.json(), encoding="utf-8")


def write_page(results, folder):
    real = summary(read_real_results(ROOT / "docs" / "real-models.json"))
    tiny = [name for name in NAMES if name != EXAMPLE and name in results.dense]
    figures = ["quality.svg", "quality-families.svg"]
    plotted = results.without_healed()
    perplexity_figure(plotted, EXAMPLE, folder / figures[0])
    if tiny:
        families_figure(plotted, tiny, folder / figures[1])
    (folder / "quality.md").write_text(page(results, tiny, figures, real), encoding="utf-8")


def main(arguments=None):
    options = parse_arguments(arguments)
    file = options.output / "quality.json"
    try:
        results = read_results(file)
        if not options.page:
            with tempfile.TemporaryDirectory() as folder:
                work = options.work or Path(folder)
                work.mkdir(parents=True, exist_ok=True)
                run(options, results, file, work)
        write_page(results, options.output)
    except Failure as error:
        print(f"quality_table: error: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
