"""Tests that the compressed model equals the dense model at k = d."""

import harness
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]
SHORT = {"seqlen": 128}  # 8 samples still have more tokens than there are channels


def logits(model_dir):
    tokens = load_file(harness.EVALUATION)["tokens"][:2].long()
    model = AutoModelForCausalLM.from_pretrained(
        model_dir, dtype=torch.float32, trust_remote_code=True
    )
    with torch.no_grad():
        return model(tokens).logits


@pytest.fixture(scope="module")
def dense_logits():
    return logits(harness.MODEL)


@pytest.fixture(scope="module")
def two_windows(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "evaluation.safetensors"
    save_file({"tokens": load_file(harness.EVALUATION)["tokens"][:2].clone()}, path)
    return path


@pytest.mark.parametrize("activations", ["original", "compressed"])
@pytest.mark.parametrize("method", METHODS)
def test_full_width_is_exact(method, activations, dense_logits, two_windows, tmp_path):
    spec = harness.job(
        tmp_path / "out",
        method={"name": method, "width": 256, "head": "sliced"},
        samples=8,
        calibration=SHORT,
        evaluation={"tokens": str(two_windows)},
        activations=activations,
        ranks=2,
    )
    report = harness.run_to_report(spec, tmp_path)

    assert (logits(tmp_path / "out") - dense_logits).abs().max() < 1e-4
    # Float32 errors of the logits give a KL of half of their mean square.
    assert -1e-12 < report["compressed"]["kl"] < 1e-9
    assert report["compressed"]["agreement"] == 1


@pytest.mark.parametrize("method", ["dotresize", "slicegpt", "pca_dotresize"])
def test_full_width_is_exact_with_one_map(method, dense_logits, tmp_path):
    spec = harness.job(
        tmp_path / "out",
        method={"name": method, "width": 256, "format": "stock"},
        samples=8,
        calibration=SHORT,
        evaluate=False,
        ranks=2,
    )
    harness.run_to_report(spec, tmp_path)

    assert (logits(tmp_path / "out") - dense_logits).abs().max() < 1e-4
