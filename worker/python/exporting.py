"""Shared by the exporters: the model that they write, what narrower layers are filled up with, and their errors.

An exporter reads no config.json, no index and no header of its own. `dotresize export` gives it a description of the model
(job/checkpoint/model_description.h) on standard input.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass

EXIT_CANCELLED = 2
EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_UNAVAILABLE = 69

# Families of the custom outputs that engines with layers of different sizes compute as they are.
LAYERED_FAMILIES = ("llama", "mistral")
# Keys of a custom output's config.json: the sizes of each layer's sublayers.
SIZES = ("intermediate_sizes", "value_head_dims")
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}

# Raised where a file has values of other kinds than transformers writes.
MALFORMED = (LookupError, TypeError, AttributeError, ArithmeticError, ValueError)


class InputError(Exception):
    """The model cannot be exported; the message names what is in the way."""


@contextlib.contextmanager
def reading(file, what):
    """Names the file of values that are of other kinds than transformers writes. `what`: "a tokenizer"."""
    try:
        yield
    except MALFORMED as error:
        raise InputError(f"{file}: not {what} as transformers writes it: {error!r}") from error


@dataclass
class Filling:
    """Each of the equal parts along an axis is filled up with zeros to a size: value heads, or an MLP's features."""

    axis: int
    parts: int
    size: int

    def shape(self, shape):
        """The shape of a tensor of `shape` after it."""
        return (*shape[: self.axis], self.parts * self.size, *shape[self.axis + 1 :])

    def fill(self, values):
        """values: a torch tensor."""
        from torch.nn.functional import pad

        by_part = values.unflatten(self.axis, (self.parts, -1))
        missing = self.size - by_part.shape[self.axis + 1]
        return pad(by_part, (0, 0) * (by_part.ndim - self.axis - 2) + (0, missing)).flatten(self.axis, self.axis + 1)


class Model:
    """A described model. Its files must be those that the description was made of."""

    def __init__(self, directory, description):
        self.directory = directory
        self.name = description["name"]
        self.config = description["config"]
        self.settings = description["settings"]
        self.tensors = description["tensors"]
        self.companions = description["companions"]
        self.stamps = description["files"]

    def path_of(self, name):
        return self.directory / self.tensors[name]["file"]

    def shape(self, name):
        return tuple(self.tensors[name]["shape"])

    def get(self, name):
        """A torch tensor of the stored dtype, without NaN and infinities."""
        import numpy as np
        import torch

        place, path = self.tensors[name], self.path_of(name)
        try:
            with path.open("rb") as file:
                stored = np.fromfile(file, np.uint8, place["end"] - place["begin"], offset=place["begin"])
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        if len(stored) < place["end"] - place["begin"]:
            raise InputError(f"{path}: is shorter than when the export began")
        shape, values = place["shape"], torch.from_numpy(stored).view(getattr(torch, DTYPES[place["dtype"]]))
        values = values.reshape(*shape[:-2], shape[-1], shape[-2]).mT if place["transposed"] else values.reshape(shape)
        if not (finite := values.isfinite()).all():
            index = (~finite).nonzero()[0].tolist()
            raise InputError(f"{path}: tensor {name}: {values[tuple(index)].item()} at {index} is not a finite number")
        return values

    def read_json(self, name):
        path = self.directory / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise InputError(f"{path}: not JSON") from error

    def require_unchanged(self):
        """Call it before the first read, and once more after the last one."""
        for name, stamp in self.stamps.items():
            try:
                found = (self.directory / name).stat()
            except OSError as error:
                raise InputError(f"{self.directory / name}: {error.strerror}") from error
            now = {"inode": found.st_ino, "bytes": found.st_size, "modified_ns": found.st_mtime_ns, "changed_ns": found.st_ctime_ns}
            if now != stamp:
                raise InputError(f"{self.directory / name}: was changed while it was read; run the command again")


def attentions_of(config):
    """Tells for each layer of a custom output whether its attention is there."""
    return [channels > 0 for channels in config["value_head_dims"]]


def attention_shapes(config):
    """{projection: shape} of an attention whose values are as wide as the source's."""
    d, channels = config["hidden_size"], config["head_dim"]
    queries, keys = (config[f"num_{part}_heads"] * channels for part in ("attention", "key_value"))
    return {"q": (queries, d), "k": (keys, d), "v": (keys, d), "o": (d, queries)}


def refuse_maps(model, form):
    """A custom output has a form for other engines if its stream is as wide as the source's everywhere."""
    config = model.config
    width = config["hidden_size"]
    narrower = [number for number, k in enumerate(config["junction_widths"]) if k != width]
    if narrower:
        raise InputError(f"{model.directory}: junction {narrower[0]} is narrower than the model, which has no form in {form}; "
                         "output.format: stock has one")  # fmt: skip
    if not config["norm_weights"]:
        raise InputError(f"{model.directory}: the norms are folded into the weights, which has no form in {form}; output.format: stock has one")
    if config["family"] not in LAYERED_FAMILIES:
        raise InputError(f"{model.directory}: a custom output of a {config['family']} has no form in {form}; output.format: stock has one")


def value_filling(name, config):
    """The zeros that a tensor of the checkpoint gets for its value heads. None: none."""
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    if not part.startswith(("self_attn.v_proj.", "self_attn.o_proj.weight")) or config["value_head_dims"][int(layer)] == config["head_dim"]:
        return None
    is_v = part.startswith("self_attn.v_proj.")
    return Filling(0 if is_v else 1, config["num_key_value_heads" if is_v else "num_attention_heads"], config["head_dim"])


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"usage: {self.format_usage().removeprefix('usage: ').strip()}: {message}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def partial_of(out):
    """The name of an output until it is whole."""
    return out.with_name(f"{out.name}.{os.getpid()}.partial")


@contextlib.contextmanager
def ended_by_signals():
    """Lets SIGTERM and SIGHUP end the program as Ctrl-C does, so that nothing unfinished stays."""

    def stop(number, frame):
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def fault_of(error, out):
    """The text of an error. Those of the file system are about the output: others are InputErrors."""
    return f"{out}: cannot be written: {error.strerror or f'only a part was, as on a full disk ({error})'}" if isinstance(error, OSError) else error


def print_result(text, program):
    """Returns the exit code: the file is whole, but its reader may not learn so."""
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more
        print(f"{program}: error: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def text_of_export(written):
    return "{file}: {tensors} tensors, {bytes:,} bytes, {type}".format(**written)


def run(options, write, text_of=text_of_export, program="export"):
    """Calls write(model), prints what it has written (as JSON if options.json), and returns the program's exit code. program: its
    name in errors."""
    try:
        with ended_by_signals():
            model = Model(options.model_dir, json.load(sys.stdin.buffer))
            model.require_unchanged()
            written = write(model)
        return print_result(json.dumps(written) if options.json else text_of(written), program)
    except KeyboardInterrupt:
        print(f"{program}: error: was stopped; nothing was written", file=sys.stderr)
        return EXIT_CANCELLED
    except (InputError, OSError, ImportError) as error:
        print(" ".join(f"{program}: error: {fault_of(error, options.out)}".split()), file=sys.stderr)
        if isinstance(error, ImportError):
            return EXIT_UNAVAILABLE
        return EXIT_DATA if isinstance(error, InputError) else 1
