"""The jobs of the paper's tables, as sweeps of `dotresize sweep` (docs/sweeps.md) in one directory.

All of them share the dense model's evaluation; methods and lambdas share statistics too. The axes that a job reads differ
from sweep to sweep, and so do the names of the jobs: no sweep removes the models that another one keeps.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from .programs import dotresize

METHODS = ("magnitude", "dotresize", "slicegpt", "pca_dotresize")
TRANSPORT = ("dotresize", "pca_dotresize")
OF_TASKS = ("slicegpt", "pca_dotresize")
PAPER_LAMBDA = 0.1
PAPER_ABLATION = 0.2  # width reduction at which the paper varies the samples
EXIT_SOME_FAILED = 1


@dataclass(frozen=True)
class Plan:
    """The settings to run, and where results go."""

    output: Path
    sparsities: tuple
    lambdas: tuple  # PAPER_LAMBDA among them
    sample_counts: tuple
    changes: tuple  # KEY=VALUE of the section resources
    hardware: Path  # has the GPUs that are counted
    latency: bool
    tasks: bool

    @property
    def ablation(self):
        return PAPER_ABLATION if PAPER_ABLATION in self.sparsities else self.sparsities[0]

    @property
    def sweep_directory(self):
        return self.output / "sweep"


def job_of(inputs, plan, calibration=None):
    """The job that all settings are changes of."""
    return {
        "name": "paper",
        "model": {"path": str(inputs.model)},
        "output": {"path": str(plan.sweep_directory)},
        "method": {"allow_larger": True},  # the paper's sizes are widths, whatever comes of the bytes
        "calibration": {
            "text": [str(calibration or inputs.calibration)],
            "samples": inputs.samples,
            "seqlen": inputs.seqlen,
            "activations": "original",
        },
        "evaluation": {"text": [str(inputs.evaluation)], "seqlen": inputs.seqlen},
    }


def methods_sweep(inputs, plan):
    axes = {"method.name": list(METHODS), "method.lambda": list(plan.lambdas), "method.sparsity": list(plan.sparsities)}
    return job_of(inputs, plan) | {"sweep": axes | {"keep": "best"}}


def samples_sweep(inputs, plan):
    job = job_of(inputs, plan)
    job["method"] |= {"name": "pca_dotresize", "sparsity": plan.ablation}
    return job | {"sweep": {"calibration.samples": list(plan.sample_counts), "keep": "none"}}


def tasks_sweep(inputs, plan):
    job = job_of(inputs, plan, inputs.tasks_calibration)
    axes = {"method.name": list(OF_TASKS), "method.sparsity": list(plan.sparsities)}
    axes["calibration.samples"] = [inputs.samples]  # an axis more than methods_sweep has: its jobs are others
    return job | {"sweep": axes | {"keep": "all"}}


class Results:
    """The table of a sweep (results.json), and the reports of its jobs."""

    def __init__(self, document):
        self.dense = document.get("dense")  # None if no job is done
        self._rows = document["variants"]
        self._directory = Path(document["directory"])

    def row(self, **wanted):
        """The job that is done with these values of the axes, by the last part of their keys; None if there is none.
        A value that the method does not read is not compared."""
        for row in self._rows:
            values = {key.rpartition(".")[2]: value for key, value in row["values"].items()}
            same = all(values[key] is None or _same(values[key], value) for key, value in wanted.items())
            if same and row["state"] == "done":
                return row
        return None

    def perplexity(self, **wanted):
        row = self.row(**wanted)
        return row and row["perplexity"]

    def best(self):
        """The rows whose models are kept."""
        return [row for row in self._rows if row.get("model")]

    def report(self, row):
        return json.loads((self._directory / "variants" / row["id"] / "dotresize" / "report.json").read_text())

    def failures(self):
        """Jobs that failed or were refused, with the reason."""
        for row in self._rows:
            if row["state"] in ("failed", "refused"):
                values = " ".join(value for value in row["values"].values() if value is not None)
                yield f"{values}: {row.get('reason', row['state'])}"


def _same(text, value):
    """True if a value of an axis, which results.json has as text, is this one."""
    return text == value if isinstance(value, str) else float(text) == value


def run_sweep(name, sweep, plan):
    """Runs what is not done yet. Throws Failure for a sweep of which nothing can be made."""
    plan.output.mkdir(parents=True, exist_ok=True)
    file = plan.output / f"{name}.json"
    file.write_text(json.dumps(sweep, indent=1) + "\n", encoding="utf-8")
    changes = [word for change in plan.changes for word in ("--set", change)]
    return Results(dotresize("sweep", file, *changes, accept=(0, EXIT_SOME_FAILED)))
