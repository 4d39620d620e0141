"""At k = d the compressed model is the dense model, for every method and both schedules."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import harness

METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]


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


@pytest.mark.parametrize("activations", ["original", "compressed"])
@pytest.mark.parametrize("method", METHODS)
def test_full_width_is_exact(method, activations, dense_logits, tmp_path):
    spec = harness.job(
        tmp_path / "out",
        method={"name": method, "width": 256, "head": "sliced"},
        samples=8,
        evaluate=False,
        activations=activations,
        ranks=2,
    )
    harness.run_to_report(spec, tmp_path)

    assert (logits(tmp_path / "out") - dense_logits).abs().max() < 1e-4


@pytest.mark.parametrize("sharing", ["model", 4])
@pytest.mark.parametrize("method", METHODS)
def test_full_width_is_exact_with_shared_maps(method, sharing, dense_logits, tmp_path):
    spec = harness.job(
        tmp_path / "out",
        method={"name": method, "width": 256, "map_sharing": sharing},
        samples=8,
        evaluate=False,
        ranks=2,
    )
    harness.run_to_report(spec, tmp_path)

    assert (logits(tmp_path / "out") - dense_logits).abs().max() < 1e-4
