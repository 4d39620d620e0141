"""Tests that a job's timeline agrees with its report."""

import json
import subprocess

import pytest
from harness import WORKER, command, job, report

RANKS = 3


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Returns the events of a job's timeline, its report and its output."""
    folder = tmp_path_factory.mktemp("traced")
    windows = {"samples": 2 * RANKS}
    spec = job(folder / "out", method={"name": "pca_dotresize", "width": 192}, samples=8, ranks=RANKS, evaluation=windows)
    path = folder / "trace.json"
    done = subprocess.run(
        [*command(spec, folder), "--trace", path], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    assert document.keys() == {"displayTimeUnit", "traceEvents"}
    return document["traceEvents"], report(folder / "out"), done.stdout


def spans_of(events, rank):
    """Returns the rank's spans in order of their beginnings, an outer one before those within it."""
    spans = [event for event in events if event["ph"] == "X" and event["pid"] == rank]
    return sorted(spans, key=lambda span: (span["ts"], -span["dur"]))


def own_seconds(spans):
    """Returns the time by phase that no inner span took. Fails if spans overlap without nesting."""
    seconds, open_spans = {}, []
    for span in spans:
        while open_spans and open_spans[-1]["ts"] + open_spans[-1]["dur"] <= span["ts"] + 1e-3:
            open_spans.pop()
        if open_spans:
            outer = open_spans[-1]
            assert span["ts"] + span["dur"] <= outer["ts"] + outer["dur"] + 1e-3
            seconds[outer["name"]] -= span["dur"] / 1e6
        seconds[span["name"]] = seconds.get(span["name"], 0.0) + span["dur"] / 1e6
        open_spans.append(span)
    return seconds


@pytest.mark.parametrize("rank", range(RANKS))
def test_spans_add_up_to_the_seconds_of_the_report(traced, rank):
    events, its_report, _ = traced
    spans = spans_of(events, rank)
    traced_seconds = own_seconds(spans)
    reported = its_report["ranks"][rank]["seconds"]
    # The phases fill the time from the clock's origin on, by the same clock.
    assert all(0 <= span["ts"] <= 1e6 * (sum(reported.values()) + 0.02) for span in spans)
    # The trace is written shortly before the report, so phases that still run then are missing.
    for phase in reported.keys() - {"other", "hash", "write", "wait", "communicate"}:
        assert traced_seconds[phase] == pytest.approx(reported[phase], abs=0.02), phase
    assert {"read", "forward", "gram", "rotate", "cost", "eigen", "sinkhorn", "qr"} <= reported.keys()


def test_processes_are_named_after_ranks_and_spans_after_junctions(traced):
    events, its_report, _ = traced
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {rank: f"rank {rank} on {its_report['ranks'][rank]['host']}" for rank in range(RANKS)}
    solved = {event["args"]["junction"] for event in events if event["name"] == "eigen"}
    assert solved == {junction["name"] for junction in its_report["junctions"] if junction["mapped"]}


def test_the_run_ends_with_the_phases(traced):
    _, its_report, printed = traced
    for phase in its_report["ranks"][0]["seconds"]:
        assert f"\n{phase} " in printed
    assert "peak memory" in printed and "tokens/s" in printed
    assert its_report["calibration"]["tokens_per_second"] > 0


def test_costs_are_counted(traced):
    _, its_report, printed = traced
    tokens, width = its_report["calibration"]["token_count"], its_report["method"]["hidden_size"]
    mapped = sum(junction["mapped"] for junction in its_report["junctions"])
    costs = [rank["cost"] for rank in its_report["ranks"]]
    assert sum(cost["pairs"] for cost in costs) == mapped * tokens * width**2 / 2
    for rank, cost in zip(its_report["ranks"], costs, strict=True):
        assert cost["seconds"] == rank["seconds"]["cost"]
        assert cost["pairs_per_s"] == pytest.approx(cost["pairs"] / cost["seconds"])
        assert cost.keys() == {"pairs", "seconds", "pairs_per_s"}  # the limit is that of a GPU
    assert "G pairs/s a rank\n" in printed


def test_a_timeline_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    spec = job(tmp_path / "out", method={"name": "magnitude", "width": 192}, samples=8)
    missing = tmp_path / "nowhere" / "trace.json"
    done = subprocess.run(
        [WORKER, command(spec, tmp_path, 0)[1], "--trace", missing],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 65
    assert f"--trace: {missing.parent}: no such directory" in done.stderr
    assert not (tmp_path / "out").exists()
