#!/usr/bin/env python3
"""Quality of a published model at equal net size: runs recipes and a baseline over sizes, and writes docs/real-models.md.
The figures are kept in docs/real-models.json.

    .venv/bin/python scripts/real_quality.py [--recipes NAME...] [--sizes S...] [--work DIR] [--page]

Rows that are not chosen stay as they are in real-models.json; --page runs nothing. Needs the built programs, and the model of
scripts/real_model.sh, which is fetched if it is not there. With --work DIR the jobs' outputs are kept there, and the same
command goes on: a job whose output is there is not run again.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from paper.programs import ROOT, Failure
from real.measure import read_results, rows
from real.model import folder
from real.page import page
from real.recipes import NAMES, RECIPES, SIZES


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--recipes", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--sizes", nargs="+", type=float, choices=SIZES, default=SIZES, metavar="S",
                        help=f"some of {', '.join(map(str, SIZES))}")  # fmt: skip
    parser.add_argument("--page", action="store_true", help="only the page, from real-models.json")
    parser.add_argument("--work", type=Path, metavar="DIR", help="directory of the jobs (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", metavar="DIR", help="directory of real-models.md and .json")
    return parser.parse_args(arguments)


def run(options, results, file, work):
    """Measures what is chosen. The file has each row as soon as it is measured."""
    chosen = [recipe for recipe in RECIPES if recipe.name in options.recipes]
    for dense, row in rows(chosen, options.sizes, folder(), work):
        results.add(dense, [row])
        file.write_text(results.json(), encoding="utf-8")


def main(arguments=None):
    options = parse_arguments(arguments)
    file = options.output / "real-models.json"
    try:
        results = read_results(file)
        if not options.page:
            with tempfile.TemporaryDirectory() as temporary:
                work = (options.work or Path(temporary)).resolve()
                work.mkdir(parents=True, exist_ok=True)
                run(options, results, file, work)
        (options.output / "real-models.md").write_text(page(results), encoding="utf-8")
    except Failure as error:
        print(f"real_quality: error: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
