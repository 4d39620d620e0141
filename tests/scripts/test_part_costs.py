"""scripts/part_costs.py: parts of an output in the dense model, one at a time and together."""

import json

import part_costs
import pytest
import torch
from conftest import ROOT
from paper.programs import dotresize
from safetensors.torch import load_file, save_file

MODEL = ROOT / "examples" / "docs-llama"
TOKENS = ROOT / "tests" / "data" / "evaluation.safetensors"


@pytest.fixture(scope="module")
def two_windows(tmp_path_factory):
    file = tmp_path_factory.mktemp("tokens") / "tokens.safetensors"
    save_file({"tokens": load_file(TOKENS)["tokens"].flatten()[:256].reshape(2, 128).contiguous()}, file)
    return file


def output_of(folder, method):
    job = folder / "job.json"
    job.write_text(json.dumps({
        "name": "parts", "model": {"path": str(MODEL)}, "output": {"path": str(folder / "out"), "dtype": "float32"},
        "method": {"name": "slicegpt", "allow_larger": True, **method},
        "calibration": {"tokens": str(ROOT / "tests" / "data" / "calibration.safetensors"), "samples": 2},
    }))  # fmt: skip
    dotresize("run", job)
    return folder / "out"


def test_all_parts_together_are_the_output(tmp_path, two_windows, capsys):
    output = output_of(tmp_path, {"width": 256, "map_sharing": "model", "mlp": {"width": 512}})
    assert part_costs.main([str(output), str(two_windows), "--windows", "2", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predicted"] is None  # in the metric of the activations nothing is said of the loss
    assert [part["name"] for part in found["parts"]] == [f"layers.{layer}.mlp" for layer in range(6)]
    assert all(0 < part["kl"] < found["together"] for part in found["parts"])
    model = dotresize("eval", output, "--reference", MODEL, "--tokens", two_windows)["models"][-1]
    assert found["together"] == pytest.approx(model["kl"], rel=1e-3)


def test_narrow_value_heads_are_filled_up_with_zeros():
    config = part_costs.load(MODEL, "float32").config
    heads, of_values = config.num_attention_heads, config.num_key_value_heads
    dim = config.hidden_size // heads
    v, o = torch.randn(of_values * dim, 8), torch.randn(8, heads * dim)
    kept = [channel for channel in range(dim) if channel % 4]
    narrow_v = v.view(of_values, dim, 8)[:, kept].flatten(0, 1)
    narrow_o = o.view(8, heads, dim)[:, :, kept].flatten(1)
    whole_v = part_costs.in_dense_form("v_proj.weight", narrow_v, v, config).view(of_values, dim, 8)
    whole_o = part_costs.in_dense_form("o_proj.weight", narrow_o, o, config).view(8, heads, dim)
    assert torch.equal(whole_v[:, : len(kept)], v.view(of_values, dim, 8)[:, kept]) and not whole_v[:, len(kept) :].any()
    assert torch.equal(whole_o[:, :, : len(kept)], o.view(8, heads, dim)[:, :, kept]) and not whole_o[:, :, len(kept) :].any()


def test_an_output_with_maps_is_refused_by_its_first_junction(tmp_path, two_windows, capsys):
    output = output_of(tmp_path, {"width": 200})
    assert part_costs.main([str(output), str(two_windows)]) == 65
    assert "junction embed is narrower" in capsys.readouterr().err


def test_a_family_with_fused_projections_is_refused_by_name(tmp_path, capsys):
    (tmp_path / "dotresize").mkdir()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "phi3"}))
    report = {"model": {"path": str(tmp_path)}, "method": {}, "junctions": []}
    (tmp_path / "dotresize" / "report.json").write_text(json.dumps(report))
    assert part_costs.main([str(tmp_path), str(TOKENS)]) == 65
    assert "its source is a phi3" in capsys.readouterr().err
