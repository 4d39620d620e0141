"""Runs whole jobs of `device: cuda` on a fake GPU, with the real worker and a fake CUDA module and driver. No operation may
depend on which stream is faster, and the model must be that of the CPU."""

import os
import pathlib
import sys

import pytest
import torch
from safetensors.torch import save_file

sys.path += [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("worker", "transformer")]
import harness  # noqa: E402
from make_models import make_case  # noqa: E402
from model_cases import CASES as MODELS  # noqa: E402

LIBRARIES = harness.BIN.parent / "lib" / "fake_device"


@pytest.fixture
def fake_gpus(monkeypatch):
    monkeypatch.setenv("DOTRESIZE_CUDA_MODULE", str(LIBRARIES / "libdotresize_fake_cuda.so"))
    before = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{LIBRARIES}:{before}" if before else str(LIBRARIES))


def run(directory, device, ranks, method, activations, **sections):
    (directory / device).mkdir()
    spec = harness.job(
        directory / device / "out",
        method=method,
        activations=activations,
        ranks=ranks,
        samples=8,
        resources={"device": device, "compute_dtype": "float32"},
        **({"calibration": {"seqlen": 64}, "evaluation": {"samples": 1}} | sections),
    )
    return harness.run_to_report(spec, directory / device)


TRANSPORT = {"name": "dotresize", "width": 208}
SLICES = {"name": "slicegpt", "width": 208}
ALLOCATED = {"size": 1.6, "allocate": "auto"}
CASES = [(TRANSPORT, "compressed", 2)]
if os.environ.get("DOTRESIZE_ALL_CASES"):
    pca = {"name": "pca_dotresize", "width": 208}
    CASES += [
        (ALLOCATED, "original", 2),
        (pca, "original", 1),
        (pca, "original", 2),
        (pca | {"metric": "fisher"}, "original", 2),
        (pca | {"format": "stock"}, "original", 2),
        (TRANSPORT, "compressed", 1),
        (SLICES, "original", 1),
        (SLICES, "compressed", 2),
        (ALLOCATED, "original", 1),
        ({"name": "magnitude", "width": 208}, "original", 2),
    ]


# Models with kinds of layers of their own: both windows and four norms; sinks and experts in one tensor; DeltaNets.
FAMILIES = ["gemma3_text", "gpt_oss", "qwen3_5_moe_text"]
if os.environ.get("DOTRESIZE_ALL_CASES"):
    FAMILIES = list({name.split("-")[0]: name for name in reversed(MODELS)}.values())


@pytest.mark.parametrize("method, activations, ranks", CASES)
def test_a_job_on_a_gpu_gives_the_model_of_the_cpu(method, activations, ranks, fake_gpus, tmp_path):
    require_equal_models(*(run(tmp_path, device, ranks, method, activations) for device in ["cuda", "cpu"]))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_on_a_gpu_gives_the_model_of_the_cpu(name, fake_gpus, tmp_path):
    model = tmp_path / name
    make_case(model, list(MODELS).index(name), MODELS[name])
    tokens = str(tmp_path / "tokens.safetensors")
    save_file({"tokens": torch.randint(2, 96, (8, 64), generator=torch.Generator().manual_seed(5))}, tokens)
    sections = {"model": {"path": str(model)}, "calibration": {"tokens": tokens}, "evaluation": {"tokens": tokens}}
    method = {"size": 0.8, "round_to": 4}
    require_equal_models(*(run(tmp_path, device, 2, method, "auto", **sections) for device in ["cuda", "cpu"]))


def require_equal_models(gpu, cpu):
    assert (gpu["device"], gpu["ranks"][0]["gpu"]) == ("cuda", "fake GPU (sm_70)")
    assert gpu["dense"]["perplexity"] == pytest.approx(cpu["dense"]["perplexity"], rel=1e-5)
    assert gpu["compressed"]["perplexity"] == pytest.approx(cpu["compressed"]["perplexity"], rel=1e-4)
    assert gpu["calibration"]["schedule"] == cpu["calibration"]["schedule"]
