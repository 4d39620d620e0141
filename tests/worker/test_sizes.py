"""Tests that a job with a size gets the largest model within it."""

import json
import subprocess

import harness
import pytest
from safetensors.torch import load_file, save_file

DENSE_BYTES = 2 * 6_622_464
STEP = 8  # round_to of the example; also a multiple of its attention heads


def size_job(output, method, **changes):
    """Returns a quick job whose output has the model's own dtype."""
    spec = harness.job(output, method=method, samples=4, evaluate=False, **changes)
    spec["output"]["dtype"] = "same"
    del spec["method"]["allow_larger"]
    return spec


def stored_bytes(directory):
    return sum(
        tensor.nbytes
        for shard in directory.glob("*.safetensors")
        for tensor in load_file(shard).values()
    )


def planned_bytes(spec, directory):
    path = directory / "plan.json"
    path.write_text(json.dumps(spec))
    command = [harness.BIN / "dotresize", "plan", path, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["compressed"]["bytes"]


@pytest.mark.parametrize(("size", "form"), [(0.9, "any"), (0.8, "stock"), (0.7, "any")])
def test_the_size_is_met_within_one_step(size, form, tmp_path):
    method = {"name": "slicegpt", "size": size, "format": form}
    report = harness.run_to_report(size_job(tmp_path / "out", method), tmp_path)

    stored = stored_bytes(tmp_path / "out")
    assert stored == report["compressed"]["bytes"]
    assert stored <= size * DENSE_BYTES
    wider = dict(method, width=report["method"]["width"] + STEP, allow_larger=True)
    del wider["size"]
    assert planned_bytes(size_job(tmp_path / "wider", wider), tmp_path) > size * DENSE_BYTES


def test_a_tenth_off_is_smaller_than_the_source(tmp_path):
    method = {"name": "slicegpt", "width": 232}  # 9.4 % off; with shortcuts stored as matrices the model would be larger
    harness.run_to_report(size_job(tmp_path / "out", method), tmp_path)
    assert stored_bytes(tmp_path / "out") < 0.95 * DENSE_BYTES


def test_an_allocation_is_better_than_uniform_widths_of_as_many_bytes(tmp_path):
    uniform = {"name": "slicegpt", "size": 0.8, "metric": "fisher", "head": "sliced"}
    evaluation = tmp_path / "evaluation.safetensors"
    save_file({"tokens": load_file(harness.EVALUATION)["tokens"][:16].contiguous()}, evaluation)
    reports = []
    for name, method in [("allocated", {"size": 0.8}), ("uniform", uniform)]:
        spec = size_job(tmp_path / name, method)
        spec["calibration"]["samples"] = 16
        spec["evaluation"] = {"tokens": str(evaluation)}
        reports.append(harness.run_to_report(spec, tmp_path))
    assert reports[0]["compressed"]["bytes"] == stored_bytes(tmp_path / "allocated")
    assert all(report["compressed"]["bytes"] <= 0.8 * DENSE_BYTES for report in reports)
    better, worse = (report["compressed"]["perplexity"] for report in reports)
    assert better < 0.97 * worse
    chosen = reports[0]["allocation"]
    assert 0.5 < chosen["predicted_over_measured"] < 2
    assert chosen["of_mlps"] + chosen["of_values"] == pytest.approx(chosen["predicted_kl"])
    assert chosen["held_out_kl"] == pytest.approx(chosen["predicted_kl"])
    assert reports[0]["method"]["width"] == 256 and "shortcuts" not in reports[0]
    attentions = reports[0]["attentions"]
    assert [attention["value_head_dim"] for attention in attentions] == chosen["value_head_dims"]
    assert min(chosen["value_head_dims"]) < 32
    for part, entries in (("of_values", attentions), ("of_mlps", reports[0]["mlps"])):
        assert sum(entry["predicted_rise"] for entry in entries) == pytest.approx(chosen[part])
    assert "predicted to rise least" in (tmp_path / "allocated" / "README.md").read_text()


@pytest.mark.parametrize(
    "method, expected",
    [
        ({"size": 0.001}, "method.size: 0.001 is not available: the fewest features and value channels leave 0.317"),
        ({"name": "pca_dotresize", "size": 0.2}, "method.size: 0.2 is not available: the smallest width, 8, gives 0.21"),
    ],
)
def test_a_size_that_cannot_be_had_is_refused(method, expected, tmp_path):
    refused = harness.run(size_job(tmp_path / "out", method, ranks=2), tmp_path)
    assert refused.returncode == 65
    assert expected in refused.stderr
    assert {path.name for path in tmp_path.glob("out*/*")} <= {"journal"}
