"""Tests of scripts/speed.py with small models in transformers, and of what it counts."""

import json

import pytest
import speed
import torch
from counted import Counted
from safetensors.torch import save_file
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 200,
         "max_position_embeddings": 256}  # fmt: skip
OF_A_LAYER = 2 * 32 * 32 + 2 * 32 * 16


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Makes a llama and one with a third of its features, which says that it is an output of 61 % of the bytes."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(3)
    for name, features in (("dense", 96), ("narrow", 32)):
        LlamaForCausalLM(LlamaConfig(**SHAPE, intermediate_size=features)).save_pretrained(folder / name)
    (folder / "narrow" / "dotresize").mkdir()
    (folder / "narrow" / "dotresize" / "report.json").write_text(json.dumps({"compressed": {"bytes_fraction": 0.61}}))
    return folder


def test_counts_are_those_of_the_shapes(models, tmp_path):
    dense, narrow = Counted(models / "dense"), Counted(models / "narrow")
    assert dense.matrices == 3 * (OF_A_LAYER + 3 * 32 * 96)
    assert narrow.work("decode") == 3 * (OF_A_LAYER + 3 * 32 * 32) + 200 * 32
    assert dense.work("prompt 10") == dense.matrices + 3 * 2 * 32 * 5
    config = Gemma3TextConfig(**SHAPE | {"head_dim": 8, "intermediate_size": 96, "sliding_window": 4, "vocab_size": 64},
                              layer_types=["sliding_attention", "sliding_attention", "full_attention"])  # fmt: skip
    Gemma3ForCausalLM(config).save_pretrained(tmp_path)
    windowed = Counted(tmp_path)
    seen = sum(min(token, 4) for token in range(1, 1001)) / 1000  # tokens that one of a windowed layer attends to
    assert windowed.work("prompt 1000") - windowed.matrices == pytest.approx(2 * 32 * (2 * seen + 500), rel=2e-3)
    assert windowed.work("decode") == windowed.matrices + 64 * 32


def test_models_are_compared_and_kept_beside_others(models, tmp_path, capsys):
    file = tmp_path / "speed.json"
    file.write_text(json.dumps({"dense": [{"engine": "transformers", "type": "float32"}, {"engine": "vllm", "type": "float32"}]}))
    arguments = [models / "dense", models / "narrow", "--prompts", 8, 24, "--new", 24, "--rounds", 2, "--dtype", "float32", "--threads", 1,
                 "--out", file]  # fmt: skip
    assert speed.main(list(map(str, arguments))) == 0
    assert "61%, stock" in capsys.readouterr().out
    kept, other = json.loads(file.read_text())["dense"][:-1], json.loads(file.read_text())["dense"][-1]
    assert other == {"engine": "vllm", "type": "float32"}
    assert [row["what"] for row in kept] == ["prompt 8", "prompt 24", "decode"] * 2
    for row in kept:
        assert row["lowest"] <= row["times_dense"] <= row["highest"] and row["tokens_per_s"] > 0 and row["resident_bytes"] > 1e8
        assert (row["times_dense"] == row["promised"] == 1) if row["model"] == "dense" else row["promised"] > 1.5


def test_a_mixture_is_refused_by_name(models, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 1}))
    save_file({"model.layers.0.mlp.experts.0.up_proj.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    assert speed.main([str(models / "dense"), str(tmp_path)]) == 65
    assert f"{tmp_path}: not a text model without experts" in capsys.readouterr().err


def test_a_dense_model_that_is_not_there_ends_it(tmp_path, capsys):
    assert speed.main([str(tmp_path / "dense"), str(tmp_path / "other"), "--prompts", "8"]) == 65
    assert "speed: error: " in capsys.readouterr().err
