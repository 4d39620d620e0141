"""Shared by the exporters: the model directory that they read, what narrower layers are filled up with, and their errors."""

import argparse
import json
import os
import struct
import sys
from dataclasses import dataclass

EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_UNAVAILABLE = 69

# Raised where config.json or tokenizer.json has values of other kinds than transformers writes.
MALFORMED = (LookupError, TypeError, AttributeError, ArithmeticError, struct.error)

# Families of the custom outputs that engines with layers of different sizes compute as they are.
LAYERED_FAMILIES = ("llama", "mistral")


class InputError(Exception):
    """The model cannot be exported; the message names what is in the way."""


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


def require_free(out):
    """Refuses a path at which nothing can be written."""
    if out.exists():
        raise InputError(f"{out}: is there already")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{folder}: no such directory")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: this user can make no files there")


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON") from error


class Checkpoint:
    """Tensors of the model's safetensors files, one at a time."""

    def __init__(self, model_dir):
        from safetensors import safe_open

        files = sorted(model_dir.glob("*.safetensors"))
        if not files:
            raise InputError(f"{model_dir}: no *.safetensors")
        self.files = [safe_open(file, "pt") for file in files]
        self.file_of = {name: file for file in self.files for name in file.keys()}  # noqa: SIM118

    def shape(self, name):
        return tuple(self.file_of[name].get_slice(name).get_shape())

    def get(self, name):
        """A torch tensor of the checkpoint's dtype."""
        return self.file_of[name].get_tensor(name)


def head_dim_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def attention_shapes(config):
    """{projection: shape} of an attention whose values are as wide as the source's."""
    d, channels = config["hidden_size"], head_dim_of(config)
    queries, keys = (config[f"num_{part}_heads"] * channels for part in ("attention", "key_value"))
    return {"q": (queries, d), "k": (keys, d), "v": (keys, d), "o": (d, queries)}


def refuse_maps(config, model_dir, form):
    """A custom output has a form for other engines if its stream is as wide as the source's everywhere."""
    width = config["hidden_size"]
    narrower = [number for number, k in enumerate(config.get("junction_widths") or []) if k != width]
    if narrower:
        raise InputError(f"{model_dir}: junction {narrower[0]} is narrower than the model, which has no form in {form}; output.format: stock has one")
    if not config.get("norm_weights"):
        raise InputError(f"{model_dir}: the norms are folded into the weights, which has no form in {form}; output.format: stock has one")
    if config["source_model_type"] not in LAYERED_FAMILIES:
        raise InputError(f"{model_dir}: a custom output of a {config['source_model_type']} has no form in {form}; output.format: stock has one")


def by_layer(config, key, otherwise, count):
    """The numbers of a key, or the same for all layers; each is at most the source's."""
    numbers = config.get(key) or [otherwise] * count
    if len(numbers) != count or not all(isinstance(number, int) and 0 <= number <= otherwise for number in numbers):
        raise InputError(f"{key} must be {count} numbers up to {otherwise}")
    return numbers


def value_filling(name, config, value_dims):
    """The zeros that a tensor of the checkpoint gets for its value heads. None: none. value_dims: of each layer, or None."""
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    if value_dims is None or not part.startswith(("self_attn.v_proj.", "self_attn.o_proj.weight")):
        return None
    channels = head_dim_of(config)
    if value_dims[int(layer)] == channels:
        return None
    is_v = part.startswith("self_attn.v_proj.")
    return Filling(0 if is_v else 1, config["num_key_value_heads" if is_v else "num_attention_heads"], channels)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"usage: {self.format_usage().removeprefix('usage: ').strip()}: {message}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def run(options, export):
    """Calls export(), prints what it has written (as JSON if options.json), and returns the program's exit code."""
    try:
        written = export()
        text = "{file}: {tensors} tensors, {bytes:,} bytes, {type}".format(**written)
        print(json.dumps(written) if options.json else text)
    except (InputError, OSError, ImportError, ValueError, *MALFORMED) as error:
        unreadable = isinstance(error, MALFORMED)
        what = f"{options.model_dir}: not a model as transformers writes it: {error!r}" if unreadable else error
        print(" ".join(f"export: error: {what}".split()), file=sys.stderr)
        if isinstance(error, ImportError):
            return EXIT_UNAVAILABLE
        return EXIT_DATA if unreadable or isinstance(error, InputError) else 1
    return 0
