"""Reference implementation of folding in a few lines of torch, to test the C++ writer against.

Row-vector convention, float64; d = hidden_size, L layers, 2L+1 junctions. The map of a junction is M [d, k] with orthonormal
columns, its inverse M_inv = Mᵀ.
"""

import itertools
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_models import stored_tensors

CODE = Path(__file__).parents[2] / "worker" / "python"


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
