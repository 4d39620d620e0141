"""The rows of the table: sweeps of `dotresize sweep` (docs/sweeps.md), a recipe and a model each."""

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from paper.programs import dotresize
from safetensors.numpy import load_file

from .models import NAMES
from .recipes import BASELINE, METHODS, NO_METHOD, RECIPES, STOCK, UNHEALED

EXIT_SOME_FAILED = 1


@dataclass(frozen=True)
class Row:
    """One job. The figures are None if there is no such job, which `reason` says."""

    model: str
    recipe: str
    method: str
    size: float
    reason: str = None
    widths: str = None
    features: str = None  # the MLPs' widths, if they were cut
    layers: int = None  # the number left, if some are dropped
    net: float = None  # fraction of the dense model's bytes
    perplexity: float = None
    kl: float = None
    agreement: float = None
    predicted_kl: float = None
    held_out_kl: float = None  # for an allocation: on windows of the calibration that nothing was fitted to

    @property
    def key(self):
        return self.model, self.recipe, self.method, self.size

    @property
    def place(self):
        """Place in the order of models, recipes, methods and sizes."""
        recipe = [of.name for of in RECIPES].index(self.recipe)
        return NAMES.index(self.model), recipe, (*METHODS, NO_METHOD).index(self.method), -self.size

    @property
    def done(self):
        return self.perplexity is not None


@dataclass(frozen=True)
class Dense:
    model: str
    parameters: int
    bytes: int
    perplexity: float
    predicted_tokens: int

    @property
    def place(self):
        return NAMES.index(self.model)


class Results:
    """The content of docs/quality.json or docs/real-models.json."""

    def __init__(self, dense=(), rows=()):
        self.dense = {of.model: of for of in dense}
        self.rows = {row.key: row for row in rows}

    def add(self, dense, rows):
        """dense: None if no job is done."""
        if dense:
            self.dense[dense.model] = dense
        self.rows.update({row.key: row for row in rows})

    def of(self, model, **wanted):
        """The rows that are done, in the order of the table."""
        return [
            row for row in sorted(self.rows.values(), key=lambda row: row.place)
            if row.model == model and row.done and all(getattr(row, key) == value for key, value in wanted.items())
        ]  # fmt: skip

    def without_healed(self):
        """The rows of jobs that train nothing."""
        return Results(self.dense.values(), [row for row in self.rows.values() if row.recipe not in UNHEALED])

    def json(self):
        """The document, in the order of the table, whatever was measured last."""
        dense = sorted(self.dense.values(), key=lambda of: of.place)
        rows = sorted(self.rows.values(), key=lambda row: row.place)
        document = {"dense": [asdict(of) for of in dense], "rows": [without_nothing(asdict(row)) for row in rows]}
        return json.dumps(document, indent=1) + "\n"


def without_nothing(values):
    return {key: value for key, value in values.items() if value is not None}


def read_results(file, of_dense=Dense, of_row=Row):
    if not file.is_file():
        return Results()
    document = json.loads(file.read_text(encoding="utf-8"))
    return Results([of_dense(**of) for of in document["dense"]], [of_row(**row) for row in document["rows"]])


def sweeps_of(recipe, model, methods, sizes, folder):
    """Sweeps by their sizes: a sweep cannot have another cut of the MLPs for each size."""
    options = {"round_to": model.round_to, **recipe.options}
    output = {"path": str(folder), "report_html": False, **recipe.output}
    if recipe.format == STOCK:
        output |= dict(model.stock_output)
    job = {
        "name": recipe.name,
        "model": {"path": str(model.directory)},
        "output": output,
        "calibration": {"tokens": str(model.calibration)},
        "evaluation": {"tokens": str(model.evaluation), "kl": True},
    }
    if recipe.heal is not None:
        job["heal"] = recipe.heal
    if recipe.mlps_alone and BASELINE in methods:
        widths = [model.features_at(size) for size in sizes]
        yield job | {"method": {"name": BASELINE, **options}, "sweep": {"method.mlp.width": widths, "keep": "none"}}
        return
    methods = [method for method in recipe.methods if method in methods and (model.is_example or method == BASELINE)]
    if not methods:
        return
    for together in [list(sizes)] if recipe.cut is None else [[size] for size in sizes]:
        of = dict(options)
        if recipe.cut:
            of["mlp"] = {"sparsity": recipe.cut[together[0]]}
        names = {} if "allocate" in of else {"method.name": methods}
        yield job | {"method": of, "sweep": names | {"method.size": together, "keep": "none"}}


def spread(values):
    """Range of the values, as text; None if there are none."""
    if not values:
        return None
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def measured(report):
    """The figures that a row takes from a job's report."""
    compressed = report["compressed"]
    mlps = [mlp["width"] for mlp in report.get("mlps", [])]
    return {
        "widths": spread([junction["width"] for junction in report["junctions"] if junction["mapped"]]),
        "features": spread(mlps),
        "net": compressed["bytes_fraction"],
        "perplexity": compressed["perplexity"],
        "kl": compressed["kl"],
        "agreement": compressed["agreement"],
        **{key: report.get("allocation", {}).get(key) for key in ("predicted_kl", "held_out_kl")},
    }


def dense_of(model, report):
    return Dense(model.name, report["dense"]["parameters"], report["dense"]["bytes"], report["dense"]["perplexity"],
                 report["evaluation"]["predicted_tokens"])  # fmt: skip


def dropped(recipe, model, size):
    """The row of a baseline that is measured in transformers."""
    left = baseline_of(model).at(size)
    return Row(model.name, recipe.name, NO_METHOD, size, layers=left.layers, net=left.net, **vars(left.score))


@functools.cache
def baseline_of(model):
    from real.dropping import DroppedLayers

    windows = len(load_file(model.calibration)["tokens"])
    return DroppedLayers(model.directory, model.calibration, model.evaluation, windows, "float32")


def size_of(values, model, sizes):
    """The size that a job of a sweep was to meet."""
    if "method.size" in values:
        return float(values["method.size"])
    (size,) = (size for size in sizes if model.features_at(size) == int(values["method.mlp.width"]))
    return size


def measure(recipe, model, methods, sizes, folder):
    """Dense (None if no job is done) and the rows of a recipe."""
    if recipe.drops_layers:
        return None, [dropped(recipe, model, size) for size in sizes]
    dense, rows = None, []
    for number, sweep in enumerate(sweeps_of(recipe, model, methods, sizes, folder)):
        file = folder.parent / f"{folder.name}-{recipe.name}-{number}.json"
        file.write_text(json.dumps(sweep, indent=1) + "\n", encoding="utf-8")
        results = dotresize("sweep", file, accept=(0, EXIT_SOME_FAILED))
        for variant in results["variants"]:
            values = variant["values"]
            row = {
                "model": model.name,
                "recipe": recipe.name,
                "method": values.get("method.name", BASELINE),
                "size": size_of(values, model, sizes),
            }
            if variant["state"] != "done":
                rows.append(Row(**row, reason=variant.get("reason", variant["state"])))
                continue
            report = Path(results["directory"]) / "variants" / variant["id"] / "dotresize" / "report.json"
            report = json.loads(report.read_text(encoding="utf-8"))
            dense = dense_of(model, report)
            rows.append(Row(**row, **measured(report)))
    return dense, rows
