"""Tests that a job ends with a reason and leaves nothing behind, whatever happens to its ranks."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import harness
import psutil
import pytest


@pytest.fixture
def spec(tmp_path):
    return harness.job(
        tmp_path / "out", method={"name": "pca_dotresize", "width": 200}, ranks=4, evaluate=False
    )


@pytest.mark.parametrize("activations", ["original", "compressed"])
def test_killed_rank_ends_the_job_within_seconds(activations, spec, tmp_path):
    spec["calibration"]["activations"] = activations
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    ranks = running.ranks()
    os.kill(ranks[2].pid, signal.SIGKILL)
    code, seconds = running.end()

    assert code == 128 + signal.SIGKILL
    assert seconds < 10
    assert "process rank 2" in running.log and "signal 9" in running.log
    assert harness.all_gone(ranks)
    assert not (tmp_path / "out").exists()


def test_ranks_of_srun_that_do_not_know_each_other_end_at_once(spec, tmp_path):
    job = harness.write_job(spec, tmp_path)
    alone = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
    done = subprocess.run([harness.BIN / "dotresize-worker", job], capture_output=True, text=True, timeout=60,
                          env={**alone, "SLURM_STEP_NUM_TASKS": "4"})  # fmt: skip
    assert done.returncode == 1
    assert "srun started 4 processes, but MPI knows of 1: srun needs --mpi=pmix" in done.stderr
    assert harness.leftovers(tmp_path) == []


def test_silent_rank_ends_the_job_at_the_deadline(spec, tmp_path):
    spec["resources"]["timeout_s"] = 3
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    ranks = running.ranks()
    os.kill(ranks[3].pid, signal.SIGSTOP)
    code, seconds = running.end()

    assert code == 1
    assert seconds < 15
    silent = rf"rank 3 on {harness.HOST} has been silent for 3 s \(resources.timeout_s\)"
    assert re.search(rf"did not complete: {silent}, last in (start|prepare|calibrate)\n", running.log), (
        running.log
    )
    assert harness.all_gone(ranks)
    assert harness.leftovers(tmp_path) == []


@contextlib.contextmanager
def stopped(ranks):
    try:
        for rank in ranks:
            rank.suspend()
        yield
    finally:
        for rank in ranks:
            with contextlib.suppress(psutil.NoSuchProcess):
                rank.resume()


def test_stopped_rank_and_stopped_job_go_on(spec, tmp_path):
    """One rank is stopped for less than the deadline. Then all are stopped for longer, like overnight."""
    spec["calibration"]["samples"] = 16
    harness.run_to_report(spec, tmp_path)
    undisturbed = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.safetensors")}
    spec["output"]["overwrite"] = True
    spec["resources"]["timeout_s"] = 5
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    ranks = running.ranks()
    with stopped([ranks[2]]):
        time.sleep(2)
    with stopped(ranks):
        time.sleep(8)
        assert running.process.poll() is None, running.log
    code, _ = running.end(60)

    assert code == 0, running.log
    for name, content in undisturbed.items():
        assert (tmp_path / "out" / name).read_bytes() == content


@pytest.fixture
def slow_tokenizer(spec, tmp_path, monkeypatch):
    """Makes rank 0 wait this many seconds for the tokenizer, while the others wait for rank 0."""

    def use(seconds):
        program = tmp_path / "python"
        program.write_text(
            f"#!/bin/sh\ntouch {tmp_path}/tokenizing\ni=0; while [ $i -lt {10 * seconds} ]; do sleep 0.1; i=$((i+1)); done\n"
            # The arguments end in MODEL OUT TEXT.
            f'for argument; do out=$last; last=$argument; done\ncp {harness.CALIBRATION} "$out"\n'
            'sha256sum < "$out" | cut -d " " -f 1 > "$out.sha256"\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("DOTRESIZE_PYTHON", str(program))
        (tmp_path / "text").write_text("to be tokenised")
        spec["calibration"] = {"text": [str(tmp_path / "text")], "samples": 4, "seqlen": 128}
        spec["resources"].update(timeout_s=2, ranks=2)

    return use


def test_the_tokenizer_imports_nothing_of_the_working_directory(spec, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for module in ("json", "tokenizers"):
        (elsewhere / f"{module}.py").write_text(f"open('{tmp_path}/executed', 'w')")
    (tmp_path / "text").write_text("to be tokenised " * 100)
    spec["calibration"] = {"text": [str(tmp_path / "text")], "samples": 1, "seqlen": 64}
    command = harness.command(spec, tmp_path, ranks=0)
    result = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "executed").exists()


def test_operation_may_take_longer_than_the_deadline(slow_tokenizer, spec, tmp_path):
    slow_tokenizer(seconds=6)
    harness.run_to_report(spec, tmp_path)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_tokenizer_that_hangs_ends_the_job_at_the_deadline(ranks, slow_tokenizer, spec, tmp_path):
    slow_tokenizer(seconds=0)
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nkill -STOP $$\n")
    spec["resources"]["ranks"] = ranks
    started = time.monotonic()
    done = subprocess.run(harness.command(spec, tmp_path, 0 if ranks == 1 else ranks), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "the tokenizer helper has used no processor for 2 s (resources.timeout_s) and was ended" in done.stderr
    assert time.monotonic() - started < 30
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert harness.leftovers(tmp_path) == []


def test_silent_rank_ends_a_job_that_waits_for_nobody(slow_tokenizer, spec, tmp_path):
    slow_tokenizer(seconds=30)
    running = harness.Running(spec, tmp_path)
    while not (tmp_path / "tokenizing").exists():
        assert running.process.poll() is None, running.log
        time.sleep(0.05)
    ranks = running.ranks()
    ranks[1].suspend()
    helpers = ranks[0].children(recursive=True)
    code, seconds = running.end()
    for helper in helpers:
        with contextlib.suppress(psutil.NoSuchProcess):
            helper.kill()

    assert code == 1
    assert seconds < 15
    assert (
        f"error: rank 0 on {harness.HOST} in prepare: rank 1 on {harness.HOST} has been silent"
        in running.log
    )
    assert harness.all_gone(ranks)
    assert harness.leftovers(tmp_path) == []


@pytest.mark.parametrize(("event", "expected"), [("deadline", 1), ("sigterm", 2)])
def test_rank_0_that_cannot_clean_up_leaves_nothing(event, expected, spec, tmp_path):
    """The end of another rank may end rank 0 before it has removed the unfinished output."""
    spec["resources"]["timeout_s"] = 3 if event == "deadline" else 120
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    rank_0, *others = running.ranks()
    ended = threading.Event()

    def keep_stopped():  # mpirun wakes processes that it ends
        while not ended.wait(0.001) and rank_0.is_running():
            with contextlib.suppress(psutil.NoSuchProcess):
                rank_0.suspend()

    stopping = threading.Thread(target=keep_stopped)
    stopping.start()
    try:
        if event == "sigterm":
            others[1].terminate()
        code, _ = running.end()
    finally:
        ended.set()
        stopping.join()

    assert code == expected
    assert harness.all_gone([rank_0, *others])
    assert harness.leftovers(tmp_path) == []


@pytest.mark.parametrize("rank", [0, 2])
def test_sigterm_to_a_rank_cancels_the_job(rank, spec, tmp_path):
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    ranks = running.ranks()
    os.kill(ranks[rank].pid, signal.SIGTERM)
    code, _ = running.end()

    assert code == 2
    assert harness.all_gone(ranks)
    assert harness.leftovers(tmp_path) == []


def test_sigterm_to_mpirun_leaves_nothing(spec, tmp_path):
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    ranks = running.ranks()
    running.process.terminate()
    code, _ = running.end()

    assert code != 0
    assert harness.all_gone(ranks)
    assert harness.leftovers(tmp_path) == []


def test_ranks_die_with_a_killed_mpirun(spec, tmp_path):
    running = harness.Running(spec, tmp_path)
    running.wait_for("calibrate")
    ranks = running.ranks()
    running.process.kill()
    running.end()
    assert harness.all_gone(ranks)


def test_leftover_of_a_killed_job_is_no_obstacle(spec, tmp_path):
    partial = pathlib.Path(spec["output"]["path"] + ".partial")
    (partial / "journal").mkdir(parents=True)
    (partial / "model-00001-of-00009.safetensors").write_text("torn")
    spec["calibration"]["samples"] = 4
    harness.run_to_report(spec, tmp_path)
    assert harness.leftovers(tmp_path) == ["out"]
    assert not (tmp_path / "out" / "model-00001-of-00009.safetensors").exists()


def test_second_job_on_the_same_output_is_refused(spec, tmp_path):
    first = harness.Running(spec, tmp_path)
    first.wait_for("calibrate")
    second = harness.run(spec, tmp_path)
    assert second.returncode == 65
    assert "another job" in second.stderr
    first.process.terminate()
    first.end()
