#!/usr/bin/env python3
"""Perplexity at equal net size: runs the example model over methods, sizes and map sharings, and writes docs/quality.md.

    .venv/bin/python scripts/quality_table.py [--output FILE]

Needs the built worker. Calibration and evaluation are the token files of tests/data/, so the figures are those of the
model and the method alone. As many jobs as there are cores run side by side, each with one thread: a figure does not
depend on the machine's cores.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "build" / "bin"
MODEL = ROOT / "examples" / "docs-llama"
CALIBRATION = ROOT / "tests" / "data" / "calibration.safetensors"
EVALUATION = ROOT / "tests" / "data" / "evaluation.safetensors"
METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]
SIZES = [0.9, 0.8, 0.7]
SHORTCUTS = ["dense", "exact", "24", "8"]
METHODS_OF_SHORTCUTS = ["slicegpt", "pca_dotresize"]
METRIC_ROWS = [("slicegpt", 0.9), ("slicegpt", 0.8), ("slicegpt", 0.7), ("pca_dotresize", 0.8), ("magnitude", 0.8)]
METRICS = ["activation", "fisher"]
METRIC_COLUMNS = {
    "exact": {},
    "8, head sliced": {"shortcuts": "8", "head": "sliced"},
    "one map": {"map_sharing": "model"},
}

# Sizes and the d_ff that is left of 768.
MLP_ROWS = [(0.9, 704), (0.8, 704), (0.8, 640), (0.7, 576)]
OWN_FISHER_MAPS = {"shortcuts": "8", "head": "sliced", "metric": "fisher"}
MLP_COLUMNS = {
    "one map, activation": {"map_sharing": "model"},
    "one map, fisher": {"map_sharing": "model", "metric": "fisher"},
    "8, head sliced, fisher": OWN_FISHER_MAPS,
}
# Features on average.
BY_LOSS_ROWS = [704]

PAGE = """\
# Quality at equal net size

The example model ([examples/docs-llama](../examples/docs-llama/README.md), {parameters:,} parameters, {bytes:,} bytes) at 90, 80 and 70 % of
its net bytes: width, net size and perplexity over {tokens:,} predicted tokens. The dense model's perplexity is **{dense:.2f}**. One small
model: measure on yours.

```
.venv/bin/python scripts/quality_table.py    # makes this page
```

Calibration: 64 windows of 512 tokens of `tests/data/calibration.safetensors`; evaluation: `tests/data/evaluation.safetensors`.
Activations are those of `auto`, all other options the defaults.

## A map per junction, and one for the model

`map_sharing: junction` stores a shortcut per sublayer, `map_sharing: model` none, so it is wider at the same size.

{uniform}
## Shortcuts

How the shortcuts of own maps are stored ([method.md](method.md#shortcuts)): `dense`, as one matrix each, `exact`, which computes the same in fewer
bytes, and of rank 24 and 8 at most. Each cell: width, net size, perplexity.

{shortcuts}
## The metric of the loss

`metric: fisher` ([method.md](method.md#the-metric-of-the-loss)) with the default labels: own maps with `exact` shortcuts and a dense head, with shortcuts
of rank 8 at most and a sliced head, and one map for the model. With own maps its shortcuts take two factors, so at the same size it is
narrower. Each cell: width, net size, perplexity.

{metrics}
## Narrower MLPs

`mlp: {{width: W}}` ([method.md](method.md#narrower-mlps)) with slicegpt: features of each MLP, 768 in the dense model, for which the stream is wider at the
same size. Each cell: width, net size, perplexity. With 768 features they are in the table above. Other labels (`label_seed`) change what fisher
gives by some hundredths.

{mlps}
`widths: by_loss` takes the features where that costs least ([method.md](method.md#widths-by-loss)): slicegpt, width 212, shortcuts of rank 8 at most, head sliced,
`metric: fisher`.

{by_loss}
## Widths by energy

`widths: {{from: energy, size: S}}`, a map per junction: every width holds at least the same fraction of its junction's energy (`held`).
Junctions widen one by one, so the size is met more closely than by one width for all. The activations are `original` for all
methods here, also for magnitude and dotresize, which above have `compressed` ones with a map per junction.

{energy}"""


def report_of(method):
    """The report of a job with this section `method`."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        spec = {
            "name": "quality",
            "model": {"path": str(MODEL)},
            "output": {"path": str(folder / "out")},
            "method": method,
            "calibration": {"tokens": str(CALIBRATION)},
            "evaluation": {"tokens": str(EVALUATION)},
        }
        (folder / "job.json").write_text(json.dumps(spec))
        command = [BIN / "dotresize-worker", folder / "job.json"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        return json.loads((folder / "out" / "dotresize" / "report.json").read_text())


def reports_of(methods):
    """The report of each of the sections, which are keyed as the reports are."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(methods, pool.map(report_of, methods.values())))


def size_cell(report):
    return f"{100 * report['compressed']['bytes_fraction']:.1f} %"


def perplexity_cell(report):
    return f"{report['compressed']['perplexity']:.2f}"


def uniform_cells(report):
    return [str(report["method"]["width"]), size_cell(report), perplexity_cell(report)]


def energy_cells(report):
    widths = [junction["width"] for junction in report["junctions"] if junction["mapped"]]
    held = report["method"]["widths"]["held"]
    return [f"{min(widths)} to {max(widths)}", f"{held:.4f}", size_cell(report), perplexity_cell(report)]


def table(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def uniform_table(reports):
    header = ["method, size", "width, own maps", "net", "perplexity", "width, one map", "net", "perplexity"]
    rows = [
        [f"{name}, {size}", *uniform_cells(reports[name, size, "exact"]), *uniform_cells(reports[name, size, "model"])]
        for size in SIZES
        for name in METHODS
    ]
    return table(header, rows)


def shortcuts_table(reports):
    rows = [
        [f"{name}, {size}", *(", ".join(uniform_cells(reports[name, size, shortcuts])) for shortcuts in SHORTCUTS)]
        for size in SIZES
        for name in METHODS_OF_SHORTCUTS
    ]
    return table(["method, size", *SHORTCUTS], rows)


def metric_methods():
    return {
        (*row, column, metric): {"name": row[0], "size": row[1], "metric": metric, **options}
        for row in METRIC_ROWS
        for column, options in METRIC_COLUMNS.items()
        for metric in METRICS
    }


def metrics_table(reports):
    rows = [
        [f"{name}, {size}, {metric}", *(", ".join(uniform_cells(reports[name, size, c, metric])) for c in METRIC_COLUMNS)]
        for name, size in METRIC_ROWS
        for metric in METRICS
    ]
    return table(["method, size, metric", *METRIC_COLUMNS], rows)


def mlp_methods():
    return {
        (*row, column): {"name": "slicegpt", "size": row[0], "mlp": {"width": row[1]}, **options}
        for row in MLP_ROWS
        for column, options in MLP_COLUMNS.items()
    }


def mlps_table(reports):
    rows = [
        [f"{size}, {width}", *(", ".join(uniform_cells(reports[size, width, c])) for c in MLP_COLUMNS)]
        for size, width in MLP_ROWS
    ]
    return table(["size, features", *MLP_COLUMNS], rows)


def by_loss_methods():
    mlps = {average: {"width": average, "widths": "by_loss"} for average in BY_LOSS_ROWS}
    return {
        ("by_loss", average): {"name": "slicegpt", "width": 212, "mlp": mlp, **OWN_FISHER_MAPS}
        for average, mlp in mlps.items()
    }


def by_loss_table(reports):
    rows = []
    for average in BY_LOSS_ROWS:
        report = reports["by_loss", average]
        features = ", ".join(str(mlp["width"]) for mlp in report["mlps"])
        rows.append([str(average), features, size_cell(report), perplexity_cell(report)])
    return table(["features on average", "of the six layers", "net", "perplexity"], rows)


def energy_table(reports):
    header = ["method, size", "widths", "held", "net", "perplexity"]
    rows = [[f"{name}, {size}", *energy_cells(reports[name, size])] for size in SIZES for name in METHODS]
    return table(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "quality.md")
    output = parser.parse_args().output
    stock = {
        (name, size, "model"): {"name": name, "size": size, "map_sharing": "model"}
        for name in METHODS
        for size in SIZES
    }
    own = {
        (name, size, shortcuts): {"name": name, "size": size, "shortcuts": shortcuts}
        for name in METHODS
        for size in SIZES
        for shortcuts in (SHORTCUTS if name in METHODS_OF_SHORTCUTS else ["exact"])
    }
    energy = {
        (name, size): {"name": name, "widths": {"from": "energy", "size": size}}
        for name in METHODS
        for size in SIZES
    }
    reports = reports_of({**stock, **own, **metric_methods(), **mlp_methods(), **by_loss_methods(), **energy})
    any_report = next(iter(reports.values()))
    page = PAGE.format(
        parameters=any_report["dense"]["parameters"],
        bytes=any_report["dense"]["bytes"],
        tokens=any_report["evaluation"]["predicted_tokens"],
        dense=any_report["dense"]["perplexity"],
        uniform=uniform_table(reports),
        shortcuts=shortcuts_table(reports),
        metrics=metrics_table(reports),
        mlps=mlps_table(reports),
        by_loss=by_loss_table(reports),
        energy=energy_table(reports),
    )
    output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
