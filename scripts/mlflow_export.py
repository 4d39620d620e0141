#!/usr/bin/env python3
"""Logs the reports of compressions as runs of MLflow.

    .venv/bin/python scripts/mlflow_export.py DIR... [--experiment NAME] [--tracking-uri URI]

DIR is a model directory, or that of a sweep, all of whose jobs are logged. A run gets the job's settings as params, sizes,
perplexities, times and memory as metrics, junctions as steps of metrics, and report and model card as artifacts. A report
that the experiment has already is not logged again. Needs the package mlflow, or mlflow-skinny for a tracking server.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_MISSING_PROGRAM = 69
REPORT = Path("dotresize") / "report.json"
HASH_TAG = "dotresize.report_sha256"
JUNCTION_METRICS = ("width", "effective_rank", "retained_energy", "qr_condition")
INSTALL = "it needs the package mlflow, which is no requirement of dotresize: pip install mlflow"


class BadReport(Exception):
    """The message names the file."""


def reports_in(directory):
    """The report of a model directory, or those of a sweep's jobs."""
    if (directory / REPORT).is_file():
        return [directory / REPORT]
    found = sorted(directory.glob(f"variants/*/{REPORT}"))
    if not found:
        raise BadReport(f"{directory}: neither a model of dotresize nor a sweep with a finished job")
    return found


def read_report(file):
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadReport(f"{file}: {error}") from error
    if not isinstance(report, dict) or report.get("schema_version") != 1:
        raise BadReport(f"{file}: not a report of schema version 1")
    return report


def flattened(value, prefix=""):
    """The leaves of nested mappings, by keys like "method.lambda"."""
    if not isinstance(value, dict):
        return {prefix: value}
    leaves = {}
    for name, part in value.items():
        leaves |= flattened(part, f"{prefix}.{name}" if prefix else name)
    return leaves


def numbers_of(leaves):
    numbers = {key: value for key, value in leaves.items() if isinstance(value, (int, float))}
    return {key: float(value) for key, value in numbers.items() if not isinstance(value, bool)}


def params_of(report):
    """The request, and the device and dtype that computed it."""
    sections = {name: report[name] for name in ("model", "output", "method", "calibration", "evaluation") if name in report}
    plain = {name: report[name] for name in ("name", "tool_version", "device", "compute_dtype") if name in report}
    measured = {"calibration.seconds", "calibration.tokens_per_second"}
    leaves = {**plain, **flattened(sections), "ranks": len(report.get("ranks", []))}
    return {key: value for key, value in leaves.items() if key not in measured}


def metrics_of(report):
    """The results, one number each; times and memory are those of the rank that has most."""
    metrics = numbers_of(flattened({name: report[name] for name in ("dense", "compressed") if name in report}))
    metrics["wall_time_s"] = report["wall_time_s"]
    calibration = report.get("calibration", {})
    metrics |= {f"calibration.{key}": calibration[key] for key in ("seconds", "tokens_per_second") if key in calibration}
    for rank in report.get("ranks", []):
        own = numbers_of(flattened({key: rank[key] for key in rank if key == "seconds" or key.startswith("peak_")}))
        for key, value in own.items():
            metrics[f"max.{key}"] = max(value, metrics.get(f"max.{key}", value))
    return metrics


def steps_of(report):
    """Metrics of each junction that has a map, in the order of the model."""
    return [
        {f"junction.{key}": float(junction[key]) for key in JUNCTION_METRICS if key in junction}
        for junction in report.get("junctions", [])
        if junction["mapped"]
    ]


def log_report(mlflow, experiment, file):
    """The ID of the run; None if the experiment has this report."""
    report = read_report(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if mlflow.search_runs([experiment], f"tags.`{HASH_TAG}` = '{digest}'", max_results=1, output_format="list"):
        return None
    tags = {f"sha256.{key}": value for key, value in report.get("fingerprints", {}).items()}
    with mlflow.start_run(experiment_id=experiment, run_name=report["name"], tags=tags) as run:
        mlflow.log_params(params_of(report))
        mlflow.log_metrics(metrics_of(report))
        for step, metrics in enumerate(steps_of(report)):
            mlflow.log_metrics(metrics, step=step)
        mlflow.log_artifact(str(file), "dotresize")
        card = file.parents[1] / "README.md"
        if card.is_file():
            mlflow.log_artifact(str(card))
        mlflow.set_tag(HASH_TAG, digest)  # last: now it is whole
    return run.info.run_id


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.error = lambda message: (
        parser.print_usage(sys.stderr),
        parser.exit(EXIT_USAGE, f"mlflow_export: error: {message}\n"),
    )
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--experiment", default="dotresize", metavar="NAME")
    parser.add_argument("--tracking-uri", metavar="URI", help="default: $MLFLOW_TRACKING_URI, else MLflow's own")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        import mlflow
    except ModuleNotFoundError as error:
        print(f"mlflow_export: error: {error}; {INSTALL}", file=sys.stderr)
        return EXIT_MISSING_PROGRAM
    try:
        files = [file for directory in options.directories for file in reports_in(directory)]
        if options.tracking_uri:
            mlflow.set_tracking_uri(options.tracking_uri)
        experiment = mlflow.set_experiment(options.experiment).experiment_id
        for file in files:
            print(f"{log_report(mlflow, experiment, file) or 'there already'}  {file}")
    except (BadReport, mlflow.exceptions.MlflowException) as error:
        print(f"mlflow_export: error: {error}", file=sys.stderr)
        return EXIT_DATA
    return 0


if __name__ == "__main__":
    sys.exit(main())
