"""A model without maps as one GGUF file, which llama.cpp and what is built on it load.

    python export_gguf.py MODEL_DIR OUT.gguf [--type f32|f16|bf16|q8_0] [--json]

Standard input has the description of the model that `dotresize export` makes; this program reads nothing else but the tensors
and the tokenizer's files that it names.

A stock model is one of its family. A custom output whose junctions all keep their width becomes a `deci`, whose layers have
numbers of heads and features of their own; narrower value heads are filled up with zeros. So are the features of an MLP, to a
multiple of 32, without which its matrices would have no quantized type.

Matrices get the type; vectors and a mixture's router stay float32. A number that becomes infinite in the type is refused.
Tokenizer, special tokens and chat template are in the file. OUT must not exist, and appears whole or not at all. Progress is
one line on stderr for each tenth of the tensors; at the end stdout has what was written.
Exit codes: 0; 2 stopped by a signal; 64 usage; 65 the model has no form in GGUF, or none of this family; 69 a package is
missing; 1 anything else. Errors are one line on stderr.
"""

import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from exporting import Filling, InputError, Parser, attention_shapes, partial_of, refuse_maps, run, value_filling
from gguf_families import FAMILIES, add_facts, name_of, refuse_what_gguf_lacks, rotaries_of
from gguf_tokenizer import add_tokenizer

BLOCK = 32  # numbers of a row that most quantized types store together: features are filled up with zeros to whole blocks
EMPTY_FEATURES = BLOCK  # zeros in place of a removed MLP: llama.cpp has no layer of an attention alone
FEATURE_MODULES = ("gate_proj", "up_proj", "gate_up_proj", "down_proj")
EXPERT = re.compile(r"(?P<layer>model\.layers\.\d+)\.(?P<block>mlp|block_sparse_moe)\.experts\.(?P<expert>\d+)\.(?P<part>\w+)\.weight")
PARTS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}

FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}

# Magnitudes from which on a number rounds to infinity, and the largest one below; of q8_0: that of a block's scale.
LIMITS = {
    "F16": (65520.0, 65504.0),
    "BF16": (float.fromhex("0x1.ffp127"), float.fromhex("0x1.fep127")),
    "Q8_0": (127 * 65520.0, 127 * 65504.0),
}


def whole_blocks(features):
    return -(-features // BLOCK) * BLOCK


def feature_filling(name, shape):
    """The zeros that a tensor of an MLP, or of stacked experts, gets for its features. None: none."""
    module, kind = name.split(".")[-2:]
    module = PARTS.get(module, module)
    if module not in FEATURE_MODULES or (module, kind) == ("down_proj", "bias"):
        return None
    axis, parts = len(shape) - (1 if module == "down_proj" or kind == "bias" else 2), 2 if module == "gate_up_proj" else 1
    features = shape[axis] // parts
    return Filling(axis, parts, whole_blocks(features)) if features % BLOCK else None


@dataclass
class Tensor:
    """One tensor of the file: `sources` of the checkpoint, stacked along a new first axis if there are several."""

    name: str
    sources: list
    shape: tuple
    turned_heads: int = 0  # heads whose rows are put in GGUF's order
    filling: Filling | None = None
    keeps_float32: bool = False
    rows: slice | None = None  # rows of the one source, if not all
    offset: float = 0.0  # added to each number
    values: object = None  # in place of sources


def llama3_factors(config):
    """Divisors of the frequencies of each pair of channels, [head_dim / 2] float32."""
    import numpy as np

    rotary, channels = rotaries_of(config)[0], config["head_dim"]
    low, high = rotary["low_freq_factor"], rotary["high_freq_factor"]
    context, factor = rotary["original_max_position_embeddings"], rotary["factor"]
    factors = []
    for pair in range(channels // 2):
        wavelength = 2 * math.pi * rotary["theta"] ** (2 * pair / channels)
        smooth = min(1.0, max(0.0, (context / wavelength - low) / (high - low)))
        factors.append(1.0 / ((1.0 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


def parts_of(name, shape, config):
    """(name, rows, shape) of what becomes a tensor each: the parts of a fused matrix of a llama; all others whole."""
    module = name.split(".")[-2]
    if module not in FUSED or name_of(config) != "llama":
        yield name, None, shape
        return
    queries, keys = (config[f"num_{part}_heads"] * config["head_dim"] for part in ("attention", "key_value"))
    sizes = (queries, keys, keys) if module == "qkv_proj" else (shape[0] // 2,) * 2
    start = 0
    for part, rows in zip(FUSED[module], sizes, strict=True):
        yield name.replace(module, part), slice(start, start + rows), (rows, *shape[1:])
        start += rows


def turned_heads(name, config):
    """Heads of a query or key projection whose rows GGUF has in another order; 0: it has not."""
    if not FAMILIES[name_of(config)].turned:
        return 0
    if ".q_proj." in name:
        return config["num_attention_heads"]
    return config["num_key_value_heads"] if ".k_proj." in name else 0


class Layers:
    """Heads and features of each layer, as GGUF has them: numbers, or a list of one for each layer."""

    def __init__(self, model):
        self.config = config = model.config
        self.features = whole_blocks(model.settings["intermediate_size"])
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        if config["compressed"]:
            self.take_by_layer()

    def take_by_layer(self):
        self.value_dims, self.sizes = self.config["value_head_dims"], self.config["intermediate_sizes"]
        # llama.cpp takes the size of heads from the first layer.
        self.attends = [number == 0 or dim > 0 for number, dim in enumerate(self.value_dims)]
        self.features = [whole_blocks(size) or EMPTY_FEATURES * attends for size, attends in zip(self.sizes, self.attends, strict=True)]
        self.heads = [self.heads * attends for attends in self.attends]
        self.kv_heads = [self.kv_heads * attends for attends in self.attends]

    def removed(self):
        """Name and shape of what llama.cpp wants in place of sublayers that were removed: zeros."""
        if not self.config["compressed"]:
            return
        d = self.config["hidden_size"]
        if self.value_dims[0] == 0:
            yield "blk.0.attn_norm.weight", (d,)
            for part, shape in attention_shapes(self.config).items():
                yield f"blk.0.attn_{'output' if part == 'o' else part}.weight", shape
        for layer, (size, attends) in enumerate(zip(self.sizes, self.attends, strict=True)):
            if size == 0 and attends:
                yield f"blk.{layer}.ffn_norm.weight", (d,)
                for part in ("ffn_gate", "ffn_up"):
                    yield f"blk.{layer}.{part}.weight", (EMPTY_FEATURES, d)
                yield f"blk.{layer}.ffn_down.weight", (d, EMPTY_FEATURES)


def tensors_of(model, layers, names):
    """All tensors of the file, in its order. names: gguf's map from names of checkpoints."""
    import numpy as np

    config = model.config

    def gguf_name(name):
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if found is None:
            raise InputError(f"tensor {name} has no name in GGUF")
        return found

    tensors, experts = [], {}
    for name in sorted(model.tensors, key=lambda text: [int(part) if part.isdigit() else part for part in text.split(".")]):
        shape = model.shape(name)
        if expert := EXPERT.fullmatch(name):
            part = PARTS.get(expert["part"], expert["part"])
            merged = f"{expert['layer']}.mlp.experts.{part}.weight"
            experts.setdefault(merged, {})[int(expert["expert"])] = name
            continue
        for part, rows, size in parts_of(name, shape, config):
            filling = value_filling(part, config) or feature_filling(part, size)
            size = filling.shape(size) if filling else size
            offset = config["norm_offset"] if part.endswith("norm.weight") else 0.0
            is_router = "gate_inp" in gguf_name(part)
            tensors.append(Tensor(gguf_name(part), [name], size, turned_heads(part, config), filling, is_router, rows, offset))
    for merged, parts in experts.items():
        sources = [parts[number] for number in range(len(parts))]
        shape = (len(sources), *model.shape(sources[0]))
        filling = feature_filling(sources[0], shape)
        tensors.append(Tensor(gguf_name(merged), sources, filling.shape(shape) if filling else shape, filling=filling))
    tensors += [Tensor(name, [], shape, values=np.zeros(shape, np.float32)) for name, shape in layers.removed()]
    if rotaries_of(config)[0]["type"] == "llama3":
        factors = llama3_factors(config)
        tensors.insert(0, Tensor("rope_freqs.weight", [], factors.shape, values=factors))
    return tensors


def values_of(tensor, model):
    """The tensor's values in float32."""
    import torch

    if tensor.values is not None:
        return tensor.values
    values = [model.get(name).float() for name in tensor.sources]
    if tensor.rows is not None:
        values = [values[0][tensor.rows]]
    found = torch.stack(values) if len(tensor.shape) > values[0].ndim else values[0]
    if tensor.turned_heads:
        found = found.unflatten(0, (tensor.turned_heads, 2, -1)).swapaxes(1, 2).reshape(found.shape)
    if tensor.filling:
        found = tensor.filling.fill(found)
    if tensor.offset:
        found = found + tensor.offset
    return found.contiguous().numpy()


def type_of(tensor, wanted, gguf):
    """The type of a tensor: float16 if its rows do not divide into the requested type's blocks."""
    kind = gguf.GGMLQuantizationType
    if len(tensor.shape) == 1 or tensor.keeps_float32:
        return kind.F32
    block = gguf.GGML_QUANT_SIZES[wanted][0]
    return wanted if tensor.shape[-1] % block == 0 else kind.F16


def require_finite(values, tensor, kind, model):
    """Refuses numbers that the type would make infinite."""
    if kind.name not in LIMITS:
        return
    beyond, largest = LIMITS[kind.name]
    found = abs(values).max()
    if found < beyond:
        return
    name = next((name for name in tensor.sources if abs(model.get(name).float()).max() == found), tensor.sources[0])
    others = "--type f32" if kind.name == "BF16" else "--type bf16 or --type f32"
    raise InputError(f"{model.path_of(name)}: tensor {name}: {found:g} is infinite in {kind.name.lower()}, whose largest number is {largest:g}; "
                     f"use {others}")  # fmt: skip


def add_settings(writer, model, layers, gguf, wanted):
    config = model.config
    writer.add_type("model")
    writer.add_name(model.name)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    kind = gguf.GGMLQuantizationType
    files = {kind.F32: "ALL_F32", kind.F16: "MOSTLY_F16", kind.BF16: "MOSTLY_BF16", kind.Q8_0: "MOSTLY_Q8_0"}
    writer.add_file_type(getattr(gguf.LlamaFileType, files[wanted]))
    window, context = config["sliding_windows"][0], config["max_position_embeddings"]
    if window and window < context and not FAMILIES[name_of(config)].windows:
        print(f"export_gguf: note: llama.cpp has no sliding window of {window} here: its context is {window} tokens", file=sys.stderr)
        context = window
    writer.add_context_length(context)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(layers.features)
    writer.add_head_count(layers.heads)
    writer.add_head_count_kv(layers.kv_heads)
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    add_facts(writer, config, gguf)
    if mixture := config["mixture"]:
        writer.add_expert_count(mixture["experts"])
        writer.add_expert_used_count(mixture["experts_per_token"])
        if config["family"] == "qwen3_moe":
            writer.add_expert_feed_forward_length(whole_blocks(config["intermediate_sizes"][0]))


def write_tensors(writer, tensors, model, wanted, gguf):
    """Writes sizes first, then one tensor after the other, so that no more than one is in memory."""
    import numpy as np

    kinds = [type_of(tensor, wanted, gguf) for tensor in tensors]
    for tensor, kind in zip(tensors, kinds, strict=True):
        block, size = gguf.GGML_QUANT_SIZES[kind]
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), math.prod(tensor.shape) // block * size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    shown = 0
    for number, (tensor, kind) in enumerate(zip(tensors, kinds, strict=True), start=1):
        values = values_of(tensor, model)
        require_finite(values, tensor, kind, model)
        writer.write_tensor_data(gguf.quants.quantize(values, kind))
        if number * 10 // len(tensors) > shown:
            shown = number * 10 // len(tensors)
            print(f"export_gguf: {shown * 10} %", file=sys.stderr)


def export(model, out, type_name):
    import gguf

    config = model.config
    if config["compressed"]:
        refuse_maps(model, "GGUF")
    refuse_what_gguf_lacks(model)
    wanted = gguf.GGMLQuantizationType[type_name.upper()]
    architecture = FAMILIES[name_of(config)].architecture
    number = {name: value for value, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    layers = Layers(model)
    tensors = tensors_of(model, layers, gguf.get_tensor_name_map(number, config["num_hidden_layers"]))
    partial = partial_of(out)
    try:
        writer = gguf.GGUFWriter(partial, architecture)
        add_settings(writer, model, layers, gguf, wanted)
        add_tokenizer(writer, model, gguf)
        write_tensors(writer, tensors, model, wanted, gguf)
        writer.flush()
        for file in writer.fout or []:
            os.fsync(file.fileno())
        writer.close()
        model.require_unchanged()
        os.replace(partial, out)
    finally:
        partial.unlink(missing_ok=True)
    return {"file": str(out), "type": type_name, "tensors": len(tensors), "bytes": out.stat().st_size}


def main(arguments):
    parser = Parser(prog="export_gguf.py")
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=("f32", "f16", "bf16", "q8_0"), default="f16")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    return run(options, lambda model: export(model, options.out, options.type))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
