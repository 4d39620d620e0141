"""Tests that `dotresize export` writes the same model. transformers reads GGUF files back; tensors are compared where it
cannot. Directories that people bend are compared with what transformers makes of them."""

import importlib
import json
import os
import resource
import shutil
import signal
import sys

import gguf
import pytest
import torch
from exports import MOE, VOCABULARY, add_tokenizer, change_json, content_of, export, make_model
from gguf import GGUFReader
from layer_sizes import with_layer_sizes
from narrowing import CODE, fold, output_keys, random_maps, write_output
from running import EXAMPLE, ROOT
from safetensors.torch import load_file, save_file
from tiny_models import random_dense, tiny_keys
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

sys.path.append(str(ROOT / "scripts"))
import trusted_code  # noqa: E402


def test_types_tokens_and_template_are_in_the_file(tmp_path):
    make_model(tmp_path / "model", "llama", vocab_size=4096)
    shutil.copy(EXAMPLE / "tokenizer.json", tmp_path / "model")
    # transformers 4 has the template in tokenizer_config.json.
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    written = json.loads(export(tmp_path / "model", tmp_path / "model.gguf", "--type", "q8_0", "-o", "json", env=os.environ))
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
    dense = with_layer_sizes(directory, tiny_keys("llama", vocab_size=VOCABULARY, **changes), SIZES, dims)
    add_tokenizer(directory)
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
    ids = torch.randint(0, VOCABULARY, (2, 32))
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
    ids = torch.randint(0, VOCABULARY, (2, 32))
    expected = dense(ids).logits.detach()
    export(tmp_path / "model", tmp_path / "out", to="nemotron-nas")
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
    back, source = (AutoTokenizer.from_pretrained(tmp_path / name)("def").input_ids for name in ("out", "model"))
    assert back == source
    assert trusted_code.may_run_code(tmp_path / "out")


def refusals(directory, to):
    """Returns a function that gives the program's error for an output without maps whose config.json is changed."""
    output_without_maps(directory / "model", DIMS)
    file = directory / "model" / "config.json"
    config = file.read_text()

    def refusal(**changes):
        file.write_text(config)
        change_json(file, **changes)
        return export(directory / "model", directory / "out", to=to, exit_code=65)

    return refusal


def narrowed_output(directory, family, widths):
    """Writes a custom output with maps."""
    keys = tiny_keys(family, vocab_size=VOCABULARY)
    tensors = fold(random_dense(keys), random_maps(48, widths))
    write_output(directory, tensors, output_keys(keys, widths))
    add_tokenizer(directory)


@pytest.mark.parametrize("to", ["gguf", "nemotron-nas"])
def test_maps_are_refused_by_the_first_junction(to, tmp_path):
    form = {"gguf": "GGUF"}.get(to, to)
    narrowed_output(tmp_path / "model", "llama", [48, 48, 40, 48, 48, 48, 48])
    refusal = export(tmp_path / "model", tmp_path / "out", to=to, exit_code=65)
    assert f"junction 2 is narrower than the model, which has no form in {form}" in refusal
    narrowed_output(tmp_path / "folded", "llama", [48] * 7)
    assert "the norms are folded" in export(tmp_path / "folded", tmp_path / "out", to=to, exit_code=65)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folded", "model"]


def test_what_has_no_form_in_nemotron_nas_is_refused_by_name(tmp_path):
    refusal = refusals(tmp_path, "nemotron-nas")
    mistral = {"source_model_type": "mistral", "architectures": ["DotResizeMistralForCausalLM"]}
    assert "no sliding window" in refusal(**mistral, sliding_window=16)
    assert "intermediate_sizes: must be a list of num_hidden_layers, 3" in refusal(intermediate_sizes=[20, 0])
    make_model(tmp_path / "llama", "llama")
    assert "not a custom output" in export(tmp_path / "llama", tmp_path / "out", to="nemotron-nas", exit_code=65)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llama", "model"]


def test_sizes_of_layers_are_those_of_the_tensors(tmp_path):
    refusal = refusals(tmp_path, "gguf")
    assert "value_head_dims: 1000000000 is not a whole number from 0 to 12" in refusal(value_head_dims=[12, 10**9, 5])
    assert "has shape [24, 48], expected [22, 48]" in refusal(value_head_dims=[0, 11, 5])


def test_what_has_no_form_in_gguf_is_refused_by_name(tmp_path):
    model, out = tmp_path / "model", tmp_path / "model.gguf"
    make_model(model, "llama")
    config = (model / "config.json").read_text()

    def refusal(**changes):
        (model / "config.json").write_text(config)
        change_json(model / "config.json", **changes)
        return export(model, out, exit_code=65)

    assert "'cohere' is refused" in refusal(model_type="cohere", architectures=None)
    assert "a rotary embedding of type dynamic is not exported" in refusal(rope_parameters={"rope_type": "dynamic", "factor": 2.0})
    assert "has shape [512, 64], expected [500, 64]" in refusal(vocab_size=500)
    assert "hidden_size: " in refusal(hidden_size="wide")
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    (model / "tokenizer.json").write_text(json.dumps(tokenizer | {"added_tokens": [{"id": -1, "content": "", "special": True}]}))
    assert "token -1 is not in a vocabulary of 512" in refusal()
    (model / "tokenizer.json").write_text(json.dumps(tokenizer | {"added_tokens": 7}))
    assert "not a tokenizer as transformers writes it" in refusal()
    (model / "tokenizer.json").unlink()
    assert f"{model} has no tokenizer.json, which a GGUF file holds" in refusal()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_where_nothing_can_be_written_is_said_before_the_work(tmp_path):
    make_model(tmp_path / "model", "llama")
    there = tmp_path / "there"
    there.write_text("")
    assert f"{there}: is there already" in export(tmp_path / "model", there, exit_code=65)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert f"{tmp_path}/link: is there already" in export(tmp_path / "model", tmp_path / "link", exit_code=65)
    missing = export(tmp_path / "model", tmp_path / "no" / "model.gguf", exit_code=65)
    assert f"{tmp_path}/no/model.gguf: its folder is not there; make it with mkdir -p {tmp_path}/no" in missing
    assert "is a file, not a folder" in export(tmp_path / "model", there / "model.gguf", exit_code=65)
    assert "MODEL_DIR: must not be empty" in export("", tmp_path / "model.gguf", exit_code=64)
    assert "no such model directory" in export(tmp_path / "none", tmp_path / "model.gguf", exit_code=65)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model", "there"]


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))


@pytest.mark.parametrize("to", ["gguf", "nemotron-nas"])
def test_nothing_stays_of_an_export_that_cannot_be_written(to, tmp_path):
    output_without_maps(tmp_path / "model", DIMS)
    fault = export(tmp_path / "model", tmp_path / "out", to=to, exit_code=1, preexec_fn=limit_files)
    assert f"export: error: {tmp_path}/out: cannot be written: " in fault and "partial" not in fault
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize("to", ["gguf", "nemotron-nas"])
def test_nothing_stays_of_an_export_that_is_stopped(to, tmp_path, monkeypatch, capsys):
    """The exporter runs in this process, so that the signal comes while it reads the third tensor."""
    output_without_maps(tmp_path / "model", DIMS)
    (tmp_path / "python").write_text(f'#!/bin/sh\ncat > "{tmp_path}/description"\n')
    (tmp_path / "python").chmod(0o755)
    export(tmp_path / "model", tmp_path / "out", to=to, env=os.environ | {"DOTRESIZE_PYTHON": str(tmp_path / "python")})
    monkeypatch.syspath_prepend(CODE)
    import exporting

    read, names = exporting.Model.get, []

    def get(model, name):
        names.append(name)
        if len(names) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return read(model, name)

    monkeypatch.setattr(exporting.Model, "get", get)
    with (tmp_path / "description").open() as description:
        monkeypatch.setattr(sys, "stdin", description)
        program = importlib.import_module({"gguf": "export_gguf", "nemotron-nas": "export_nemotron_nas"}[to])
        assert program.main([str(tmp_path / "model"), str(tmp_path / "out")]) == 2
    assert len(names) == 3 and "was stopped" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["description", "model", "python"]


# Directories as people have them. transformers loads each and saves it anew; both exports must have the same content.


def resaved(directory):
    """Saves the model as transformers loads it."""
    other = directory.with_name(directory.name + "-resaved")
    AutoModelForCausalLM.from_pretrained(directory, dtype="auto").save_pretrained(other)
    add_tokenizer(other)
    return other


def require_same_export(directory, *options):
    """Returns the settings of the export."""
    bent, plain = directory.with_name("bent.gguf"), directory.with_name("plain.gguf")
    export(directory, bent, *options)
    export(resaved(directory), plain, *options)
    assert content_of(bent) == content_of(plain)
    return content_of(bent)[0]


def save_sharded(model, directory, **settings):
    model.save_pretrained(directory, max_shard_size="200KB", **settings)
    assert len(list(directory.glob("model-*.safetensors"))) > 2


def test_a_stale_set_of_shards_is_not_exported(tmp_path):
    model = make_model(tmp_path / "model", "llama")
    (tmp_path / "model" / "model.safetensors").unlink()
    save_sharded(model, tmp_path / "model")
    for parameter in model.parameters():
        parameter.data.mul_(2)
    model.save_pretrained(tmp_path / "stale")
    tensors = load_file(tmp_path / "stale" / "model.safetensors")
    for number, name in enumerate(sorted(tensors), start=1):  # sorts behind the shards of the model
        save_file({name: tensors[name]}, tmp_path / "model" / f"model-{number:05}-of-{len(tensors):05}.safetensors")
    require_same_export(tmp_path / "model", "--type", "f32")


def test_other_weights_beside_the_model_are_not_exported(tmp_path):
    model = make_model(tmp_path / "model", "llama")
    (tmp_path / "model" / "model.safetensors").unlink()
    save_sharded(model, tmp_path / "model")
    shutil.copy(tmp_path / "model" / "model-00001-of-00003.safetensors", tmp_path / "model" / "consolidated.safetensors")
    index = tmp_path / "model" / "model.safetensors.index.json"
    shard = tmp_path / "model" / "model-00003-of-00003.safetensors"
    buffer = "model.layers.0.self_attn.rotary_emb.inv_freq"
    save_file(load_file(shard) | {buffer: torch.ones(8)}, shard)
    change_json(index, weight_map=json.loads(index.read_text())["weight_map"] | {buffer: shard.name})
    require_same_export(tmp_path / "model", "--type", "f32")
    save_file({"base_model.model.lm_head.lora_A.weight": torch.ones(2, 64)}, tmp_path / "model" / "adapter_model.safetensors")
    assert "adapter_model.safetensors: transformers with peft adds this adapter" in export(tmp_path / "model", tmp_path / "out", exit_code=65)


ABSENT = {
    "qwen3": ({"head_dim": 128}, ("head_dim",), {"attention.key_length": 128, "rope.dimension_count": 128}),
    "qwen2": ({"sliding_window": None}, ("use_sliding_window", "layer_types"), {"context_length": 256}),
    "llama": ({"num_key_value_heads": 4}, ("num_key_value_heads", "rms_norm_eps", "head_dim"), {"attention.head_count_kv": 4}),
    "mistral": ({"num_attention_heads": 8, "num_key_value_heads": 8}, ("num_key_value_heads",), {"attention.head_count_kv": 8}),
}


@pytest.mark.parametrize("family", ABSENT)
def test_absent_settings_are_those_of_transformers(family, tmp_path):
    made, absent, expected = ABSENT[family]
    make_model(tmp_path / "model", family, **made)
    change_json(tmp_path / "model" / "config.json", removed=absent, **({"sliding_window": 64} if family == "qwen2" else {}))
    settings = require_same_export(tmp_path / "model")
    architecture = settings["general.architecture"]
    assert expected.items() <= {key.removeprefix(architecture + "."): value for key, value in settings.items()}.items()


def set_number(directory, tensor, value, dtype=torch.float32):
    tensors = {name: values.to(dtype) for name, values in load_file(directory / "model.safetensors").items()}
    tensors[tensor][3, 5] = value
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


UP = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize("value, kind, largest, others", [
    (-70000.0, "f16", "65504", "--type bf16 or --type f32"),
    (1e7, "q8_0", "8.31901e+06", "--type bf16 or --type f32"),
    (3.4e38, "bf16", "3.38953e+38", "--type f32"),
])  # fmt: skip
def test_a_number_that_the_type_makes_infinite_is_refused(value, kind, largest, others, tmp_path):
    make_model(tmp_path / "model", "llama")
    set_number(tmp_path / "model", UP, value)
    refusal = export(tmp_path / "model", tmp_path / "out", "--type", kind, exit_code=65)
    fault = f"tensor {UP}: {abs(value):g} is infinite in {kind}, whose largest number is {largest}; use {others}"
    assert f"{tmp_path}/model/model.safetensors: {fault}" in refusal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    require_same_export(tmp_path / "model", "--type", others.split()[1])


def test_a_number_that_still_rounds_to_a_finite_one_is_exported(tmp_path):
    make_model(tmp_path / "model", "llama")
    set_number(tmp_path / "model", UP, 65519.0)
    export(tmp_path / "model", tmp_path / "model.gguf")
    assert max(tensor.data.max() for tensor in GGUFReader(tmp_path / "model.gguf").tensors) == 65504.0


@pytest.mark.parametrize("value, dtype, to", [(float("nan"), torch.float32, "gguf"), (float("-inf"), torch.bfloat16, "nemotron-nas")])
def test_numbers_that_are_not_finite_are_refused_by_name(value, dtype, to, tmp_path):
    output_without_maps(tmp_path / "model", [12, 12, 12])
    shard = tmp_path / "model" / "model-00002-of-00002.safetensors"
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(shard).items()}
    name = next(name for name in tensors if name.endswith("q_proj.weight"))
    tensors[name][3, 5] = value
    save_file(tensors, shard)
    refusal = export(tmp_path / "model", tmp_path / "out", to=to, exit_code=65)
    assert f"{shard}: tensor {name}: {value} at [3, 5] is not a finite number" in refusal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_an_untied_model_without_a_head_is_refused_as_a_job_does(tmp_path):
    make_model(tmp_path / "model", "llama")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    assert f"{tmp_path}/model: the checkpoint has no tensor 'lm_head.weight'" in export(tmp_path / "model", tmp_path / "out", exit_code=65)
    change_json(tmp_path / "model" / "config.json", tie_word_embeddings=True)
    require_same_export(tmp_path / "model", "--type", "f32")


def test_names_of_a_base_model_and_fused_experts_are_understood(tmp_path):
    for family, settings in {"qwen3_moe": MOE, "mixtral": {"num_local_experts": 4, "sliding_window": None}}.items():
        model = make_model(tmp_path / family, family, **settings)
        export(tmp_path / family, tmp_path / f"{family}.gguf", "--type", "f32")
        fused = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        assert "model.layers.0.mlp.experts.gate_up_proj" in fused
        shutil.copytree(tmp_path / family, tmp_path / f"{family}-fused")
        save_file(fused, tmp_path / f"{family}-fused" / "model.safetensors", metadata={"format": "pt"})
        export(tmp_path / f"{family}-fused", tmp_path / f"{family}-fused.gguf", "--type", "f32")
        assert content_of(tmp_path / f"{family}-fused.gguf") == content_of(tmp_path / f"{family}.gguf")
    make_model(tmp_path / "base", "qwen3", tie_word_embeddings=True, head_dim=16)
    tensors = load_file(tmp_path / "base" / "model.safetensors")
    save_file({name.removeprefix("model."): tensor for name, tensor in tensors.items()}, tmp_path / "base" / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    require_same_export(tmp_path / "base", "--type", "f32")


def test_nemotron_nas_is_made_of_the_model_alone(tmp_path):
    output_without_maps(tmp_path / "model", DIMS)
    export(tmp_path / "model", tmp_path / "plain", to="nemotron-nas", env=os.environ)
    for name in ("consolidated.safetensors", "model-00003-of-00006.safetensors"):
        stale = load_file(tmp_path / "model" / "model-00001-of-00002.safetensors")
        save_file({key: tensor + 1 for key, tensor in stale.items()}, tmp_path / "model" / name)
    (tmp_path / "model" / "tokenizer.notes").write_text("")
    export(tmp_path / "model", tmp_path / "bent", to="nemotron-nas")
    plain = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "bent").iterdir()} == plain
    config = json.loads(plain["config.json"])
    change_json(tmp_path / "model" / "config.json", removed=("num_key_value_heads", "rms_norm_eps"), num_attention_heads=4)
    assert "has shape" in export(tmp_path / "model", tmp_path / "out", to="nemotron-nas", exit_code=65)
    assert config["rms_norm_eps"] == 1e-5 and config["model_type"] == "nemotron-nas"


def test_files_that_change_during_the_export_are_noticed(tmp_path):
    """The description is made by `dotresize`; a Python that first changes the model runs the exporter."""
    make_model(tmp_path / "model", "llama")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\ntouch -d 2001-01-01 "{tmp_path}/model/{name}"\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        refusal = export(tmp_path / "model", tmp_path / "out", exit_code=65, env=os.environ | {"DOTRESIZE_PYTHON": str(python)})
        assert f"{tmp_path}/model/{name}: was changed while it was read" in refusal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "python"]
