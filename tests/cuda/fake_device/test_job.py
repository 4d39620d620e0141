"""Whole jobs of `device: cuda` on a fake GPU: the worker is the real one, the CUDA module and the driver are not. No
operation may depend on which stream is faster, and the model is that of the CPU."""

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


def run(directory, device, ranks, method, activations="original"):
    (directory / device).mkdir()
    spec = harness.job(
        directory / device / "out",
        method=method,
        activations=activations,
        ranks=ranks,
        samples=8,
        calibration={"seqlen": 64},
        resources={"device": device, "compute_dtype": "float32"},
        evaluation={"samples": 4},
    )
    return harness.run_to_report(spec, directory / device)


METHODS = {
    "transport": {"name": "pca_dotresize", "width": 208},
    "slices": {"name": "slicegpt", "width": 208},
    "metric of the loss": {"name": "slicegpt", "width": 208, "metric": "fisher"},
    "allocated": {"name": "slicegpt", "size": 1.6, "allocate": "auto", "head": "dense"},
}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_job_on_a_gpu_gives_the_model_of_the_cpu(method, ranks, fake_gpus, tmp_path):
    gpu, cpu = (run(tmp_path, device, ranks, METHODS[method]) for device in ["cuda", "cpu"])
    assert (gpu["device"], gpu["ranks"][0]["gpu"]) == ("cuda", "fake GPU (sm_70)")
    assert gpu["dense"]["perplexity"] == pytest.approx(cpu["dense"]["perplexity"], rel=1e-5)
    assert gpu["compressed"]["perplexity"] == pytest.approx(cpu["compressed"]["perplexity"], rel=1e-4)
