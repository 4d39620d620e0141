"""Runs the built worker, and Python programs that import either version of transformers."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "docs-llama"
DATA = ROOT / "tests" / "data"
BUILD = Path(os.environ.get("DOTRESIZE_BUILD", ROOT / "build"))
WORKER = BUILD / "bin" / "dotresize-worker"
# transformers 5 is in .venv/, 4 beside it: what PYTHONPATH must be.
VERSIONS = {"5": "", "4": str(ROOT / ".venv-transformers4")}


def run_worker(folder, job, ranks):
    """Runs a job (a dictionary, paths absolute) under mpirun, returns its output directory."""
    file = folder / f"{job['name']}.yaml"
    file.write_text(json.dumps(job))  # JSON is YAML
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = ["mpirun", *as_root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    result = subprocess.run(
        [*mpirun, WORKER, file], capture_output=True, text=True, timeout=240, cwd=folder
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return Path(job["output"]["path"])


def run_python(version, *arguments):
    """Standard output of a Python program that imports the given transformers version."""
    environment = {**os.environ, "PYTHONPATH": VERSIONS[version]}
    command = [sys.executable, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


SCORE_ALL = """
import sys
sys.path.insert(0, sys.argv[1])
import load_and_score
for directory in sys.argv[3:]:
    load_and_score.main([directory, sys.argv[2]])
"""


def score_all(version, directories, tokens):
    """The perplexity of each model over rows of tokens, from one process: to import takes longest."""
    printed = run_python(version, "-c", SCORE_ALL, ROOT / "scripts", tokens, *directories)
    return [float(line) for line in printed.split()]
