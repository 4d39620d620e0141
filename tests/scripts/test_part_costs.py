"""Tests of scripts/part_costs.py: parts of an output put into the dense model, one at a time and together."""

import contextlib
import copy
import json

import part_costs
import pytest
import torch
from conftest import ROOT
from paper.programs import dotresize
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

COMMON = {
    "hidden_size": 48, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 12, "vocab_size": 256, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "tie_word_embeddings": False,
}  # fmt: skip
FAMILIES = {
    "phi3": {"sliding_window": None},
    "qwen3": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 64, "sliding_window": None},
}

MODEL = ROOT / "examples" / "docs-llama"
NO_MAPS = part_costs.Maps(MODEL, {"junctions": []})
TOKENS = ROOT / "tests" / "data" / "evaluation.safetensors"


@pytest.fixture(scope="module")
def two_windows(tmp_path_factory):
    file = tmp_path_factory.mktemp("tokens") / "tokens.safetensors"
    save_file({"tokens": load_file(TOKENS)["tokens"].flatten()[:256].reshape(2, 128).contiguous()}, file)
    return file


def output_of(folder, method, ranks=1, **output):
    job = folder / "job.json"
    job.write_text(json.dumps({
        "name": "parts", "model": {"path": str(MODEL)}, "output": {"path": str(folder / "out"), "dtype": "float32", **output},
        "method": {"name": "slicegpt", "allow_larger": True, **method},
        "calibration": {"tokens": str(ROOT / "tests" / "data" / "calibration.safetensors"), "samples": 2},
        "resources": {"ranks": ranks},
    }))  # fmt: skip
    dotresize("run", job)
    return folder / "out"


def test_all_parts_together_are_the_output(tmp_path, two_windows, capsys):
    output = output_of(tmp_path, {"width": 256, "mlp": {"width": 512}}, format="stock")
    assert part_costs.main([str(output), str(two_windows), "--windows", "2", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predicted"] is None  # the metric of the activations predicts no loss
    assert [part["name"] for part in found["parts"]] == [f"layers.{layer}.mlp" for layer in range(6)]
    assert all(0 < part["kl"] < found["together"] for part in found["parts"])
    model = dotresize("eval", output, "--reference", MODEL, "--tokens", two_windows)["models"][-1]
    assert found["together"] == pytest.approx(model["kl"], rel=1e-3)


def random_model(family, seed):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**COMMON, **FAMILIES[family]})).eval()
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, 1.0 if "norm" in name else 0.0, 0.1)
    return model


@torch.no_grad()
@pytest.mark.parametrize("names", [("attention", "input_layernorm", "self_attn"), ("mlp", "post_attention_layernorm", "mlp")])
@pytest.mark.parametrize("family", ["qwen3", "phi3", "mixtral"])
def test_a_part_stands_in_the_place_of_the_dense_sublayer_and_of_its_norm(family, names):
    dense, other = random_model(family, 1), random_model(family, 2)
    ids = torch.randint(0, COMMON["vocab_size"], (1, 40), generator=torch.Generator().manual_seed(3))
    before = dense(ids, use_cache=False).logits
    mixed = copy.deepcopy(dense)
    for name in names[1:]:
        setattr(mixed.base_model.layers[1], name, getattr(other.base_model.layers[1], name))
    with part_costs.replaced(dense, other, NO_MAPS, f"layers.1.{names[0]}"):
        assert torch.equal(dense(ids, use_cache=False).logits, mixed(ids, use_cache=False).logits)
    assert torch.equal(dense(ids, use_cache=False).logits, before)
    assert not torch.equal(mixed(ids, use_cache=False).logits, before)


@torch.no_grad()
def test_a_part_that_is_gone_writes_nothing():
    dense, other = random_model("qwen3", 1), random_model("qwen3", 2)
    ids = torch.randint(0, COMMON["vocab_size"], (1, 40), generator=torch.Generator().manual_seed(3))
    silent = copy.deepcopy(dense)
    silent.base_model.layers[1].self_attn.o_proj.weight.zero_()
    del other.base_model.layers[1].self_attn
    with part_costs.replaced(dense, other, NO_MAPS, "layers.1.attention"):
        assert torch.equal(dense(ids, use_cache=False).logits, silent(ids, use_cache=False).logits)


@pytest.fixture(scope="module")
def with_maps(tmp_path_factory):
    return output_of(tmp_path_factory.mktemp("maps"), {"width": 200, "head": "sliced"}, maps=True)


def test_maps_are_the_same_bytes_for_any_number_of_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # else the threads of a rank change the rounding of decompositions
    found = set()
    for ranks in (1, 3):
        (tmp_path / str(ranks)).mkdir()
        output = output_of(tmp_path / str(ranks), {"width": 200, "head": "sliced"}, ranks=ranks, maps=True)
        found.add((output / "dotresize/maps.safetensors").read_bytes())
    assert len(found) == 1


@torch.no_grad()
def test_with_every_sublayer_and_skip_path_of_the_output_the_dense_model_is_the_output(with_maps, two_windows):
    report = part_costs.read_report(with_maps)
    maps = part_costs.Maps(with_maps, report)
    dense, output = part_costs.load(MODEL, torch.float32), part_costs.load(with_maps, torch.float32)
    ids = load_file(two_windows)["tokens"]

    def rewrite(number, norm, module, shortcut):
        def written(stream, wide, *arguments, **options):
            narrow = maps.narrow(number, stream)
            ours = module(norm(narrow), *arguments, **options)
            return maps.widen(number + 1, (ours[0] if isinstance(ours, tuple) else ours) + shortcut(narrow)) - stream
        return written

    with contextlib.ExitStack() as parts:
        parts.enter_context(part_costs.narrowed(dense, maps, 0))
        for layer, block in enumerate(output.base_model.layers):
            for kind in ("attention", "mlp"):
                number = 2 * layer + (kind == "mlp")
                ours = rewrite(number, *part_costs.sublayer_of(output, layer, kind), getattr(block, f"{kind}_shortcut"))
                parts.enter_context(part_costs.rewritten(dense, layer, kind, ours))
        mixed = dense(ids, use_cache=False).logits
    torch.testing.assert_close(mixed, output(ids, use_cache=False).logits, rtol=1e-3, atol=1e-3)


def test_junctions_and_shortcuts_are_parts_of_an_output_with_maps(with_maps, two_windows, capsys):
    assert part_costs.main([str(with_maps), str(two_windows), "--windows", "2", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kl = {part["name"]: part["kl"] for part in found["parts"]}
    report = part_costs.read_report(with_maps)
    assert [name for name in kl if name.startswith("junction")] == [f"junction {each['name']}" for each in report["junctions"]]
    assert [name for name in kl if name.startswith("shortcut")] == [f"shortcut {each['name']}" for each in report["shortcuts"]]
    assert all(cost > 0 for name, cost in kl.items() if name.startswith("junction"))
    assert all(abs(cost) < 1e-6 for name, cost in kl.items() if name.startswith("shortcut"))  # these are exact
    assert max(kl.values()) < found["together"]
    model = dotresize("eval", with_maps, "--reference", MODEL, "--tokens", two_windows)["models"][-1]
    assert found["together"] == pytest.approx(model["kl"], rel=1e-3)


def test_without_its_maps_an_output_is_refused_by_its_first_junction(tmp_path, two_windows, capsys):
    output = output_of(tmp_path, {"width": 200})
    assert part_costs.main([str(output), str(two_windows)]) == 65
    assert "junction embed is narrower" in capsys.readouterr().err
