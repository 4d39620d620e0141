"""A whole job over 1, 2, 4, ... ranks with one thread each: wall time and speed-up, as the report states them.

    ranks_benchmark.py BUILD_DIR OUT.json [--ranks N ...] [--repetitions N]

Text is tokenised before the first measured run. Figures mean something up to the number of cores.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


def run(worker, job, ranks, output):
    """The report of the job, written to `output`, over so many ranks."""
    overlay = output.parent / f"{output.name}.json"
    spec = json.loads(json.dumps(job))
    spec["output"] = {"path": str(output), "overwrite": True}
    spec["resources"] = {"ranks": ranks}
    overlay.write_text(json.dumps(spec))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*MPIRUN, "-np", str(ranks), worker, str(overlay)], check=True, env=environment,
                   stderr=subprocess.DEVNULL)
    return json.loads((output / "dotresize" / "report.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[n for n in (1, 2, 4, 8) if n <= os.cpu_count()])
    parser.add_argument("--repetitions", type=int, default=2)
    arguments = parser.parse_args()
    example = ROOT / "examples" / "docs-llama"
    job = {
        "name": "ranks-benchmark",
        "model": {"path": str(example)},
        "method": {"name": "pca_dotresize", "sparsity": 0.2},
        "calibration": {"text": [str(example / "calibration.txt")], "samples": 64, "seqlen": 512},
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in [arguments.ranks[0], *arguments.ranks]:  # the first one tokenises
            reports = [run(arguments.build / "bin" / "dotresize-worker", job, ranks, Path(folder) / f"ranks-{ranks}")
                       for _ in range(arguments.repetitions)]
            best = min(reports, key=lambda report: report["wall_time_s"])
            rows.append({"name": f"ranks/{ranks}", "wall_s": best["wall_time_s"], "phases_s": best["ranks"][0]["seconds"]})
    rows = rows[1:]
    for row in rows:
        row["speed_up"] = rows[0]["wall_s"] / row["wall_s"]
    arguments.out.write_text(json.dumps({"benchmarks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
