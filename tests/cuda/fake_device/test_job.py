"""Whole jobs of `device: cuda` on a fake GPU: the worker is the real one, the CUDA module and the driver are not. No
operation may depend on which stream is faster, and the model is that of the CPU."""

import json
import os
import pathlib
import subprocess
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
ALLOCATED = {"name": "slicegpt", "size": 1.6, "allocate": "auto", "head": "dense"}
CASES = [(TRANSPORT, "compressed", 2)]
ALL_CASES = bool(os.environ.get("DOTRESIZE_ALL_CASES"))
if ALL_CASES:
    pca = {"name": "pca_dotresize", "width": 208}
    CASES += [
        (ALLOCATED, "original", 2),
        (pca, "original", 1),
        (pca, "original", 2),
        (pca | {"metric": "fisher"}, "original", 2),
        (pca | {"map_sharing": "model"}, "original", 2),
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


@pytest.mark.skipif(not ALL_CASES, reason="takes minutes: with DOTRESIZE_ALL_CASES")
def test_what_is_run_first_on_gpus_runs_here(tmp_path):
    """All steps but those that look at the machine's own GPUs."""
    command = [sys.executable, harness.ROOT / "scripts" / "first_gpu.py", "--rehearse", "--out", tmp_path / "out.json",
               "--folder", tmp_path, "--only", "bench", "example", "8b", "70b"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    steps = {step["name"]: step for step in json.loads((tmp_path / "out.json").read_text())["steps"]}
    assert {name: step.get("why") for name, step in steps.items() if step["outcome"] != "passed"} == {
        "example-8-gpus": "needs 8 GPUs, there are 2"
    }, done.stdout
    assert done.returncode == 0
    assert steps["example-2-gpus"]["values"]["ranks"][1]["gpu"] == "fake GPU (sm_70)"
    assert {"8b-forward-2-gpus", "70b-gradients-2-gpus"} <= steps.keys()
