"""The rows of the tables: a job of `dotresize run` each, but for the baseline, which is measured in transformers."""

import json
import re
import time
from functools import cached_property

from paper.programs import dotresize

from .recipes import WINDOWS, method_of
from .results import Dense, Row, dense_of, measured

SEQLEN = 1024
RANKS = 2
EXIT_JOB_FAILED, EXIT_REFUSED = 1, 65


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
    output = work / model.key / f"{recipe.name}-{size:g}"
    output.parent.mkdir(parents=True, exist_ok=True)
    report = output / "dotresize" / "report.json"
    if not report.is_file():
        file = output.with_suffix(output.suffix + ".json")
        file.write_text(json.dumps(job_of(recipe, model, size, output), indent=1) + "\n", encoding="utf-8")
        document = dotresize("run", file, accept=(0, EXIT_JOB_FAILED, EXIT_REFUSED))
        if error := document.get("error"):
            return None, Row(recipe.name, size, model.name, reason=re.sub(rf"^{re.escape(str(file))}:\d+: ", "", error["message"]))
    report = json.loads(report.read_text(encoding="utf-8"))
    return dense_of(model.name, report), Row(recipe.name, size, model.name, **measured(report), seconds=report["wall_time_s"])


class Others:
    """Rows of models that are made without dotresize, scored in transformers."""

    def __init__(self, model):
        self.model = model

    @cached_property
    def _dropped(self):
        from .dropping import DroppedLayers

        return DroppedLayers(self.model.directory, self.model.tokens("calibration"), self.model.tokens("evaluation"), WINDOWS)

    def row(self, recipe, size):
        return self._without_layers(recipe, size) if recipe.name == "dropped" else self._by_optipfair(recipe, size)

    def _without_layers(self, recipe, size):
        left = self._dropped.at(size)
        return Row(recipe.name, size, self.model.name, layers=left.layers, net=left.net, **vars(left.score), seconds=left.seconds)

    def _by_optipfair(self, recipe, size):
        from .peers import optipfair

        start = time.monotonic()
        features = self.model.features_at(size)
        if features < 1:
            return Row(recipe.name, size, self.model.name, reason="the MLPs have fewer bytes than are to go")
        pruned = optipfair(self.model.directory, self._dropped.calibration, features)
        score = self._dropped.reference.score(pruned)
        left = str(pruned.config.intermediate_size)
        net = pruned.num_parameters() / self.model.parameters
        return Row(recipe.name, size, self.model.name, features=left, net=net, **vars(score), seconds=time.monotonic() - start)

    @property
    def dense(self):
        loaded, reference = self._dropped.model, self._dropped.reference
        parameters = loaded.num_parameters()
        of_a_number = next(loaded.parameters()).element_size()
        return Dense(self.model.name, parameters, of_a_number * parameters, reference.perplexity, reference.predicted_tokens)


def rows(chosen, sizes, model, work):
    """(dense or None, row) of each chosen recipe at each size."""
    others = Others(model)
    for recipe in chosen:
        for size in sizes:
            yield run_job(recipe, model, size, work) if recipe.is_job else (others.dense, others.row(recipe, size))
