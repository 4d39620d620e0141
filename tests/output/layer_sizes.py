"""Outputs without maps: models whose layers have fewer features and value channels, or lack a sublayer."""

import re

import torch
from narrowing import output_keys, write_output
from tiny_models import WHOLE_VALUES, random_dense, stored_tensors
from transformers import CONFIG_MAPPING


def layer_of(name):
    """Returns the layer of a tensor name; None if the tensor is in no layer."""
    found = re.search(r"layers\.(\d+)\.", name)
    return int(found[1]) if found else None


def silence_features(model, is_silent):
    """Zeroes the outputs of the MLP and expert features for which is_silent(layer, feature)."""
    with torch.no_grad():
        for name, weight in model.named_parameters():  # transformers 5 fuses experts
            if not name.endswith(("down_proj.weight", "w2.weight", "experts.down_proj")):
                continue
            reads = weight.mT if model.config.model_type == "gpt_oss" else weight  # [..., features]
            of_all = model.config.moe_intermediate_size / reads.shape[-1] if "shared_expert" in name else 1
            for feature in range(reads.shape[-1]):
                if is_silent(layer_of(name), feature * of_all):
                    reads[..., feature] = 0.0


def without_features(tensors, sizes):
    """Returns the tensors with only the first `sizes[layer]` features of each MLP or expert, and as large a part of a shared one."""
    cut = {}
    for name, tensor in tensors.items():
        size = None if layer_of(name) is None else sizes[layer_of(name)]
        if re.search(r"\.shared_experts?\.", name):
            block, module = name.split(".shared_expert")[0], name.split(".")[-2]
            dimension = 1 if module == "down_proj" else 0
            size = -(-size * tensor.shape[dimension] // tensors[f"{block}.experts.0.{module}.weight"].shape[dimension])
        if re.search(r"\.gate_up_proj\.weight$", name):
            tensor = torch.cat([rows[:size] for rows in tensor.chunk(2)])
        elif re.search(r"\.(gate_proj|up_proj|w1|w3)\.(weight|bias)$", name):
            tensor = tensor[:size]
        elif re.search(r"\.experts\.gate_up_proj(_bias)?$", name):  # of a gpt_oss: gate and up in turn
            tensor = tensor[..., : 2 * size]
        elif re.search(r"\.((down_proj|w2)\.weight|experts\.down_proj)$", name):
            tensor = tensor[:, :size]
        cut[name] = tensor
    return cut


def first_channels(tensor, heads, dim):
    """Returns the first `dim` channels of each head along the first dimension."""
    return tensor.unflatten(0, (heads, -1))[:, :dim].flatten(0, 1)


def silence_values(model, dims):
    """Makes nothing read the channels of the value heads from dims[layer] on."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("o_proj.weight"):
                heads = weight.unflatten(1, (model.config.num_attention_heads, -1))
                heads[:, :, dims[layer_of(name)] :] = 0.0


def without_values(tensors, keys, dims):
    """Returns the tensors with only the first dims[layer] channels of each value head."""
    cut = dict(tensors)
    for name, tensor in tensors.items():
        if re.search(r"\.(v_proj|qkv_proj)\.(weight|bias)$", name):
            heads = keys["num_key_value_heads"]
            others = len(tensor) - heads * keys["head_dim"]
            values = first_channels(tensor[others:], heads, dims[layer_of(name)])
            cut[name] = torch.cat([tensor[:others], values])
        elif name.endswith("o_proj.weight"):
            cut[name] = first_channels(tensor.T, keys["num_attention_heads"], dims[layer_of(name)]).T
    return cut


def without_sublayers(tensors, mlps, attentions):
    """Returns the tensors without the MLPs and the attentions of these layers. Their shortcuts stay."""

    def stays(name):
        if re.search(r"\.(mlp|block_sparse_moe)\.", name):
            return layer_of(name) not in mlps
        return not re.search(r"\.self_attn\.", name) or layer_of(name) not in attentions

    return {name: tensor for name, tensor in tensors.items() if stays(name)}


def layer_sizes_keys(keys, sizes, dims, dtype="float32"):
    """Returns the config.json of an output without maps."""
    dotresize = "DotResize" + CONFIG_MAPPING[keys["model_type"]].__name__.removesuffix("Config")
    causal = f"{dotresize.removesuffix('Text')}ForCausalLM"
    classes = {"AutoConfig": f"{dotresize}Config", "AutoModel": f"{dotresize}Model", "AutoModelForCausalLM": causal}
    layers = keys["num_hidden_layers"]
    return output_keys(keys, [keys["hidden_size"]] * (2 * layers + 1), dtype) | {
        "architectures": [causal],
        "auto_map": {auto: f"modeling_layer_sizes.{name}" for auto, name in classes.items()},
        "tie_word_embeddings": keys["tie_word_embeddings"],
        "norm_weights": True,
        "shortcut_ranks": [0] * (2 * layers),
        "shortcut_factors": 1,
        "intermediate_sizes": sizes,
        **({} if keys["model_type"] in WHOLE_VALUES else {"value_head_dims": dims}),
    }


# Names of norms around the attention and the MLP of a layer.
AROUND = (["input", "post_attention"], ["pre_feedforward", "post_feedforward"])
BEHIND = (["post_attention"], ["post_feedforward"])
NORMS = {
    "gemma2": AROUND,
    "gemma3_text": AROUND,
    "olmo2": BEHIND,
    "olmo3": BEHIND,
    "exaone4": BEHIND,
    "glm4": (["input", "post_self_attn"], ["post_attention", "post_mlp"]),
}


def with_layer_sizes(directory, keys, sizes, dims, dtype="float32"):
    """Writes an output without maps of a model in which nothing reads what it lacks. Returns that model."""
    dense = random_dense(keys)
    silence_features(dense, lambda layer, feature: feature >= sizes[layer])
    silence_values(dense, dims)
    tensors = without_values(without_features(stored_tensors(dense), sizes), keys, dims)
    mlps, attentions = ([layer for layer, size in enumerate(of_layers) if size == 0] for of_layers in (sizes, dims))
    tensors = without_sublayers(tensors, mlps, attentions)
    of_attention, of_mlp = NORMS.get(keys["model_type"], (["input"], ["post_attention"]))
    norms = [f"layers.{layer}.{norm}_layernorm.weight" for layer in mlps for norm in of_mlp]
    norms += [f"layers.{layer}.{norm}_layernorm.weight" for layer in attentions for norm in of_attention]
    tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith(tuple(norms))}
    write_output(directory, tensors, layer_sizes_keys(keys, sizes, dims, dtype))
    return dense
