"""At k = d the compressed model is the dense model, and shortcuts of low rank leave out nothing."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import harness

METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]
SHORT = {"seqlen": 128}  # 8 samples are still more tokens than there are channels


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
    # Half of the mean square of differences that float32 makes of the logits.
    assert -1e-12 < report["compressed"]["kl"] < 1e-9
    assert report["compressed"]["agreement"] == 1


@pytest.mark.parametrize("method", ["dotresize", "slicegpt", "pca_dotresize"])
def test_full_width_is_exact_with_one_map(method, dense_logits, tmp_path):
    spec = harness.job(
        tmp_path / "out",
        method={"name": method, "width": 256, "map_sharing": "model"},
        samples=8,
        calibration=SHORT,
        evaluate=False,
        ranks=2,
    )
    harness.run_to_report(spec, tmp_path)

    assert (logits(tmp_path / "out") - dense_logits).abs().max() < 1e-4


SHORTCUTS = [
    ("pca_dotresize", "original", {"width": 200, "head": "sliced"}),
    ("magnitude", "original", {"width": 176}),
    ("slicegpt", "original", {"width": 200, "metric": "fisher"}),
    ("dotresize", "compressed", {"width": 176}),
    ("slicegpt", "compressed", {"width": 200, "head": "sliced"}),
]


@pytest.mark.parametrize("method, activations, target", SHORTCUTS)
def test_exact_shortcuts_compute_what_matrices_do(method, activations, target, tmp_path):
    parameters, results = {}, {}
    for shortcuts in ("dense", "exact"):
        spec = harness.job(
            tmp_path / shortcuts,
            method={"name": method, "shortcuts": shortcuts, **target},
            samples=8,
            calibration=SHORT,
            evaluate=False,
            activations=activations,
            ranks=2,
        )
        report = harness.run_to_report(spec, tmp_path)
        parameters[shortcuts] = report["compressed"]["parameters"]
        results[shortcuts] = logits(tmp_path / shortcuts)

    assert parameters["exact"] < parameters["dense"]
    assert (results["exact"] - results["dense"]).abs().max() < 1e-5 * results["dense"].abs().max()


@pytest.mark.parametrize("activations", ["original", "compressed"])
def test_a_rank_is_what_is_stored(activations, tmp_path):
    spec = harness.job(
        tmp_path / "out",
        method={"name": "slicegpt", "width": 200, "shortcuts": 8},
        samples=8,
        calibration=SHORT,
        evaluate=False,
        activations=activations,
        ranks=2,
    )
    report = harness.run_to_report(spec, tmp_path)
    tensors = load_file(next((tmp_path / "out").glob("*.safetensors")))
    stored = [tensor.shape for name, tensor in tensors.items() if "shortcut" in name]
    assert stored == [(8, 200)] * 11
    ranks = [shortcut["rank"] for shortcut in report["shortcuts"]]
    assert ranks == [8] * 11 + [0]  # of a head of full width nothing is left
    assert {shortcut["exact_rank"] for shortcut in report["shortcuts"]} == {56, 0}
