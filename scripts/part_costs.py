#!/usr/bin/env python3
"""The cost of each part of a compression: puts the parts of an output into the dense model, one at a time.

    .venv/bin/python scripts/part_costs.py OUTPUT_DIR TOKENS.safetensors|TEXT... [--seqlen N] [--windows W] [-o json]

Prints of each part what was predicted of it, and the KL from the dense model that it causes alone, in nats a token; then the
sums, and the KL of the output. Parts are the MLPs and attentions that are narrower than in the dense model and, of an output
with maps, its junctions and its shortcuts:

* a narrower sublayer reads the dense stream through the map before it, and writes through the inverse of the one behind;
* a junction puts the stream into its width and back. The next junctions would lose much of that, too: their sum counts it again;
* a shortcut adds what its skip path makes of the stream in place of what the maps alone would.

The dense model is the one that the report names. An output with maps needs them: `output: {maps: true}` in its job file.
"""

import argparse
import json
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from load_and_score import EXIT_DATA, load, read_tokens
from paper.table import Column, Table
from real.scoring import Reference
from safetensors.torch import load_file
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
    return report


class Maps:
    """The map [d, k] of each junction and its inverse [k, d]; none if all junctions have kept their width."""

    def __init__(self, output, report):
        self.names = [junction["name"] for junction in report["junctions"]]
        mapped = [junction["name"] for junction in report["junctions"] if junction.get("mapped", True)]
        file = output / "dotresize" / "maps.safetensors"
        if mapped and not file.is_file():
            raise InputError(f"{output}: junction {mapped[0]} is narrower than in the dense model, and there is no "
                             "dotresize/maps.safetensors: run the job again with `output: {maps: true}`")  # fmt: skip
        self.tensors = load_file(file) if mapped else {}

    def __bool__(self):
        return bool(self.tensors)

    def narrow(self, number, x):
        return x @ self.tensors[self.names[number] + ".map"] if self else x

    def widen(self, number, y):
        return y @ self.tensors[self.names[number] + ".inverse"] if self else y

    def through(self, number, x):
        return self.widen(number, self.narrow(number, x))


def read_windows(options, directory):
    tokens, row_length = read_tokens(options.input, directory)
    seqlen = options.seqlen or row_length or 1024
    count = len(tokens) // seqlen
    if count < options.windows:
        raise InputError(f"{len(tokens)} tokens hold {count} windows of {seqlen}, and {options.windows} are asked for")
    rows = tokens[: count * seqlen].view(count, seqlen)
    return rows[[number * count // options.windows for number in range(options.windows)]]


def place_of(part):
    """(layer, kind, number of the sublayer) of a part like layers.3.attention."""
    _, layer, kind = part.split(".")
    return int(layer), kind, 2 * int(layer) + (kind == "mlp")


def sublayer_of(model, layer, kind):
    """(norm, module); None if the model does not have that sublayer."""
    block = model.base_model.layers[layer]
    if kind == "attention":
        names = ("input_layernorm", "self_attn")
    else:
        names = ("post_attention_layernorm", "block_sparse_moe" if hasattr(block, "block_sparse_moe") else "mlp")
    return tuple(getattr(block, name) for name in names) if hasattr(block, names[1]) else None


@contextmanager
def rewritten(dense, layer, kind, rewrite):
    """The dense model, one sublayer of which writes rewrite(stream, wide, *arguments, **options) [batch, tokens, d]: `stream` is
    what its norm reads, `wide` what it writes by itself, the rest what it is called with but for the normed stream."""
    norm, module = sublayer_of(dense, layer, kind)
    stream = None

    def keep_stream(_, arguments):
        nonlocal stream
        (stream,) = arguments

    def write(_, arguments, options, result):
        """result: what the dense sublayer writes, alone or the first of a tuple."""
        wide = result[0] if isinstance(result, tuple) else result
        others = {key: each for key, each in options.items() if key != "hidden_states"}
        written = rewrite(stream, wide, *arguments[1:], **others)
        return (written, *result[1:]) if isinstance(result, tuple) else written

    hooks = [norm.register_forward_pre_hook(keep_stream), module.register_forward_hook(write, with_kwargs=True)]
    try:
        yield dense
    finally:
        for hook in hooks:
            hook.remove()


def replaced(dense, output, maps, part):
    """The dense model with this sublayer of the output, and the norm before it, in the place of its own. Without a cache of
    keys and values: both sublayers would write to it."""
    layer, kind, number = place_of(part)
    ours = sublayer_of(output, layer, kind)

    def rewrite(stream, wide, *arguments, **options):
        if ours is None:
            return torch.zeros_like(wide)
        written = ours[1](ours[0](maps.narrow(number, stream)), *arguments, **options)
        return maps.widen(number + 1, written[0] if isinstance(written, tuple) else written)

    return rewritten(dense, layer, kind, rewrite)


@contextmanager
def narrow_embedding(dense, maps):
    hook = dense.get_input_embeddings().register_forward_hook(lambda _, __, embedded: maps.through(0, embedded))
    try:
        yield dense
    finally:
        hook.remove()


def narrowed(dense, maps, number):
    """The dense model whose stream goes through the width of this junction."""
    if number == 0:
        return narrow_embedding(dense, maps)
    layer, behind = divmod(number - 1, 2)
    kind = ("attention", "mlp")[behind]
    return rewritten(dense, layer, kind, lambda stream, wide, *_, **__: maps.through(number, stream + wide) - stream)


def short_cut(dense, output, maps, part):
    """The dense model whose skip path beside this sublayer has the error of the output's shortcut."""
    layer, kind, number = place_of(part)
    shortcut = getattr(output.base_model.layers[layer], f"{kind}_shortcut")

    def rewrite(stream, wide, *_, **__):
        narrow = maps.narrow(number, stream)
        exact = maps.narrow(number + 1, maps.widen(number, narrow))
        return wide + maps.widen(number + 1, shortcut(narrow) - exact)

    return rewritten(dense, layer, kind, rewrite)


def parts_of(report, dense, output, maps):
    """(name, predicted rise of the loss if it was predicted, the dense model with that part as a context)."""
    of_loss = report["method"].get("metric") == "fisher"
    parts = []

    def add(name, entry, context):
        parts.append((name, entry.get("predicted_rise") if of_loss else None, context))

    for number, junction in enumerate(report["junctions"] if maps else []):
        if junction["width"] < report["method"]["hidden_size"]:
            add(f"junction {junction['name']}", junction, partial(narrowed, dense, maps, number))
    for shortcut in report.get("shortcuts", []) if maps else []:
        add(f"shortcut {shortcut['name']}", shortcut, partial(short_cut, dense, output, maps, shortcut["name"]))
    cut = [mlp for mlp in report.get("mlps", []) if mlp["width"] < mlp["intermediate_size"]]
    cut += [each for each in report.get("attentions", []) if each["value_head_dim"] < each["head_dim"]]
    for sublayer in cut:
        add(sublayer["name"], sublayer, partial(replaced, dense, output, maps, sublayer["name"]))
    return parts


def measure(options):
    report = read_report(options.output)
    maps = Maps(options.output, report)
    dense_dir = Path(report["model"]["path"])
    dense, output = load(dense_dir, torch.float32), load(options.output, torch.float32)
    reference = Reference(dense, read_windows(options, dense_dir))
    rows = []
    for part, predicted, context in parts_of(report, dense, output, maps):
        with context():
            rows.append([part, predicted, reference.score(dense).kl])
        print(f"{part}: {rows[-1][2]:.4f}", file=sys.stderr)
    return rows, reference.score(output).kl


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
