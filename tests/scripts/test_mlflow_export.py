"""scripts/mlflow_export.py: what of a report is logged, and a run in MLflow if it is installed."""

import json
import subprocess
import sys

import mlflow_export
import pytest
from conftest import ROOT

MODEL = ROOT / "tests" / "data" / "compat" / "output"
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


def test_without_mlflow_it_says_what_to_install():
    # Without the packages of the environment, whatever PYTHONPATH says.
    script = ROOT / "scripts" / "mlflow_export.py"
    done = subprocess.run([sys.executable, "-I", "-S", script, MODEL], capture_output=True, text=True, timeout=60)
    assert done.returncode == 69
    assert done.stderr.count("\n") == 1 and "pip install mlflow" in done.stderr


def test_a_report_is_one_run_of_mlflow(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # all that mlflow-skinny has without a server
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
