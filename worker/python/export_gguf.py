"""A model without maps as one GGUF file, which llama.cpp and what is built on it load.

    python export_gguf.py MODEL_DIR OUT.gguf [--type f32|f16|bf16|q8_0] [--json]

A stock model is one of its family. A custom output whose junctions all keep their width becomes a `deci`, whose layers have
numbers of heads and features of their own; narrower value heads are filled up with zeros. So are the features of an MLP, to a
multiple of 32, without which its matrices would have no quantized type.

Matrices get the type; vectors and a mixture's router stay float32. Tokenizer, special tokens and chat template are in the
file. OUT must not exist, and appears whole or not at all. Progress is one line on stderr for each tenth of the tensors; at the
end stdout has what was written.
Exit codes: 0; 64 usage; 65 the model has no form in GGUF, or none of this family; 69 a package is missing; 1 anything
else. Errors are one line on stderr.
"""

import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from exporting import (
    Checkpoint,
    Filling,
    InputError,
    Parser,
    attention_shapes,
    by_layer,
    head_dim_of,
    read_json,
    refuse_maps,
    require_free,
    run,
    value_filling,
)

# Architectures of GGUF by model_type, and true if the rotary embedding there turns neighbouring channels: the rows of queries
# and keys are then put in that order.
FAMILIES = {
    "llama": ("llama", True),
    "mistral": ("llama", True),
    "mixtral": ("llama", True),
    "qwen2": ("qwen2", False),
    "qwen3": ("qwen3", False),
    "qwen3_moe": ("qwen3moe", False),
    "phi3": ("phi3", False),
    "dotresize": ("deci", True),
}
BLOCK = 32  # numbers of a row that most quantized types store together: features are filled up with zeros to whole blocks
EMPTY_FEATURES = BLOCK  # zeros in place of a removed MLP: llama.cpp has no layer of an attention alone
FEATURE_MODULES = ("gate_proj", "up_proj", "gate_up_proj", "down_proj")
EXPERT = re.compile(r"(?P<layer>model\.layers\.\d+)\.(?P<block>mlp|block_sparse_moe)\.experts\.(?P<expert>\d+)\.(?P<part>\w+)\.weight")
PARTS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}

# llama.cpp takes the heads of these for hidden_size / heads wide. With other heads they are written as a llama, which computes the
# same: one whose queries, keys and values have biases, or whose fused matrices are divided.
LLAMAS_OF_OTHER_NAMES = ("qwen2", "phi3")
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}

# Byte-level BPE: what splits a text before the merges, by llama.cpp's name for it.
GPT2_SPLIT = "gpt-2"
SPLITS = {
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": "llama-bpe",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": "qwen2",
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
    values: object = None  # in place of sources


def rotary_of(config):
    """The settings of the rotary embedding, wherever this version of transformers has them."""
    rotary = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    rotary.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    rotary.setdefault("rope_type", rotary.get("type", "default"))
    return rotary


def llama3_factors(config, rotary):
    """Divisors of the frequencies of each pair of channels, [head_dim / 2] float32."""
    import numpy as np

    low, high = rotary["low_freq_factor"], rotary["high_freq_factor"]
    context, factor = rotary["original_max_position_embeddings"], rotary["factor"]
    factors = []
    for pair in range(head_dim_of(config) // 2):
        wavelength = 2 * math.pi * rotary["rope_theta"] ** (2 * pair / head_dim_of(config))
        smooth = min(1.0, max(0.0, (context / wavelength - low) / (high - low)))
        factors.append(1.0 / ((1.0 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


def refuse_what_gguf_lacks(config, model_dir):
    family = config.get("model_type")
    if family == "dotresize":
        refuse_maps(config, model_dir, "GGUF")
    if family not in FAMILIES:
        raise InputError(f"{model_dir}: the family {family} has no exporter; there is one of {', '.join(FAMILIES)}")
    rotary = rotary_of(config)["rope_type"]
    if rotary not in ("default", "linear", "llama3"):
        raise InputError(f"{model_dir}: a rotary embedding of type {rotary} is not exported")
    if rotary_of(config).get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise InputError(f"{model_dir}: a partial rotary embedding is not exported")
    if family == "qwen3_moe" and not config.get("norm_topk_prob", False):
        raise InputError(f"{model_dir}: norm_topk_prob is false, and llama.cpp norms the weights of experts")
    if family == "qwen3_moe" and (config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1):
        raise InputError(f"{model_dir}: a mixture with layers of one MLP has no form in GGUF")


def as_engines_take_it(config):
    """The config of the model under the name by which llama.cpp computes it."""
    heads_fit = head_dim_of(config) * config["num_attention_heads"] == config["hidden_size"]
    return config if heads_fit or config["model_type"] not in LLAMAS_OF_OTHER_NAMES else config | {"model_type": "llama"}


def parts_of(name, shape, config):
    """(name, rows, shape) of what becomes a tensor each: the parts of a fused matrix of a llama; all others whole."""
    module = name.split(".")[-2]
    if module not in FUSED or config["model_type"] != "llama":
        yield name, None, shape
        return
    queries, keys = (config[f"num_{part}_heads"] * head_dim_of(config) for part in ("attention", "key_value"))
    sizes = (queries, keys, keys) if module == "qkv_proj" else (shape[0] // 2,) * 2
    start = 0
    for part, rows in zip(FUSED[module], sizes, strict=True):
        yield name.replace(module, part), slice(start, start + rows), (rows, *shape[1:])
        start += rows


def turned_heads(name, config):
    """Heads of a query or key projection whose rows GGUF has in another order; 0: it has not."""
    if not FAMILIES[config["model_type"]][1]:
        return 0
    if ".q_proj." in name:
        return config["num_attention_heads"]
    return config["num_key_value_heads"] if ".k_proj." in name else 0


class Layers:
    """Heads and features of each layer, as GGUF has them: numbers, or a list of one for each layer."""

    def __init__(self, config):
        self.config = config
        self.features = whole_blocks(config["intermediate_size"])
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.value_dims = None
        if config["model_type"] == "dotresize":
            self.take_by_layer(config["num_hidden_layers"])

    def take_by_layer(self, count):
        self.value_dims = by_layer(self.config, "value_head_dims", head_dim_of(self.config), count)
        self.sizes = by_layer(self.config, "intermediate_sizes", self.config["intermediate_size"], count)
        # llama.cpp takes the size of heads from the first layer.
        self.attends = [number == 0 or dim > 0 for number, dim in enumerate(self.value_dims)]
        self.features = [whole_blocks(size) or EMPTY_FEATURES * attends for size, attends in zip(self.sizes, self.attends, strict=True)]
        self.heads = [self.heads * attends for attends in self.attends]
        self.kv_heads = [self.kv_heads * attends for attends in self.attends]

    def removed(self):
        """Name and shape of what llama.cpp wants in place of sublayers that were removed: zeros."""
        if self.value_dims is None:
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


def tensors_of(checkpoint, config, layers, names):
    """All tensors of the file, in its order. names: gguf's map from names of checkpoints."""
    import numpy as np

    def gguf_name(name):
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if found is None:
            raise InputError(f"tensor {name} has no name in GGUF")
        return found

    tensors, experts = [], {}
    for name in sorted(checkpoint.file_of, key=lambda text: [int(part) if part.isdigit() else part for part in text.split(".")]):
        shape = checkpoint.shape(name)
        if expert := EXPERT.fullmatch(name):
            part = PARTS.get(expert["part"], expert["part"])
            merged = f"{expert['layer']}.mlp.experts.{part}.weight"
            experts.setdefault(merged, {})[int(expert["expert"])] = name
            continue
        for part, rows, size in parts_of(name, shape, config):
            filling = value_filling(part, config, layers.value_dims) or feature_filling(part, size)
            size = filling.shape(size) if filling else size
            tensors.append(Tensor(gguf_name(part), [name], size, turned_heads(part, config), filling, "gate_inp" in gguf_name(part), rows))
    for merged, parts in experts.items():
        sources = [parts[number] for number in range(len(parts))]
        shape = (len(sources), *checkpoint.shape(sources[0]))
        filling = feature_filling(sources[0], shape)
        tensors.append(Tensor(gguf_name(merged), sources, filling.shape(shape) if filling else shape, filling=filling))
    tensors += [Tensor(name, [], shape, values=np.zeros(shape, np.float32)) for name, shape in layers.removed()]
    rotary = rotary_of(config)
    if rotary["rope_type"] == "llama3":
        factors = llama3_factors(config, rotary)
        tensors.insert(0, Tensor("rope_freqs.weight", [], factors.shape, values=factors))
    return tensors


def values_of(tensor, checkpoint):
    """The tensor's values in float32."""
    import torch

    if tensor.values is not None:
        return tensor.values
    values = [checkpoint.get(name).float() for name in tensor.sources]
    if tensor.rows is not None:
        values = [values[0][tensor.rows]]
    found = torch.stack(values) if len(tensor.shape) > values[0].ndim else values[0]
    if tensor.turned_heads:
        found = found.unflatten(0, (tensor.turned_heads, 2, -1)).swapaxes(1, 2).reshape(found.shape)
    if tensor.filling:
        found = tensor.filling.fill(found)
    return found.contiguous().numpy()


def type_of(tensor, wanted, gguf):
    """The type of a tensor: float16 if its rows do not divide into the requested type's blocks."""
    kind = gguf.GGMLQuantizationType
    if len(tensor.shape) == 1 or tensor.keeps_float32:
        return kind.F32
    block = gguf.GGML_QUANT_SIZES[wanted][0]
    return wanted if tensor.shape[-1] % block == 0 else kind.F16


def add_settings(writer, config, layers, model_dir, gguf, wanted):
    writer.add_type("model")
    writer.add_name(model_dir.resolve().name)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    kind = gguf.GGMLQuantizationType
    files = {kind.F32: "ALL_F32", kind.F16: "MOSTLY_F16", kind.BF16: "MOSTLY_BF16", kind.Q8_0: "MOSTLY_Q8_0"}
    writer.add_file_type(getattr(gguf.LlamaFileType, files[wanted]))
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    context = config["max_position_embeddings"]
    if window and window < context:
        print(f"export_gguf: note: llama.cpp has no sliding window of {window} here: its context is {window} tokens", file=sys.stderr)
        context = window
    writer.add_context_length(context)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(layers.features)
    writer.add_head_count(layers.heads)
    writer.add_head_count_kv(layers.kv_heads)
    writer.add_key_length(head_dim_of(config))
    writer.add_value_length(head_dim_of(config))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    rotary = rotary_of(config)
    writer.add_rope_dimension_count(head_dim_of(config))
    writer.add_rope_freq_base(rotary["rope_theta"])
    if rotary["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary["factor"])
    if experts := config.get("num_local_experts") or config.get("num_experts"):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
        if width := config.get("moe_intermediate_size"):
            writer.add_expert_feed_forward_length(whole_blocks(width))


def split_of(tokenizer, file):
    """llama.cpp's name for how the tokenizer splits a text."""
    steps = tokenizer.get("pre_tokenizer") or {}
    steps = steps["pretokenizers"] if steps.get("type") == "Sequence" else [steps]
    patterns = [step.get("pattern", {}).get("Regex") for step in steps if step.get("type") == "Split"]
    kinds = [step.get("type") for step in steps if step.get("type") != "Split"]
    if kinds == ["ByteLevel"] and not patterns and steps[0].get("use_regex", True):
        return GPT2_SPLIT
    if kinds == ["Digits", "ByteLevel"] and not patterns and steps[0].get("individual_digits"):
        return "smollm"
    if kinds == ["ByteLevel"] and len(patterns) == 1 and patterns[0] in SPLITS:
        return SPLITS[patterns[0]]
    raise InputError(f"{file}: llama.cpp has no splitting of text like that of this tokenizer")


def add_tokens(writer, tokenizer, vocabulary, gguf):
    """Tokens by id. Ids that the tokenizer does not use are padding of the embedding."""
    kind = gguf.TokenType
    tokens = [f"[PAD{number}]" for number in range(vocabulary)]
    types = [kind.UNUSED] * vocabulary
    def require_place(number):
        if not 0 <= number < vocabulary:
            raise InputError(f"tokenizer.json: token {number} is not in a vocabulary of {vocabulary}")

    for text, number in tokenizer["model"]["vocab"].items():
        require_place(number)
        tokens[number], types[number] = text, kind.NORMAL
        if tokenizer["model"].get("byte_fallback") and re.fullmatch(r"<0x[0-9A-F]{2}>", text):
            types[number] = kind.BYTE
    for added in tokenizer.get("added_tokens", []):
        require_place(added["id"])
        tokens[added["id"]] = added["content"]
        types[added["id"]] = kind.CONTROL if added["special"] else kind.USER_DEFINED
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    return tokens


def add_tokenizer(writer, config, model_dir, gguf):
    file = model_dir / "tokenizer.json"
    tokenizer = read_json(file)
    model = tokenizer["model"]
    if model["type"] != "BPE":
        raise InputError(f"{file}: a {model['type']} tokenizer is not exported; one of BPE is")
    if model.get("byte_fallback"):  # SentencePiece: the pair of highest score is merged first
        writer.add_tokenizer_model("llama")
        tokens = add_tokens(writer, tokenizer, config["vocab_size"], gguf)
        ranks = {}
        for rank, pair in enumerate(model["merges"]):
            ranks.setdefault("".join(pair.split(" ", 1) if isinstance(pair, str) else pair), rank)
        writer.add_token_scores([-float(ranks.get(token, len(ranks))) for token in tokens])
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(split_of(tokenizer, file))
        add_tokens(writer, tokenizer, config["vocab_size"], gguf)
    special = gguf.SpecialVocab(model_dir, load_merges=not model.get("byte_fallback"), n_vocab=config["vocab_size"])
    special.add_to_gguf(writer, quiet=True)


def write_tensors(writer, tensors, checkpoint, wanted, gguf):
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
        writer.write_tensor_data(gguf.quants.quantize(values_of(tensor, checkpoint), kind))
        if number * 10 // len(tensors) > shown:
            shown = number * 10 // len(tensors)
            print(f"export_gguf: {shown * 10} %", file=sys.stderr)


def export(model_dir, out, type_name):
    import gguf

    require_free(out)
    config = read_json(model_dir / "config.json")
    refuse_what_gguf_lacks(config, model_dir)
    config = as_engines_take_it(config)
    wanted = gguf.GGMLQuantizationType[type_name.upper()]
    architecture = FAMILIES[config["model_type"]][0]
    number = {name: value for value, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    checkpoint = Checkpoint(model_dir)
    rows = checkpoint.shape("model.embed_tokens.weight")[0]
    if rows != config["vocab_size"]:
        raise InputError(f"{model_dir}: vocab_size is {config['vocab_size']}, and the embedding has {rows} rows")
    layers = Layers(config)
    tensors = tensors_of(checkpoint, config, layers, gguf.get_tensor_name_map(number, config["num_hidden_layers"]))
    partial = out.with_name(f"{out.name}.{os.getpid()}.partial")
    try:
        writer = gguf.GGUFWriter(partial, architecture)
        add_settings(writer, config, layers, model_dir, gguf, wanted)
        add_tokenizer(writer, config, model_dir, gguf)
        write_tensors(writer, tensors, checkpoint, wanted, gguf)
        writer.flush()
        for file in writer.fout or []:
            os.fsync(file.fileno())
        writer.close()
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
    return run(options, lambda: export(options.model_dir, options.out, options.type))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
