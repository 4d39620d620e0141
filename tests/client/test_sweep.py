"""Tests of sweeps: jobs that differ in a few keys and share one dense evaluation and statistics."""

import csv
import json
import os
import shutil
import subprocess
import time

import pytest
from conftest import BIN


def sweep_file(job_files, **sweep):
    file = job_files.evaluated("sweep", method={"name": None, "width": None}, resources={"ranks": 1})
    spec = json.loads(file.read_text()) | {"sweep": sweep}
    file.write_text(json.dumps(spec, indent=1))
    return file


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_sweep_that_is_killed_goes_on_and_gives_what_single_jobs_give(offline, job_files):
    axes = {"method.name": ["slicegpt", "pca_dotresize"], "method.lambda": [0.1, 1],
            "method.size": [0.8, 0.01]}
    file = sweep_file(job_files, **axes)
    directory = job_files.folder / "out-sweep"
    killed = offline.start("sweep", file, "--parallel", "1")
    wait_for(lambda: list(directory.glob("variants/*/dotresize/report.json")))
    killed.kill()
    killed.communicate()
    done = {report: report.stat().st_mtime_ns for report in directory.glob("variants/*/dotresize/*")}
    assert len(done) < 3, "ended before the kill"

    result = offline.json("sweep", file)
    assert {report: report.stat().st_mtime_ns for report in done} == done
    jobs = {tuple(row["values"].values()): row for row in result["variants"] if row["state"] == "done"}
    # slicegpt ignores lambda, so it is one job
    assert set(jobs) == {("slicegpt", None, "0.8"), ("pca_dotresize", "0.1", "0.8"),
                         ("pca_dotresize", "1", "0.8")}
    assert result["combinations"] == 8
    refused = [row for row in result["variants"] if row["state"] == "refused"]
    assert len(refused) == 3 and all("method.size" in row["reason"] for row in refused)

    single = job_files.evaluated(method={"name": "pca_dotresize", "width": None, "size": 0.8, "lambda": 1})
    offline("run", single, "--set", "resources.ranks=1")
    report = json.loads((job_files.folder / "out-tiny/dotresize/report.json").read_text())
    row = jobs["pca_dotresize", "1", "0.8"]
    assert row["perplexity"] == pytest.approx(report["compressed"]["perplexity"], rel=1e-6)
    assert result["dense"]["perplexity"] == pytest.approx(report["dense"]["perplexity"], rel=1e-6)

    best = [row for row in jobs.values() if row["best"]]
    assert len(best) == 1 and best[0]["perplexity"] == min(row["perplexity"] for row in jobs.values())
    assert [row.get("model") is not None for row in jobs.values()] == [row["best"] for row in jobs.values()]
    assert len(list(directory.glob("variants/*/model/config.json"))) == 1

    page = job_files.folder / "page.html"
    offline("report", directory, "--html", page)
    assert page.read_bytes() == (directory / "report.html").read_bytes()
    assert '"kind":"sweep"' in page.read_text() and "<caption>Pareto front</caption>" in page.read_text()
    assert not list(directory.glob("variants/*/dotresize/*.html"))

    assert offline.json("report", directory) == result
    assert offline("report", directory).stdout == offline("sweep", file).stdout
    assert "reported alone" in offline("report", directory, directory, exit_code=65).stderr

    # All results exist already: the command only prints the front.
    front = offline("sweep", file, "--pareto").stdout.splitlines()
    assert front[0].split()[:3] == ["name", "lambda", "size"] and len(front) == 3
    with open(directory / "results.csv", newline="") as table:
        assert sum(row["state"] == "done" for row in csv.DictReader(table)) == 3


def test_a_job_is_the_same_however_its_values_and_paths_are_written(offline, job_files, tmp_path):
    def ids(**axes):
        result = offline.json("sweep", sweep_file(job_files, **axes), "--dry-run")
        return [row["id"] for row in result["variants"]]

    before = ids(**{"method.size": [0.8], "method.lambda": [0.001], "method.name": ["dotresize"]})
    assert before[0].startswith("0.8_0.001_dotresize-")
    file = sweep_file(job_files, **{"method.size": [0.7], "method.lambda": [1], "method.name": ["dotresize"]})
    spec = json.loads(file.read_text())
    (tmp_path / "link").symlink_to(spec["model"]["path"])
    text = file.read_text().replace("0.7", "0.80").replace('"method.lambda": [\n   1\n', '"method.lambda": [\n   1e-3\n')
    file.write_text(text.replace(json.dumps(spec["model"]["path"]), json.dumps(str(tmp_path / "link"))))
    result = offline.json("sweep", file, "--dry-run")
    assert [row["values"] for row in result["variants"]] == [
        {"method.size": "0.80", "method.lambda": "1e-3", "method.name": "dotresize"}]
    assert [row["id"] for row in result["variants"]] == before


def test_jobs_of_other_weights_are_other_jobs_whatever_their_time_says(offline, job_files, tmp_path):
    file = sweep_file(job_files, **{"method.size": [0.8], "method.name": ["slicegpt"]})
    spec = json.loads(file.read_text())
    model = shutil.copytree(spec["model"]["path"], tmp_path / "model", ignore=shutil.ignore_patterns("out*"))
    file.write_text(json.dumps(spec | {"model": {"path": str(model)}}))
    weights, ids = model / "model.safetensors", set()
    for _ in range(2):
        content = weights.read_bytes()
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        os.utime(weights, (1, 1))
        ids |= {row["id"] for row in offline.json("sweep", file, "--dry-run")["variants"]}
    assert len(ids) == 2


def test_a_dry_run_shows_every_job_with_its_size(offline, job_files):
    file = sweep_file(job_files, **{"method.size": [0.8, 0.01], "method.name": ["slicegpt", "magnitude"]})
    lines = offline("sweep", file, "--dry-run").stdout.splitlines()
    assert lines[0].split() == ["size", "name", "width", "net", "ranks", "memory", "state"]
    assert [line.split()[:2] for line in lines[1:3]] == [["0.8", "slicegpt"], ["0.8", "magnitude"]]
    assert all(line.endswith("pending") for line in lines[1:3])
    assert "excludes" in offline("sweep", file, "--dry-run", "--pareto", exit_code=64).stderr
    assert len(lines) == 5 and lines[3].startswith("refused: size 0.01 name slicegpt: ")


def test_jobs_of_other_output_formats_are_other_jobs(offline, job_files):
    file = sweep_file(job_files, **{"method.size": [0.8], "method.name": ["slicegpt"]})
    spec = json.loads(file.read_text())
    ids = []
    for given in ({}, {"format": "stock"}, {"format": "any"}, {"report_html": False}):
        file.write_text(json.dumps(spec | {"output": spec["output"] | given}))
        ids += [row["id"] for row in offline.json("sweep", file, "--dry-run")["variants"]]
    assert len(set(ids)) == 3 and ids[0] == ids[3]


def test_a_failed_job_of_a_sweep_has_a_page(offline, job_files, tmp_path):
    variant = tmp_path / "variant"
    variant.mkdir()
    job_files().rename(variant / "job.json")
    page = tmp_path / "page.html"
    assert "neither" in offline("report", variant, "--html", page, exit_code=65).stderr
    (variant / "log").write_text("begun\ndotresize-worker: error: rank 1 on box in calibrate: no <b>memory</b>\n")
    offline("report", variant, "--html", page)
    html = page.read_text()
    assert "<p>no &lt;b&gt;memory&lt;/b&gt;</p>" in html and "begun\\n" in html and "slicegpt" in html


def test_a_method_that_needs_costs_joins_a_sweep_whose_statistics_have_none(offline, job_files):
    axes = {"method.size": [0.8, 0.75], "calibration.activations": ["original"]}
    offline.json("sweep", sweep_file(job_files, **axes, **{"method.name": ["magnitude"]}))
    statistics = job_files.folder / "out-sweep/statistics"
    without_costs = set(statistics.iterdir())
    assert len(without_costs) == 1

    file = sweep_file(job_files, **axes, **{"method.name": ["magnitude", "dotresize"]})
    result = offline.json("sweep", file)
    assert [row["state"] for row in result["variants"]] == ["done"] * 4
    assert len(set(statistics.iterdir()) - without_costs) == 1


def test_a_sweep_follows_no_links_in_its_directory(offline, job_files, tmp_path):
    file = sweep_file(job_files, **{"method.size": [0.8, 0.9]})
    ids = [row["id"] for row in offline.json("sweep", file, "--dry-run")["variants"]]
    foreign = tmp_path / "foreign"
    for name in ("model", "model.removed"):
        (foreign / name).mkdir(parents=True)
        (foreign / name / "precious").write_text("kept")
    (foreign / "log").write_text("kept")
    variants = job_files.folder / "out-sweep" / "variants"
    variants.mkdir(parents=True)
    (variants / ids[0]).symlink_to(foreign)
    result = offline.json("sweep", file, exit_code=1)
    rows = {row["id"]: row for row in result["variants"]}
    assert rows[ids[0]]["state"] == "failed" and "symbolic links" in rows[ids[0]]["reason"], rows
    assert rows[ids[1]]["state"] == "done"
    assert sorted(path.name for path in foreign.rglob("*")) == ["log", "model", "model.removed", "precious", "precious"]
    assert all(path.read_text() == "kept" for path in foreign.rglob("*") if path.is_file())


@pytest.mark.parametrize("exchanged, ranks", [("variants/ID", 1), ("variants", 2), (".", 1), ("statistics", 1)])
def test_a_job_of_a_sweep_is_led_nowhere_else(offline, job_files, tmp_path, monkeypatch, exchanged, ranks):
    """Somebody exchanges a directory for a link to another one between the sweep's check and the job's start."""
    file = sweep_file(job_files, **{"method.size": [0.8, 0.9]})
    text = tmp_path / "text.txt"
    text.write_text("A sweep follows no links.\n" * 200)
    spec = json.loads(file.read_text()) | {"resources": {"ranks": ranks}}
    if exchanged == ".":  # the tokeniser writes below it too
        spec["calibration"] = {"text": [str(text)], "samples": 2, "seqlen": 64}
    file.write_text(json.dumps(spec))
    ids = [row["id"] for row in offline.json("sweep", file, "--dry-run")["variants"]]
    taken = job_files.folder / "out-sweep" / exchanged.replace("ID", ids[0])
    aside, foreign = tmp_path / "aside", tmp_path / "foreign"
    worker = tmp_path / "worker"
    worker.write_text(f"""#!/bin/sh
case "$*" in *--dense-loss*) mkdir {tmp_path}/first 2>/dev/null &&
    cp -r {taken} {foreign} && mv {taken} {aside} && ln -s {foreign} {taken} && find {foreign} > {tmp_path}/before ;; esac
until [ -e {tmp_path}/before ]; do case "$*" in *--dense-loss*) sleep 0.1 ;; *) break ;; esac; done
exec {BIN}/dotresize-worker "$@"
""")
    worker.chmod(0o755)
    monkeypatch.setenv("DOTRESIZE_WORKER", str(worker))
    offline.json("sweep", file, "--parallel", "1", exit_code=1 if exchanged != "." else 0)
    found = subprocess.run(["find", foreign], capture_output=True, text=True, check=True).stdout
    assert found == (tmp_path / "before").read_text()


def test_a_sweep_without_a_possible_job_says_why_in_one_document(offline, job_files):
    file = sweep_file(job_files, **{"method.size": [0.001, 0.002]})
    result = offline.json("sweep", file, exit_code=65)
    assert [row["state"] for row in result["variants"]] == ["refused", "refused"]
    assert not (job_files.folder / "out-sweep").exists()


def test_a_bad_sweep_is_refused_with_file_line_and_key(offline, job_files):
    file = sweep_file(job_files, **{"method.lamda": [1], "method.lambda": [0.1, -1], "keep": "some"})
    error = offline("sweep", file, exit_code=65).stderr
    assert "sweep.json:" in error
    assert "sweep.method.lamda: unknown key, did you mean 'lambda'?" in error
    assert "sweep.keep: 'some' is not one of best, all, none" in error
