"""A causal language model of one of transformers' families whose layers have sizes of their own, made by dotresize.

config.json has the keys of the family, `model_type: dotresize`, and lists with a number for each layer:
`intermediate_sizes`, the features of its MLP or of each of its experts, `expert_counts`, the experts of its mixture, and
`value_head_dims`, the channels of each of its value heads, up to head_dim. 0: the layer has no MLP, no mixture, or no
attention. Without a list all layers have the family's size.

The code is that of the installed transformers, 4.57 or 5: DotResizeLlamaForCausalLM is its LlamaForCausalLM, whose layers get
their sizes before their weights. So it is with any family.
"""

import functools

import torch
import transformers
from torch import nn

try:
    from transformers import conversion_mapping
except ImportError:  # transformers 4 holds experts as they are stored
    conversion_mapping = None

NORMS = {  # of a layer, before and behind its sublayers
    "self_attn": {"input_layernorm", "post_self_attn_layernorm"},
    "mlp": {"pre_feedforward_layernorm", "post_feedforward_layernorm", "post_mlp_layernorm"},
}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")  # names of their number in families and versions
PREFIX = "DotResize"  # of the classes of this file, before transformers' name of their base


class LayerSizesConfig:
    """Precedes the family's class of configuration."""

    model_type = "dotresize"
    intermediate_sizes = None
    expert_counts = None
    value_head_dims = None

    def _rope_scaling_validation(self):
        """Takes rotary settings with all values stated, which Phi3Config of transformers 4 refuses."""


class NarrowValues(nn.Module):
    """Replaces `projection`, whose last rows are value heads of head_dim channels. These have fewer `channels` here, with zeros
    behind them up to head_dim, so that they go through any attention."""

    def __init__(self, projection, heads, head_dim, channels):
        super().__init__()
        self.others = projection.out_features - heads * head_dim  # rows of queries and keys, if fused
        self.heads, self.padding = heads, head_dim - channels
        rows = self.others + heads * channels
        self.weight = nn.Parameter(projection.weight[:rows].clone())
        self.bias = None if projection.bias is None else nn.Parameter(projection.bias[:rows].clone())

    def forward(self, x):
        product = nn.functional.linear(x, self.weight, self.bias)
        values = product[..., self.others :].unflatten(-1, (self.heads, -1))
        padded = nn.functional.pad(values, (0, self.padding)).flatten(-2)
        return torch.cat([product[..., : self.others], padded], dim=-1) if self.others else padded


class NarrowHeads(nn.Module):
    """Replaces `projection`, which reads heads: reads the first `channels` of each."""

    def __init__(self, projection, heads, channels):
        super().__init__()
        self.heads, self.channels = heads, channels
        self.weight = nn.Parameter(projection.weight[:, : heads * channels].clone())
        self.bias = projection.bias

    def forward(self, x):
        kept = x.unflatten(-1, (self.heads, -1))[..., : self.channels].flatten(-2)
        return nn.functional.linear(kept, self.weight, self.bias)


class Nothing(nn.Module):
    """Replaces a sublayer: adds zeros to the stream. Some sublayers return a `pair`. A family's model may read settings, such as
    attention_type, in `replaced`."""

    def __init__(self, replaced, pair):
        super().__init__()
        settings = {name: value for name, value in vars(replaced).items() if isinstance(value, (bool, str))}
        vars(self).update(settings, pair=pair)

    def forward(self, hidden_states, **kwargs):
        zeros = torch.zeros_like(hidden_states)
        return (zeros, None) if self.pair else zeros


class LayerSizes:
    """Precedes the family's class of model."""

    def __init__(self, config, *inputs, **kwargs):
        if config._attn_implementation == "vllm" and hasattr(config, "num_experts_per_tok"):
            raise ValueError("vLLM has experts of one size alone: it needs a model made with output.format: stock")
        if config.value_head_dims is not None:  # their padding splits by heads alone: attentions are on every rank
            plan = config.base_model_tp_plan or {}
            config.base_model_tp_plan = {name: plan[name] for name in plan if "self_attn" not in name}
        super().__init__(config, *inputs, **kwargs)

    def post_init(self):
        """Ends every __init__ of transformers, where weights get values."""
        layers, places = getattr(self, "model", self).layers, self._places_in_a_cache()
        sizes = zip(*map(self._by_layer, ("intermediate_sizes", "expert_counts", "value_head_dims")))
        for number, (features, experts, channels) in enumerate(sizes):
            if features:
                layers[number] = self._with_features(layers[number], number, features, experts)
            elif features == 0:
                self._remove(layers[number], "mlp" if hasattr(layers[number], "mlp") else "block_sparse_moe")
            if channels == 0:
                self._remove(layers[number], "self_attn")
                continue
            if channels is not None:
                self._narrow_values(layers[number].self_attn, channels)
            if hasattr(layers[number], "self_attn"):  # a linear attention has no number there
                layers[number].self_attn.layer_idx = next(places[self._type_of(number)])
        super().post_init()

    def _type_of(self, layer):
        return (getattr(self.config, "layer_types", None) or ["full_attention"] * (layer + 1))[layer]

    def _places_in_a_cache(self):
        """An iterator over the numbers of the layers of each type, such as sliding_attention. A cache takes its length from the first
        number, and that of a type from the type's first: the attentions that are left have the first numbers of their type."""
        numbers = range(self.config.num_hidden_layers)
        types = {self._type_of(number) for number in numbers}
        return {kind: iter([number for number in numbers if self._type_of(number) == kind]) for kind in types}

    def _by_layer(self, key):
        layers = self.config.num_hidden_layers
        sizes = getattr(self.config, key) or [None] * layers
        if len(sizes) != layers:
            raise ValueError(f"{key} has {len(sizes)} entries, must have num_hidden_layers = {layers}")
        return sizes

    def _with_features(self, layer, number, features, experts):
        settings = vars(self.config)  # all layers share the config, so that the attention can be chosen later on
        shared, of_one = (settings.get(key) for key in ("shared_expert_intermediate_size", "moe_intermediate_size"))
        sizes = {"intermediate_size": features, "moe_intermediate_size": features}
        if shared:  # the shared expert is cut like the others, in proportion
            sizes["shared_expert_intermediate_size"] = -(-shared * features // of_one)
        if experts:
            sizes |= dict.fromkeys(EXPERTS, experts)
        of_family = {key: settings[key] for key in sizes if key in settings}
        try:
            settings.update({key: sizes[key] for key in of_family})
            return type(layer)(self.config, number)
        finally:
            settings.update(of_family)

    def _narrow_values(self, attention, channels):
        """Also if no channel is gone: engines rewrite a class by what they find in one attention."""
        dim, heads = attention.head_dim, self.config.num_key_value_heads
        name = "qkv_proj" if hasattr(attention, "qkv_proj") else "v_proj"
        setattr(attention, name, NarrowValues(getattr(attention, name), heads, dim, channels))
        attention.o_proj = NarrowHeads(attention.o_proj, self.config.num_attention_heads, channels)

    def _remove(self, layer, sublayer):
        setattr(layer, sublayer, Nothing(getattr(layer, sublayer), pair=sublayer != "mlp"))
        # Families give this name to the norm before the MLP, or to the one behind the attention.
        is_before_mlp = not hasattr(layer, "post_feedforward_layernorm")
        shared = {"post_attention_layernorm"} if is_before_mlp == (sublayer != "self_attn") else set()
        for norm in NORMS["self_attn" if sublayer == "self_attn" else "mlp"] | shared:
            if hasattr(layer, norm):
                setattr(layer, norm, nn.Identity())

    def _grouped_mm_can_dispatch(self):
        """Lets transformers 5 compute one expert after the other if their rows are not multiples of 16 bytes."""
        of_family = getattr(self.config, "moe_intermediate_size", self.config.intermediate_size)
        if any(features % 8 for features in self.config.intermediate_sizes or [of_family]):
            raise ValueError("grouped_mm needs numbers of features that are multiples of 8")
        return super()._grouped_mm_can_dispatch()


@functools.cache
def _class_of(name):
    base = getattr(transformers, name.removeprefix(PREFIX), None)
    if base is None:
        raise ImportError(f"transformers {transformers.__version__} has no {name.removeprefix(PREFIX)}; a later one has")
    if issubclass(base, transformers.PretrainedConfig):
        return type(name, (LayerSizesConfig, base), {"__module__": __name__})
    family = base.config_class
    if conversion_mapping is not None:  # fuses experts as they are read, and finds how by the name of the class
        find = conversion_mapping.get_checkpoint_conversion_mapping
        if (mapping := find(base.__name__) or find(family.model_type)) is not None:
            conversion_mapping.register_checkpoint_conversion_mapping(name, mapping, overwrite=True)
    return type(name, (LayerSizes, base), {"__module__": __name__, "config_class": _class_of(PREFIX + family.__name__)})


def __getattr__(name):
    if not name.startswith(PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class_of(name)
