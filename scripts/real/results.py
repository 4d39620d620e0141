"""The figures of docs/results.json: dense models, and a row for each model that was made of one."""

import json
from dataclasses import asdict, dataclass

from .model import NAMES as MODELS
from .recipes import NAMES, SIZES


@dataclass(frozen=True)
class Dense:
    model: str
    parameters: int
    bytes: int
    perplexity: float
    predicted_tokens: int

    @property
    def place(self):
        return MODELS.index(self.model)


@dataclass(frozen=True)
class Row:
    """One model. The figures are None if there is no such model, which `reason` says."""

    recipe: str
    size: float
    model: str
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
        return self.model, self.recipe, self.size

    @property
    def place(self):
        return MODELS.index(self.model), SIZES.index(self.size), NAMES.index(self.recipe)

    @property
    def done(self):
        return self.perplexity is not None


class Results:
    def __init__(self, dense=(), rows=()):
        self.dense = {of.model: of for of in dense}
        self.rows = {row.key: row for row in rows}

    def add(self, dense, rows):
        """dense: None if no job is done."""
        if dense:
            self.dense[dense.model] = dense
        self.rows.update({row.key: row for row in rows})

    def of(self, model, size):
        """The rows that are done, best first."""
        rows = [row for row in self.rows.values() if (row.model, row.size) == (model, size) and row.done]
        return sorted(rows, key=lambda row: row.perplexity)

    def json(self):
        """The document, in the order of the tables, whatever was measured last."""
        dense = sorted(self.dense.values(), key=lambda of: of.place)
        rows = sorted(self.rows.values(), key=lambda row: row.place)
        document = {"dense": [asdict(of) for of in dense], "rows": [without_nothing(asdict(row)) for row in rows]}
        return json.dumps(document, indent=1) + "\n"


def without_nothing(values):
    return {key: value for key, value in values.items() if value is not None}


def read_results(file):
    if not file.is_file():
        return Results()
    document = json.loads(file.read_text(encoding="utf-8"))
    return Results([Dense(**of) for of in document["dense"]], [Row(**row) for row in document["rows"]])


def spread(values):
    """Range of the values, as text; None if there are none."""
    if not values:
        return None
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def measured(report):
    """The figures that a row takes from a job's report."""
    compressed = report["compressed"]
    return {
        "widths": spread([junction["width"] for junction in report["junctions"] if junction["mapped"]]),
        "features": spread([mlp["width"] for mlp in report.get("mlps", [])]),
        "net": compressed["bytes_fraction"],
        "perplexity": compressed["perplexity"],
        "kl": compressed["kl"],
        "agreement": compressed["agreement"],
        **{key: report.get("allocation", {}).get(key) for key in ("predicted_kl", "held_out_kl")},
    }


def dense_of(name, report):
    return Dense(name, report["dense"]["parameters"], report["dense"]["bytes"], report["dense"]["perplexity"],
                 report["evaluation"]["predicted_tokens"])  # fmt: skip
