"""Runs scripts/reproduce_paper.py on the example model and some paragraphs of text."""

import csv
import json
import shutil
from pydoc_data.topics import topics

import pytest
import reproduce_paper
from conftest import ROOT
from paper import reproduction, tasks
from paper.programs import Failure
from paper.sweeps import Results

MODEL = ROOT / "examples" / "docs-llama"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "calibration.txt").write_text(topics["assignment"][:1000])
    (folder / "evaluation.txt").write_text(topics["with"][:400])
    return folder


def reproduce(model, texts, *options):
    """Returns the exit code. Runs in this process: its imports take longer than a small job."""
    return reproduce_paper.main([str(word) for word in (model, "--text", texts, *options)])


def rows_of(file):
    with open(file, newline="") as table:
        return list(csv.DictReader(table))


def test_the_page_is_made_and_made_again_without_new_jobs(texts, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(tasks, "tasks_with_data", lambda names: (["piqa"], {"arc_easy": "no such data set"}))
    monkeypatch.setattr(tasks, "run_harness", lambda model, names, folder: {"piqa": 50.0 + len(folder.name)})
    out = tmp_path / "out"
    small = ["--output", out, "--seqlen", 32, "--sparsities", 0.2, "--lambdas", 0.1, "--samples", 4, 4096]
    assert reproduce(MODEL, texts, *small, "--no-latency", "--tasks") == 0
    printed = capfd.readouterr().out

    perplexity = {row["method"]: row for row in rows_of(out / "tables/perplexity.csv")}
    reports = [json.loads(file.read_text()) for file in out.glob("sweep/variants/*/dotresize/report.json")]
    of_reports = {report["compressed"]["perplexity"] for report in reports}
    for method in ("magnitude", "dotresize", "slicegpt", "pca_dotresize"):
        assert float(perplexity[method]["perplexity"]) in of_reports
        assert perplexity[method]["paper: Mistral-7B"]
    page = (out / "README.md").read_text()
    for heading in ("Order of the methods", "Perplexity of the four methods", "Latency and GPUs", "Zero-shot tasks"):
        assert f"## {heading}" in page and heading in printed
    assert "Left out: 4096 samples." in page and "Left out: arc_easy: no such data set" in page
    assert [row["piqa"] for row in rows_of(out / "tables/tasks.csv")][0] == "55.0"
    cost = rows_of(out / "tables/cost.csv")
    assert [row["GPUs to run"] for row in cost] == ["1", "1"] and cost[1]["GPUs to compress"] == "1"
    assert {file.suffix for file in (out / "figures").iterdir()} == {".svg", ".png"}
    names = ("perplexity", "lambda", "samples", "effective_rank")
    for name in names:
        assert f"figures/{name}.svg" in page and (out / f"figures/{name}.svg").stat().st_size > 1000

    made = {file: file.stat().st_mtime_ns for file in out.glob("sweep/variants/*/dotresize/report.json")}
    assert len(made) == 7  # four methods, one count of samples, two models for the tasks
    monkeypatch.setattr(reproduction, "make_figures", lambda *_: names)  # drawing takes longer than the rest
    assert reproduce(MODEL, texts, *small, "--no-latency", "--tasks") == 0
    assert {file: file.stat().st_mtime_ns for file in made} == made
    assert (out / "README.md").read_text() == page

    def harness(model, names, folder):
        if folder.name == "dense":
            raise Failure(f"scripts/lm_eval.sh {model} has ended with 1", 1)
        return {"piqa": 50.0}

    def no_latency(models, folder):
        raise Failure("dotresize eval has ended with 137", 137)

    monkeypatch.setattr(tasks, "run_harness", harness)
    monkeypatch.setattr(reproduction, "measured_latency", no_latency)
    assert reproduce(MODEL, texts, *small, "--tasks") == 1
    page = (out / "README.md").read_text()
    not_made = page.partition("## Not made")[2]
    assert "* dotresize eval has ended with 137\n" in not_made and "docs-llama has ended with 1\n" in not_made
    assert "Latency was not measured (measuring has failed)." in page
    assert [row["piqa"] for row in rows_of(out / "tables/tasks.csv") if row["model"] == "this one"] == ["50.0", "50.0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seqlen", 4096), "calibration.txt: "),
        (("--seqlen", 32, "--hardware", "no/such.yaml"), "no/such.yaml: no hardware file"),
    ],
)
def test_what_cannot_be_used_is_told_before_any_job(texts, tmp_path, capsys, options, message):
    assert reproduce(MODEL, texts, "--output", tmp_path / "out", *options) == 65
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_text_is_named(tmp_path, capsys):
    assert reproduce(MODEL, tmp_path) == 65
    assert "calibration.txt: not there; --text is a folder with" in capsys.readouterr().err


def test_a_model_of_an_unknown_family_is_refused_by_name(texts, tmp_path, capfd):
    model = tmp_path / "model"
    model.mkdir()
    shutil.copy(MODEL / "tokenizer.json", model)
    config = json.loads((MODEL / "config.json").read_text()) | {"model_type": "gpt2"}
    (model / "config.json").write_text(json.dumps(config))
    assert reproduce(model, texts, "--seqlen", 32, "--output", tmp_path / "out") == 65
    assert "gpt2" in capfd.readouterr().err


@pytest.mark.parametrize("options", [("--set", "method.size=0.5"), ("--sparsities", "2"), ("--samples", "few")])
def test_wrong_usage_is_refused(texts, capsys, options):
    with pytest.raises(SystemExit) as ended:
        reproduce(MODEL, texts, *options)
    assert ended.value.code == 64
    assert options[0] in capsys.readouterr().err


def test_no_job_at_all_is_an_error(texts, tmp_path, monkeypatch, capsys):
    row = {"values": {"method.name": "slicegpt"}, "state": "failed", "reason": "out of memory"}
    nothing = Results({"directory": str(tmp_path), "variants": [row]})
    monkeypatch.setattr(reproduction, "run_sweep", lambda *_: nothing)
    assert reproduce(MODEL, texts, "--seqlen", 32, "--output", tmp_path / "out") == 1
    assert "no job has succeeded: slicegpt: out of memory" in capsys.readouterr().err

