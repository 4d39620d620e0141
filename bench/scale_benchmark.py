"""Real jobs at real widths under memory budgets: what the plan says of each rank and what it then used.

    scale_benchmark.py BUILD_DIR OUT.json [--case NAME ...] [--folder DIR]

Models of random weights (scripts/random_model.py) have the true widths and few layers; they are made in DIR (default
build/scale) and kept there. Peaks are high-water marks of each rank's resident set (VmHWM), as the report states them.
A rank whose peak exceeds its budget is an error. Seconds are compared with examples/hardware/cpu.yaml unless
HARDWARE names another file, which scripts/bench.sh hardware makes.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
SEQLEN = 512


@dataclass
class Case:
    """One job on one model."""

    model: str
    layers: int
    ranks: int
    memory: str
    method: str
    activations: str
    samples: int = 4  # windows of SEQLEN tokens; the evaluation has two

    @property
    def name(self):
        return f"{self.model}-{self.layers}/{self.method}/{self.activations}/ranks:{self.ranks}/{self.memory}"


CASES = [
    Case("llama-3.1-70b", 2, 2, "9GiB", method, activations)
    for method in ("pca_dotresize", "dotresize")
    for activations in ("original", "compressed")
] + [
    Case("llama-3.1-8b", 4, 8, "2.5GiB", "pca_dotresize", "original"),
    Case("llama-3.1-8b", 4, 8, "2.5GiB", "dotresize", "compressed"),
]


def make_model(folder, case):
    """The model's directory, made unless it is there."""
    directory = folder / f"{case.model}-{case.layers}"
    if not (directory / "config.json").exists():
        script = ROOT / "scripts" / "random_model.py"
        tokens = str(case.samples * SEQLEN)
        subprocess.run(
            [sys.executable, script, directory, "--like", case.model, "--layers", str(case.layers),
             "--tokens", tokens, "--seqlen", str(SEQLEN)],
            check=True,
        )  # fmt: skip
    return directory


def job_of(case, model, output):
    tokens = {
        section: {"tokens": str(model / f"{section}.safetensors"), "seqlen": SEQLEN}
        for section in ("calibration", "evaluation")
    }
    tokens["calibration"].update(samples=case.samples, activations=case.activations)
    return {
        "name": "scale",
        "model": {"path": str(model)},
        "output": {"path": str(output), "overwrite": True},
        "method": {"name": case.method, "sparsity": 0.2, "allow_larger": True},
        "resources": {"ranks": case.ranks, "device": "cpu", "memory": case.memory},
        **tokens,
    }


def planned(build, job_file, hardware):
    command = [build / "bin" / "dotresize", "plan", job_file, "-o", "json"]
    command += ["--hardware", hardware] if hardware else []
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(build, folder, case, hardware):
    """A row of the result."""
    output = folder / "output"
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(job_of(case, make_model(folder, case), output)))
    plan = planned(build, job_file, hardware)
    command = [*MPIRUN, "-np", str(case.ranks), build / "bin" / "dotresize-worker", "--fresh", job_file]
    environment = {"GOMP_SPINCOUNT": "1000", **os.environ}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    report = json.loads((output / "dotresize" / "report.json").read_text())
    ranks = [
        {
            "planned_bytes": said["peak_memory_bytes"],
            "peak_bytes": used["peak_memory_bytes"],
            "seconds": used["seconds"],
        }
        for said, used in zip(plan["ranks"], report["ranks"], strict=True)
    ]
    for rank in ranks:
        rank["peak_of_plan"] = rank["peak_bytes"] / rank["planned_bytes"]
    return {
        "name": case.name,
        "schedule": plan["schedule"],
        "junction_groups": plan["junction_groups"],
        "wall_s": report["wall_time_s"],
        "planned_s": plan["seconds"]["total"] if hardware else None,
        "traffic": plan["traffic"],
        "ranks": ranks,
        "peak_bytes": max(rank["peak_bytes"] for rank in ranks),
        "lowest_peak_of_plan": min(rank["peak_of_plan"] for rank in ranks),
        "highest_peak_of_plan": max(rank["peak_of_plan"] for rank in ranks),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--case", nargs="+", default=[], help="only cases whose name contains one of these")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = (arguments.folder or arguments.build / "scale").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    hardware = os.environ.get("HARDWARE", ROOT / "examples" / "hardware" / "cpu.yaml")
    cases = [case for case in CASES if not arguments.case or any(part in case.name for part in arguments.case)]
    rows = json.loads(arguments.out.read_text())["benchmarks"] if arguments.out.exists() else []
    for case in cases:
        row = measure(arguments.build.absolute(), folder, case, hardware)
        rows = [other for other in rows if other["name"] != row["name"]] + [row]
        arguments.out.write_text(json.dumps({"benchmarks": rows}, indent=1) + "\n")
        print(f"{row['name']}: {row['wall_s']:.0f} s, peaks at {row['lowest_peak_of_plan']:.2f} to "
              f"{row['highest_peak_of_plan']:.2f} of the plan", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
