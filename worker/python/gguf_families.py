"""Families that llama.cpp computes: what their architectures in GGUF state, what they assume, and what is refused therefore."""

import math
from dataclasses import dataclass

from exporting import InputError


@dataclass(frozen=True)
class Family:
    """An architecture of GGUF. A fact of a model that it neither states nor assumes is refused by name."""

    architecture: str
    turned: bool = False  # the rotary embedding turns neighbouring channels: rows of queries and keys are put in that order
    windows: bool = False  # windows by layer, with a rotary embedding of their own
    caps: bool = False  # limits of scores and logits
    factors: bool = False  # of embedding, scores, residual stream and logits
    root: bool = False  # the embedding's output times sqrt(hidden_size)
    partial: bool = False  # a part of each head is rotated
    rotary_step: int = 0  # each layer of this number has no rotary embedding
    own_head: bool = False  # the head has a matrix of its own
    whole_heads: bool = False  # heads are hidden_size / heads wide


FAMILIES = {
    "llama": Family("llama", turned=True),
    "mistral": Family("llama", turned=True),
    "mixtral": Family("llama", turned=True),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "qwen3_moe": Family("qwen3moe"),
    "phi3": Family("phi3"),
    "smollm3": Family("smollm3", turned=True, rotary_step=4),
    "granite": Family("granite", turned=True, factors=True),
    "seed_oss": Family("seed_oss"),
    "gemma": Family("gemma", root=True),
    "gemma2": Family("gemma2", windows=True, caps=True, root=True),
    "gemma3_text": Family("gemma3", windows=True, caps=True, root=True),
    "olmo2": Family("olmo2", own_head=True, whole_heads=True),
    "olmo3": Family("olmo2", windows=True, own_head=True, whole_heads=True),
    "glm4": Family("glm4", partial=True),
    "exaone4": Family("exaone4", whole_heads=True),
    "hunyuan_v1_dense": Family("hunyuan-dense"),
    "custom": Family("deci", turned=True),  # a custom output
}
EXPORTED = sorted(FAMILIES.keys() - {"custom"})

# llama.cpp takes the heads of these for hidden_size / heads wide. With other heads they are written as a llama, which computes the
# same: one whose queries, keys and values have biases, or whose fused matrices are divided.
LLAMAS_OF_OTHER_NAMES = ("qwen2", "phi3")


ROTARIES = ("default", "linear", "llama3")


def name_of(config):
    """The key of FAMILIES by which llama.cpp computes the model."""
    if config["compressed"]:
        return "custom"
    heads_fit = config["head_dim"] * config["num_attention_heads"] == config["hidden_size"]
    return "llama" if config["family"] in LLAMAS_OF_OTHER_NAMES and not heads_fit else config["family"]


def rotaries_of(config):
    """The rotary embeddings of the layers with full attention and of those with a window; the same where one kind is missing."""
    of_kind = {False: None, True: None}
    for rotary, window in zip(config["rotaries"], config["sliding_windows"], strict=True):
        of_kind[window is not None] = of_kind[window is not None] or rotary
    return of_kind[False] or of_kind[True], of_kind[True] or of_kind[False]


def differs(value, expected):
    return not math.isclose(value, expected, rel_tol=1e-6)


def lacking(config):
    """Texts about what the architecture has no form for."""
    family = FAMILIES[name_of(config)]
    full, windowed = rotaries_of(config)
    for rotary, types in ((full, ROTARIES), (windowed, ROTARIES if windowed == full else ROTARIES[:1])):
        if rotary["type"] not in types:
            yield f"a rotary embedding of type {rotary['type']}"
        if rotary["partial_factor"] != 1.0 and not family.partial:
            yield "a partial rotary embedding"
    kinds = {window for window in config["sliding_windows"] if window is not None}
    if len(set(config["sliding_windows"])) > 1 and (not family.windows or len(kinds) > 1):
        yield "a sliding window on some of the layers"
    if full != windowed and not family.windows:
        yield "rotary embeddings that differ by layer"
    rotated = [rotary is not None for rotary in config["rotaries"]]
    step = family.rotary_step
    if rotated != [not step or (layer + 1) % step != 0 for layer in range(len(rotated))]:
        yield f"layers without rotary embedding other than each {step}th" if step else "layers without rotary embedding"
    if (config["score_cap"] or config["logit_cap"]) and not family.caps:
        yield "a limit of scores or logits"
    if family.factors:
        return
    root = math.sqrt(config["hidden_size"]) if family.root else 1.0
    if differs(config["embedding_scale"], root):
        yield f"a factor of the embedding other than {root:.6g}"
    if differs(config["attention_scale"], config["head_dim"] ** -0.5):
        yield "scores with a factor other than 1 / sqrt(head_dim)"
    if config["residual_scale"] != 1.0 or config["logit_scale"] != 1.0:
        yield "factors of the residual stream or of the logits"
    if family.own_head and config["tie_word_embeddings"]:
        yield "a head without a matrix of its own"
    if family.whole_heads and config["head_dim"] * config["num_attention_heads"] != config["hidden_size"]:
        yield "heads of another width than hidden_size / heads"


def refuse_what_gguf_lacks(model):
    config, mixture = model.config, model.config["mixture"]
    if config["family"] not in FAMILIES:
        raise InputError(f"{model.directory}: the family {config['family']} has no exporter; there is one of {', '.join(EXPORTED)}")
    if mixture and not mixture["normed_weights"]:
        raise InputError(f"{model.directory}: norm_topk_prob is false, and llama.cpp norms the weights of experts")
    if mixture and not all(mixture["layers"]):
        raise InputError(f"{model.directory}: a mixture with layers of one MLP has no form in GGUF")
    for what in lacking(config):
        raise InputError(f"{model.directory}: {what} is not exported" if what.startswith("a") else f"{model.directory}: {what} are not exported")


def add_windows(writer, config):
    """Windows by layer, and the base of their rotary embedding."""
    windows = config["sliding_windows"]
    if not any(windows):
        return
    writer.add_sliding_window(next(filter(None, windows)))
    writer.add_sliding_window_pattern([window is not None for window in windows])
    writer.add_rope_freq_base_swa(rotaries_of(config)[1]["theta"])


def add_rotary(writer, config, gguf):
    rotary = rotaries_of(config)[0]
    writer.add_rope_dimension_count(int(config["head_dim"] * rotary["partial_factor"]))
    writer.add_rope_freq_base(rotary["theta"])
    if rotary["type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary["factor"])


def add_facts(writer, config, gguf):
    """Settings of the architecture beyond sizes."""
    family = FAMILIES[name_of(config)]
    add_rotary(writer, config, gguf)
    if family.windows:
        add_windows(writer, config)
    if family.caps and config["score_cap"]:
        writer.add_attn_logit_softcapping(config["score_cap"])
    if family.caps and config["logit_cap"]:
        writer.add_final_logit_softcapping(config["logit_cap"])
    if family.factors:
        writer.add_embedding_scale(config["embedding_scale"])
        writer.add_attention_scale(config["attention_scale"])
        writer.add_residual_scale(config["residual_scale"])
        writer.add_logit_scale(1.0 / config["logit_scale"])
