"""One table of the benchmark results in JSON files: name, time, and whatever else was counted."""

import json
import sys
from pathlib import Path

# Keys that Google Benchmark writes for every run.
STANDARD = {"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions",
            "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "aggregate_name",
            "aggregate_unit"}
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def scaled(value):
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.4g}"


def cells(row):
    if "real_time" in row:
        yield f"{row['real_time'] * SECONDS[row['time_unit']]:.4g} s"
    for key, value in row.items():
        if key not in STANDARD and isinstance(value, (int, float)):
            yield f"{key} {scaled(value)}"


# Benchmark: its peer, whose rate at the same width in the same run it is divided by, and the name of that rate.
PEERS = {"add_l1_cost": ("cdist", "of_limit"), "add_l1_cost_far_means": ("cdist", "of_limit")}


def with_peers(rows):
    """Adds, for instance, "times_cdist"."""
    rows = list(rows)
    found = {tuple(row["name"].split("/")[:2]): row for row in rows}
    for row in rows:
        name, _, width = row["name"].partition("/")
        peer, rate = PEERS.get(name, (None, None))
        other = found.get((peer, width.split("/")[0]))
        if other:
            row[f"times_{peer}"] = row[rate] / other[rate]
    return rows


def best_of_repetitions(rows):
    """The fastest of each name."""
    best = {}
    for row in rows:
        name = row["name"]
        if row.get("run_type") == "aggregate":
            continue
        if name not in best or row.get("real_time", 0) < best[name].get("real_time", 0):
            best[name] = row
    return best.values()


for file in sys.argv[1:]:
    print(f"{Path(file).stem}")
    for row in with_peers(best_of_repetitions(json.loads(Path(file).read_text())["benchmarks"])):
        print(f"  {row['name']:48}  {'   '.join(cells(row))}")
