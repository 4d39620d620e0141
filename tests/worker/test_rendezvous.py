"""Tests of whole jobs over a transport whose transfers block both ranks until they are done, like NCCL's may. The jobs end,
with the same bytes."""

import json
import subprocess

import harness
import pytest

RENDEZVOUS = harness.BIN / "dotresize-worker-rendezvous"


@pytest.mark.parametrize(
    "method",
    [
        {"name": "slicegpt", "width": 200},
        {"name": "slicegpt", "width": 200, "metric": "fisher"},
        {"size": 1.6, "allocate": "auto"},
    ],
    ids=["forward alone", "metric of the loss", "allocated"],
)
def test_a_job_whose_transfers_block_is_that_of_mpi(method, tmp_path, monkeypatch):
    found = []
    for worker in [harness.WORKER, RENDEZVOUS]:
        monkeypatch.setattr(harness, "WORKER", worker)
        directory = tmp_path / worker.name
        directory.mkdir()
        spec = harness.job(
            directory / "out",
            method=method,
            activations="original",
            samples=12,
            ranks=3,
            evaluate=False,
            calibration={"seqlen": 128},
            resources={"timeout_s": 20},
        )
        report = harness.run_to_report(spec, directory)
        assert report["calibration"]["schedule"] == "pipeline"
        found.append(harness.outcome(directory / "out"))
    assert found[0] == found[1]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_self_test_passes_over_transfers_that_block(ranks):
    command = harness.mpirun(ranks, RENDEZVOUS, "self-test", "--device", "cpu", "-o", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["devices"] == ["CPU"] * ranks
    assert len(result["link_bytes_per_s"]) == ranks - 1 and all(speed > 0 for speed in result["link_bytes_per_s"])
