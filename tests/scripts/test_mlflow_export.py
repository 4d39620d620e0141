"""Tests of the export of reports by scripts/mlflow_export.py, with a recording MLflow and with MLflow itself if it is
installed."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import types

import mlflow_export
import pytest
from conftest import ROOT

MODEL = ROOT / "tests" / "data" / "output"
REPORT = json.loads((MODEL / "dotresize" / "report.json").read_text())


def test_settings_are_params_and_results_are_metrics():
    params, metrics = mlflow_export.params_of(REPORT), mlflow_export.metrics_of(REPORT)
    assert params["method.name"] == REPORT["method"]["name"] and params["method.width"] == REPORT["method"]["width"]
    assert params["calibration.token_count"] == REPORT["calibration"]["token_count"]
    assert params["ranks"] == len(REPORT["ranks"])
    assert metrics["compressed.bytes"] == REPORT["compressed"]["bytes"]
    assert metrics["wall_time_s"] == REPORT["wall_time_s"]
    assert metrics["max.seconds.read"] == max(rank["seconds"]["read"] for rank in REPORT["ranks"])
    assert all(isinstance(value, (int, float)) for value in metrics.values())
    assert not params.keys() & metrics.keys()


def test_junctions_with_maps_are_steps():
    mapped = [junction for junction in REPORT["junctions"] if junction["mapped"]]
    steps = mlflow_export.steps_of(REPORT)
    assert [step["junction.width"] for step in steps] == [junction["width"] for junction in mapped]
    assert [step["junction.retained_energy"] for step in steps] == [junction["retained_energy"] for junction in mapped]


def test_a_sweep_is_all_of_its_jobs(tmp_path):
    for name in ("a", "b"):
        report = tmp_path / "variants" / name / "dotresize" / "report.json"
        report.parent.mkdir(parents=True)
        report.write_text(json.dumps(REPORT))
    assert [file.parts[-3] for file in mlflow_export.reports_in(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(("content", "message"), [("{", "report.json: "), ('{"schema_version": 2}', "schema version 1")])
def test_a_bad_report_is_refused(tmp_path, content, message):
    file = tmp_path / "report.json"
    file.write_text(content)
    with pytest.raises(mlflow_export.BadReport, match=message):
        mlflow_export.read_report(file)


def test_a_directory_without_a_report_is_refused(tmp_path):
    with pytest.raises(mlflow_export.BadReport, match="neither a model"):
        mlflow_export.reports_in(tmp_path)


def test_a_missing_argument_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        mlflow_export.main([])
    assert ended.value.code == 64 and "mlflow_export: error: " in capsys.readouterr().err


def test_without_mlflow_it_says_what_to_install():
    # The run has no packages of the environment, whatever PYTHONPATH says.
    script = ROOT / "scripts" / "mlflow_export.py"
    done = subprocess.run([sys.executable, "-I", "-S", script, MODEL], capture_output=True, text=True, timeout=60)
    assert done.returncode == 69
    assert done.stderr.count("\n") == 1 and "pip install mlflow" in done.stderr


class RecordedMlflow(types.ModuleType):
    """Records calls of the part of MLflow that the export uses."""

    class MlflowException(Exception):
        pass

    def __init__(self):
        super().__init__("mlflow")
        self.exceptions = types.SimpleNamespace(MlflowException=self.MlflowException)
        self.runs, self.breaks = [], False

    def set_tracking_uri(self, uri):
        self.tracking_uri = uri

    def set_experiment(self, name):
        return types.SimpleNamespace(experiment_id=f"id of {name}")

    def search_runs(self, experiments, filter_string, *, max_results, output_format):
        assert output_format == "list"
        tag, value = re.fullmatch(r"tags\.`(.+)` = '(.+)'", filter_string).groups()
        found = [run for run in self.runs if run.experiment in experiments and run.tags.get(tag) == value]
        return found[:max_results]

    @contextlib.contextmanager
    def start_run(self, *, experiment_id, run_name, tags):
        info = types.SimpleNamespace(run_id=f"run {len(self.runs)}", run_name=run_name)
        self.runs.append(types.SimpleNamespace(experiment=experiment_id, info=info, tags=dict(tags),
                                               params={}, metrics={}, steps=[], artifacts=[]))
        yield self.runs[-1]

    def log_params(self, params):
        self.runs[-1].params |= params

    def log_metrics(self, metrics, step=None):
        if step is None:
            self.runs[-1].metrics |= metrics
        else:
            assert step == len(self.runs[-1].steps)
            self.runs[-1].steps.append(metrics)

    def log_artifact(self, file, folder=None):
        if self.breaks:
            raise self.MlflowException("the server is gone")
        self.runs[-1].artifacts.append((file, folder))

    def set_tag(self, key, value):
        self.runs[-1].tags[key] = value


@pytest.fixture
def recorded(monkeypatch):
    mlflow = RecordedMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    return mlflow


def test_a_report_is_logged_once(recorded, tmp_path, capsys):
    model = shutil.copytree(MODEL, tmp_path / "model")
    (model / "README.md").write_text("the model card")
    arguments = [str(model), "--tracking-uri", "https://example.org", "--experiment", "sizes"]
    assert mlflow_export.main(arguments) == 0
    assert mlflow_export.main(arguments) == 0
    report = model / "dotresize" / "report.json"
    assert capsys.readouterr().out.splitlines() == [f"run 0  {report}", f"there already  {report}"]
    (run,) = recorded.runs
    assert recorded.tracking_uri == "https://example.org" and run.experiment == "id of sizes"
    assert run.info.run_name == REPORT["name"]
    assert run.params == mlflow_export.params_of(REPORT) and run.metrics == mlflow_export.metrics_of(REPORT)
    assert run.steps == mlflow_export.steps_of(REPORT) and run.steps
    assert run.artifacts == [(str(report), "dotresize"), (str(model / "README.md"), None)]
    assert mlflow_export.main([str(model), "--experiment", "others"]) == 0
    assert len(recorded.runs) == 2


def test_a_run_that_broke_off_does_not_count(recorded, capsys):
    recorded.breaks = True
    assert mlflow_export.main([str(MODEL)]) == 65
    assert "the server is gone" in capsys.readouterr().err
    recorded.breaks = False
    assert mlflow_export.main([str(MODEL)]) == 0
    assert [bool(run.artifacts) for run in recorded.runs] == [False, True]


def test_a_report_is_one_run_of_mlflow(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the only store of mlflow-skinny that needs no server
    import mlflow

    arguments = [str(MODEL), "--tracking-uri", (tmp_path / "runs").as_uri(), "--experiment", "sizes"]
    assert mlflow_export.main(arguments) == 0
    assert mlflow_export.main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("there already")
    (run,) = mlflow.search_runs(experiment_names=["sizes"], output_format="list")
    assert run.data.params["method.name"] == REPORT["method"]["name"]
    assert run.data.metrics["compressed.bytes"] == REPORT["compressed"]["bytes"]
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "junction.retained_energy")
    assert [point.value for point in history] == [step["junction.retained_energy"] for step in mlflow_export.steps_of(REPORT)]
    kept = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/dotresize/report.json")
    assert kept == REPORT
