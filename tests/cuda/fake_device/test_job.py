"""Runs whole jobs of `device: cuda` on a fake GPU, with the real worker and a fake CUDA module and driver. No operation may
depend on which stream is faster, and the model must be that of the CPU."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "worker"))
import harness  # noqa: E402

LIBRARIES = harness.BIN.parent / "lib" / "fake_device"


@pytest.fixture
def fake_gpus(monkeypatch):
    monkeypatch.setenv("DOTRESIZE_CUDA_MODULE", str(LIBRARIES / "libdotresize_fake_cuda.so"))
    before = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{LIBRARIES}:{before}" if before else str(LIBRARIES))


def run(directory, device, ranks, method, activations):
    (directory / device).mkdir()
    spec = harness.job(
        directory / device / "out",
        method=method,
        activations=activations,
        ranks=ranks,
        samples=8,
        calibration={"seqlen": 64},
        resources={"device": device, "compute_dtype": "float32"},
        evaluation={"samples": 1},
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


@pytest.mark.parametrize("method, activations, ranks", CASES)
def test_a_job_on_a_gpu_gives_the_model_of_the_cpu(method, activations, ranks, fake_gpus, tmp_path):
    gpu, cpu = (run(tmp_path, device, ranks, method, activations) for device in ["cuda", "cpu"])
    assert (gpu["device"], gpu["ranks"][0]["gpu"]) == ("cuda", "fake GPU (sm_70)")
    assert gpu["dense"]["perplexity"] == pytest.approx(cpu["dense"]["perplexity"], rel=1e-5)
    assert gpu["compressed"]["perplexity"] == pytest.approx(cpu["compressed"]["perplexity"], rel=1e-4)
    assert gpu["calibration"]["schedule"] == cpu["calibration"]["schedule"]
