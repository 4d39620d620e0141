"""Whole jobs beside their plan: the memory of each rank, and the share of the time that each phase takes.

    estimates_benchmark.py BUILD_DIR OUT.json [--model DIR --tokens FILE] [--samples N] [--ranks N] [--job NAME ...]

Planned over measured: 1 is exact. Seconds are those of the whole job, for which nothing is promised. Shares are those of
the phases that plan and report both have, which hardly depend on how fast the machine is; it should do nothing else
meanwhile. Its rates are those of the file HARDWARE (default examples/hardware/cpu.yaml), which scripts/bench.sh hardware
makes. Phases below 2 % on both sides do not count.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
MEMORY, SHARE = 0.25, 0.4  # promised
MAPS = {"name": "pca_dotresize", "sparsity": 0.2, "allow_larger": True}
JOBS = {
    "size": {"method": {"size": 0.8}},
    "pipeline": {"method": MAPS},
    "token_parallel": {"method": MAPS, "calibration": {"activations": "compressed"}},
    "fisher": {"method": {**MAPS, "name": "slicegpt", "metric": "fisher"}},
    "mlp": {"method": {**MAPS, "name": "dotresize", "mlp": {"sparsity": 0.2}}},
    "heal": {"method": {"size": 0.8}, "heal": {"epochs": 1}},
}


def job_of(name, arguments, output):
    tokens = {"tokens": str(arguments.tokens.absolute()), "samples": arguments.samples, "seqlen": 512}
    own = JOBS[name]
    return {
        "name": name,
        "model": {"path": str(arguments.model.absolute())},
        "output": {"path": str(output)},
        "resources": {"ranks": arguments.ranks, "device": "cpu"},
        "evaluation": tokens,
        **own,
        "calibration": {**tokens, **own.get("calibration", {})},
    }


def memory_rows(name, plan, report):
    for said, used in zip(plan["ranks"], report["ranks"], strict=True):
        planned, measured = said["peak_memory_bytes"], used["peak_memory_bytes"]
        yield {"name": f"{name}/rank {used['rank']} memory", "planned": planned, "measured": measured,
               "ratio": planned / measured, "within": abs(planned / measured - 1) <= MEMORY}


def together(seconds):
    """Adds up the phases in which a rank waits for others: which of them depends on the call that it waits in."""
    waits = sum(seconds.get(phase, 0) for phase in ("communicate", "wait"))
    return {**{phase: s for phase, s in seconds.items() if phase != "wait"}, "communicate": waits}


def seconds_row(name, plan, report):
    planned = sum(plan["seconds"]["phases"].values())
    measured = max(sum(rank["seconds"].values()) for rank in report["ranks"])
    return {"name": f"{name}/seconds", "planned": planned, "measured": measured, "ratio": planned / measured}


def phase_rows(name, plan, report):
    ranks = [together(rank["seconds"]) for rank in report["ranks"]]
    seconds = {phase: sum(rank.get(phase, 0) for rank in ranks) / len(ranks) for phase in set().union(*ranks)}
    phases = {phase: planned for phase, planned in together(plan["seconds"]["phases"]).items() if seconds.get(phase)}
    planned_total = sum(phases.values())
    measured_total = sum(seconds[phase] for phase in phases)
    for phase, planned in sorted(phases.items(), key=lambda item: -item[1]):
        planned_share, measured_share = planned / planned_total, seconds[phase] / measured_total
        if max(planned_share, measured_share) < 0.02:
            continue
        ratio = planned_share / measured_share
        yield {"name": f"{name}/{phase}", "planned": planned_share, "measured": measured_share, "ratio": ratio,
               "within": abs(ratio - 1) <= SHARE}


def measure(name, arguments, folder):
    job = folder / f"{name}.json"
    job.write_text(json.dumps(job_of(name, arguments, folder / name)))
    programs = arguments.build / "bin"
    hardware = os.environ.get("HARDWARE", ROOT / "examples" / "hardware" / "cpu.yaml")
    plan = subprocess.run([programs / "dotresize", "plan", job, "-o", "json", "--hardware", hardware], check=True,
                          capture_output=True, text=True)
    subprocess.run([*MPIRUN, "-np", str(arguments.ranks), programs / "dotresize-worker", job], check=True,
                   env={"GOMP_SPINCOUNT": "1000", **os.environ}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report = json.loads((folder / name / "dotresize" / "report.json").read_text())
    plan = json.loads(plan.stdout)
    return [seconds_row(name, plan, report), *memory_rows(name, plan, report), *phase_rows(name, plan, report)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, default=ROOT / "examples" / "docs-llama")
    parser.add_argument("--tokens", type=Path, default=ROOT / "tests" / "data" / "calibration.safetensors")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--job", nargs="+", default=list(JOBS), choices=JOBS)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.job:
            rows += measure(name, arguments, Path(folder))
    arguments.out.write_text(json.dumps({"benchmarks": rows}, indent=1) + "\n")
    for kind, promised in (("memory", MEMORY), ("time shares", SHARE)):
        of_kind = [row for row in rows if "within" in row and row["name"].endswith("memory") == (kind == "memory")]
        within = sum(row["within"] for row in of_kind)
        print(f"{kind}: {within} of {len(of_kind)} within {100 * promised:.0f} %")
    for row in rows:
        if "within" not in row:
            print(f"{row['name']}: {row['planned']:.1f} planned, {row['measured']:.1f} measured")


if __name__ == "__main__":
    main()
