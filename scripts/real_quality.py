#!/usr/bin/env python3
"""Quality of published models at equal net size: runs recipes and a baseline over sizes, keeps the figures in docs/results.json, and
puts their tables, and those of docs/speed.json, into docs/results.md and README.md.

    .venv/bin/python scripts/real_quality.py [--model smollm2|gemma3] [--recipes NAME...] [--sizes S...] [--work DIR] [--page]

Rows that are not chosen stay as they are in results.json; --page runs nothing. Needs the built programs, and the model of
scripts/real_model.sh, which is fetched if it is not there. With --work DIR the jobs' outputs are kept there, and the same
command goes on: a job whose output is there is not run again.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from paper.programs import ROOT, Failure
from real.measure import rows
from real.model import MODELS, real_model
from real.page import filled, tables
from real.recipes import NAMES, RECIPES, SIZES
from real.results import read_results


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=MODELS, default="smollm2")
    parser.add_argument("--recipes", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--sizes", nargs="+", type=float, choices=SIZES, default=SIZES, metavar="S",
                        help=f"some of {', '.join(map(str, SIZES))}")  # fmt: skip
    parser.add_argument("--page", action="store_true", help="only the tables, from the kept figures")
    parser.add_argument("--work", type=Path, metavar="DIR", help="directory of the jobs (default: a temporary one)")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="directory of README.md and docs/")
    return parser.parse_args(arguments)


def run(options, results, file, work):
    """Measures what is chosen. The file has each row as soon as it is measured."""
    chosen = [recipe for recipe in RECIPES if recipe.name in options.recipes]
    for dense, row in rows(chosen, options.sizes, real_model(options.model), work):
        results.add(dense, [row])
        file.write_text(results.json(), encoding="utf-8")


def write_tables(root, results):
    blocks = tables(results, json.loads((root / "docs" / "speed.json").read_text(encoding="utf-8")))
    for page in (root / "README.md", root / "docs" / "results.md"):
        page.write_text(filled(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")


def main(arguments=None):
    options = parse_arguments(arguments)
    file = options.root / "docs" / "results.json"
    try:
        results = read_results(file)
        if not options.page:
            with tempfile.TemporaryDirectory() as temporary:
                work = (options.work or Path(temporary)).resolve()
                run(options, results, file, work)
        write_tables(options.root, results)
    except Failure as error:
        print(f"real_quality: error: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
