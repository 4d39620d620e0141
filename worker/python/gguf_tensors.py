"""Tensors of a GGUF file: what each is made of in a checkpoint, and the order of its rows, experts and channels."""

import math
import re
from dataclasses import dataclass

from exporting import Filling, InputError, attention_shapes, attentions_of, value_filling
from gguf_families import divides, family_of, name_of, query_factor, rotaries_of

BLOCK = 32  # numbers of a row that most quantized types store together: features are filled up with zeros to whole blocks
EMPTY_FEATURES = BLOCK  # zeros in place of a removed MLP: llama.cpp has no layer of an attention alone
FEATURE_MODULES = ("gate_proj", "up_proj", "gate_up_proj", "down_proj")
EXPERT = re.compile(r"(?P<layer>model\.layers\.\d+)\.(?:mlp|block_sparse_moe)\.experts\.(?P<expert>\d+)\.(?P<part>\w+)\.(?P<kind>weight|bias)")
PARTS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
# Endings of names that gguf knows by others.
RENAMED = {"e_score_correction_bias": "e_score_correction.bias", "dt_bias": "dt_proj.bias", "sinks": "sinks.weight"}


@dataclass
class Tensor:
    """One tensor of the file: `sources` of the checkpoint, stacked along a new first axis if there are several."""

    name: str
    sources: list
    shape: tuple
    steps: tuple = ()  # functions that make the tensor of its source, one after the other
    keeps_float32: bool = False
    values: object = None  # in place of sources


def whole_blocks(features):
    return -(-features // BLOCK) * BLOCK


def sizes_of_experts(config):
    """Features of an expert and of the shared expert, filled up."""
    mixture = config["mixture"]
    features, shared = whole_blocks(mixture["features"]), mixture["shared_features"]
    if family_of(config).dense_first:  # the shared expert is as wide as some of the others
        return features, -(-shared // features) * features
    return features, whole_blocks(shared)


def feature_filling(name, shape, config):
    """The zeros that a tensor of an MLP, or of stacked experts, gets for its features. None: none."""
    module, kind = name.split(".")[-2:]
    module = PARTS.get(module, module)
    if module not in FEATURE_MODULES or (module, kind) == ("down_proj", "bias"):
        return None
    axis, parts = len(shape) - (1 if module == "down_proj" or kind == "bias" else 2), 2 if module == "gate_up_proj" else 1
    features = shape[axis] // parts
    size = sizes_of_experts(config)[1] if ".shared_expert" in name else whole_blocks(features)
    return Filling(axis, parts, size) if size != features else None


def yarn_limits(rotary):
    """The pairs of channels between which a yarn changes from unchanged frequencies to slowed ones."""
    channels, context = rotary["channels"], rotary["original_max_position_embeddings"]
    scale = channels / (2 * math.log(rotary["theta"]))
    limits = [scale * math.log(context / (rotary[beta] * 2 * math.pi)) for beta in ("beta_fast", "beta_slow")]
    low, high = (math.floor(limits[0]), math.ceil(limits[1])) if rotary["truncate"] else limits
    low, high = max(low, 0), min(high, channels - 1)
    return low, high if high != low else high + 0.001


def share_unchanged(rotary, pair):
    """Returns the share of the frequency of this pair of channels that stays as it is: 1 all of it, 0 none (divided by the factor)."""
    if rotary["type"] == "yarn":
        low, high = yarn_limits(rotary)
        return 1.0 - min(1.0, max(0.0, (pair - low) / (high - low)))
    low, high = rotary["low_freq_factor"], rotary["high_freq_factor"]
    wavelength = 2 * math.pi * rotary["theta"] ** (2 * pair / rotary["channels"])
    return min(1.0, max(0.0, (rotary["original_max_position_embeddings"] / wavelength - low) / (high - low)))


def divisors(rotary):
    """Divisors of the frequencies of each pair of channels, [channels / 2] float32."""
    import numpy as np

    shares = [share_unchanged(rotary, pair) for pair in range(rotary["channels"] // 2)]
    return np.array([1.0 / ((1.0 - share) / rotary["factor"] + share) for share in shares], dtype=np.float32)


def rows(start, count):
    return lambda values: values[start : start + count]


def every_second(first):
    return lambda values: values[:, first::2]


def turned(heads):
    """Puts the two halves of each head in turn."""
    return lambda values: values.unflatten(0, (heads, 2, -1)).swapaxes(1, 2).reshape(values.shape)


def plus(offset):
    return lambda values: values + offset


def times(factor):
    return lambda values: values * factor


def parts_of(name, shape, config):
    """(name, shape, steps) of what becomes a tensor each: the parts of a fused matrix of a llama; most others whole."""
    ending = name.split(".")[-1]
    if ending in RENAMED:
        name = name.removesuffix(ending) + RENAMED[ending]
    module = name.split(".")[-2]
    if module not in FUSED or name_of(config) != "llama":
        yield name, shape, ()
        return
    queries, keys = (config[f"num_{part}_heads"] * config["head_dim"] for part in ("attention", "key_value"))
    sizes = (queries, keys, keys) if module == "qkv_proj" else (shape[0] // 2,) * 2
    start = 0
    for part, count in zip(FUSED[module], sizes, strict=True):
        yield name.replace(module, part), (count, *shape[1:]), (rows(start, count),)
        start += count


def attention_steps(name, config):
    """Order and factor of queries and keys."""
    if ".self_attn." not in name:
        return
    module, kind = name.split(".")[-2:]
    if family_of(config).turned and not rotaries_of(config)[0]["interleaved"] and module in ("q_proj", "k_proj"):
        yield turned(config["num_attention_heads" if module == "q_proj" else "num_key_value_heads"])
    if (factor := query_factor(config)) != 1.0 and module == ("q_norm" if config["head_norms"] else "q_proj"):
        yield times(factor)


def by_turns(net, width, axis=0, start=0):
    """Puts the value heads of a DeltaNet, `width` rows or columns each from `start` on, in turn: the first of each key head, ..."""

    def step(values):
        import torch

        kept, heads = values.split((start, values.shape[axis] - start), dim=axis)
        by_head = heads.unflatten(axis, (net["key_heads"], net["value_heads"] // net["key_heads"], width))
        return torch.cat((kept, by_head.transpose(axis, axis + 1).reshape(heads.shape)), dim=axis)

    return step


def delta_net_steps(name, config):
    if ".linear_attn." not in name:
        return
    net, part = config["delta_net"], name.split(".linear_attn.")[1]
    keys, width = 2 * net["key_heads"] * net["key_dim"], net["value_dim"]
    if part.startswith("conv1d"):
        yield lambda values: values.flatten(1)
    if part.startswith(("in_proj_qkv", "conv1d")):
        yield by_turns(net, width, start=keys)
    elif part.startswith("in_proj_z"):
        yield by_turns(net, width)
    elif part.startswith("out_proj"):
        yield by_turns(net, width, axis=1)
    elif not part.startswith("norm"):  # one number, or one row, of each head
        yield by_turns(net, 1)
    if part == "A_log":
        yield lambda values: -values.exp()


class Layers:
    """Heads and features of each layer, as GGUF has them: numbers, or a list of one for each layer."""

    def __init__(self, model):
        self.config = config = model.config
        self.features = whole_blocks(self.features_of_mlps(model))
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        if config["compressed"]:
            self.take_by_layer()

    def features_of_mlps(self, model):
        """Returns the features of the layers without a mixture, if there are any."""
        mixed = self.config["mixture"]["layers"] if self.config["mixture"] else [False] * self.config["num_hidden_layers"]
        sizes = [size for size, is_mixed in zip(self.config["intermediate_sizes"], mixed, strict=True) if not is_mixed]
        return sizes[0] if sizes else model.settings["intermediate_size"]

    def take_by_layer(self):
        self.sizes = self.config["intermediate_sizes"]
        # llama.cpp takes the size of heads from the first layer.
        self.attends = [True, *attentions_of(self.config)[1:]]
        self.features = [whole_blocks(size) or EMPTY_FEATURES * attends for size, attends in zip(self.sizes, self.attends, strict=True)]
        self.heads = [self.heads * attends for attends in self.attends]
        self.kv_heads = [self.kv_heads * attends for attends in self.attends]

    def removed(self):
        """Name and shape of what llama.cpp wants in place of sublayers that were removed: zeros."""
        if not self.config["compressed"]:
            return
        d = self.config["hidden_size"]
        if not attentions_of(self.config)[0]:
            yield "blk.0.attn_norm.weight", (d,)
            for part, shape in attention_shapes(self.config).items():
                yield f"blk.0.attn_{'output' if part == 'o' else part}.weight", shape
        for layer, (size, attends) in enumerate(zip(self.sizes, self.attends, strict=True)):
            if size == 0 and attends:
                yield f"blk.{layer}.ffn_norm.weight", (d,)
                for part in ("ffn_gate", "ffn_up"):
                    yield f"blk.{layer}.{part}.weight", (EMPTY_FEATURES, d)
                yield f"blk.{layer}.ffn_down.weight", (d, EMPTY_FEATURES)


class Names:
    """gguf's names of a checkpoint's tensors."""

    def __init__(self, config, gguf):
        number = {name: value for value, name in gguf.MODEL_ARCH_NAMES.items()}[family_of(config).architecture]
        self.names = gguf.get_tensor_name_map(number, config["num_hidden_layers"])

    def __getitem__(self, name):
        found = self.names.get_name(name, try_suffixes=(".weight", ".bias"))
        if found is None:
            raise InputError(f"tensor {name} has no name in GGUF")
        return found


def filled(shape, filling):
    return (filling.shape(shape), (filling.fill,)) if filling else (shape, ())


def tensors_of_one(name, model, names):
    """Yields what one tensor of the checkpoint becomes."""
    config = model.config
    for part, shape, steps in parts_of(name, model.shape(name), config):
        shape, fill = filled(shape, value_filling(part, config) or feature_filling(part, shape, config))
        offset = config["norm_offset"] if part.endswith("norm.weight") and ".linear_attn." not in part else 0.0
        shift = (plus(offset),) if offset else ()
        found = names[part]
        if part.endswith("conv1d.weight"):
            shape = (shape[0], shape[2])
        if found.endswith("ffn_gate_inp_shexp.weight"):
            shape, steps = shape[1:], (lambda values: values[0],)
        steps = (*steps, *shift, *attention_steps(part, config), *delta_net_steps(part, config), *fill)
        yield Tensor(found, [name], shape, steps, keeps_float32=any(part in found for part in ("gate_inp", "ssm_conv1d")))


def tensors_of_experts(layer, part, kind, sources, model, names):
    """Yields the tensors that one of all experts becomes: gate and up each, whose rows stand in turn if they are one matrix."""
    part = PARTS.get(part, part)
    modules, shape = FUSED.get(part, (part,)), (len(sources), *model.shape(sources[0]))
    shape = (shape[0], shape[1] // len(modules), *shape[2:])
    for number, module in enumerate(modules):
        name = f"{layer}.mlp.experts.{module}.{kind}"
        size, fill = filled(shape, feature_filling(name, shape, model.config))
        steps = (every_second(number), *fill) if len(modules) > 1 else fill
        yield Tensor(names[name], sources, size, steps, keeps_float32=kind == "bias")


def tensors_of(model, layers, names):
    """All tensors of the file, in its order."""
    import numpy as np

    config, tensors, experts = model.config, [], {}
    for name in sorted(model.tensors, key=lambda text: [int(part) if part.isdigit() else part for part in text.split(".")]):
        if expert := EXPERT.fullmatch(name):
            experts.setdefault((expert["layer"], expert["part"], expert["kind"]), {})[int(expert["expert"])] = name
        else:
            tensors += tensors_of_one(name, model, names)
    for key, parts in experts.items():
        tensors += tensors_of_experts(*key, [parts[number] for number in range(len(parts))], model, names)
    if family_of(config).head == "own" and config["tie_word_embeddings"]:
        embedding = "model.embed_tokens.weight"
        tensors.append(Tensor("output.weight", [embedding], model.shape(embedding)))
    tensors += [Tensor(name, [], shape, values=np.zeros(shape, np.float32)) for name, shape in layers.removed()]
    if divides(config):
        factors = divisors(rotaries_of(config)[0])
        tensors.insert(0, Tensor("rope_freqs.weight", [], factors.shape, values=factors))
    return tensors


def values_of(tensor, model):
    """The tensor's values in float32."""
    import torch

    if tensor.values is not None:
        return tensor.values
    values = [model.get(name).float() for name in tensor.sources]
    found = torch.stack(values) if len(values) > 1 or len(tensor.shape) > values[0].ndim else values[0]
    for step in tensor.steps:
        found = step(found)
    return found.contiguous().numpy()
