"""Tests of statistics of the dense model that one job saves and others use."""

import contextlib
import hashlib
import json
import os
import shutil
import signal

import harness
import interrupted
import pytest
import torch
from safetensors.torch import load_file, save_file

PCA = {"name": "pca_dotresize", "width": 200}
# Changes that keep the statistics usable: another lambda, size and sharing; maps of the identity's basis.
OTHER = {"name": "pca_dotresize", "width": 184, "lambda": 1.0, "head": "sliced"}
SHARED = {"name": "slicegpt", "width": 192, "format": "stock"}


def job(output, method, statistics=None, **changes):
    spec = harness.job(
        output, method=method, samples=2, evaluate=False, activations="original", **changes
    )
    if statistics:
        spec["calibration"]["statistics"] = statistics
    return spec


def weights(directory, name, method, statistics=None, ranks=0, **changes):
    spec = job(directory / name, method, statistics, **changes)
    harness.run_to_report(spec, directory, ranks=ranks, threads=1)
    return harness.shard_hashes(directory / name)


def refusal(directory, method, statistics, **changes):
    done = harness.run(job(directory / "out", method, statistics, **changes), directory, ranks=0)
    assert done.returncode == 65, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Returns a directory with the statistics of PCA, and the weights of the job that saved them."""
    directory = tmp_path_factory.mktemp("statistics")
    hashes = weights(directory, "saving", PCA, {"save": str(directory / "pca")}, ranks=2)
    return directory / "pca", hashes


def test_a_job_that_saves_them_writes_what_it_writes_without(saved, tmp_path):
    assert weights(tmp_path, "plain", PCA) == saved[1]
    assert not list(saved[0].parent.glob("*.partial"))


@pytest.mark.parametrize("method", [OTHER, SHARED], ids=["pca_dotresize", "one_map"])
def test_a_job_that_uses_them_writes_what_it_writes_without(method, saved, tmp_path):
    used = weights(tmp_path, "used", method, {"use": str(saved[0])}, ranks=3)
    assert used == weights(tmp_path, "plain", method)
    calibration = harness.report(tmp_path / "used")["calibration"]
    assert calibration["statistics"] == {"use": str(saved[0])}
    assert "tokens_per_second" not in calibration


def test_statistics_of_something_else_are_refused_by_what_differs(saved, tmp_path):
    use = {"use": str(saved[0])}
    assert "calibration.samples is 3, and 2 in the statistics" in refusal(
        tmp_path, PCA, use, calibration={"samples": 3}
    )
    assert 'basis is "identity", and "pca" in the statistics' in refusal(
        tmp_path, {"name": "magnitude", "width": 200}, use
    )
    assert 'compute_dtype is "bfloat16", and "float32" in the statistics' in refusal(
        tmp_path, PCA, use, resources={"compute_dtype": "bfloat16"}
    )
    model = shutil.copytree(harness.MODEL, tmp_path / "model", ignore=shutil.ignore_patterns("out*"))
    for shard in model.glob("*.safetensors"):
        os.utime(shard, (1, 1))
    error = refusal(tmp_path, PCA, use, model={"path": str(model)})
    assert "calibration.statistics.use: " in error
    assert "model.model.safetensors.modified is" in error


def test_only_the_very_weights_may_use_them_whatever_their_time_says(tmp_path):
    """Archives and image layers give all files one time, and models of one config have files of one size."""
    method = {"name": "slicegpt", "width": 200}
    model = shutil.copytree(harness.MODEL, tmp_path / "model", ignore=shutil.ignore_patterns("out*"))
    (weights,) = model.glob("*.safetensors")

    def written(content):
        """Writes the weights as another file of the same time."""
        weights.unlink()
        weights.write_bytes(content)
        os.utime(weights, (1, 1))

    source, content = {"path": str(model)}, weights.read_bytes()
    written(content)
    save = job(tmp_path / "saving", method, {"save": str(tmp_path / "kept")}, model=source)
    harness.run_to_report(save, tmp_path, threads=1)
    use = {"use": str(tmp_path / "kept")}
    written(content)
    harness.run_to_report(job(tmp_path / "copied", method, use, model=source), tmp_path, threads=1)
    assert harness.shard_hashes(tmp_path / "copied") == harness.shard_hashes(tmp_path / "saving")
    written(content[:-1] + bytes([content[-1] ^ 1]))
    error = refusal(tmp_path, method, use, model=source)
    assert "has the statistics of another model" in error and weights.name in error


@pytest.mark.parametrize("damage", [interrupted.truncate, os.remove])
def test_statistics_that_are_not_whole_are_refused(damage, saved, tmp_path):
    copy = shutil.copytree(saved[0], tmp_path / "pca")
    damage(copy / "junctions" / "second-3.safetensors")
    assert "second-3 is damaged" in refusal(tmp_path, PCA, {"use": str(copy)})


def rewrite(entry, change):
    """Changes the tensors of an entry, with the hash that they then have."""
    save_file(change(load_file(entry)), entry)
    about = json.loads(entry.with_suffix(".json").read_text())
    about["sha256"] = hashlib.sha256(entry.read_bytes()).hexdigest()
    entry.with_suffix(".json").write_text(json.dumps(about))


def test_statistics_with_the_precision_that_earlier_versions_kept_are_used(saved, tmp_path):
    copy = shutil.copytree(saved[0], tmp_path / "pca")
    for file in (copy / "junctions").glob("second-*.safetensors"):
        rewrite(file, lambda tensors: tensors | {"precision": torch.zeros(3, dtype=torch.float64)})
    assert weights(tmp_path, "used", PCA, {"use": str(copy)}) == saved[1]


def test_a_link_in_place_of_unfinished_statistics_is_not_followed(saved, tmp_path):
    foreign = shutil.copytree(saved[0], tmp_path / "foreign")
    before = interrupted.entries(foreign / "junctions")
    (tmp_path / "pca.partial").symlink_to(foreign)
    error = refusal(tmp_path, PCA, {"save": str(tmp_path / "pca")}, calibration={"samples": 3})
    assert "calibration.statistics.save: cannot write" in error
    assert interrupted.entries(foreign / "junctions") == before


def test_a_job_that_is_killed_while_it_saves_goes_on(saved, tmp_path):
    statistics = tmp_path / "pca"
    spec = job(tmp_path / "out", PCA, {"save": str(statistics)}, ranks=2)
    running = harness.Running(spec, tmp_path, threads=1)
    junctions = tmp_path / "pca.partial" / "junctions"
    count = 8
    while running.process.poll() is None and len(list(junctions.glob("*.json"))) < count:
        pass
    for rank in running.ranks():
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.pid, signal.SIGKILL)
    running.end()
    assert not statistics.exists()
    kept = interrupted.entries(junctions)
    assert len(kept) >= count
    assert json.loads((tmp_path / "pca.partial" / "statistics.json").read_text())["basis"] == "pca"

    harness.run_to_report(spec, tmp_path, threads=1)
    assert harness.shard_hashes(tmp_path / "out") == saved[1]
    assert (statistics / "statistics.json").exists() and not junctions.exists()


ALLOCATED = {"allocate": "auto", "round_to": 32}
# Tensors with a hash that matches, as another version may have written.
BAD_CURVES = [
    ("curve-3", lambda tensors: {"widths": tensors["widths"]}, " have no tensor rises"),
    ("curve-3", lambda tensors: tensors | {"widths": tensors["widths"].flip(0)}, " are of other sizes"),
    ("gradients-3", lambda tensors: {"gradients": tensors["gradients"][1:].clone()}, ": tensor gradients is not F64 of shape"),
]


@pytest.mark.parametrize("form", ["any", "stock"])
def test_the_curves_of_an_allocation_serve_another_size(form, tmp_path):
    def method(size):  # relative to the bfloat16 model; the output is float32
        return ALLOCATED | {"size": size, "format": form}

    kept = tmp_path / "kept"
    saved = weights(tmp_path, "saving", method(1.7), {"save": str(kept)}, ranks=2)
    used = weights(tmp_path, "using", method(1.4), {"use": str(kept)}, ranks=3)
    assert used == weights(tmp_path, "alone", method(1.4))
    assert used != saved

    steps = method(1.4) | {"round_to": 64}
    assert "allocation.round_to is 64, and 32 in the statistics" in refusal(tmp_path, steps, {"use": str(kept)})
    for entry, change, complaint in BAD_CURVES:
        copy = shutil.copytree(kept, tmp_path / "bad")
        rewrite(copy / "junctions" / f"{entry}.safetensors", change)
        assert f"the statistics of {entry}{complaint}" in refusal(tmp_path, method(1.4), {"use": str(copy)})
        shutil.rmtree(copy)
    os.remove(kept / "junctions" / "gradients-3.json")
    assert "gradients-3 is missing" in refusal(tmp_path, method(1.4), {"use": str(kept)})
