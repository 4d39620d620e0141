"""Tests of models that change while a job runs: the change is the reason of its end, and nothing of two models gets mixed."""

import shutil

import harness
import interrupted
import pytest
import torch
from safetensors.torch import load_file, save_file


def job_of_copy(directory, method, samples):
    """Returns a job of one rank without an evaluation, of a copy of the model that may be changed."""
    shutil.copytree(harness.MODEL, directory / "model", ignore=shutil.ignore_patterns("out*"))
    spec = harness.job(directory / "out", method=method, samples=samples, activations="original", ranks=1, evaluate=False)
    spec["model"]["path"] = str(directory / "model")
    return spec


def removed(model):
    model.rename(model.with_name("moved"))


def replaced_by_larger(model):
    tensors = load_file(model / "model.safetensors")
    save_file(tensors | {"other": torch.zeros(9)}, model / "new.safetensors", metadata={"format": "pt"})
    (model / "new.safetensors").rename(model / "model.safetensors")


def with_another_tokenizer(model):
    (model / "tokenizer_config.json").write_text("{}")


def truncated(model):
    interrupted.truncate(model / "model.safetensors")


@pytest.mark.parametrize(("change", "code", "reason"), [
    (removed, 65, "config.json was removed while the job ran"),
    (replaced_by_larger, 65, "model.safetensors was replaced or changed while the job ran"),
    (with_another_tokenizer, 65, "tokenizer_config.json was replaced or changed while the job ran"),
    (truncated, 1, "has become shorter, or its disk cannot be read"),
], ids=["removed", "replaced", "tokenizer", "truncated"])  # fmt: skip
def test_a_model_that_changes_while_a_job_runs_is_the_reason(change, code, reason, tmp_path):
    spec = job_of_copy(tmp_path, {"size": 1.6, "allocate": "auto"}, samples=2)  # opens the model again for its trial
    running = harness.Running(spec, tmp_path, threads=1)
    assert interrupted.wait_for_entries(running, interrupted.journal_of(spec), 1), running.log
    (rank,) = running.ranks()
    rank.suspend()
    change(tmp_path / "model")
    rank.resume()
    ended, _ = running.end(120)
    assert reason in running.log and ended == code, running.log
    assert not (tmp_path / "out").exists()


def test_a_journal_does_not_take_weights_that_came_during_its_run_for_its_own(tmp_path):
    spec = job_of_copy(tmp_path, {"name": "pca_dotresize", "width": 160}, samples=4)
    spec["evaluation"] = {"tokens": str(harness.EVALUATION)}
    running = harness.Running(spec, tmp_path, threads=1)
    assert interrupted.wait_for_entries(running, interrupted.journal_of(spec), 1), running.log  # of the dense model's evaluation
    (rank,) = running.ranks()
    rank.suspend()
    assert not list(interrupted.journal_of(spec).glob("model*.sha256"))
    interrupted.change_weights(spec)
    rank.resume()
    assert interrupted.wait_for_entries(running, interrupted.journal_of(spec), 1, begin="map-0"), running.log
    interrupted.kill(running, "all ranks")
    done = harness.run(spec, tmp_path, threads=1)
    assert done.returncode == 65, done.stderr
    assert "was replaced or changed since the interrupted run" in done.stderr
