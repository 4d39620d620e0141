"""Tests that the numbers of junction groups and ranks do not change a byte of the model."""

import copy
import functools
import itertools
import json
import os
import shutil
import subprocess

import harness
import pytest

# A one-pass and a two-pass method are enough every day, in as many groups as the plan prefers to layerwise with few tokens.
# DOTRESIZE_ALL_CASES=1 runs all methods, in more groups.
ALL_CASES = bool(os.environ.get("DOTRESIZE_ALL_CASES"))
METHODS = ["slicegpt", "pca_dotresize", *(["magnitude", "dotresize"] if ALL_CASES else [])]
GROUPS = [2]  # of windows of 512 tokens: more groups would not take less memory
SAMPLES = 16 if ALL_CASES else 4  # keeps one rank from switching to one junction at a time (layerwise)
RANKS = [1, 3]  # test_ranks.py compares the maps of more ranks
THREADS = 1
# The head makes 13 junctions, so the groups have different sizes.
OWN = {"width": 160, "head": "sliced"}
SHARED_BY_ALL = {"width": 160, "format": "stock"}


def small_job(output, method, activations="original", ranks=1, samples=SAMPLES):
    return harness.job(
        output, method=method, samples=samples, activations=activations, ranks=ranks, evaluate=False
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Returns the outcome of one rank with one group."""

    @functools.cache
    def outcome(method, activations, samples):
        directory = tmp_path_factory.mktemp("alone")
        spec = small_job(directory / "out", json.loads(method), activations, samples=samples)
        assert harness.plan(spec, directory)["junction_groups"] == 1
        harness.run_to_report(spec, directory, threads=THREADS)
        return harness.outcome(directory / "out")

    return lambda method, activations="original", samples=SAMPLES: outcome(
        json.dumps(method), activations, samples
    )


def groups_begun(trace):
    spans = [span for span in json.loads(trace.read_text())["traceEvents"] if span["ph"] == "X"]
    phases = [span["name"] for span in sorted(spans, key=lambda span: span["ts"])]
    steps = [phase for phase in phases if phase in ("gram", "solve")]
    return list(itertools.pairwise(["solve", *steps])).count(("solve", "gram"))


@pytest.fixture
def check_groups(alone, tmp_path):
    def check(method, all_groups=GROUPS):
        for groups in all_groups:
            spec = small_job(tmp_path / str(groups), method)
            spec["resources"]["memory"] = harness.budget_for(spec, tmp_path, groups)
            assert harness.plan(spec, tmp_path)["junction_groups"] == groups
            trace = tmp_path / f"trace-{groups}.json"
            harness.run_to_report(spec, tmp_path, threads=THREADS, options=["--trace", trace])
            assert harness.outcome(spec["output"]["path"]) == alone(method)
            if method["name"] == "slicegpt":  # slicegpt solves after one pass
                assert groups_begun(trace) == groups

    return check


@pytest.mark.parametrize("name", METHODS)
def test_groups_do_not_change_the_model(name, check_groups):
    check_groups({"name": name, **OWN})


@pytest.mark.parametrize("name", ["pca_dotresize", "dotresize"])
def test_groups_do_not_change_a_map_for_all(name, check_groups):
    check_groups({"name": name, **SHARED_BY_ALL})


def test_groups_do_not_change_maps_in_the_metric_of_the_loss(check_groups):
    check_groups({"name": "slicegpt", "metric": "fisher", **OWN}, all_groups=[2])


@pytest.mark.parametrize(
    "activations, more",
    [("original", {"metric": "fisher"}), ("compressed", {})],
    ids=["original, metric of the loss", "compressed"],
)
def test_neither_ranks_nor_groups_change_cut_mlps(activations, more, tmp_path):
    method = {"name": "slicegpt", "mlp": {"width": 640}, **more, **OWN}
    short = {"samples": SAMPLES, "calibration": {"seqlen": 128}, "evaluate": False}
    alone, together = (
        harness.job(
            tmp_path / str(ranks), method=method, activations=activations, ranks=ranks, **short
        )
        for ranks in RANKS
    )
    if activations == "original":
        together["resources"]["memory"] = harness.budget_for(together, tmp_path, 2)
        assert harness.plan(together, tmp_path)["mlp_groups"] > 1
    reports = [harness.run_to_report(spec, tmp_path, threads=THREADS) for spec in (alone, together)]
    assert harness.shard_hashes(together["output"]["path"]) == harness.shard_hashes(
        alone["output"]["path"]
    )
    assert [mlp["width"] for mlp in reports[0]["mlps"]] == 6 * [640]
    planned = harness.plan(alone, tmp_path)["compressed"]
    assert planned["bytes"] == reports[0]["compressed"]["bytes"]


def test_neither_ranks_nor_groups_change_an_allocation(tmp_path):
    method = {"size": 1.2, "allocate": "auto"}  # size of the float32 output
    short = {"samples": SAMPLES, "calibration": {"seqlen": 128}, "evaluate": False}
    alone, together = (
        harness.job(tmp_path / str(ranks), method=method, ranks=ranks, **short) for ranks in RANKS
    )
    together["resources"]["memory"] = harness.budget_for(together, tmp_path, 3, "mlp_groups")
    assert harness.plan(alone, tmp_path)["passes"] == 1  # the sums are kept
    assert harness.plan(together, tmp_path)["passes"] > 3  # several groups, thrice
    reports = [harness.run_to_report(spec, tmp_path, threads=THREADS) for spec in (alone, together)]
    assert reports[0]["allocation"] == reports[1]["allocation"]
    assert harness.shard_hashes(together["output"]["path"]) == harness.shard_hashes(
        alone["output"]["path"]
    )
    assert len(set(reports[0]["allocation"]["features"])) > 1
    assert len(set(reports[0]["allocation"]["value_head_dims"])) > 1
    planned = harness.plan(alone, tmp_path)["compressed"]
    assert 0.99 * planned["bytes_at_most"] < reports[0]["compressed"]["bytes"]
    assert reports[0]["compressed"]["bytes"] <= planned["bytes_at_most"]


@pytest.mark.parametrize(
    "method, activations",
    [
        ({"name": "pca_dotresize", **OWN}, "original"),  # test_ranks.py compares the maps of all methods
        ({"name": "pca_dotresize", **OWN}, "compressed"),
        ({"name": "pca_dotresize", **SHARED_BY_ALL}, "original"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_ranks_do_not_change_the_model(method, activations, alone, tmp_path):
    for ranks in RANKS[1:]:
        spec = small_job(tmp_path / str(ranks), method, activations, ranks)
        harness.run_to_report(spec, tmp_path, threads=THREADS)
        assert harness.outcome(spec["output"]["path"]) == alone(method, activations)
    plans = alone(method, activations)[1]
    assert len(plans) - plans.count(None) == (1 if "format" in method else 13)


@pytest.mark.parametrize(("activations", "ranks"), [("original", 3), ("compressed", 1)])
def test_a_budget_that_is_too_small_names_one_that_is_enough(activations, ranks, alone, tmp_path):
    """The model stays the same, whatever the budget makes the ranks wait for."""
    method = {"name": "pca_dotresize", **OWN}
    samples = 16  # with fewer, another schedule needs the least memory, and it rounds differently
    spec = small_job(tmp_path / "out", method, activations, ranks, samples)
    spec["resources"]["memory"] = "100MiB"
    (tmp_path / "model").mkdir()
    shutil.copy(harness.MODEL / "config.json", tmp_path / "model")
    without_weights = copy.deepcopy(spec)
    without_weights["model"]["path"] = str(tmp_path / "model")
    refused = harness.run(without_weights, tmp_path)

    assert refused.returncode == 65, refused.stderr
    assert "prepare" not in refused.stderr
    assert not list(tmp_path.glob("out*"))
    spec["resources"]["memory"] = harness.named_budget(refused.stderr)
    harness.run_to_report(spec, tmp_path, threads=THREADS)
    assert harness.outcome(spec["output"]["path"]) == alone(method, activations, samples)


def test_run_refuses_a_budget_before_it_starts_a_rank(tmp_path):
    spec = small_job(tmp_path / "out", {"name": "pca_dotresize", **OWN})
    spec["resources"]["memory"] = "100MiB"
    command = [harness.BIN / "dotresize", "run", harness.write_job(spec, tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 65
    assert "mpirun" not in refused.stderr and "rank 0" not in refused.stderr
    spec["resources"]["memory"] = harness.named_budget(refused.stderr)
    assert harness.plan(spec, tmp_path)
