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
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from load_and_score import EXIT_DATA, load, read_tokens
from paper.table import Column, Table
from real.scoring import Reference
from tokenize_text import InputError


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
    source = report["model"]["path"]
    if not Path(source).is_dir():
        raise InputError(f"{output}: its source {source} is not on this machine")
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


def sublayer_of(model, part):
    """(norm, module) of a part like layers.3.attention; None if the model does not have that sublayer."""
    _, number, kind = part.split(".")
    layer = model.base_model.layers[int(number)]
    if kind == "attention":
        names = ("input_layernorm", "self_attn")
    else:
        names = ("post_attention_layernorm", "block_sparse_moe" if hasattr(layer, "block_sparse_moe") else "mlp")
    return tuple(getattr(layer, name) for name in names) if hasattr(layer, names[1]) else None


@contextmanager
def replaced(dense, output, part):
    """The dense model with this sublayer of the output, and the norm before it, in the place of its own. Without a cache of
    keys and values: both sublayers would write to it."""
    norm, module = sublayer_of(dense, part)
    ours = sublayer_of(output, part)
    stream = None

    def keep_stream(_, arguments):
        nonlocal stream
        (stream,) = arguments

    def compute_ours(_, arguments, options, result):
        """result: what the dense sublayer writes [batch, tokens, d], alone or the first of a tuple."""
        wide = result[0] if isinstance(result, tuple) else result
        written = torch.zeros_like(wide)
        if ours:
            written = ours[1](ours[0](stream), *arguments[1:], **{key: each for key, each in options.items() if key != "hidden_states"})
            written = written[0] if isinstance(written, tuple) else written
        return (written, *result[1:]) if isinstance(result, tuple) else written

    hooks = [norm.register_forward_pre_hook(keep_stream), module.register_forward_hook(compute_ours, with_kwargs=True)]
    try:
        yield dense
    finally:
        for hook in hooks:
            hook.remove()


def parts_of(report):
    """(name, predicted rise of the loss, if it was predicted) of each sublayer that was cut."""
    of_loss = report["method"].get("metric") == "fisher"
    cut = [mlp for mlp in report.get("mlps", []) if mlp["width"] < mlp["intermediate_size"]]
    cut += [each for each in report.get("attentions", []) if each["value_head_dim"] < each["head_dim"]]
    return [(part["name"], part["predicted_rise"] if of_loss else None) for part in cut]


def measure(options):
    report = read_report(options.output)
    dense_dir = Path(report["model"]["path"])
    dense, output = load(dense_dir, "float32"), load(options.output, "float32")
    reference = Reference(dense, read_windows(options, dense_dir))
    rows = []
    for part, predicted in parts_of(report):
        with replaced(dense, output, part):
            rows.append([part, predicted, reference.score(dense).kl])
        print(f"{part}: {rows[-1][2]:.4f}", file=sys.stderr)
    with ExitStack() as all_parts:
        for part, _ in parts_of(report):
            all_parts.enter_context(replaced(dense, output, part))
        together = reference.score(dense).kl
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
