#!/usr/bin/env python3
"""Writes a model directory of the true widths of a known model, with random weights.

    scripts/random_model.py DIR --like NAME | --config FILE [--layers N] [--seed N] [--tokens N] [--seqlen N]

For measurements at real sizes without the real weights. NAME is a file of bench/configs/. The weights are bfloat16 in
shards of at most 5 GB, written in pieces: no tensor is ever whole in memory. The tokens are calibration.safetensors and
evaluation.safetensors in the directory, --tokens each in rows of --seqlen, random ids by Zipf's law. There is no
tokenizer. The same arguments give the same files.

Weights of linear layers are normal, such that the normed residual stream gives every projection unit variance, and
that those of the whole model's layers add up to about one more. As in trained models the output channels differ in
scale (log-normal), a few of them by much (massive channels), and the norms, else near 1, damp these.
"""

import argparse
import hashlib
import json
import math
import shutil
import struct
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

CONFIGS = Path(__file__).resolve().parents[1] / "bench" / "configs"
EXIT_DATA = 65
MAX_SHARD_BYTES = 5 * 10**9
MAX_PIECE_NUMBERS = 1 << 24
MAX_PIECES_AHEAD = 4  # made or being made while another one is written
THREADS = 2
BYTES = 2  # a bfloat16

EMBEDDING_STD = 0.02
CHANNEL_SPREAD = 0.5  # standard deviation of the log of an output channel's scale
CHANNELS_PER_MASSIVE = 1024
MASSIVE_SCALE = 20.0
MASSIVE_NORM = 0.2


class InputError(Exception):
    """The arguments cannot be met; the message says which."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the checkpoint: `kind` decides how its numbers are drawn."""

    name: str
    shape: tuple
    kind: str  # embedding, norm, head_norm, in_proj, out_proj: the last one writes the residual stream

    @property
    def columns(self):
        return self.shape[-1]

    @property
    def rows(self):
        return math.prod(self.shape[:-1])

    @property
    def bytes(self):
        return BYTES * math.prod(self.shape)


def known_names():
    return sorted(path.stem for path in CONFIGS.glob("*.json"))


def read_config(path, layers):
    """config.json, and the number of layers before `layers` cut it."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    if config.get("model_type") not in MLPS:
        raise InputError(f"{path}: model_type {config.get('model_type')!r} is not one of {', '.join(MLPS)}")
    for key in ("attention_bias", "mlp_bias", "mlp_only_layers"):
        if config.get(key):
            raise InputError(f"{path}: {key} is not supported")
    whole = config["num_hidden_layers"]
    if layers is not None and not 1 <= layers <= whole:
        raise InputError(f"--layers {layers}: the model has {whole}")
    return config | {"num_hidden_layers": layers or whole}, whole


def attention_tensors(config, prefix):
    d, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or d // heads
    q, kv = heads * head_dim, config["num_key_value_heads"] * head_dim
    if config["model_type"] == "phi3":
        yield Tensor(prefix + "qkv_proj.weight", (q + 2 * kv, d), "in_proj")
    else:
        for name, width in (("q", q), ("k", kv), ("v", kv)):
            yield Tensor(f"{prefix}{name}_proj.weight", (width, d), "in_proj")
    if config["model_type"] == "qwen3_moe":
        for name in ("q_norm", "k_norm"):
            yield Tensor(f"{prefix}{name}.weight", (head_dim,), "head_norm")
    yield Tensor(prefix + "o_proj.weight", (d, q), "out_proj")


def gated_mlp(config, prefix, width):
    d = config["hidden_size"]
    for name in ("gate", "up"):
        yield Tensor(f"{prefix}{name}_proj.weight", (width, d), "in_proj")
    yield Tensor(prefix + "down_proj.weight", (d, width), "out_proj")


def dense_mlp(config, prefix):
    return gated_mlp(config, prefix, config["intermediate_size"])


def fused_mlp(config, prefix):
    d, width = config["hidden_size"], config["intermediate_size"]
    yield Tensor(prefix + "gate_up_proj.weight", (2 * width, d), "in_proj")
    yield Tensor(prefix + "down_proj.weight", (d, width), "out_proj")


def mixture(config, prefix):
    yield Tensor(prefix + "gate.weight", (config["num_experts"], config["hidden_size"]), "in_proj")
    for expert in range(config["num_experts"]):
        yield from gated_mlp(config, f"{prefix}experts.{expert}.", config["moe_intermediate_size"])


MLPS = {"llama": dense_mlp, "mistral": dense_mlp, "phi3": fused_mlp, "qwen3_moe": mixture}


def tensors(config):
    """All tensors of the checkpoint, in the order of the files."""
    d, vocab = config["hidden_size"], config["vocab_size"]
    yield Tensor("model.embed_tokens.weight", (vocab, d), "embedding")
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield Tensor(prefix + "input_layernorm.weight", (d,), "norm")
        yield from attention_tensors(config, prefix + "self_attn.")
        yield Tensor(prefix + "post_attention_layernorm.weight", (d,), "norm")
        yield from MLPS[config["model_type"]](config, prefix + "mlp.")
    yield Tensor("model.norm.weight", (d,), "norm")
    if not config.get("tie_word_embeddings"):
        yield Tensor("lm_head.weight", (vocab, d), "in_proj")


def generator(*key):
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


class Weights:
    """Draws the numbers of tensors, in pieces of whole rows. Every piece has a generator of its own."""

    def __init__(self, config, whole_layers, seed):
        self.seed = seed
        d = config["hidden_size"]
        random = generator(seed, "channels")
        self.channels = torch.exp(CHANNEL_SPREAD * torch.randn(d, generator=random))
        self.massive = torch.randperm(d, generator=random)[: math.ceil(d / CHANNELS_PER_MASSIVE)]
        self.channels[self.massive] = MASSIVE_SCALE
        self.out_gain = 1.0 / math.sqrt(2 * whole_layers)

    def pieces(self, tensor):
        """(tensor, first row, rows) that cover it."""
        step = max(1, MAX_PIECE_NUMBERS // tensor.columns)
        return ((tensor, row, min(step, tensor.rows - row)) for row in range(0, tensor.rows, step))

    def draw(self, tensor, row, rows):
        """The piece's bytes."""
        numbers = torch.empty(rows, tensor.columns)
        numbers.normal_(generator=generator(self.seed, tensor.name, row))
        self.scale(numbers, tensor, row)
        return numbers.bfloat16().view(torch.int16).numpy().data

    def scale(self, numbers, tensor, row):
        if tensor.kind in ("norm", "head_norm"):
            numbers.mul_(0.1).add_(1.0)
            if tensor.kind == "norm":
                numbers[:, self.massive] *= MASSIVE_NORM
        elif tensor.kind == "embedding":
            numbers.mul_(EMBEDDING_STD * self.channels)
        else:
            numbers.mul_(1.0 / math.sqrt(tensor.columns))
            if tensor.kind == "out_proj":
                numbers.mul_(self.out_gain * self.channels[row : row + len(numbers), None])


def cut_shards(all_tensors):
    """Lists of tensors, each of at most MAX_SHARD_BYTES or of one tensor."""
    shards, size = [[]], 0
    for tensor in all_tensors:
        if shards[-1] and size + tensor.bytes > MAX_SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += tensor.bytes
    return shards


def header(shard):
    """Header of a safetensors file: length, then JSON padded to 8 bytes."""
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for tensor in shard:
        end = offset + tensor.bytes
        entries[tensor.name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_shard(path, shard, weights, pool):
    pieces = (piece for tensor in shard for piece in weights.pieces(tensor))
    ahead = deque()
    with open(path, "wb") as file:
        file.write(header(shard))
        for piece in pieces:
            ahead.append(pool.submit(weights.draw, *piece))
            if len(ahead) == MAX_PIECES_AHEAD:
                file.write(ahead.popleft().result())
        while ahead:
            file.write(ahead.popleft().result())


def write_weights(directory, config, whole_layers, seed):
    shards = cut_shards(tensors(config))
    weights = Weights(config, whole_layers, seed)
    index = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for number, shard in enumerate(shards, 1):
            single = len(shards) == 1
            name = "model.safetensors" if single else f"model-{number:05}-of-{len(shards):05}.safetensors"
            write_shard(directory / name, shard, weights, pool)
            index |= {tensor.name: name for tensor in shard}
            size = (directory / name).stat().st_size
            print(f"{name}: {len(shard)} tensors, {size:,} bytes", file=sys.stderr, flush=True)
    if len(shards) > 1:
        total = sum(tensor.bytes for shard in shards for tensor in shard)
        write_json(
            directory / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index}
        )


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_tokens(path, vocab_size, samples, seqlen, seed):
    """[samples, seqlen] int32; both files have the same frequent ids."""
    frequency = 1.0 / (torch.arange(vocab_size, dtype=torch.float64) + 2.7)
    cumulative = torch.cumsum(frequency, 0)
    uniform = torch.rand(samples * seqlen, dtype=torch.float64, generator=generator(seed, path.name))
    rank = torch.searchsorted(cumulative, uniform * cumulative[-1], right=True).clamp(max=vocab_size - 1)
    ids = torch.randperm(vocab_size, generator=generator(seed, "ids"))[rank]
    save_file({"tokens": ids.view(samples, seqlen).int()}, path)


def make_room(directory, config):
    """The directory, empty, on a file system with space for the model."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise InputError(f"{directory}: is not empty")
    needed, free = sum(tensor.bytes for tensor in tensors(config)), shutil.disk_usage(directory).free
    if needed > free:
        raise InputError(f"{directory}: the weights are {needed:,} bytes, {free:,} are free")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--like", choices=known_names(), metavar="NAME", help=", ".join(known_names()))
    source.add_argument("--config", type=Path, help="a config.json of one of these families")
    parser.add_argument("--layers", type=int, help="num_hidden_layers; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=128 * 2048, help="in each token file; default: %(default)s")
    parser.add_argument("--seqlen", type=int, default=2048, help="row length; default: %(default)s")
    return parser.parse_args(arguments)


def write_model(options):
    config, whole_layers = read_config(options.config or CONFIGS / f"{options.like}.json", options.layers)
    if not 2 <= options.seqlen <= options.tokens:
        raise InputError(f"--seqlen {options.seqlen} is not in 2 to --tokens {options.tokens}")
    make_room(options.directory, config)
    write_json(options.directory / "config.json", config)
    samples = options.tokens // options.seqlen
    for name in ("calibration", "evaluation"):
        path = options.directory / f"{name}.safetensors"
        write_tokens(path, config["vocab_size"], samples, options.seqlen, options.seed)
    write_weights(options.directory, config, whole_layers, options.seed)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        write_model(options)
    except InputError as error:
        print(f"random_model: error: {error}", file=sys.stderr)
        return EXIT_DATA
    return 0


if __name__ == "__main__":
    sys.exit(main())
