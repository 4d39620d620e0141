"""Tests of whole jobs on a GPU, and of the error on a machine without one."""

import ctypes
import json
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "worker"))
import harness  # noqa: E402

GOLDEN = json.loads((harness.ROOT / "tests" / "data" / "golden.json").read_text())


def gpus():
    """Returns the number of GPUs that the driver offers; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


GPUS = 2 * gpus() if os.environ.get("DOTRESIZE_SHARE_GPU") else gpus()
needs_a_gpu = pytest.mark.skipif(GPUS < 1, reason="no GPU")
needs_two_gpus = pytest.mark.skipif(GPUS < 2, reason=f"needs two GPUs, there are {GPUS}")


def cuda_job(case, directory, compute_dtype, ranks=1):
    method = dict(case["method"])
    activations = method.pop("activations")
    return harness.job(
        directory / "out",
        method=method,
        activations=activations,
        ranks=ranks,
        resources={"device": "cuda", "compute_dtype": compute_dtype},
    )


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_cuda_without_a_gpu_is_refused_before_any_work(tmp_path):
    spec = cuda_job(GOLDEN["cases"][0], tmp_path, "auto")
    done = harness.run(spec, tmp_path)
    assert done.returncode == 65
    assert "resources.device: cuda cannot be used: rank 0: no NVIDIA driver" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "job.yaml"]


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_auto_without_a_gpu_is_the_cpu(tmp_path):
    spec = cuda_job(GOLDEN["cases"][0], tmp_path, "auto")
    spec["resources"]["device"] = "auto"
    spec["calibration"]["samples"] = 2
    del spec["evaluation"]
    report = harness.run_to_report(spec, tmp_path)
    assert (report["device"], report["compute_dtype"]) == ("cpu", "float32")
    assert "gpu" not in report["ranks"][0]


@needs_a_gpu
@pytest.mark.parametrize("compute_dtype, bound", [("float32", 0.005), ("auto", 0.01)])
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_golden_perplexity(case, compute_dtype, bound, tmp_path):
    report = harness.run_to_report(cuda_job(case, tmp_path, compute_dtype), tmp_path)
    assert report["device"] == "cuda"
    assert report["ranks"][0]["gpu"]
    assert report["dense"]["perplexity"] == pytest.approx(case["dense_perplexity"], rel=bound)
    assert report["compressed"]["perplexity"] == pytest.approx(case["perplexity"], rel=bound)


@needs_a_gpu
@pytest.mark.parametrize("compute_dtype", ["float32", "auto"])
@pytest.mark.parametrize("case", GOLDEN["cases"][:8], ids=lambda case: case["name"])
def test_report_tells_the_precision_of_the_costs_and_what_the_gpu_has_done(
    case, compute_dtype, tmp_path
):
    report = harness.run_to_report(cuda_job(case, tmp_path, compute_dtype), tmp_path)
    (rank,) = report["ranks"]
    assert rank["peak_device_memory_bytes"] > 0
    transport = case["method"]["name"].endswith("dotresize")
    assert ("cost" in rank) == transport
    if transport:
        assert 0 < rank["cost"]["share_of_limit"] < 1
    for junction in filter(lambda junction: junction["mapped"], report["junctions"]):
        assert ("cost_dtype" in junction) == transport
        assert ("cost_error" in junction) == (transport and compute_dtype == "auto")
        if "cost_error" in junction:
            half = junction["cost_error"] <= 2**-9
            assert junction["cost_dtype"] == ("float16" if half else "float32")


@needs_a_gpu
@pytest.mark.parametrize("method", [GOLDEN["cases"][0]["method"], {"size": 0.8, "activations": "original"}], ids=["map", "size"])
def test_two_runs_are_identical(method, tmp_path):
    weights = []
    for run in ["one", "two"]:
        (tmp_path / run).mkdir()
        harness.run_to_report(cuda_job({"method": method}, tmp_path / run, "auto"), tmp_path / run)
        weights.append(next((tmp_path / run / "out").glob("*.safetensors")).read_bytes())
    assert weights[0] == weights[1]


@needs_two_gpus
@pytest.mark.parametrize("compute_dtype, bound", [("float32", 1e-4), ("auto", 0.01)])
@pytest.mark.parametrize("activations", ["original", "compressed"])
def test_two_gpus_give_the_model_of_one(activations, compute_dtype, bound, tmp_path):
    case = next(case for case in GOLDEN["cases"] if case["method"]["name"] == "pca_dotresize")
    reports = []
    for ranks in [1, 2]:
        spec = cuda_job(case, tmp_path, compute_dtype, ranks)
        spec["output"]["path"] += str(ranks)
        spec["calibration"]["activations"] = activations
        reports.append(harness.run_to_report(spec, tmp_path))
    one, two = (report["compressed"]["perplexity"] for report in reports)
    assert one == pytest.approx(two, rel=bound)
    one, two = ([junction.get("cost_dtype") for junction in report["junctions"]] for report in reports)
    assert one == two


@needs_two_gpus
@pytest.mark.parametrize("end", [signal.SIGSTOP, signal.SIGKILL])
def test_silent_or_dead_peer_ends_the_job_in_time(end, tmp_path, request):
    request.addfinalizer(harness.kill_all)
    spec = cuda_job(GOLDEN["cases"][0], tmp_path, "float32", ranks=2)
    spec["resources"]["timeout_s"] = 10
    job = harness.Running(spec, tmp_path)
    job.wait_for("calibrate")
    ranks = job.ranks()
    os.kill(ranks[1].pid, end)
    code, seconds = job.end(60)
    assert code != 0
    assert seconds < 40
    assert harness.all_gone(ranks)
    assert not (tmp_path / "out").exists()
