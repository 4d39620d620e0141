#!/usr/bin/env python3
"""Loads a model directory in transformers and prints its perplexity.

    scripts/load_and_score.py MODEL_DIR TOKENS.safetensors|TEXT... [--seqlen N] [--dtype D] [--w4a16 GROUP] [--expect-report]

The tokens are cut into non-overlapping windows of N, the tail dropped; each window predicts its
last N-1 tokens; perplexity is exp(sum of negative log likelihoods / predicted tokens). Text is
tokenised as the worker does it. A directory's own code is run if it is that of this repository,
and refused if it is any other. With --expect-report the perplexity has to be that of the directory's
dotresize/report.json to 0.1 %, else the exit code is 1. With --w4a16 the weights are rounded to four bits first.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

import run_in_transformers  # noqa: E402
import torch  # noqa: E402
from run_in_transformers import cut, perplexity, read_token_file  # noqa: E402
from tokenize_text import InputError, tokenize_files  # noqa: E402
from transformers import logging  # noqa: E402
from trusted_code import UntrustedCode, may_run_code  # noqa: E402

EXIT_DIFFERS = 1
EXIT_DATA = 65
REPORT_TOLERANCE = 1e-3


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("input", nargs="+", help="one .safetensors token file, or UTF-8 text files")
    parser.add_argument("--seqlen", type=int, help="default: a token file's row length, else 2048")
    parser.add_argument(
        "--dtype",
        choices=("float32", "stored"),
        default="float32",
        help="compute in float32 (default) or in the dtype of the checkpoint",
    )
    parser.add_argument("--w4a16", type=int, choices=(32, 64, 128), metavar="GROUP",
                        help="weights of four bits, in groups of 32, 64 or 128 numbers of a row")
    parser.add_argument("--expect-report", action="store_true")
    parser.add_argument("-o", dest="output", choices=("text", "json"), default="text")
    return parser.parse_args(arguments)


def read_tokens(inputs, model_dir):
    """Token ids [n] int64, and the row length of a two-dimensional token file."""
    if not inputs[0].endswith(".safetensors"):
        return torch.tensor(tokenize_files(model_dir, inputs)), None
    if len(inputs) > 1:
        raise InputError(f"{inputs[1]}: one token file at a time")
    return read_token_file(inputs[0])


def load(model_dir, dtype):
    """dtype: torch's, or "auto" for that of the checkpoint."""
    model = run_in_transformers.auto_class(run_in_transformers.read_config(model_dir)).from_pretrained(
        model_dir,
        trust_remote_code=may_run_code(model_dir),
        torch_dtype=dtype,
    )
    return model.eval()


@torch.no_grad()
def round_to_four_bits(model, group):
    """To nearest, as compressed-tensors does for W4A16: symmetric, with one scale, max |w| / 7.5, for `group` numbers of a row, or for
    those that are left at its end. Embedding and head stay as they are."""
    for module in model.modules():
        if not isinstance(module, torch.nn.Linear) or module is model.get_output_embeddings():
            continue
        for numbers in module.weight.split(group, dim=1):
            scale = numbers.abs().amax(1, keepdim=True) / 7.5
            steps = (numbers / scale.clamp_min(torch.finfo(scale.dtype).tiny)).round().clamp(-8, 7)
            numbers.copy_(steps * scale)


def agrees_with_report(model_dir, value):
    report = json.loads((model_dir / "dotresize" / "report.json").read_text())
    reported = report["compressed"]["perplexity"]
    difference = abs(value / reported - 1)
    verdict = "the same" if difference <= REPORT_TOLERANCE else "NOT the same"
    print(f"the report says {reported:.4f}: {verdict} ({difference:.1e} apart)", file=sys.stderr)
    return difference <= REPORT_TOLERANCE


def score(arguments):
    """Prints the perplexity; whether it is as expected."""
    if not (arguments.model_dir / "config.json").is_file():
        raise InputError(f"{arguments.model_dir}: not a model directory (no config.json)")
    tokens, row_length = read_tokens(arguments.input, arguments.model_dir)
    windows = cut(tokens, arguments.seqlen or row_length or 2048)
    model = load(arguments.model_dir, torch.float32 if arguments.dtype == "float32" else "auto")
    if arguments.w4a16:
        round_to_four_bits(model, arguments.w4a16)
    value = perplexity(model, windows)
    if arguments.output == "json":
        print(json.dumps({"perplexity": value, "tokens": windows[:, 1:].numel()}))
    else:
        print(f"{value:.4f}")
    return not arguments.expect_report or agrees_with_report(arguments.model_dir, value)


def main(arguments=None):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        as_expected = score(parse_arguments(arguments))
    except (InputError, UntrustedCode, run_in_transformers.InputError) as error:
        print(f"load_and_score: error: {error}", file=sys.stderr)
        return EXIT_DATA
    return 0 if as_expected else EXIT_DIFFERS


if __name__ == "__main__":
    sys.exit(main())
