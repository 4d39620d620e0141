"""Tests of outputs without maps: models of all families whose layers have sizes of their own. They need no worker."""

import json
import pickle

import pytest
import torch
from layer_sizes import with_layer_sizes
from narrowed_models import (
    DENSE_FAMILIES,
    MIXTURE_FAMILIES,
    ONE_PER_FAMILY,
    SOURCES,
    assert_same_logits,
    generate,
    load,
    logits,
    saved_and_loaded,
    some_ids,
)
from tiny_models import WHOLE_VALUES, tensors_of, tiny_keys
from torch import nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

# The first attention is missing, from which transformers takes the number of cached tokens.
SIZES, DIMS = [20, 0, 7], [0, None, 5]
BIASED_SIZES, BIASED_DIMS = [20, None, 7], [5, None, 1]  # a sublayer with a bias cannot be missing
FAMILIES_WITHOUT_MAPS = ["gemma", "gemma2", "olmo2", "olmo3", "glm4", "exaone4", "hunyuan_v1_dense", "ministral3", *WHOLE_VALUES]
FACTORS = {"embedding_multiplier": 3.0, "logits_scaling": 1.7, "residual_multiplier": 0.4, "attention_multiplier": 0.2}
SOURCES_WITHOUT_MAPS = {
    "gemma3_text-tied": tiny_keys("gemma3_text", tie_word_embeddings=True),
    "glm4_moe": tiny_keys("glm4_moe"),
    "gpt_oss-biases": tiny_keys("gpt_oss"),
    "granite": tiny_keys("granite", **FACTORS),
    "qwen2_moe": tiny_keys("qwen2_moe"),
    "smollm3-window-of-a-layer": tiny_keys("smollm3", no_rope_layers=[1, 1, 0], use_sliding_window=True, sliding_window=7),
    "qwen2-window-of-a-layer": tiny_keys("qwen2", use_sliding_window=True, sliding_window=7, max_window_layers=2),
    **{family: tiny_keys(family) for family in FAMILIES_WITHOUT_MAPS},
}
# transformers 4 lacks some of them.
SOURCES_WITHOUT_MAPS = {name: keys for name, keys in SOURCES_WITHOUT_MAPS.items() if keys["model_type"] in CONFIG_MAPPING}
EXPERTS_WITHOUT_MAPS = ["qwen2_moe", "glm4_moe", "gpt_oss-biases"]
MORE_SOURCES = ["llama-biases", "llama-tied", "qwen3-biases-wide-heads", "phi3-longrope", "qwen2-yarn", "qwen3_moe-every-second"]


def write(folder, source, dtype="float32", sizes=None, dims=None):
    """Returns the dense model, in which nothing reads what was cut, and the output's directory. None: not cut."""
    keys = (SOURCES | SOURCES_WITHOUT_MAPS)[source]
    biased = "biases" in source
    sizes = sizes or (BIASED_SIZES if biased else SIZES)
    whole = keys["model_type"] in WHOLE_VALUES
    dims = dims or ([None] * 3 if whole else BIASED_DIMS if biased else DIMS)
    sizes = [keys["intermediate_size"] if size is None else size for size in sizes]
    dims = [keys["head_dim"] if dim is None else dim for dim in dims]
    return with_layer_sizes(folder / "model", keys, sizes, dims, dtype), folder / "model"


@pytest.mark.parametrize("source", [*ONE_PER_FAMILY, *MORE_SOURCES, *SOURCES_WITHOUT_MAPS])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_logits_are_those_of_the_dense_model(tmp_path, source, attention):
    if source in ("gemma2", "gpt_oss-biases") and attention == "sdpa":
        pytest.skip("transformers has neither limits of scores nor sinks there")
    dense, directory = write(tmp_path, source)
    model = load(directory, attn_implementation=attention)
    assert model.config._attn_implementation == attention
    bound = 1e-4 if source in WHOLE_VALUES else 1e-5  # keys and queries of any length are scaled to 1
    torch.testing.assert_close(logits(model, some_ids()), logits(dense, some_ids()), atol=bound, rtol=0)
    cached = generate(model, some_ids(), use_cache=True)
    assert torch.equal(cached, generate(model, some_ids(), use_cache=False))
    assert torch.equal(cached, generate(dense, some_ids(), use_cache=False))


@pytest.mark.parametrize("source", ONE_PER_FAMILY)
def test_left_padding_changes_nothing(tmp_path, source):
    _, directory = write(tmp_path, source)
    model = load(directory)
    long, short = some_ids(1, 19), some_ids(1, 11, seed=4)
    batch = torch.cat([long, nn.functional.pad(short, (8, 0), value=1)])
    mask = torch.ones_like(batch)
    mask[1, :8] = 0
    together = generate(model, batch, attention_mask=mask)
    assert torch.equal(together[:1], generate(model, long))
    assert torch.equal(together[1:, 8:], generate(model, short))


@pytest.mark.parametrize("source", [*ONE_PER_FAMILY, *EXPERTS_WITHOUT_MAPS, "phi3-longrope"])
def test_a_saved_model_has_the_same_tensors_and_code(tmp_path, source):
    _, directory = write(tmp_path, source)
    model = load(directory)
    again = saved_and_loaded(model, tmp_path)
    assert_same_logits(logits(again, some_ids()), logits(model, some_ids()))
    given, saved = tensors_of(directory), tensors_of(tmp_path / "saved")
    assert given.keys() == saved.keys() and all(torch.equal(given[name], saved[name]) for name in given)
    code = "modeling_layer_sizes.py"
    assert (tmp_path / "saved" / code).read_bytes() == (directory / code).read_bytes()
    written, kept = (json.loads((folder / "config.json").read_text()) for folder in (directory, tmp_path / "saved"))
    for key in ("model_type", "architectures", "auto_map", "source_model_type", "intermediate_sizes", "value_head_dims", "norm_weights"):
        assert kept[key] == written[key]


@pytest.mark.parametrize("source", ["llama-tied", "qwen2-tied"])
def test_a_tied_model_has_one_table(tmp_path, source):
    _, directory = write(tmp_path, source)
    again = saved_and_loaded(load(directory), tmp_path)
    assert "lm_head.weight" not in tensors_of(tmp_path / "saved")
    assert again.get_output_embeddings().weight is again.get_input_embeddings().weight


@pytest.mark.parametrize("source", ["llama", "mixtral"])
def test_bfloat16_stays_near_float32(tmp_path, source):
    _, directory = write(tmp_path, source, dtype="bfloat16")
    model = load(directory, torch_dtype="auto")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    error = (logits(model, some_ids()).float() - (exact := logits(load(directory).float(), some_ids()))).abs()
    # Compared per token: one with nearly tied experts may choose another, which later tokens see too.
    assert error.mean(-1).median() < 0.03 * exact.abs().mean()


# Rows of whole 16 bytes may go through other kernels.
@pytest.mark.parametrize("sizes", [[16, 8, 24], [13, 8, 24]])
@pytest.mark.parametrize("source", [*MIXTURE_FAMILIES, *EXPERTS_WITHOUT_MAPS])
def test_experts_may_have_any_number_of_features(tmp_path, source, sizes):
    dense, directory = write(tmp_path, source, sizes=sizes)
    torch.testing.assert_close(logits(load(directory), some_ids()), logits(dense, some_ids()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("source", ["llama-biases", "phi3", "mixtral", "qwen3_moe"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_weight_is_trainable(tmp_path, source, checkpointing):
    _, directory = write(tmp_path, source)
    model = load(directory).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model(some_ids(8), labels=some_ids(8)).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("source", DENSE_FAMILIES)
def test_the_model_compiles_as_one_graph(tmp_path, source):
    _, directory = write(tmp_path, source)
    model = load(directory)
    torch._dynamo.reset()  # other models of this process count as recompilations
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        result = compiled(some_ids(), use_cache=False).logits
    torch.testing.assert_close(result, logits(model, some_ids()), atol=1e-5, rtol=0)


def test_attention_can_be_chosen_after_loading(tmp_path):
    _, directory = write(tmp_path, "llama")
    model = load(directory, attn_implementation="sdpa")
    before = logits(model, some_ids())
    model.set_attn_implementation("eager")
    with torch.no_grad():
        after = model(some_ids(), output_attentions=True)
    assert [a.shape for a in after.attentions] == [(2, 4, 19, 19)] * 2  # of the layers that have one
    torch.testing.assert_close(after.logits, before, atol=1e-5, rtol=0)


def test_layers_offloaded_to_disk_give_the_same_logits(tmp_path):
    _, directory = write(tmp_path, "llama")
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    places["lm_head"] = "cpu"
    spread = load(directory, device_map=places, offload_folder=tmp_path / "offload")
    torch.testing.assert_close(logits(spread, some_ids()), logits(load(directory), some_ids()))


# Its transformers backend would replace experts by others of one size, and return NaN.
@pytest.mark.parametrize("source", MIXTURE_FAMILIES)
def test_a_mixture_is_refused_in_vllm(tmp_path, source):
    _, directory = write(tmp_path, source)
    config = AutoConfig.from_pretrained(directory, trust_remote_code=True)
    config._attn_implementation = "vllm"
    with pytest.raises(ValueError, match="vLLM has experts of one size alone"):
        AutoModel.from_config(config, trust_remote_code=True)


# One process may hold models of several families: each has classes of its own.
def test_models_of_two_families_are_saved_as_they_were_read(tmp_path):
    directories = [write(tmp_path / source, source)[1] for source in ("mixtral", "qwen3_moe")]
    for directory, model in [(directory, load(directory)) for directory in directories]:
        model.save_pretrained(directory / "saved")
        given, saved = tensors_of(directory), tensors_of(directory / "saved")
        assert given.keys() == saved.keys() and all(torch.equal(given[name], saved[name]) for name in given)


@pytest.mark.parametrize("source", ["llama", "qwen3_moe"])
def test_config_and_model_can_be_pickled(tmp_path, source):
    _, directory = write(tmp_path, source)
    model = load(directory)
    copy = pickle.loads(pickle.dumps(model))
    assert type(copy) is type(model) and copy.config.to_dict() == model.config.to_dict()
    assert_same_logits(logits(copy, some_ids()), logits(model, some_ids()))


@pytest.mark.parametrize("source", ["llama", "phi3"])
def test_a_model_without_weights_has_the_sizes(tmp_path, source):
    _, directory = write(tmp_path, source)
    config = AutoConfig.from_pretrained(directory, trust_remote_code=True)
    made = AutoModel.from_config(config, trust_remote_code=True)
    shapes = {name.removeprefix("model."): tensor.shape for name, tensor in tensors_of(directory).items()}
    del shapes["lm_head.weight"]
    assert {name: tensor.shape for name, tensor in made.state_dict().items()} == shapes
    assert all(parameter.abs().sum() > 0 for parameter in made.parameters())


@pytest.mark.parametrize("key", ["intermediate_sizes", "value_head_dims"])
def test_a_size_for_each_layer_is_needed(tmp_path, key):
    _, directory = write(tmp_path, "llama")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, key: config[key][:2]}))
    with pytest.raises(ValueError, match=f"{key} has 2 entries, must have num_hidden_layers = 3"):
        load(directory)
