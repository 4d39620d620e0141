#!/usr/bin/env python3
"""What each part of a compression costs: the cut sublayers of an output, one at a time in the dense model.

    .venv/bin/python scripts/part_costs.py OUTPUT_DIR TOKENS.safetensors|TEXT... [--seqlen N] [--windows W] [-o json]

Prints of each MLP and of each attention that is narrower than in the dense model what was predicted of it, and the KL from the
dense model that it causes alone, in nats a token; then the sums, and the KL of all of them together. The dense model is the one
that the report names. It needs an output whose junctions have all kept their width: a map changes the coordinates of all that
follows it, so that no part of such an output fits into the dense model.
"""

import argparse
import json
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from load_and_score import EXIT_DATA, load, read_tokens
from paper.table import Column, Table
from real.scoring import Reference
from safetensors.torch import load_file
from tokenize_text import InputError


FAMILIES = ("llama", "mistral", "qwen2", "qwen3")  # whose projections are matrices of their own, and none is an expert's


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument("input", nargs="+", help="one .safetensors token file, or UTF-8 text files")
    parser.add_argument("--seqlen", type=int, help="default: a token file's row length, else 1024")
    parser.add_argument("--windows", type=int, default=4, help="spread over the tokens (default: 4)")
    parser.add_argument("-o", dest="format", choices=("text", "json"), default="text")
    return parser.parse_args(arguments)


def read_report(output):
    file = output / "dotresize" / "report.json"
    if not file.is_file():
        raise InputError(f"{output}: not a model of dotresize (no dotresize/report.json)")
    report = json.loads(file.read_text(encoding="utf-8"))
    family = json.loads((Path(report["model"]["path"]) / "config.json").read_text(encoding="utf-8"))["model_type"]
    if family not in FAMILIES:
        raise InputError(f"{output}: its source is a {family}; parts of {', '.join(FAMILIES)} can be put back")
    mapped = [junction["name"] for junction in report["junctions"] if junction.get("mapped", True)]
    if mapped:
        raise InputError(f"{output}: junction {mapped[0]} is narrower than in the dense model, so no part of it fits there")
    return report


def read_windows(options, directory):
    tokens, row_length = read_tokens(options.input, directory)
    seqlen = options.seqlen or row_length or 1024
    count = len(tokens) // seqlen
    if count < options.windows:
        raise InputError(f"{len(tokens)} tokens hold {count} windows of {seqlen}, and {options.windows} are asked for")
    rows = tokens[: count * seqlen].view(count, seqlen)
    return rows[[number * count // options.windows for number in range(options.windows)]]


def padded_heads(weight, heads, head_dim, dim):
    """Channels of each head along dimension dim filled up with zeros to head_dim."""
    split = weight.movedim(dim, 0).unflatten(0, (heads, -1))
    padding = split.new_zeros(heads, head_dim - split.shape[1], *split.shape[2:])
    return torch.cat([split, padding], 1).flatten(0, 1).movedim(0, dim)


def in_dense_form(name, tensor, dense, config):
    """A tensor of the output as the dense model has it: features and channels that are gone are zero."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if name.endswith("v_proj.weight") or name.endswith("v_proj.bias"):
        return padded_heads(tensor, config.num_key_value_heads, head_dim, 0)
    if name.endswith("o_proj.weight") and tensor.shape[1]:
        return padded_heads(tensor, config.num_attention_heads, head_dim, 1)
    padding = [(0, wanted - found) for found, wanted in zip(tensor.shape, dense.shape, strict=True)]
    return torch.nn.functional.pad(tensor, [amount for pair in reversed(padding) for amount in pair])


@contextmanager
def replaced(model, tensors):
    """The model with these tensors, by name, in place of its own."""
    parameters = dict(model.named_parameters())
    before = {name: parameters[name].data for name in tensors}
    try:
        for name, tensor in tensors.items():
            parameters[name].data = in_dense_form(name, tensor, before[name], model.config)
        yield model
    finally:
        for name, tensor in before.items():
            parameters[name].data = tensor


def parts_of(report):
    """(name, predicted rise of the loss, if it was predicted) of each sublayer that was cut."""
    of_loss = report["method"].get("metric") == "fisher"
    cut = [mlp for mlp in report.get("mlps", []) if mlp["width"] < mlp["intermediate_size"]]
    cut += [each for each in report.get("attentions", []) if each["value_head_dim"] < each["head_dim"]]
    return [(part["name"], part["predicted_rise"] if of_loss else None) for part in cut]


def tensors_of(part, weights, model):
    """Names in the dense model: layers.3.attention is model.layers.3.self_attn there. Of a sublayer that is gone:
    one that writes nothing."""
    prefix = "model." + part.replace(".attention", ".self_attn") + "."
    found = {name: tensor for name, tensor in weights.items() if name.startswith(prefix)}
    if found:
        return found
    writes = prefix + ("o_proj" if part.endswith(".attention") else "down_proj") + ".weight"
    return {name: weight.new_zeros(len(weight), 0) for name, weight in model.named_parameters() if name == writes}


def measure(options):
    report = read_report(options.output)
    dense_dir = Path(report["model"]["path"])
    model = load(dense_dir, "float32")
    weights = {}
    for shard in sorted(options.output.glob("*.safetensors")):
        weights |= {name: tensor.float() for name, tensor in load_file(shard).items()}
    reference = Reference(model, read_windows(options, dense_dir))
    everything = {}
    rows = []
    for part, predicted in parts_of(report):
        tensors = tensors_of(part, weights, model)
        if not tensors:
            raise InputError(f"{options.output}: has no tensors of {part}")
        everything |= tensors
        with replaced(model, tensors):
            rows.append([part, predicted, reference.score(model).kl])
        print(f"{part}: {rows[-1][2]:.4f}", file=sys.stderr)
    with replaced(model, everything) if everything else nullcontext():
        together = reference.score(model).kl
    return rows, together


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        rows, together = measure(options)
    except (InputError, OSError) as error:
        print(f"part_costs: error: {error}", file=sys.stderr)
        return EXIT_DATA
    total = [None if None in column else sum(column) for column in ([row[1] for row in rows], [row[2] for row in rows])]
    if options.format == "json":
        parts = [{"name": name, "predicted": predicted, "kl": kl} for name, predicted, kl in rows]
        print(json.dumps({"parts": parts, "predicted": total[0], "sum": total[1], "together": together}, indent=1))
        return 0
    columns = [Column("part"), Column("predicted KL", "{:.4f}"), Column("KL alone", "{:.4f}")]
    print(Table("parts", "What each part costs", columns, [*rows, ["sum", *total], ["together", None, together]]).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
