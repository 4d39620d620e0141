"""Checks what scripts/real_model.sh has made: the texts by their digests, the model by its perplexity in transformers."""

import argparse
import hashlib
import sys
from pathlib import Path

from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from .scoring import Reference

DIGESTS = {
    "text/calibration.txt": "217dfc4c6d827d1f4fd26cc40c02babd996631c61bc81a12104b476c3d5749f5",
    "text/evaluation.txt": "b320c14c063bd0209017996fc32d8d83b4ca6f1d1e5b8dff3f66927b87e433c1",
}
DENSE_PERPLEXITY = 25.92828  # over tokens/evaluation.safetensors
TOLERANCE = 1e-4  # relative: machines add in different orders


def faults(folder):
    """One line for each thing that is not as it was. The perplexity is measured if the texts are right."""
    if other := list(other_texts(folder)):
        return other
    windows = load_file(folder / "tokens" / "evaluation.safetensors")["tokens"].long()
    model = AutoModelForCausalLM.from_pretrained(folder / "smollm2").eval()
    perplexity = Reference(model, windows).perplexity
    print(f"real_model: dense perplexity {perplexity:.6f}", file=sys.stderr)
    if abs(perplexity / DENSE_PERPLEXITY - 1) > TOLERANCE:
        return [f"dense perplexity {perplexity:.6f}, pinned {DENSE_PERPLEXITY}: the weights or the tokens are others"]
    return []


def other_texts(folder):
    for name, pinned in DIGESTS.items():
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if found != pinned:
            yield f"{name}: SHA-256 {found}, pinned {pinned}: another version of lxml or of the packages reads the text otherwise"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    found = faults(parser.parse_args().folder)
    for fault in found:
        print(f"real_model: error: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
