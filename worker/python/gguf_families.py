"""Families that llama.cpp computes: what their architectures in GGUF state, what they assume, and what is refused therefore."""

import math
import sys
from dataclasses import dataclass

from exporting import InputError

# Rotary embeddings of layers with a window, where the others have the given one.
OWN_BASE = "default, of a base of its own"
THE_SAME = "the same"
UNSCALED = "default, of the same base"

# Types of rotary embeddings. llama.cpp computes a yarn by itself, or divides each frequency by a number of the file.
COMPUTED = ("default", "linear", "yarn")
DIVIDED = (*COMPUTED, "llama3")


@dataclass(frozen=True)
class Family:
    """An architecture of GGUF. A fact of a model that it neither states nor assumes is refused by name."""

    architecture: str
    turned: bool = False  # the rotary embedding turns neighbouring channels: rows of queries and keys are put in that order
    rotaries: tuple = COMPUTED  # types of rotary embeddings
    partial: bool = False  # a part of each head is rotated
    rotary_step: int = 0  # each layer of this number has no rotary embedding
    windows: str = ""  # rotary embedding of layers with a window; empty: there are no windows by layer
    assumed_window: bool = False  # some layer must have a window
    windowed_depth: int = 0  # number of layers that alone has windows; layers without one then have no rotary embedding
    biases: bool = False  # of the output projection and of the MLP
    root: bool = False  # the embedding's output times sqrt(hidden_size)
    factors: bool = False  # of embedding, scores, residual stream and logits
    caps: bool = False  # limits of scores and logits; without one a limit of its own is assumed
    queries_beside: int = 0  # number of layers whose scores have the factor 1 / sqrt(hidden_size / heads)
    head: str = "any"  # "own": llama.cpp reads a matrix of the head; "tied": it reads none
    whole_heads: bool = False  # heads are hidden_size / heads wide
    normed_weights: bool | None = True  # of a token's experts; None: the file states it
    dense_first: bool = False  # the first layers may have one MLP
    expert_size: bool = False  # the file states the features of experts
    limited: tuple = ()  # limit and sharpness of the experts' features


LLAMA = {"turned": True, "rotaries": DIVIDED, "biases": True}
FAMILIES = {
    "llama": Family("llama", **LLAMA),
    "mistral": Family("llama", **LLAMA),
    "mixtral": Family("llama", **LLAMA),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "qwen3_moe": Family("qwen3moe", expert_size=True),
    "phi3": Family("phi3"),
    "gemma": Family("gemma", root=True, head="tied"),
    "gemma2": Family("gemma2", windows=THE_SAME, assumed_window=True, root=True, caps=True, queries_beside=46, head="tied"),
    "gemma3_text": Family("gemma3", rotaries=("default", "linear"), windows=OWN_BASE, root=True, queries_beside=62),
    "smollm3": Family("smollm3", turned=True, rotary_step=4),
    "olmo2": Family("olmo2", head="own", whole_heads=True),
    "olmo3": Family("olmo2", windows=UNSCALED, head="own", whole_heads=True),
    "granite": Family("granite", **LLAMA, factors=True),
    "glm4": Family("glm4", turned=True, partial=True),
    "seed_oss": Family("seed_oss"),
    "exaone4": Family("exaone4", rotaries=DIVIDED, windows=THE_SAME, windowed_depth=64, whole_heads=True),
    "hunyuan_v1_dense": Family("hunyuan-dense"),
    "ministral3": Family("mistral3", **LLAMA),
    "qwen2_moe": Family("qwen2moe", head="own", whole_heads=True, normed_weights=False, expert_size=True),
    "glm4_moe": Family("glm4moe", partial=True, normed_weights=None, dense_first=True, expert_size=True),
    "gpt_oss": Family("gpt-oss", windows=THE_SAME, assumed_window=True, biases=True, head="own", expert_size=True, limited=(7.0, 1.702)),
    "qwen3_5_text": Family("qwen35", partial=True),
    "custom": Family("deci", **LLAMA),  # a custom output
}
EXPORTED = sorted(FAMILIES.keys() - {"custom"})

# llama.cpp takes the heads of these for hidden_size / heads wide, and divides no frequencies of theirs. With others they are written
# as a llama, which computes the same: one whose queries, keys and values have biases, or whose fused matrices are divided.
LLAMAS_OF_OTHER_NAMES = ("qwen2", "phi3")

BETAS = (32, 1)  # of a yarn that llama.cpp computes by itself
NO_CAP = 2.0**30  # a limit that changes nothing
DELTA_NET_EPS = 1e-6  # of the norms of queries and keys in transformers; llama.cpp takes that of the model


def name_of(config):
    """The key of FAMILIES by which llama.cpp computes the model."""
    family = "custom" if config["compressed"] else config["family"]
    if family not in LLAMAS_OF_OTHER_NAMES:
        return family
    heads_fit = config["head_dim"] * config["num_attention_heads"] == config["hidden_size"]
    return family if heads_fit and rotaries_of(config)[0]["type"] != "llama3" else "llama"


def family_of(config):
    return FAMILIES[name_of(config)]


def plain(rotary):
    """The rotary embedding with a base that is stretched for windows of any length as one of this base."""
    if rotary["type"] != "dynamic" or not rotary["alpha"]:
        return rotary
    power = rotary["channels"] / (rotary["channels"] - 2)
    return rotary | {"type": "default", "theta": rotary["theta"] * rotary["alpha"] ** power, "alpha": 0.0}


def rotaries_of(config):
    """The rotary embeddings of the layers without a window and of those with one; the same where one kind has none."""
    full, windowed = None, None
    for rotary, window in zip(config["rotaries"], config["sliding_windows"], strict=True):
        if rotary and window is None:
            full = full or plain(rotary)
        elif rotary:
            windowed = windowed or plain(rotary)
    return full or windowed, windowed or full


def divides(config):
    """Returns true if the file has a divisor of each frequency."""
    family = family_of(config)
    return "llama3" in family.rotaries and rotaries_of(config)[0]["type"] in ("llama3", "yarn")


def differs(value, expected):
    return not math.isclose(value, expected, rel_tol=1e-6)


def query_factor(config):
    """Factor of the queries in the file, which makes the scores those of the model."""
    family, assumed = family_of(config), config["head_dim"] ** -0.5
    if family.factors:
        return 1.0
    if config["num_hidden_layers"] == family.queries_beside:
        assumed = (config["hidden_size"] // config["num_attention_heads"]) ** -0.5
    return config["attention_scale"] / assumed


def lacking_rotaries(config, family):
    """Yields what the architecture cannot express of the rotary embeddings."""
    full, windowed = rotaries_of(config)
    if full["type"] not in family.rotaries:
        yield f"a rotary embedding of type {full['type']}"
    if full["partial_factor"] != 1.0 and not family.partial:
        yield "a partial rotary embedding"
    if full["query_beta"] and family.architecture != "mistral3":
        yield "a factor of queries that grows with the position"
    if full["type"] == "yarn" and not divides(config) and (full["beta_fast"], full["beta_slow"]) != BETAS:
        yield "a rotary embedding with beta_fast and beta_slow other than {} and {}".format(*BETAS)
    expected = {UNSCALED: {"type": "default", "theta": full["theta"]}, OWN_BASE: {"type": "default"}}.get(family.windows, full)
    if any(config["sliding_windows"]) and any(windowed[key] != value for key, value in expected.items()):
        yield f"a rotary embedding of the layers with a window other than the one that llama.cpp gives them ({family.windows or THE_SAME})"
    rotated = [rotary is not None for rotary in config["rotaries"]]
    nets = config["delta_net"]["layers"] if config["delta_net"] else [False] * len(rotated)
    if family.windowed_depth and any(config["sliding_windows"]):
        wanted = [window is not None for window in config["sliding_windows"]]
    else:
        step = family.rotary_step or len(rotated) + 1
        wanted = [(layer + 1) % step != 0 for layer in range(len(rotated))]
    if any(has != wants and not net for has, wants, net in zip(rotated, wanted, nets, strict=True)):
        yield "a layer without rotary embedding" + (", or with one, where llama.cpp has it otherwise," if not all(wanted) else "")


def lacking_windows(config, family):
    windows = config["sliding_windows"]
    if not any(windows) or (not family.windows and len(set(windows)) == 1):
        return
    if not family.windows or len(set(windows) - {None}) > 1:
        yield "a sliding window on some of the layers"
    elif family.windowed_depth not in (0, len(windows)):
        yield f"a sliding window in a model of other than {family.windowed_depth} layers"


def lacking_experts(config, family):
    mixture, net, limited = config["mixture"], config["delta_net"], config["limited"]
    if mixture:
        if family.normed_weights not in (None, mixture["normed_weights"]):
            yield f"norm_topk_prob {str(mixture['normed_weights']).lower()}, of which llama.cpp assumes the opposite,"
        first = mixture["layers"].index(True)
        if not all(mixture["layers"][first:]) or (first and not family.dense_first):
            yield "a mixture with layers of one MLP"
    if limited and (limited["limit"], limited["sharpness"]) != family.limited:
        yield "swiglu_limit or swiglu_alpha other than {} and {}".format(*family.limited)
    if net and net["key_dim"] != net["value_dim"]:
        yield "a DeltaNet whose keys and values differ in width"
    if net and differs(config["rms_norm_eps"], DELTA_NET_EPS):
        yield f"a DeltaNet with rms_norm_eps other than {DELTA_NET_EPS}"


def lacking_factors(config, family):
    if family.factors:
        return
    root = math.sqrt(config["hidden_size"]) if family.root else 1.0
    if differs(config["embedding_scale"], root):
        yield f"a factor of the embedding other than {root:.6g}"
    if config["residual_scale"] != 1.0 or config["logit_scale"] != 1.0:
        yield "a factor of the residual stream or of the logits"
    if (config["score_cap"] or config["logit_cap"]) and not family.caps:
        yield "a limit of scores or logits"


def lacking_matrices(config, family, tensors):
    if family.head == "tied" and not config["tie_word_embeddings"]:
        yield "a head with a matrix of its own"
    if family.whole_heads and config["head_dim"] * config["num_attention_heads"] != config["hidden_size"]:
        yield "a width of heads other than hidden_size / num_attention_heads"
    others = [name for name in tensors if name.endswith(("o_proj.bias", "gate_proj.bias", "up_proj.bias", "down_proj.bias"))]
    if others and not family.biases:
        yield f"a bias of {others[0].split('.')[-2]}"
    if family.limited and not any(name.endswith("o_proj.bias") for name in tensors):
        yield "an attention without biases"


def refuse_what_gguf_lacks(model):
    config = model.config
    if config["family"] not in FAMILIES:
        raise InputError(f"{model.directory}: the family {config['family']} has no exporter; there is one of {', '.join(EXPORTED)}")
    family = family_of(config)
    checks = (lacking_rotaries, lacking_windows, lacking_experts, lacking_factors)
    for what in (what for check in checks for what in check(config, family)):
        raise InputError(f"{model.directory}: {what} is not exported")
    for what in lacking_matrices(config, family, model.tensors):
        raise InputError(f"{model.directory}: {what} is not exported")


def add_windows(writer, config, family):
    """Windows by layer, and the base of their rotary embedding."""
    windows = config["sliding_windows"]
    if family.assumed_window and not any(windows):  # one of the whole context changes nothing
        windows = [config["max_position_embeddings"]] * len(windows)
    if not family.windows or not any(windows):
        return
    writer.add_sliding_window(next(filter(None, windows)))
    writer.add_sliding_window_pattern([window is not None for window in windows])
    writer.add_rope_freq_base_swa(rotaries_of(config)[1]["theta"])


def add_yarn(writer, rotary, gguf):
    """A yarn that llama.cpp computes by itself: with the usual factor of cosine and sine, and whole limits."""
    if not rotary["truncate"]:
        print("export_gguf: note: llama.cpp rounds the limits of the yarn, which this model does not (truncate: false)", file=sys.stderr)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rotary["factor"])
    usual = 1.0 + 0.1 * math.log(max(1.0, rotary["factor"]))
    writer.add_rope_scaling_attn_factors(rotary["attention_factor"] / usual)


def add_rotary(writer, config, gguf):
    rotary = rotaries_of(config)[0]
    writer.add_rope_dimension_count(rotary["channels"])
    writer.add_rope_freq_base(rotary["theta"])
    if rotary["type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary["factor"])
    if rotary["type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rotary["original_max_position_embeddings"])
        if divides(config):
            writer.add_rope_scaling_attn_factors(rotary["attention_factor"])
        else:
            add_yarn(writer, rotary, gguf)
    if rotary["query_beta"]:
        writer.add_attn_temperature_scale(rotary["query_beta"])


def add_factors(writer, config, family):
    if family.caps:
        writer.add_attn_logit_softcapping(config["score_cap"] or NO_CAP)
        writer.add_final_logit_softcapping(config["logit_cap"] or NO_CAP)
    if family.factors:
        writer.add_embedding_scale(config["embedding_scale"])
        writer.add_attention_scale(config["attention_scale"])
        writer.add_residual_scale(config["residual_scale"])
        writer.add_logit_scale(1.0 / config["logit_scale"])


def add_experts(writer, config, family, sizes):
    """sizes: features of an expert and of the shared expert, filled up."""
    mixture = config["mixture"]
    writer.add_expert_count(mixture["experts"])
    writer.add_expert_used_count(mixture["experts_per_token"])
    if family.expert_size:
        writer.add_expert_feed_forward_length(sizes[0])
    if family.dense_first:
        writer.add_leading_dense_block_count(mixture["layers"].index(True))
        writer.add_expert_shared_count(sizes[1] // sizes[0])
        writer.add_expert_weights_norm(mixture["normed_weights"])
        writer.add_expert_weights_scale(mixture["weight_scale"])
        writer.add_expert_group_count(mixture["groups"])
        writer.add_expert_group_used_count(mixture["groups_per_token"])
    elif sizes[1]:
        writer.add_expert_shared_feed_forward_length(sizes[1])


def add_delta_net(writer, config, architecture):
    net, pairs = config["delta_net"], rotaries_of(config)[0]["channels"] // 2
    writer.add_ssm_conv_kernel(net["taps"])
    writer.add_ssm_state_size(net["key_dim"])
    writer.add_ssm_group_count(net["key_heads"])
    writer.add_ssm_time_step_rank(net["value_heads"])
    writer.add_ssm_inner_size(net["value_heads"] * net["value_dim"])
    writer.add_array(f"{architecture}.attention.recurrent_layers", net["layers"])
    # Pairs of channels that turn by time, height and width, which are one position in a text.
    writer.add_rope_dimension_sections([(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3, 0])


def add_facts(writer, config, gguf):
    """Settings of the architecture beyond sizes."""
    family = family_of(config)
    add_rotary(writer, config, gguf)
    add_windows(writer, config, family)
    add_factors(writer, config, family)
    if config["delta_net"]:
        add_delta_net(writer, config, family.architecture)
