"""Bits per byte of a text under models whose tokenizers may differ, where perplexities of tokens cannot be compared.

    PYTHONPATH=scripts .venv/bin/python -m real.text_bits TEXT MODEL_DIR... [--pieces N]

The text is cut at line ends into pieces of about 4,000 bytes, each of which a model reads from its beginning. The first token of a piece
is not predicted unless the tokenizer puts one before it; its bytes count all the same.
"""

import argparse
import math
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from real.scoring import log_likelihood

PIECE_BYTES = 4000


def pieces_of(text):
    """Whole lines, at least PIECE_BYTES a piece but the last."""
    piece = ""
    for line in text.splitlines(keepends=True):
        piece += line
        if len(piece.encode()) >= PIECE_BYTES:
            yield piece
            piece = ""
    if piece:
        yield piece


@torch.no_grad()
def bits_per_byte(directory, pieces):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, trust_remote_code=True).eval()
    nats = tokens = 0
    for piece in pieces:
        ids = torch.tensor(tokenizer(piece)["input_ids"])
        nats -= log_likelihood(model(ids[None], use_cache=False).logits[0, :-1], ids)
        tokens += len(ids) - 1
    size = sum(len(piece.encode()) for piece in pieces)
    return nats / math.log(2) / size, tokens, sum(parameter.numel() for parameter in model.parameters())


def main():
    parser = argparse.ArgumentParser(prog="real.text_bits")
    parser.add_argument("text", type=Path)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL_DIR")
    parser.add_argument("--pieces", type=int, help="only the first N pieces")
    options = parser.parse_args()
    pieces = list(pieces_of(options.text.read_text(encoding="utf-8")))[: options.pieces]
    print(f"{len(pieces)} pieces of {sum(len(piece.encode()) for piece in pieces):,} bytes")
    for directory in options.models:
        bits, tokens, parameters = bits_per_byte(directory, pieces)
        print(f"{directory}: {bits:.4f} bits a byte, {tokens:,} tokens, {parameters:,} parameters", flush=True)


if __name__ == "__main__":
    main()
