"""Tests of a published model made by scripts/real_model.sh: the dense perplexity, and a job that makes its MLPs narrower. The
tests fetch nothing; without the model they are skipped."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from running import ROOT, WORKER, keys_of, report_of, run_worker, score_all
from safetensors.torch import load_file, save_file
from tiny_models import tensors_of

CALIBRATION = (4, 128)  # windows, tokens
EVALUATION = (4, 256)
FEATURES = 1280  # the dense model has 1536
MOST_OVER_DENSE = 1.5  # perplexity ratio; the calibration has few tokens


@pytest.fixture(scope="module")
def real_model():
    found = subprocess.run([ROOT / "scripts" / "real_model.sh", "--no-fetch"], capture_output=True, text=True)
    if found.returncode == 69:
        pytest.skip(found.stderr.strip())
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip())


@pytest.fixture(scope="module")
def tokens(real_model, tmp_path_factory):
    """Returns token files by name: the beginnings of the first windows."""
    files = {}
    for name, (windows, length) in (("calibration", CALIBRATION), ("evaluation", EVALUATION)):
        whole = load_file(real_model / "tokens" / f"{name}.safetensors")["tokens"]
        files[name] = tmp_path_factory.mktemp(name) / "tokens.safetensors"
        save_file({"tokens": whole[:windows, :length].clone()}, files[name])
    return files


@pytest.fixture(scope="module")
def dense_perplexity(real_model, tokens):
    """Returns the dense perplexity in transformers."""
    return score_all("5", [real_model / "smollm2"], tokens["evaluation"])[0]


def test_the_dense_perplexity_is_that_of_transformers(real_model, tokens, dense_perplexity):
    command = [WORKER, "eval", real_model / "smollm2", "--tokens", tokens["evaluation"], "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["models"]
    assert found["perplexity"] == pytest.approx(dense_perplexity, rel=1e-4)
    assert found["parameters"] == 134_515_008  # counts the tied table once


def test_narrower_mlps_leave_a_tied_model_that_is_about_as_good(real_model, tokens, dense_perplexity, tmp_path):
    source = real_model / "smollm2"
    job = {
        "name": "narrower",
        "model": {"path": str(source)},
        "output": {"path": str(tmp_path / "out"), "format": "stock"},
        "method": {"name": "slicegpt", "width": 576, "mlp": {"width": FEATURES}},
        "calibration": {"tokens": str(tokens["calibration"])},
        "evaluation": {"tokens": str(tokens["evaluation"]), "seqlen": EVALUATION[1]},
        "resources": {"ranks": 2},
    }
    output = run_worker(tmp_path, job, ranks=2)
    report = report_of(output)
    stored, dense = tensors_of(output), tensors_of(source)
    assert keys_of(output)["tie_word_embeddings"]
    assert "lm_head.weight" not in stored
    assert torch.equal(stored["model.embed_tokens.weight"], dense["model.embed_tokens.weight"])
    removed = 30 * 3 * 576 * (1536 - FEATURES)
    assert report["dense"]["parameters"] - report["compressed"]["parameters"] == removed
    assert sum(tensor.numel() for tensor in stored.values()) == report["compressed"]["parameters"]
    assert report["compressed"]["bytes_fraction"] < 0.91

    (perplexity,) = score_all("5", [output], tokens["evaluation"])
    assert report["dense"]["perplexity"] == pytest.approx(dense_perplexity, rel=1e-4)
    assert report["compressed"]["perplexity"] == pytest.approx(perplexity, rel=1e-4)
    assert dense_perplexity < perplexity < MOST_OVER_DENSE * dense_perplexity
