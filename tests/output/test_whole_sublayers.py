"""Tests of allocations that remove whole sublayers."""

import subprocess

import pytest
import torch
from narrowing import random_dense, silence_features, silence_values, tiny_keys
from running import VERSIONS, WORKER, report_of, run_worker, score_all
from safetensors.torch import load_file, save_file

IDS = torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(5))


def job(folder, size):
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    return {
        "name": "whole",
        "model": {"path": str(folder / "source")},
        "output": {"path": str(folder / "out"), "dtype": "float32"},
        "method": {"size": size},
        "calibration": tokens,
        "evaluation": tokens,
        "resources": {"ranks": 2},
    }


@pytest.mark.parametrize("family", ["llama", "mixtral", "phi3"])
def test_sublayers_that_write_nothing_go_and_nothing_is_lost(tmp_path, family):
    dense = random_dense(tiny_keys(family))
    silence_values(dense, [0, 12, 12])
    silence_features(dense, lambda layer, feature: layer == 1)
    dense.save_pretrained(tmp_path / "source")
    save_file({"tokens": IDS}, tmp_path / "tokens.safetensors")
    output = run_worker(tmp_path, job(tmp_path, 0.78), ranks=2)

    report = report_of(output)
    assert report["allocation"]["features"][1] == 0
    assert report["allocation"]["value_head_dims"][0] == 0
    names = [name for shard in output.glob("*.safetensors") for name in load_file(shard)]
    gone = ("layers.0.self_attn", "layers.0.input_layernorm", "layers.1.post_attention_layernorm")
    gone += ("layers.1.mlp", "layers.1.block_sparse_moe")
    assert not any(part in name for name in names for part in gone)
    assert report["compressed"]["perplexity"] == pytest.approx(report["dense"]["perplexity"], rel=1e-5)
    for version in VERSIONS:
        scored = score_all(version, [output], tmp_path / "tokens.safetensors")
        assert scored == pytest.approx([report["compressed"]["perplexity"]], rel=1e-5)
    verify = [WORKER, "verify", output, "--against", tmp_path / "source", "--tokens", tmp_path / "tokens.safetensors"]
    subprocess.run(verify, check=True)
