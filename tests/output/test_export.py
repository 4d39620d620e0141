"""Tests that worker/python/export_gguf.py and export_nemotron_nas.py write the same model. transformers reads GGUF files back;
tensors are compared where it cannot."""

import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy
import pytest
import torch
from gguf import GGUFReader
from narrowing import (
    output_keys,
    random_dense,
    silence_features,
    silence_values,
    stored_tensors,
    tiny_keys,
    without_features,
    without_sublayers,
    without_values,
    write_output,
)
from running import EXAMPLE
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

PROGRAMS = Path(__file__).parents[2] / "worker" / "python"
TINY = {"hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 4096, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}  # fmt: skip
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 768, "norm_topk_prob": True, "head_dim": 16}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
FAMILIES = {
    "llama": {},
    "llama tied": {"tie_word_embeddings": True},
    "llama of wide heads": {"head_dim": 24},
    "mistral": {"head_dim": 24, "sliding_window": None},
    "qwen2": {},
    "qwen3": {"head_dim": 128},  # the reader assumes this, and 768 features per expert
    "qwen3_moe": MOE,
    "phi3": {"vocab_size": 32100},  # the reader requires a padding token 32000
}


def make_model(directory, family, **changes):
    """Makes a random model with the example's tokenizer."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family.split()[0], **{**TINY, **changes})
    model = AutoModelForCausalLM.from_config(config).float()
    for parameter in model.parameters():  # norms and biases that are not the defaults
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_bytes((EXAMPLE / name).read_bytes())
    return model


def export(*arguments, program="export_gguf.py", exit_code=0):
    program = [sys.executable, PROGRAMS / program]
    done = subprocess.run([*map(str, program), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == exit_code, done.stderr
    return done.stdout if exit_code == 0 else done.stderr


def read_back(file, **settings):
    return AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32, **settings).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_reads_the_same_model(family, tmp_path):
    dense = make_model(tmp_path / "model", family, **FAMILIES[family]).eval()
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    ids = torch.randint(0, 4096, (2, 32))
    with torch.no_grad():
        difference = (read_back(tmp_path / "model.gguf")(ids).logits - dense(ids).logits).abs().max()
    assert difference < 1e-5


@pytest.mark.parametrize("family, settings", [("qwen2", {"attention_bias": True}), ("phi3", {})])
def test_a_family_whose_heads_llama_cpp_takes_for_others_is_a_llama(family, settings, tmp_path):
    dense = make_model(tmp_path / "model", family, head_dim=24).eval()
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    assert GGUFReader(tmp_path / "model.gguf").fields["general.architecture"].contents() == "llama"
    ids = torch.randint(0, 4096, (2, 32))
    read = read_back(tmp_path / "model.gguf", **settings)  # GGUF does not store that a llama has biases
    with torch.no_grad():
        assert (read(ids).logits - dense(ids).logits).abs().max() < 1e-5


def test_experts_of_a_mixtral_are_stacked(tmp_path):
    model = make_model(tmp_path / "model", "mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    found = {tensor.name: tensor.data for tensor in GGUFReader(tmp_path / "model.gguf").tensors}
    state = model.state_dict()
    assert found["blk.1.ffn_down_exps.weight"].shape == (4, 64, 128)  # padded with zeros to whole blocks
    assert not found["blk.1.ffn_down_exps.weight"][..., 100:].any() and not found["blk.1.ffn_gate_exps.weight"][:, 100:].any()
    both = state["model.layers.1.mlp.experts.gate_up_proj"].numpy()
    numpy.testing.assert_array_equal(found["blk.1.ffn_gate_exps.weight"][:, :100], both[:, :100])
    numpy.testing.assert_array_equal(found["blk.1.ffn_up_exps.weight"][:, :100], both[:, 100:])
    numpy.testing.assert_array_equal(found["blk.1.ffn_gate_inp.weight"], state["model.layers.1.mlp.gate.weight"].numpy())


def test_frequencies_of_llama3_are_divided_as_in_transformers(tmp_path):
    model = make_model(tmp_path / "model", "llama", rope_parameters=LLAMA3)
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    (factors,) = (tensor.data for tensor in GGUFReader(tmp_path / "model.gguf").tensors if tensor.name == "rope_freqs.weight")
    plain = 10000.0 ** (-torch.arange(0, 16, 2) / 16)
    numpy.testing.assert_allclose(plain / factors, model.model.rotary_emb.inv_freq, rtol=1e-5)
    assert factors.max() == 8.0 and factors.min() == 1.0


def test_types_tokens_and_template_are_in_the_file(tmp_path):
    make_model(tmp_path / "model", "llama")
    # transformers 4 has the template in tokenizer_config.json.
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    written = json.loads(export(tmp_path / "model", tmp_path / "model.gguf", "--type", "q8_0", "--json"))
    assert written["bytes"] == (tmp_path / "model.gguf").stat().st_size and written["type"] == "q8_0"
    reader = GGUFReader(tmp_path / "model.gguf")
    assert {tensor.tensor_type.name for tensor in reader.tensors} == {"Q8_0", "F32"}
    assert reader.fields["tokenizer.chat_template"].contents() == "{{ messages[0]['content'] }}"
    assert reader.fields["tokenizer.ggml.pre"].contents() == "gpt-2"
    text = "It's 2024:\n\n  def f(x): return x  # 100%"
    source, back = AutoTokenizer.from_pretrained(EXAMPLE), AutoTokenizer.from_pretrained(tmp_path, gguf_file="model.gguf")
    assert back(text).input_ids == source(text).input_ids


SIZES, DIMS = [20, 0, 7], [0, 12, 5]  # features and value channels by layer; 0: no MLP, no attention


def output_without_maps(directory, dims, **changes):
    """Writes a custom output with the stream width of a dense llama. Returns the llama, which computes the same."""
    keys = tiny_keys("llama", vocab_size=4096, **changes)
    dense = random_dense(keys)
    silence_features(dense, lambda layer, feature: feature >= SIZES[layer])
    silence_values(dense, dims)
    tensors = without_values(without_features(stored_tensors(dense), SIZES), keys, dims)
    removed = [layer for layer in range(3) if dims[layer] == 0]
    tensors = without_sublayers(tensors, [1], removed)
    for norm in ("1.post_attention_layernorm", *(f"{layer}.input_layernorm" for layer in removed)):
        del tensors[f"model.layers.{norm}.weight"]
    tensors.pop("lm_head.weight", None) if dense.config.tie_word_embeddings else None
    own = {"norm_weights": True, "shortcut_ranks": [0] * 6, "intermediate_sizes": SIZES, "value_head_dims": dims}
    write_output(directory, tensors, {**output_keys(keys, [48] * 7), **own, "tie_word_embeddings": dense.config.tie_word_embeddings})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_bytes((EXAMPLE / name).read_bytes())
    return dense


def tensors_in_gguf(file, dense):
    """Yields the tensors by the dense model's names, in its order of rows."""
    found = {tensor.name: torch.tensor(tensor.data) for tensor in GGUFReader(file).tensors}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DECI, 3)
    for name, _ in dense.named_parameters():
        tensor = found.get(names.get_name(name, try_suffixes=(".weight", ".bias")))
        if tensor is None:
            continue
        if heads := {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2]):
            tensor = tensor.reshape(heads, 6, 2, -1).swapaxes(1, 2).reshape(tensor.shape)
        yield name, tensor


def fill(dense, tensors):
    """Fills the dense model with these tensors. Features and heads that they lack become zero; extra ones must be zero."""
    tensors = dict(tensors)
    for name, parameter in dense.named_parameters():
        parameter.data.zero_()
        if (tensor := tensors.get(name)) is None:
            continue
        common = tuple(slice(min(sizes)) for sizes in zip(tensor.shape, parameter.shape, strict=True))
        parameter.data[common] = tensor[common]
        assert tensor.count_nonzero() == tensor[common].count_nonzero()


without_maps = pytest.mark.parametrize(
    "dims, changes",
    [(DIMS, {}), ([12, 5, 0], {"tie_word_embeddings": True}), ([5, 12, 1], {"attention_bias": True})],
    ids=["first", "tied", "biases"],
)


@without_maps
def test_a_custom_output_without_maps_is_a_deci(tmp_path, dims, changes):
    dense = output_without_maps(tmp_path / "model", dims, **changes)
    ids = torch.randint(0, 4096, (2, 32))
    expected = dense(ids).logits.detach()
    export(tmp_path / "model", tmp_path / "model.gguf", "--type", "f32")
    reader = GGUFReader(tmp_path / "model.gguf")
    settings = {key: reader.fields[f"deci.{key}"].contents() for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length")}
    # llama.cpp takes the size of heads from the first layer and cannot have a layer without an MLP. Features are whole blocks.
    last = 0 if dims[2] == 0 else 1
    assert list(settings.values()) == [[4, 4, 4 * last], [2, 2, 2 * last], [32, 32, 32]]
    fill(dense, tensors_in_gguf(tmp_path / "model.gguf", dense))
    assert (dense(ids).logits - expected).abs().max() < 1e-5


@without_maps
def test_a_custom_output_without_maps_is_a_nemotron_nas(tmp_path, dims, changes):
    dense = output_without_maps(tmp_path / "model", dims, **changes)
    ids = torch.randint(0, 4096, (2, 32))
    expected = dense(ids).logits.detach()
    export(tmp_path / "model", tmp_path / "out", program="export_nemotron_nas.py")
    config = AutoConfig.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert (config.model_type, config.architectures) == ("nemotron-nas", ["DeciLMForCausalLM"])
    assert not {"junction_widths", "intermediate_sizes", "value_head_dims"} & config.to_dict().keys()
    blocks = config.block_configs
    assert [block.ffn.get("intermediate_size") for block in blocks] == [20, None, 7] and blocks[1].ffn.no_op
    assert [block.attention.no_op for block in blocks] == [False, False, dims[2] == 0]
    assert blocks[0].attention.n_heads_in_group == 2 and not hasattr(blocks[0].ffn, "ffn_mult")
    written = load_file(tmp_path / "out" / "model-00001-of-00001.safetensors")
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == dict.fromkeys(written, "model-00001-of-00001.safetensors")
    values = [tensor.shape[0] for name, tensor in written.items() if name.endswith("v_proj.weight")]
    assert set(values) == {24}  # two heads of 12, with padding
    fill(dense, written)
    assert (dense(ids).logits - expected).abs().max() < 1e-5
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("def").input_ids == AutoTokenizer.from_pretrained(EXAMPLE)("def").input_ids


def refusals(directory, program):
    """Returns a function that gives the program's error for an output without maps whose config.json is changed."""
    output_without_maps(directory / "model", DIMS)
    file = directory / "model" / "config.json"
    config = json.loads(file.read_text())

    def refusal(**changes):
        file.write_text(json.dumps(config | changes))
        return export(directory / "model", directory / "out", program=program, exit_code=65)
    return refusal


def test_what_has_no_form_in_nemotron_nas_is_refused_by_name(tmp_path):
    refusal = refusals(tmp_path, "export_nemotron_nas.py")
    assert "junction 2 is narrower than the model, which has no form in nemotron-nas" in refusal(junction_widths=[48, 48, 40, 48, 48, 48, 48])
    assert "not a custom output" in refusal(model_type="llama")
    assert "no sliding window" in refusal(sliding_window=16)
    assert "intermediate_sizes must be 3 numbers up to" in refusal(intermediate_sizes=[20, 0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_maps_are_refused_by_the_first_junction(tmp_path):
    refusal = refusals(tmp_path, "export_gguf.py")
    assert "junction 2 is narrower than the model" in refusal(junction_widths=[48, 48, 40, 48, 48, 48, 48])
    assert "the norms are folded" in refusal(norm_weights=False)
    assert "a custom output of a qwen2 has no form" in refusal(source_model_type="qwen2")
    assert "value_head_dims must be 3 numbers up to 12" in refusal(value_head_dims=[12, 10**9, 5])


def test_what_has_no_form_in_gguf_is_refused_by_name(tmp_path):
    model, out = tmp_path / "model", tmp_path / "model.gguf"
    make_model(model, "llama")
    config = json.loads((model / "config.json").read_text())

    def refusal(**changes):
        (model / "config.json").write_text(json.dumps(config | changes))
        return export(model, out, exit_code=65)

    assert "the family gemma has no exporter" in refusal(model_type="gemma")
    assert "a rotary embedding of type dynamic is not exported" in refusal(rope_parameters={"rope_type": "dynamic"})
    assert "vocab_size is 1000000000000, and the embedding has 4096 rows" in refusal(vocab_size=10**12)
    assert "not a model as transformers writes it" in refusal(hidden_size="wide")
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    (model / "tokenizer.json").write_text(json.dumps(tokenizer | {"added_tokens": [{"id": -1, "content": "", "special": True}]}))
    assert "token -1 is not in a vocabulary of 4096" in refusal()
    tokenizer["pre_tokenizer"] = {"type": "Whitespace"}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "llama.cpp has no splitting of text like that of this tokenizer" in refusal()
    out.write_text("")
    assert "is there already" in refusal()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.gguf"]
