"""Does to a model what vLLM's transformers backend does, without vLLM.

The backend builds the base model on the meta device with its own attention. It replaces the input embedding, the linear layers
and everything it takes for an RMSNorm. It calls the base model with one flat batch, positions and `attention_instances`, and
adds its own head with config.hidden_size columns. A narrowed model must keep its logits through all of that.
"""

import copy

import pytest
import torch
from layer_sizes import with_layer_sizes
from narrowing import aligned, exact_ranks, fold, output_keys, random_maps, write_output
from tiny_models import random_dense, tensors_of, tiny_keys
from torch import fx, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

FAMILIES = {
    "llama": tiny_keys("llama"),
    "mistral": tiny_keys("mistral"),
    "phi3": tiny_keys("phi3"),
    "qwen2": tiny_keys("qwen2"),
    "qwen3": tiny_keys("qwen3"),
    "mixtral": tiny_keys("mixtral"),
    "qwen3_moe": tiny_keys("qwen3_moe", mlp_only_layers=[0]),
}
WITHOUT_MAPS = ("llama", "phi3", "qwen2", "qwen3")  # vLLM replaces the experts of mixtures
WIDTHS = [32, 40, 24, 31, 16, 36, 48]  # the last junction is dense: the head has hidden_size columns
IDS = torch.randint(2, 97, (1, 19), generator=torch.Generator().manual_seed(3))


class AttentionInstance:
    """Stands for vLLM's attention of one layer and counts its calls."""

    calls = 0


def engine_attention(module, query, key, value, attention_mask, **kwargs):
    """The engine masks by itself: it gets no mask, and finds its instance by layer_idx."""
    assert attention_mask is None
    kwargs["attention_instances"][module.layer_idx].calls += 1
    return sdpa_attention_forward(module, query, key, value, None, is_causal=True, **kwargs)


class EngineLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.weight = nn.Parameter(torch.empty_like(linear.weight, device="cpu"))
        self.bias = None
        if linear.bias is not None:
            self.bias = nn.Parameter(torch.empty_like(linear.bias, device="cpu"))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


def replace_linears(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, EngineLinear(child))
        else:
            replace_linears(child)


def write_with_maps(directory, keys):
    ranks = exact_ranks(keys["hidden_size"], WIDTHS)
    maps = aligned(random_maps(keys["hidden_size"], WIDTHS))
    tensors = fold(random_dense(keys), maps, [(rank, 1) for rank in ranks])
    return write_output(directory, tensors, output_keys(keys, WIDTHS) | {"shortcut_ranks": ranks, "shortcut_factors": 1})


@pytest.fixture(params=FAMILIES)
def with_maps(tmp_path, request):
    return write_with_maps(tmp_path / "model", FAMILIES[request.param])


@pytest.fixture(params=[*FAMILIES, *(f"{family}, without maps" for family in WITHOUT_MAPS)])
def directory(tmp_path, request):
    family, _, without = request.param.partition(",")
    if not without:
        return write_with_maps(tmp_path / "model", FAMILIES[family])
    with_layer_sizes(tmp_path / "model", FAMILIES[family], [20, 31, 7], [12, 5, 1])
    return tmp_path / "model"


def test_an_engine_that_replaces_modules_gets_the_same_logits(directory):
    ALL_ATTENTION_FUNCTIONS.register("engine", engine_attention)
    config = AutoConfig.from_pretrained(directory, trust_remote_code=True)
    config.get_text_config()._attn_implementation = "engine"
    rotary = AutoModel.from_config(config, trust_remote_code=True).rotary_emb
    with torch.device("meta"):
        model = AutoModel.from_config(config, trust_remote_code=True).eval()
    model.rotary_emb = rotary  # the engine leaves buffers where they are computed
    replace_linears(model)
    width = getattr(config, "embedding_size", config.hidden_size)
    model.set_input_embeddings(nn.Embedding(config.vocab_size, width))
    head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    tensors = tensors_of(directory)
    head.weight.data = tensors.pop("lm_head.weight")
    renamed = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    model.load_state_dict(renamed, assign=True)
    assert not any(parameter.is_meta for parameter in model.parameters())
    instances = {layer: AttentionInstance() for layer in range(config.num_hidden_layers)}
    with torch.no_grad():
        stream = model(
            input_ids=IDS,
            position_ids=torch.arange(IDS.shape[1])[None],
            use_cache=False,
            attention_instances=instances,
            return_dict=False,
        )[0]
        logits = head(stream)
        expected = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True)(IDS)
    assert [instances[layer].calls for layer in range(3)] == [1, 1, 1]
    torch.testing.assert_close(logits, expected.logits, atol=1e-5, rtol=0)


def test_the_norms_are_not_taken_for_stock_ones(with_maps):
    """A stock RMSNorm divides by the width it sees. Engines recognise one by its class name or the mean in its graph, and would
    replace it with their own."""
    model = AutoModel.from_pretrained(with_maps, trust_remote_code=True)
    norms = [model.norm, *(layer.input_layernorm for layer in model.layers)]
    for norm in norms:
        assert "RMSNorm" not in type(norm).__name__
        assert not list(norm.parameters())
        graph = fx.symbolic_trace(norm).graph
        assert not [node for node in graph.nodes if "mean" in str(node.target)]


def test_all_attentions_have_the_same_modules(directory):
    """vLLM looks at one, and rewrites the forward pass of its class for all."""
    model = AutoModel.from_pretrained(directory, trust_remote_code=True)
    assert len({tuple(map(type, layer.self_attn.children())) for layer in model.layers}) == 1


def test_the_tensor_parallel_plan_names_the_projections(directory):
    model = AutoModel.from_pretrained(directory, trust_remote_code=True)
    plan = model.config.base_model_tp_plan
    assert model._tp_plan.keys() >= plan.keys() > set()
    names = {name for name, _ in model.named_modules()}
    for pattern in plan:
        assert pattern.replace("*", "0") in names
    assert not [pattern for pattern in plan if "shortcut" in pattern]
    model.config.base_model_tp_plan = {"embed_tokens": "rowwise"}  # like engines do
    assert copy.deepcopy(model.config).base_model_tp_plan == {"embed_tokens": "rowwise"}


def test_the_backend_finds_what_it_asks_for(directory):
    config = AutoConfig.from_pretrained(directory, trust_remote_code=True)
    assert "AutoModel" in config.auto_map
    model = AutoModel.from_config(config, trust_remote_code=True)
    assert model._supports_attention_backend
    width = getattr(config, "embedding_size", config.hidden_size)
    assert model.get_input_embeddings().weight.shape[1] == width
    assert all(layer.self_attn.is_causal for layer in model.layers)
    assert not {"embedding_size", "base_model_tp_plan"} & config.to_dict().keys()
