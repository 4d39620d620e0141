"""Shared by the scripts of this folder: compares models in an engine with the same models in transformers."""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-3


class Refused(Exception):
    """The engine does not take the model; the message says why."""


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("tokens", type=Path)
    result.add_argument("model_dir", type=Path, nargs="+")
    return result


def read_windows(tokens):
    return load_file(tokens)["tokens"]


def export(model_dir, file, kind):
    """Exports a model as GGUF with weights of this type of `dotresize export`."""
    command = [ROOT / "build" / "bin" / "dotresize", "export", model_dir, file, "--to", "gguf", "--type", kind]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[-1])


def perplexity(nll, windows):
    """Perplexity from the sum over all windows [W, seqlen], each of which predicts its last seqlen-1 tokens."""
    return math.exp(nll / (windows.shape[0] * (windows.shape[1] - 1)))


def in_transformers(model_dir, tokens):
    """Scores in the project's environment, whatever that of the engine is."""
    python = ROOT / ".venv" / "bin" / "python"
    command = [python, ROOT / "scripts" / "load_and_score.py", model_dir, tokens, "-o", "json"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)  # it has said why
    return json.loads(done.stdout)["perplexity"]


def compare(engine, score, tokens, model_dirs):
    """Prints a line for each model. score(model_dir, tokens) is its perplexity in the engine. The exit code: whether all
    are the same."""
    equal = True
    for model_dir in model_dirs:
        expected = in_transformers(model_dir, tokens)
        try:
            found = score(model_dir, tokens)
        except Refused as reason:
            equal = False
            why = " ".join(str(reason).split())
            print(f"{model_dir}: {engine} refuses it: {why}", flush=True)
            continue
        same = abs(found / expected - 1) <= TOLERANCE
        equal = equal and same
        verdict = "the same" if same else "DIFFERENT"
        print(f"{model_dir}: {engine} {found:.4f}, transformers {expected:.4f}: {verdict}", flush=True)
    return 0 if equal else 1
