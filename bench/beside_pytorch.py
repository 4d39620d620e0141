"""Parts shared by the benchmarks that compare the worker with PyTorch: arguments, tokens, results."""

import argparse
import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent


def parse(description, samples):
    """Arguments, with `windows` [samples, seqlen] of the token file and `worker`. Sets the number of torch's threads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, default=ROOT / "examples" / "docs-llama")
    parser.add_argument("--tokens", type=Path, default=ROOT / "tests" / "data" / "calibration.safetensors")
    parser.add_argument("--samples", type=int, default=samples)
    parser.add_argument("--seqlen", type=int, default=512)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    (tokens,) = load_file(arguments.tokens).values()
    numbers = arguments.samples * arguments.seqlen
    arguments.windows = tokens.flatten()[:numbers].view(arguments.samples, arguments.seqlen).long()
    arguments.worker = arguments.build / "bin" / "dotresize-worker"
    return arguments


def write(arguments, name, figures):
    """One row, to the result file and to the terminal."""
    row = {
        "name": f"{name}/{arguments.model.name}",
        "tokens": arguments.windows.numel(),
        "seqlen": arguments.seqlen,
        "threads": arguments.threads,
        **figures,
    }
    arguments.out.write_text(json.dumps({"benchmarks": [row]}, indent=1) + "\n")
    print(json.dumps(row, indent=1))
