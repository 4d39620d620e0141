"""Configuration of a model whose residual stream was narrowed by dotresize.

config.json holds the keys of the source model, flat, and some of its own: `model_type: dotresize`,
`source_model_type`, `junction_widths`, and if need be `junction_groups`, `shortcut_ranks`,
`embedding_projection` and `head_projection`. Works with transformers 4.56 and later, and 5.
"""

from typing import Callable, NamedTuple, Optional

import transformers
from transformers import CONFIG_MAPPING, PretrainedConfig

_SCALING_KEYS = ("rope_parameters", "rope_scaling")
_ORIGINAL_POSITIONS = "original_max_position_embeddings"

TRANSFORMERS_VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
if TRANSFORMERS_VERSION < (4, 56):
    raise ImportError(
        f"a dotresize model needs transformers 4.56 or later, this is {transformers.__version__}"
    )


class Mixture(NamedTuple):
    """A family's mixture of experts: how its configuration and its checkpoints name the parts."""

    block: str  # its name in a decoder layer
    experts: str  # key of the configuration: how many
    intermediate_size: str  # key of the configuration: of one expert
    gate: str
    up: str
    down: str
    in_layer: Callable  # (config, layer): whether the layer has one, or else a dense MLP
    norms_weights: Callable  # (config): whether the weights of a token's experts are divided by their sum


class Family(NamedTuple):
    """A source family, by its model_type: what its configuration does not say."""

    class_prefix: str  # begins the names of its attention, MLP and rotary embedding in transformers
    slides: Callable  # (config): whether config.sliding_window limits the attention of every layer
    mixture: Optional[Mixture] = None


def _never(config):
    return False


def _if_set(config):
    return config.sliding_window is not None


def _by_layer_type(config):
    return config.layer_types[0] == "sliding_attention"  # all layers are of one type


def _in_every_layer(config, layer):
    return True


def _by_sparse_step(config, layer):
    dense = config.mlp_only_layers or ()
    return layer not in dense and (layer + 1) % config.decoder_sparse_step == 0


FAMILIES = {
    "llama": Family("Llama", slides=_never),
    "mistral": Family("Mistral", slides=_if_set),
    "ministral3": Family("Ministral3", slides=_if_set),
    "hunyuan_v1_dense": Family("HunYuanDenseV1", slides=_never),
    "phi3": Family("Phi3", slides=_if_set),
    "qwen2": Family("Qwen2", slides=_by_layer_type),
    "qwen3": Family("Qwen3", slides=_by_layer_type),
    "granite": Family("Granite", slides=_never),
    "seed_oss": Family("SeedOss", slides=_never),
    "smollm3": Family("SmolLM3", slides=_by_layer_type),
    "mixtral": Family(
        "Mixtral",
        slides=_if_set,
        mixture=Mixture(
            block="block_sparse_moe",
            experts="num_local_experts",
            intermediate_size="intermediate_size",
            gate="w1",
            up="w3",
            down="w2",
            in_layer=_in_every_layer,
            norms_weights=lambda config: True,
        ),
    ),
    "qwen3_moe": Family(
        "Qwen3Moe",
        slides=_if_set,
        mixture=Mixture(
            block="mlp",
            experts="num_experts",
            intermediate_size="moe_intermediate_size",
            gate="gate_proj",
            up="up_proj",
            down="down_proj",
            in_layer=_by_sparse_step,
            norms_weights=lambda config: config.norm_topk_prob,
        ),
    ),
}


class DotResizeConfig(PretrainedConfig):
    """The source family's configuration, and the width of the residual stream at every junction.

    source_model_type: the family whose attention, MLP and rotary embedding the model reuses.
    junction_widths: 2 * num_hidden_layers + 1 widths k, each 1 <= k <= hidden_size. Number 0 is the
        embedding's output, 2l+1 the stream after the attention of layer l, 2l+2 after its MLP.
        None: hidden_size everywhere.
    junction_groups: the group of each junction, ascending. Junctions of one group share a map, and
        so there is no shortcut between them. None: every junction is on its own.
    shortcut_ranks: the rank of what each sublayer's skip path has beside the identity, 2 *
        num_hidden_layers numbers; None among them: the path is one matrix. None: all are, but
        within groups.
    shortcut_factors: how many matrices such a path of low rank is stored as, 1 or 2.
    embedding_projection, head_projection: of tied embeddings, whose one table is hidden_size wide:
        a matrix lies between it and the first junction, and between the last one and it. Without the
        latter the last norm has a weight.
    hidden_size: the width d of the source, by which the norms go on dividing.

    Keys that are absent take the source family's defaults.
    """

    model_type = "dotresize"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(
        self,
        source_model_type="llama",
        junction_widths=None,
        junction_groups=None,
        shortcut_ranks=None,
        shortcut_factors=1,
        embedding_projection=False,
        head_projection=False,
        **kwargs,
    ):
        if source_model_type not in FAMILIES:
            raise ValueError(
                f"source_model_type is {source_model_type!r}, must be one of {tuple(FAMILIES)}"
            )
        kwargs = _rotary_in_installed_form(kwargs)
        kwargs = {**_family_defaults(source_model_type, kwargs), **kwargs}
        if not kwargs.get("use_sliding_window", True):
            kwargs["sliding_window"] = None  # as the families do that have the key
        self.source_model_type = source_model_type
        self.junction_widths = junction_widths
        if junction_widths is None:
            self.junction_widths = [kwargs["hidden_size"]] * (2 * kwargs["num_hidden_layers"] + 1)
        _check_widths(self.junction_widths, kwargs["num_hidden_layers"], kwargs["hidden_size"])
        self.junction_groups = junction_groups
        if junction_groups is not None:
            _check_groups(junction_groups, self.junction_widths)
        self.shortcut_ranks = shortcut_ranks
        self.shortcut_factors = shortcut_factors
        if shortcut_ranks is not None:
            _check_shortcuts(shortcut_ranks, shortcut_factors, self.junction_widths)
        self.embedding_projection = embedding_projection
        self.head_projection = head_projection
        super().__init__(**kwargs)
        _check_ends(self)
        self.use_cache = kwargs["use_cache"]  # transformers 5 takes it for a generation setting
        # Behind super(), which in some versions would split a tied embedding too. Engines assign plans of their own.
        self.base_model_tp_plan = self._tensor_parallel_plan()

    @property
    def embedding_size(self):
        """The width of the input embedding. vLLM reads it for its own embedding, as hidden_size is another width."""
        return self.hidden_size if self.tie_word_embeddings else self.junction_widths[0]

    @property
    def has_final_norm(self):
        """True if the last norm has a weight, which is then not in the matrix behind it."""
        return self.tie_word_embeddings and not self.head_projection

    def _tensor_parallel_plan(self):
        """The source family's plan, whose module names these are; shortcuts and experts are on every rank."""
        plan = CONFIG_MAPPING[self.source_model_type].base_model_tp_plan or {}
        return {name: style for name, style in plan.items() if "experts" not in name}

    def is_mixture(self, layer):
        """True if the layer has a mixture of experts, False if it has a dense MLP."""
        mixture = FAMILIES[self.source_model_type].mixture
        return mixture is not None and mixture.in_layer(self, layer)

    def to_diff_dict(self):
        """The values to save, always with the padding token: None need not be the family's default."""
        return {"pad_token_id": self.pad_token_id, **super().to_diff_dict()}

    def shortcut_rank(self, sublayer):
        """Rank of what the sublayer's skip path has beside the identity. None: the path is one matrix."""
        groups = self.junction_groups
        if groups is not None and groups[sublayer] == groups[sublayer + 1]:
            return 0
        return None if self.shortcut_ranks is None else self.shortcut_ranks[sublayer]


def _family_defaults(model_type, keys):
    """Every key of the family's own configuration that `keys` leaves open, with its value.

    The rotary settings are kept from it: phi3's checks them against hidden_size / heads, not head_dim.
    """
    others = ("model_type", *_SCALING_KEYS)
    source = CONFIG_MAPPING[model_type](**{k: v for k, v in keys.items() if k not in others})
    ours = {"model_type", "transformers_version", *keys}
    return {key: value for key, value in source.to_dict().items() if key not in ours}


def _rotary_in_installed_form(keys):
    """The rotary settings as the installed transformers states them.

    transformers 5 has `rope_parameters`, 4 has `rope_theta`, `rope_scaling` and
    `partial_rotary_factor`; `keys` may hold either form or both. Settings that are absent stay absent.
    The context of longrope's short factors is stated among them, for 5, and beside them, for 4.
    """
    keys = dict(keys)
    rotary = dict(keys.pop("rope_scaling", None) or {})
    for key in ("rope_theta", "partial_rotary_factor"):
        if key in keys:
            rotary[key] = keys.pop(key)
    rotary.update(keys.pop("rope_parameters", None) or {})
    if not rotary:
        return keys
    rotary.setdefault("rope_type", rotary.pop("type", "default"))
    if rotary["rope_type"] == "longrope":
        positions = keys.get(_ORIGINAL_POSITIONS) or rotary.get(_ORIGINAL_POSITIONS)
        if positions is not None:
            keys[_ORIGINAL_POSITIONS] = rotary[_ORIGINAL_POSITIONS] = positions
    if TRANSFORMERS_VERSION >= (5, 0):
        return {**keys, "rope_parameters": rotary}
    for key in ("rope_theta", "partial_rotary_factor"):
        if key in rotary:
            keys[key] = rotary.pop(key)
    return {**keys, "rope_scaling": None if rotary["rope_type"] == "default" else rotary}


def _check_widths(widths, layers, hidden_size):
    if len(widths) != 2 * layers + 1:
        raise ValueError(
            f"junction_widths has {len(widths)} entries, must have 2 * num_hidden_layers + 1 = "
            f"{2 * layers + 1}"
        )
    for junction, width in enumerate(widths):
        if not isinstance(width, int) or not 1 <= width <= hidden_size:
            raise ValueError(
                f"junction_widths[{junction}] is {width!r}, must be an integer from 1 to "
                f"hidden_size = {hidden_size}"
            )


def _check_shortcuts(ranks, factors, widths):
    if len(ranks) != len(widths) - 1:
        raise ValueError(
            f"shortcut_ranks has {len(ranks)} entries, must have 2 * num_hidden_layers = "
            f"{len(widths) - 1}"
        )
    if factors not in (1, 2):
        raise ValueError(f"shortcut_factors is {factors!r}, must be 1 or 2")
    for sublayer, rank in enumerate(ranks):
        most = min(widths[sublayer : sublayer + 2])
        if rank is not None and not (isinstance(rank, int) and 0 <= rank <= most):
            raise ValueError(
                f"shortcut_ranks[{sublayer}] is {rank!r}, must be None or an integer from 0 to the "
                f"narrower width, {most}"
            )


def _check_ends(config):
    ends = ("embedding_projection", 0), ("head_projection", -1)
    for key, junction in ends:
        given, width = getattr(config, key), config.junction_widths[junction]
        if given and not config.tie_word_embeddings:
            raise ValueError(f"{key} is true, but tie_word_embeddings is not: there is no common table")
        if config.tie_word_embeddings and not given and width != config.hidden_size:
            raise ValueError(
                f"{key} is false, but the junction is {width} wide, and the common table hidden_size, "
                f"{config.hidden_size}"
            )


def _check_groups(groups, widths):
    if len(groups) != len(widths):
        raise ValueError(
            f"junction_groups has {len(groups)} entries, must have as many as junction_widths, "
            f"{len(widths)}"
        )
    for junction in range(1, len(groups)):
        if groups[junction] < groups[junction - 1]:
            raise ValueError(f"junction_groups[{junction}] is {groups[junction]}, must not descend")
        same_group = groups[junction] == groups[junction - 1]
        if same_group and widths[junction] != widths[junction - 1]:
            raise ValueError(
                f"junction_groups[{junction}] puts the widths {widths[junction - 1]} and "
                f"{widths[junction]} into one group"
            )
