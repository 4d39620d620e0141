"""A causal language model whose residual stream was narrowed by dotresize.

Attention, MLP and rotary embedding are the source family's own modules out of the installed
transformers; what is added is the narrowed widths, a shortcut per sublayer, which carries the
residual stream from one width to the next, and norms without weights; and matrices between the
stream and a table that embedding and head have in common. For a sublayer f between junctions of
widths k_in and k_out

    x_out = f(norm(x_in)) + shortcut(x_in)        x_in [batch, tokens, k_in], x_out [..., k_out]

A shortcut is one matrix, or the identity plus a product of low rank, x + (x · A) · B, or the
identity alone, if both junctions share their map.

Method: DotResize (linear reduction of the hidden size by optimal transport), with the norm weights
folded into the projections that follow them. Works with transformers 4.56 and later, and 5.
"""

import copy
import importlib
import inspect
from typing import Optional, Union

import torch
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from .configuration_dotresize import FAMILIES, TRANSFORMERS_VERSION, DotResizeConfig, Mixture


# transformers 4 tells masks and caches the positions by `cache_position`, 5 derives them.
_MASK_PARAMETERS = inspect.signature(create_causal_mask).parameters
_HAS_CACHE_POSITION = "cache_position" in _MASK_PARAMETERS
_EMBEDS = "inputs_embeds" if "inputs_embeds" in _MASK_PARAMETERS else "input_embeds"


class WideNorm(nn.Module):
    """x / sqrt(Σ x² / divisor + eps), in float32, returned in the dtype of x; times γ, if it has one.

    x: [..., k]. divisor is the width d of the source model, not k: the narrowed stream has the norm
    of the wide one. Unless k is d its weight γ is folded into the projections that read it.
    """

    def __init__(self, divisor: int, eps: float, weight: bool):
        super().__init__()
        self.divisor = divisor
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(divisor)) if weight else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x32 = x.to(torch.float32)
        mean_square = x32.pow(2).sum(-1, keepdim=True) / self.divisor
        normed = (x32 * torch.rsqrt(mean_square + self.eps)).to(x.dtype)
        return normed if self.weight is None else self.weight * normed

    def extra_repr(self) -> str:
        return f"divisor={self.divisor}, eps={self.eps}, weight={self.weight is not None}"


def _source_class(config: DotResizeConfig, part: str) -> type:
    """The source family's class of a part, e.g. LlamaAttention of "Attention"."""
    family = config.source_model_type
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    return getattr(module, FAMILIES[family].class_prefix + part)


def _with_hidden_size(config: DotResizeConfig, width: int) -> DotResizeConfig:
    """A copy of `config` from which a family's module takes its width."""
    narrowed = copy.copy(config)
    narrowed.hidden_size = width
    return narrowed


def _norm(config: DotResizeConfig, weight: bool) -> WideNorm:
    return WideNorm(config.hidden_size, config.rms_norm_eps, weight)


def _projection(present: bool, inputs: int, outputs: int) -> nn.Module:
    """A linear layer between the stream and a table that embedding and head have in common."""
    return nn.Linear(inputs, outputs, bias=False) if present else nn.Identity()


def _write_at_width(projection: nn.Linear, width: int) -> nn.Linear:
    return nn.Linear(projection.in_features, width, bias=projection.bias is not None)


class Expert(nn.Module):
    """down(act(gate(x)) · up(x)), the three under the family's names. x: [tokens, k_in]."""

    def __init__(self, config: DotResizeConfig, names: Mixture, k_in: int, rows: int, k_out: int):
        super().__init__()
        self.names = names
        self.add_module(names.gate, nn.Linear(k_in, rows, bias=False))
        self.add_module(names.up, nn.Linear(k_in, rows, bias=False))
        self.add_module(names.down, nn.Linear(rows, k_out, bias=False))
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = getattr(self, self.names.gate), getattr(self, self.names.up)
        return getattr(self, self.names.down)(self.act_fn(gate(x)) * up(x))


class MixtureOfExperts(nn.Module):
    """Σ weight · expert(x) over the experts that the router chooses for a token.

    The mixtures of transformers write at the width that they read, and hold their weights differently
    in 4 and 5. Routing is theirs: softmax in float32 over all experts, then the greatest few.
    """

    def __init__(self, config: DotResizeConfig, k_in: int, k_out: int):
        super().__init__()
        names = FAMILIES[config.source_model_type].mixture
        experts, rows = getattr(config, names.experts), getattr(config, names.intermediate_size)
        self.k_out = k_out
        self.experts_per_token = config.num_experts_per_tok
        self.norms_weights = names.norms_weights(config)
        self.gate = nn.Linear(k_in, experts, bias=False)
        self.experts = nn.ModuleList(
            Expert(config, names, k_in, rows, k_out) for _ in range(experts)
        )

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """hidden_states: [batch, tokens, k_in]. Returns [batch, tokens, k_out]."""
        x = hidden_states.reshape(-1, hidden_states.shape[-1])
        probabilities = nn.functional.softmax(self.gate(x), dim=-1, dtype=torch.float32)
        weights, chosen = torch.topk(probabilities, self.experts_per_token, dim=-1)
        if self.norms_weights:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.to(x.dtype)
        total = x.new_zeros(x.shape[0], self.k_out)
        for number in chosen.unique().tolist():
            token, rank = torch.where(chosen == number)
            result = self.experts[number](x[token]) * weights[token, rank, None]
            total = total.index_add(0, token, result)
        return total.view(*hidden_states.shape[:-1], self.k_out)


class LowRankShortcut(nn.Module):
    """x + (x · A) · B, with x cut or padded with zeros to k_out.

    A: [k_in, rank] and B: [rank, k_out], stored transposed as in nn.Linear. With one factor B is -A
    transposed, of which the columns are cut or padded likewise: so it is between orthonormal maps.
    """

    def __init__(self, k_in: int, k_out: int, rank: int, factors: int):
        super().__init__()
        self.k_in = k_in
        self.k_out = k_out
        self.rank = rank
        self.A = nn.Parameter(torch.zeros(rank, k_in)) if rank > 0 else None
        self.B = nn.Parameter(torch.zeros(k_out, rank)) if rank > 0 and factors == 2 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch, tokens, k_in]. Returns [batch, tokens, k_out]."""
        kept = self._fit(x)
        if self.A is None:
            return kept
        low = nn.functional.linear(x, self.A)
        if self.B is not None:
            return kept + nn.functional.linear(low, self.B)
        return kept - low @ self._fit(self.A)

    def _fit(self, x: torch.Tensor) -> torch.Tensor:
        """The last dimension, k_in, as k_out."""
        if self.k_in == self.k_out:
            return x
        return nn.functional.pad(x, (0, self.k_out - self.k_in))

    def extra_repr(self) -> str:
        return f"k_in={self.k_in}, k_out={self.k_out}, rank={self.rank}"


def _shortcut(config: DotResizeConfig, sublayer: int) -> nn.Module:
    """The skip path, from the width that the sublayer reads to the one that it writes."""
    k_in, k_out = config.junction_widths[sublayer : sublayer + 2]
    rank = config.shortcut_rank(sublayer)
    if rank is None:
        return nn.Linear(k_in, k_out, bias=False)
    if rank == 0 and k_in == k_out:
        return nn.Identity()
    return LowRankShortcut(k_in, k_out, rank, config.shortcut_factors)


class DotResizeDecoderLayer(GradientCheckpointingLayer):
    """Layer l: junction 2l through the attention to 2l+1, through the MLP to 2l+2."""

    def __init__(self, config: DotResizeConfig, layer_idx: int):
        super().__init__()
        k_in, k_mid, k_out = config.junction_widths[2 * layer_idx : 2 * layer_idx + 3]
        self.self_attn = _source_class(config, "Attention")(_with_hidden_size(config, k_in), layer_idx)
        self.self_attn.o_proj = _write_at_width(self.self_attn.o_proj, k_mid)
        self.self_attn.config = config  # shared, so that the attention can be chosen later on
        self.mlp_name = "mlp"
        if config.is_mixture(layer_idx):
            self.mlp_name = FAMILIES[config.source_model_type].mixture.block
            self.add_module(self.mlp_name, MixtureOfExperts(config, k_mid, k_out))
        else:
            self.mlp = _source_class(config, "MLP")(_with_hidden_size(config, k_mid))
            self.mlp.down_proj = _write_at_width(self.mlp.down_proj, k_out)
        self.input_layernorm = _norm(config, weight=False)
        self.post_attention_layernorm = _norm(config, weight=False)
        self.attention_shortcut = _shortcut(config, 2 * layer_idx)
        self.mlp_shortcut = _shortcut(config, 2 * layer_idx + 1)

    def forward(self, hidden_states: torch.Tensor, **kwargs):
        """hidden_states: [batch, tokens, k_in]. kwargs go to the family's attention.

        Returns [batch, tokens, k_out] and the attention's weights, if it computes them.
        """
        attention, weights = self.self_attn(self.input_layernorm(hidden_states), **kwargs)
        kept = attention + self.attention_shortcut(hidden_states)
        mlp = getattr(self, self.mlp_name)(self.post_attention_layernorm(kept))
        return mlp + self.mlp_shortcut(kept), weights


class DotResizePreTrainedModel(PreTrainedModel):
    config_class = DotResizeConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DotResizeDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    @property
    def _can_compile_fullgraph(self) -> bool:
        """False for mixtures: the data choose the experts that compute."""
        return FAMILIES[self.config.source_model_type].mixture is None


class DotResizeModel(DotResizePreTrainedModel):
    """Token ids to what the head reads: the normed stream at the last junction, [batch, tokens, k_2L],
    or with tied embeddings [batch, tokens, hidden_size]."""

    def __init__(self, config: DotResizeConfig):
        super().__init__(config)
        self.padding_idx = config.pad_token_id
        self.vocab_size = config.vocab_size
        wide, first, last = config.embedding_size, config.junction_widths[0], config.junction_widths[-1]
        self.embed_tokens = nn.Embedding(config.vocab_size, wide, self.padding_idx)
        self.embedding_projection = _projection(config.embedding_projection, wide, first)
        self.layers = nn.ModuleList(
            DotResizeDecoderLayer(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.norm = _norm(config, config.has_final_norm)
        self.head_projection = _projection(config.head_projection, last, wide)
        self.rotary_emb = _source_class(config, "RotaryEmbedding")(config=config)
        self.gradient_checkpointing = False
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Optional[torch.LongTensor] = None,
        attention_mask: Optional[torch.Tensor] = None,
        position_ids: Optional[torch.LongTensor] = None,
        past_key_values: Optional[Cache] = None,
        inputs_embeds: Optional[torch.FloatTensor] = None,
        use_cache: Optional[bool] = None,
        output_attentions: Optional[bool] = None,
        output_hidden_states: Optional[bool] = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """input_ids: [batch, tokens], or inputs_embeds: [batch, tokens, embedding_size].

        attention_mask: [batch, tokens seen so far and now], 0 for padding. hidden_states of the
        result: the stream at junctions 0, 2, 4, ... of their own widths, the last one as the head reads it.
        kwargs go to the attention.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("exactly one of input_ids and inputs_embeds must be given")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        past_key_values = self._cache(past_key_values, use_cache)
        cache_position = kwargs.pop("cache_position", None)
        if cache_position is None:
            past = 0 if past_key_values is None else past_key_values.get_seq_length()
            tokens = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)
            cache_position = tokens + past
        if position_ids is None:
            position_ids = cache_position.unsqueeze(0)
        if _HAS_CACHE_POSITION:
            kwargs["cache_position"] = cache_position
        mask = self._causal_mask(
            inputs_embeds, attention_mask, cache_position, past_key_values, position_ids
        )
        rotary = self.rotary_emb(inputs_embeds, position_ids)

        hidden_states = self.embedding_projection(inputs_embeds)
        streams, attentions = [], []
        for layer in self.layers[: self.config.num_hidden_layers]:
            streams.append(hidden_states)
            hidden_states, weights = layer(
                hidden_states,
                attention_mask=mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                position_embeddings=rotary,
                **kwargs,
            )
            attentions.append(weights)
        hidden_states = self.head_projection(self.norm(hidden_states))
        streams.append(hidden_states)
        wants_streams = self._wants("hidden_states", output_hidden_states)
        wants_attentions = self._wants("attentions", output_attentions)
        return BaseModelOutputWithPast(
            last_hidden_state=hidden_states,
            past_key_values=past_key_values,
            hidden_states=tuple(streams) if wants_streams else None,
            attentions=tuple(attentions) if wants_attentions else None,
        )

    def _cache(self, past_key_values: Optional[Cache], use_cache: Optional[bool]):
        """The cache to go on with; None if keys and values are not to be kept."""
        if use_cache is None:
            use_cache = self.config.use_cache
        if self.gradient_checkpointing and self.training:
            return None
        if use_cache and past_key_values is None:
            return DynamicCache(config=self.config)
        return past_key_values

    def _causal_mask(self, embeds, attention_mask, cache_position, past_key_values, position_ids):
        slides = FAMILIES[self.config.source_model_type].slides(self.config)
        positions = {"cache_position": cache_position} if _HAS_CACHE_POSITION else {}
        return (create_sliding_window_causal_mask if slides else create_causal_mask)(
            config=self.config,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            position_ids=position_ids,
            **{_EMBEDS: embeds},
            **positions,
        )

    def _wants(self, what: str, asked: Optional[bool]) -> bool:
        return getattr(self.config, f"output_{what}") if asked is None else asked


class DotResizeForCausalLM(DotResizePreTrainedModel, GenerationMixin):
    """DotResizeModel with its language head: logits [batch, tokens, vocab]."""

    # Tied if the config says so. transformers 4 lists such tensors, 5 says what they are tied to.
    _tied_weights_keys = (
        {"lm_head.weight": "model.embed_tokens.weight"}
        if TRANSFORMERS_VERSION >= (5, 0)
        else ["lm_head.weight"]
    )

    def __init__(self, config: DotResizeConfig):
        super().__init__(config)
        self.model = DotResizeModel(config)
        self.vocab_size = config.vocab_size
        width = config.embedding_size if config.tie_word_embeddings else config.junction_widths[-1]
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Optional[torch.LongTensor] = None,
        attention_mask: Optional[torch.Tensor] = None,
        position_ids: Optional[torch.LongTensor] = None,
        past_key_values: Optional[Cache] = None,
        inputs_embeds: Optional[torch.FloatTensor] = None,
        labels: Optional[torch.LongTensor] = None,
        use_cache: Optional[bool] = None,
        logits_to_keep: Union[int, torch.Tensor] = 0,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        """Like DotResizeModel.forward; returns the logits of the last `logits_to_keep` positions (0: of all).

        labels: [batch, tokens], shifted here, -100 is ignored; with them the result has a loss.
        """
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept, :])
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def prepare_inputs_for_generation(
        self, input_ids, past_key_values=None, attention_mask=None, **kwargs
    ):
        """Like transformers', but the cache is filled anew once longrope takes its long factors.

        It is not if the prompt was given as embeddings: its ids are not known.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if mask.shape == input_ids.shape and self._outgrows_short_factors(past_key_values, mask):
            past_key_values = None
            kwargs["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)
            if _HAS_CACHE_POSITION:
                kwargs["cache_position"] = torch.arange(mask.shape[1], device=mask.device)
            else:
                kwargs["next_sequence_length"] = None
        return super().prepare_inputs_for_generation(
            input_ids, past_key_values=past_key_values, attention_mask=attention_mask, **kwargs
        )

    def _outgrows_short_factors(self, past_key_values: Optional[Cache], mask: torch.Tensor) -> bool:
        """True if the texts were short when the cache was filled and are long now, mask [batch, all tokens]."""
        if self.model.rotary_emb.rope_type != "longrope" or past_key_values is None:
            return False
        cached = past_key_values.get_seq_length()
        short = getattr(
            self.config, "original_max_position_embeddings", self.config.max_position_embeddings
        )
        was_short = mask[:, :cached].sum(-1).max() <= short
        return cached > 0 and bool(was_short) and bool(mask.sum(-1).max() > short)


__all__ = ["DotResizeForCausalLM", "DotResizeModel", "DotResizePreTrainedModel"]
