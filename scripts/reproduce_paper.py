#!/usr/bin/env python3
"""The paper's tables and figures for a model: perplexity of the four methods, lambda, samples, effective rank, latency,
GPUs, and with --tasks the five zero-shot tasks, each beside the paper's figures.

    .venv/bin/python scripts/reproduce_paper.py MODEL_DIR --text DIR [--tasks]

DIR has calibration.txt (the paper: the training data of Wikitext-2) and evaluation.txt (its test data), and for --tasks
may have tasks.txt (Stanford Alpaca), from which the maps of the tasks are made then. The tables are printed; the folder
--output gets README.md with all of them, tables/ (Markdown and CSV), figures/ (SVG and PNG) and sweep/ (the jobs).
Run the same command again after an interruption: what is done is not computed again.
"""

import argparse
import shlex
import sys
from pathlib import Path

from paper.inputs import read_inputs, split_samples
from paper.programs import ROOT, Failure
from paper.reproduction import reproduce
from paper.sweeps import PAPER_LAMBDA, Plan

EXIT_SOME_FAILED = 1
EXIT_INTERRUPTED = 2
EXIT_USAGE = 64
LAMBDAS = (0.01, 0.1, 1.0, 10.0)
SAMPLES = (8, 16, 32, 64, 128, 256, 512, 1024)
SPARSITIES = (0.1, 0.2, 0.3)


def resource(text):
    if not text.startswith("resources.") or "=" not in text:
        raise argparse.ArgumentTypeError(f"{text}: must be resources.KEY=VALUE; the rest of the job is the paper's")
    return text


def fraction(text):
    value = float(text)
    if not 0 < value < 1:
        raise ValueError
    return value


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.error = lambda message: (
        parser.print_usage(sys.stderr),
        parser.exit(EXIT_USAGE, f"reproduce_paper: error: {message}\n"),
    )
    parser.add_argument("model", type=Path, metavar="MODEL_DIR")
    parser.add_argument("--text", type=Path, required=True, metavar="DIR", help="directory of calibration.txt and evaluation.txt")
    parser.add_argument("--tasks", action="store_true", help="also the zero-shot tasks whose data are there")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: out/paper-NAME of the model")
    parser.add_argument("--seqlen", type=int, metavar="N", help="tokens of a sample (default: 2048, or the most)")
    parser.add_argument("--sparsities", type=fraction, nargs="+", default=SPARSITIES, metavar="X")
    parser.add_argument("--lambdas", type=float, nargs="+", default=LAMBDAS, metavar="X", help="0.1 is always among them")
    parser.add_argument("--samples", type=int, nargs="+", default=SAMPLES, metavar="N", help="windows of the calibration")
    parser.add_argument("--hardware", type=Path, default=ROOT / "examples" / "hardware" / "v100x8.yaml",
                        metavar="FILE", help="whose GPUs are counted (default: the paper's, v100x8.yaml)")
    parser.add_argument("--set", type=resource, action="append", default=[], metavar="resources.KEY=VALUE", dest="changes")
    parser.add_argument("--no-latency", action="store_true", help="for a model that does not fit into this machine's memory")
    return parser.parse_args(arguments)


def plan_of(options, inputs):
    """The plan, and the sample counts that the text is too short for."""
    counts, left_out = split_samples(sorted(set(options.samples)), inputs.windows)
    plan = Plan(
        output=(options.output or ROOT / "out" / f"paper-{inputs.model.name}").resolve(),
        sparsities=tuple(sorted(set(options.sparsities))),
        lambdas=tuple(sorted({*options.lambdas, PAPER_LAMBDA})),
        sample_counts=tuple(counts),
        changes=tuple(options.changes),
        hardware=options.hardware,
        latency=not options.no_latency,
        tasks=options.tasks,
    )
    return plan, left_out


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        inputs = read_inputs(options.model, options.text, options.seqlen, options.tasks)
        plan, left_out = plan_of(options, inputs)
        words = sys.argv[1:] if arguments is None else arguments
        command = shlex.join([".venv/bin/python", "scripts/reproduce_paper.py", *map(str, words)])
        failures = reproduce(inputs, plan, left_out, command)
    except Failure as error:
        print(f"reproduce_paper: error: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("reproduce_paper: interrupted; run the same command to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_SOME_FAILED if failures else 0


if __name__ == "__main__":
    sys.exit(main())
