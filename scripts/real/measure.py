"""The rows of the real model's table, one job of `dotresize run` each, but for the baseline, which is measured in transformers."""

import json
from dataclasses import dataclass
from functools import cached_property

from paper.programs import dotresize
from quality import measure as quality

from .model import NAME
from .recipes import NAMES, SIZES, WINDOWS, method_of

SEQLEN = 1024
RANKS = 2
EXIT_JOB_FAILED, EXIT_REFUSED = 1, 65


@dataclass(frozen=True)
class Dense(quality.Dense):
    place = 0  # before others: it is the only one


@dataclass(frozen=True)
class Row:
    """One model. The figures are None if there is no such model, which `reason` says."""

    recipe: str
    size: float
    model: str = NAME
    reason: str = None
    layers: int = None  # the number left, if some are dropped
    widths: str = None  # the stream's, where it is narrower
    features: str = None  # the MLPs' widths, if they were cut
    net: float = None  # fraction of the dense model's bytes
    perplexity: float = None
    kl: float = None
    agreement: float = None
    predicted_kl: float = None
    held_out_kl: float = None
    seconds: float = None  # wall time, evaluations included

    @property
    def key(self):
        return self.recipe, self.size

    @property
    def place(self):
        return SIZES.index(self.size), NAMES.index(self.recipe)

    @property
    def done(self):
        return self.perplexity is not None


def read_results(file):
    return quality.read_results(file, Dense, Row)


def job_of(recipe, model, size, output):
    """Jobs of `size` alone keep their first round beside the output, for those of other sizes."""
    calibration = {"tokens": str(model.tokens("calibration")), "samples": recipe.windows, "seqlen": SEQLEN}
    if recipe.allocates:
        calibration["statistics"] = {"save": str(output.with_name(f"{recipe.first_round or recipe.name}-first-round"))}
    job = {
        "name": f"{recipe.name}-{size:g}",
        "model": {"path": str(model.directory)},
        "output": {"path": str(output), **recipe.output},
        "method": method_of(recipe, size, model.hidden_size, model.features_at(size)),
        "calibration": calibration,
        "evaluation": {"tokens": str(model.tokens("evaluation")), "kl": True},
        "resources": {"ranks": RANKS},
    }
    return job if recipe.heal is None else job | {"heal": recipe.heal}


def run_job(recipe, model, size, work):
    """Dense (None if the job made nothing) and the row. A job whose output is in the folder already is not run again."""
    output = work / f"{recipe.name}-{size:g}"
    report = output / "dotresize" / "report.json"
    if not report.is_file():
        file = work / f"{output.name}.json"
        file.write_text(json.dumps(job_of(recipe, model, size, output), indent=1) + "\n", encoding="utf-8")
        document = dotresize("run", file, accept=(0, EXIT_JOB_FAILED, EXIT_REFUSED))
        if error := document.get("error"):
            return None, Row(recipe.name, size, reason=error["message"])
    report = json.loads(report.read_text(encoding="utf-8"))
    figures = quality.measured(report)
    return Dense(**vars(quality.dense_of(model, report))), Row(recipe.name, size, **figures, seconds=report["wall_time_s"])


class Baseline:
    """Layers dropped by block influence."""

    def __init__(self, model):
        self.model = model

    @cached_property
    def _dropped(self):
        from .dropping import DroppedLayers

        return DroppedLayers(self.model.directory, self.model.tokens("calibration"), self.model.tokens("evaluation"), WINDOWS)

    def row(self, recipe, size):
        left = self._dropped.at(size)
        return Row(recipe.name, size, layers=left.layers, net=left.net, **vars(left.score), seconds=left.seconds)

    @property
    def dense(self):
        loaded, reference = self._dropped.model, self._dropped.reference
        parameters = loaded.num_parameters()
        of_a_number = next(loaded.parameters()).element_size()
        return Dense(NAME, parameters, of_a_number * parameters, reference.perplexity, reference.predicted_tokens)


def rows(chosen, sizes, model, work):
    """(dense or None, row) of each chosen recipe at each size."""
    baseline = Baseline(model)
    for recipe in chosen:
        for size in sizes:
            if recipe.drops_layers:
                yield baseline.dense, baseline.row(recipe, size)
            else:
                yield run_job(recipe, model, size, work)
