"""A model without maps as one GGUF file, which llama.cpp and what is built on it load.

    python export_gguf.py MODEL_DIR OUT.gguf [--type f32|f16|bf16|q8_0] [--json]

Standard input has the description of the model that `dotresize export` makes; this program reads nothing else but the tensors
and the tokenizer's files that it names.

A stock model is one of its family. A custom output whose junctions all keep their width becomes a `deci`, whose layers have
numbers of heads and features of their own; narrower heads are filled up with zeros. So are the features of an MLP, to a multiple
of 32, without which its matrices would have no quantized type.

Matrices get the type; vectors and a mixture's router stay float32. A number that becomes infinite in the type is refused.
Tokenizer, special tokens and chat template are in the file. OUT must not exist, and appears whole or not at all. Progress is
one line on stderr for each tenth of the tensors; at the end stdout has what was written.
Exit codes: 0; 2 stopped by a signal; 64 usage; 65 the model has no form in GGUF, or none of this family; 69 a package is
missing; 1 anything else. Errors are one line on stderr.
"""

import math
import os
import sys
from pathlib import Path

from exporting import InputError, Parser, partial_of, refuse_maps, run
from gguf_families import add_experts, add_facts, family_of, refuse_what_gguf_lacks
from gguf_tensors import Layers, Names, sizes_of_experts, tensors_of, values_of
from gguf_tokenizer import add_tokenizer

# Magnitudes from which on a number rounds to infinity, and the largest one below; of q8_0: that of a block's scale.
LIMITS = {
    "F16": (65520.0, 65504.0),
    "BF16": (float.fromhex("0x1.ffp127"), float.fromhex("0x1.fep127")),
    "Q8_0": (127 * 65520.0, 127 * 65504.0),
}


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
    if window and window < context and not family_of(config).windows:
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
    if config["mixture"]:
        add_experts(writer, config, family_of(config), sizes_of_experts(config))


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
    architecture, layers = family_of(config).architecture, Layers(model)
    tensors = tensors_of(model, layers, Names(config, gguf))
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
