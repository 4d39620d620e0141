"""Reference implementation of folding in a few lines of torch, to test the C++ writer against.

Row-vector convention, float64; d = hidden_size, L layers, 2L+1 junctions. The map of a junction is M [d, k] with orthonormal
columns, its inverse M_inv = Mᵀ.
"""

import itertools
import json
import re
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

CODE = Path(__file__).parents[2] / "worker" / "python"


def tensors_of(directory):
    """Returns the tensors of a model directory, from all its shards."""
    tensors = {}
    for shard in directory.glob("*.safetensors"):
        tensors.update(load_file(shard))
    return tensors


YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}
WHOLE_VALUES = ("qwen3_5_text", "qwen3_5_moe_text")  # families whose value heads keep their channels


def tiny_keys(family, **changes):
    """Returns the config.json of a tiny dense model, in the dialect of transformers 4."""
    keys = {
        "model_type": family,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "vocab_size": 97,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float32",
    }
    if family in ("mistral", "phi3"):
        keys["sliding_window"] = None
    if family == "mixtral":
        keys |= {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
    if family == "qwen3_moe":
        keys |= {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28}
        keys |= {"mlp_only_layers": [1], "norm_topk_prob": True}
    if family == "qwen2_moe":
        keys |= {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28}
        keys |= {"mlp_only_layers": [1], "norm_topk_prob": True, "shared_expert_intermediate_size": 50}
    if family == "glm4_moe":
        keys |= {"n_routed_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28, "n_shared_experts": 2}
        keys |= {"n_group": 2, "topk_group": 1, "routed_scaling_factor": 1.5, "use_qk_norm": True, "attention_bias": True}
    if family == "gpt_oss":
        keys |= {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 7, "rope_theta": 150000.0}
        keys |= {"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}}
        keys["rope_scaling"]["original_max_position_embeddings"] = 4096  # the default, if transformers 4 reads what 5 has saved
    if family == "gemma3_text":
        keys |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20, "sliding_window": 7}
        keys |= {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "rope_local_base_freq": 500.0}
        del keys["hidden_act"]
    if family == "gemma2":
        keys |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20, "sliding_window": 7}
        keys |= {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0}
        del keys["hidden_act"]
    if family == "qwen3_5_moe_text":
        keys |= {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 28, "shared_expert_intermediate_size": 50}
    if family in WHOLE_VALUES:
        keys |= {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "partial_rotary_factor": 0.5}
        keys |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 10}
    if family == "gemma":
        keys["hidden_act"] = "gelu_pytorch_tanh"
    if family in ("exaone4", "olmo3"):
        keys |= {"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    if family == "olmo3":
        keys |= {"rope_theta": 5e5, "rope_scaling": YARN}
    if family == "ministral3":
        keys["rope_parameters"] = {**YARN, "rope_theta": 10000.0, "llama_4_scaling_beta": 0.3}
    if family == "hunyuan_v1_dense":
        keys["rope_scaling"] = {"type": "dynamic", "factor": 1.0, "alpha": 50.0}
    if family not in ("llama", "mistral", "qwen2", "qwen3", "granite", "mixtral", "qwen3_moe"):
        keys["pad_token_id"] = 1  # the family's default is beyond the vocabulary
    return {**keys, **changes}


def longrope(pairs, **more):
    """Returns rope_scaling like phi3's first publications, with factors for this many pairs of channels."""
    short = [1.0 + 0.25 * pair for pair in range(pairs)]
    return {"type": "longrope", "short_factor": short, "long_factor": [3.0 * f for f in short], **more}


# Rotary embeddings other than default and llama3. Their 16 or 12 positions are fewer than the tests' windows have.
ROTARY_SOURCES = {
    "llama-linear": tiny_keys("llama", rope_scaling={"type": "linear", "factor": 2.5}),
    "mistral-dynamic": tiny_keys(
        "mistral",
        max_position_embeddings=16,
        rope_scaling={"rope_type": "dynamic", "factor": 4.0},
    ),
    "qwen2-yarn": tiny_keys(
        "qwen2",
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    ),
    "phi3-longrope": tiny_keys(
        "phi3", original_max_position_embeddings=12, pad_token_id=None, rope_scaling=longrope(6)
    ),
    "phi3-longrope-partial": tiny_keys(
        "phi3",
        original_max_position_embeddings=96,
        partial_rotary_factor=0.5,
        rope_scaling=longrope(3),
    ),
    "qwen3-longrope": tiny_keys(
        "qwen3",
        head_dim=20,
        original_max_position_embeddings=12,
        rope_scaling=longrope(10, factor=256 / 12),
    ),
}


def random_dense(keys, seed=0):
    """Returns a dense model of `keys` whose norm weights and biases are neither all ones nor all zeros."""
    torch.manual_seed(seed)
    # transformers modifies the dictionaries that it is given, so pass a copy.
    config = CONFIG_MAPPING[keys["model_type"]](**json.loads(json.dumps(keys)))
    # The default of transformers 4 leaves the limit of scores out.
    attention = {"attn_implementation": "eager"} if keys["model_type"] == "gemma2" else {}
    model = AutoModelForCausalLM.from_config(config, **attention).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.normal_(std=0.3)
            elif keys["model_type"] == "gpt_oss" and "experts" in name:  # [experts, in, out], so large that some numbers reach the limits
                parameter.normal_(std=3 * parameter.shape[-2] ** -0.5)
            else:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.uniform_(0.0, 0.3)  # transformers 4 puts 0 in place of scores outside a token's groups
    return model


def random_maps(hidden_size, widths, seed=1):
    """Returns one map [d, k] per junction; the identity if k = d and the junction is the last one."""
    generator = torch.Generator().manual_seed(seed)
    maps = []
    for width in widths:
        square = torch.randn(hidden_size, hidden_size, generator=generator, dtype=torch.float64)
        maps.append(torch.linalg.qr(square).Q[:, :width])
    if widths[-1] == hidden_size:
        maps[-1] = torch.eye(hidden_size, dtype=torch.float64)
    return maps


def stored_tensors(model):
    """Returns the tensors that the model's checkpoint holds. transformers 5 fuses experts in memory."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(Path(folder) / "model.safetensors")


def mixture_tensors(dense, at, m_in, m_out):
    """Returns the folded router and experts of a layer by name. A mixture is dense MLPs and one more reader."""
    gamma = dense[at + "post_attention_layernorm.weight"]
    folded = {}
    for name in dense:
        if not name.startswith((at + "block_sparse_moe.", at + "mlp.gate.", at + "mlp.experts.")):
            continue
        writes = name.endswith(("w2.weight", "down_proj.weight"))
        folded[name] = m_out.T @ dense[name] if writes else (dense[name] * gamma) @ m_in
    return folded


def rectangular_identity(rows, columns):
    return torch.eye(rows, columns, dtype=torch.float64)


def aligned(maps):
    """Returns the maps, each rotated as near as possible to the one before (Procrustes). The model stays the same."""
    rotated = [maps[0]]
    for m in maps[1:]:
        shortcut = rotated[-1].T @ m
        left, _, right = torch.linalg.svd(rectangular_identity(*shortcut.shape).T @ shortcut)
        rotated.append(m @ right.T @ left.T)
    return rotated


def exact_ranks(hidden_size, widths):
    """Returns for each shortcut between such maps the largest rank of the difference from the identity."""
    return [min(k_in, k_out, hidden_size - k_out) for k_in, k_out in itertools.pairwise(widths)]


def factors_of(shortcut, rank, count):
    """Returns the stored tensors of a shortcut [k_in, k_out] by name: the identity plus `count` factors."""
    k_in, k_out = shortcut.shape
    beside = shortcut - rectangular_identity(k_in, k_out)
    if rank == 0:
        return {}
    if count == 2:
        left, values, right = torch.linalg.svd(beside, full_matrices=False)
        return {"A": (left[:, :rank] * values[:rank]).T, "B": right[:rank].T}
    common = min(k_in, k_out)
    values, vectors = torch.linalg.eigh(-beside[:common, :common])  # ascending
    root, vectors = values[-rank:].clamp(min=1e-30).sqrt(), vectors[:, -rank:]
    lower = -beside[common:, :] @ vectors / root if k_in > k_out else beside[:0, :rank]
    return {"A": torch.cat([vectors * root, lower]).T}


def shortcut_tensors(at, m_in, m_out, form):
    """Returns the stored shortcut between two maps by name. form: (rank, factors); None: one matrix."""
    shortcut = m_in.T @ m_out
    if form is None:
        return {at + ".weight": shortcut.T}
    return {f"{at}.{name}": tensor for name, tensor in factors_of(shortcut, *form).items()}


def fold(model, maps, forms=None):
    """Returns the tensors of the narrowed model by name, float64. forms: one per shortcut, for aligned maps; None: one matrix
    each."""
    forms = forms or [None] * (len(maps) - 1)
    dense = {name: tensor.double() for name, tensor in stored_tensors(model).items()}
    dense.setdefault("lm_head.weight", dense["model.embed_tokens.weight"])
    folded = {"model.embed_tokens.weight": dense["model.embed_tokens.weight"] @ maps[0]}
    for layer in range(model.config.num_hidden_layers):
        at = f"model.layers.{layer}."
        m_in, m_mid, m_out = maps[2 * layer : 2 * layer + 3]
        reads = {
            "input_layernorm": ("self_attn", ("q_proj", "k_proj", "v_proj", "qkv_proj"), m_in),
            "post_attention_layernorm": ("mlp", ("gate_proj", "up_proj", "gate_up_proj"), m_mid),
        }
        for norm, (block, projections, m) in reads.items():
            gamma = dense[f"{at}{norm}.weight"]
            for projection in projections:
                name = f"{at}{block}.{projection}."
                if name + "weight" not in dense:
                    continue
                folded[name + "weight"] = (dense[name + "weight"] * gamma) @ m
                if name + "bias" in dense:
                    folded[name + "bias"] = dense[name + "bias"]
        for name in (at + "self_attn.q_norm.weight", at + "self_attn.k_norm.weight"):
            if name in dense:
                folded[name] = dense[name]
        folded |= mixture_tensors(dense, at, m_mid, m_out)
        for name, map_ in ((at + "self_attn.o_proj.", m_mid), (at + "mlp.down_proj.", m_out)):
            if name + "weight" not in dense:
                continue
            folded[name + "weight"] = map_.T @ dense[name + "weight"]
            if name + "bias" in dense:
                folded[name + "bias"] = dense[name + "bias"] @ map_
        form, next_form = forms[2 * layer : 2 * layer + 2]
        folded |= shortcut_tensors(at + "attention_shortcut", m_in, m_mid, form)
        folded |= shortcut_tensors(at + "mlp_shortcut", m_mid, m_out, next_form)
    gamma = dense["model.norm.weight"]
    folded["lm_head.weight"] = (dense["lm_head.weight"] * gamma) @ maps[-1]
    return folded


def tie(folded, model, maps):
    """Returns the folded tensors of a tied model and the keys of config.json that say so. The source's table replaces the two
    tensors made from it. A head of full width without a map keeps only the norm's weight."""
    dense = stored_tensors(model)
    table, gamma = dense["model.embed_tokens.weight"], dense["model.norm.weight"].double()
    tied = {name: tensor for name, tensor in folded.items() if name != "lm_head.weight"}
    tied["model.embed_tokens.weight"] = table
    tied["model.embedding_projection.weight"] = maps[0].T
    projects = not torch.equal(maps[-1], torch.eye(len(gamma), dtype=torch.float64))
    if projects:
        tied["model.head_projection.weight"] = gamma[:, None] * maps[-1]
    else:
        tied["model.norm.weight"] = gamma
    keys = {"tie_word_embeddings": True, "embedding_projection": True, "head_projection": projects}
    return tied, keys


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


def output_keys(keys, widths, dtype="float32", rotary="both"):
    """Returns the config.json of the output. rotary: settings in the dialect of transformers "4", "5" or "both"."""
    scaling = keys.get("rope_scaling") or keys.get("rope_parameters") or {"rope_type": "default"}
    keys = {
        **keys,
        "model_type": "dotresize",
        "source_model_type": keys["model_type"],
        "architectures": ["DotResizeForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_dotresize.DotResizeConfig",
            "AutoModel": "modeling_dotresize.DotResizeModel",
            "AutoModelForCausalLM": "modeling_dotresize.DotResizeForCausalLM",
        },
        "junction_widths": list(widths),
        "tie_word_embeddings": False,
        "dtype": dtype,
        "torch_dtype": dtype,
    }
    if rotary in ("5", "both"):
        moved = {k: keys[k] for k in ("rope_theta", "partial_rotary_factor") if k in keys}
        keys["rope_parameters"] = {**scaling, **moved}
    if keys["source_model_type"] == "olmo3":
        sliding = {"rope_type": "default", "rope_theta": keys["rope_theta"]}
        keys["rope_parameters"] = {"full_attention": keys["rope_parameters"], "sliding_attention": sliding}
    if rotary == "5":
        for key in ("rope_scaling", *moved):
            keys.pop(key, None)
    return keys


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


def code_files(keys):
    """Returns the names of the files of code that a config.json names."""
    return sorted({name.partition(".")[0] + ".py" for name in keys["auto_map"].values()})


def write_output(directory, tensors, keys):
    """Writes a model directory like the worker: two shards, index, config.json, custom code."""
    directory.mkdir(parents=True)
    dtype = getattr(torch, keys["dtype"])
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        shard = f"model-{number:05}-of-00002.safetensors"
        save_file({n: tensors[n].to(dtype).contiguous() for n in part}, directory / shard)
        weight_map.update(dict.fromkeys(part, shard))
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    (directory / "config.json").write_text(json.dumps(keys, indent=2))
    for name in code_files(keys):
        shutil.copy(CODE / name, directory)
    return directory


def projected_logits(model, maps, ids):
    """Returns logits of the dense model with x ← x·M·Mᵀ at every junction, in the dense basis."""
    projectors = [(m @ m.T).to(model.dtype) for m in maps]
    layers = model.model.layers
    stream = {}  # residual stream before each attention, by layer

    def project_output(junction):
        return lambda module, args, output: output @ projectors[junction]

    def remember(layer):
        def hook(module, args, kwargs):
            stream[layer] = args[0] if args else kwargs["hidden_states"]

        return hook

    def project_residual(layer):
        # o_proj's output a is added to x, so return a' with x + a' = (x + a)·M·Mᵀ.
        def hook(module, args, output):
            x = stream[layer]
            return (x + output) @ projectors[2 * layer + 1] - x

        return hook

    handles = [model.model.embed_tokens.register_forward_hook(project_output(0))]
    for number, layer in enumerate(layers):
        handles += [
            layer.register_forward_pre_hook(remember(number), with_kwargs=True),
            layer.self_attn.o_proj.register_forward_hook(project_residual(number)),
            layer.register_forward_hook(project_output(2 * number + 2)),
        ]
    try:
        with torch.no_grad():
            return model(ids).logits
    finally:
        for handle in handles:
            handle.remove()
