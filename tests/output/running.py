"""Runs the built worker, and Python programs with either version of transformers."""

import json
import os
import subprocess
from pathlib import Path

from forking import MODELS, forking_python

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "docs-llama"
DATA = ROOT / "tests" / "data"
BUILD = Path(os.environ.get("DOTRESIZE_BUILD", ROOT / "build"))
WORKER = BUILD / "bin" / "dotresize-worker"
# PYTHONPATH by version: transformers 5 is in .venv/, 4 beside it.
VERSIONS = {"5": "", "4": str(ROOT / ".venv-transformers4")}


def launch(ranks):
    """Returns the command that starts this many ranks. One rank has no mpirun, like that of `dotresize run`."""
    if ranks == 1:
        return ["env", "OMPI_MCA_ess_singleton_isolated=1", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self"]
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *as_root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]


def run_worker(folder, job, ranks):
    """Runs a job (a dictionary with absolute paths). Returns its output directory."""
    file = folder / f"{job['name']}.yaml"
    file.write_text(json.dumps(job))  # JSON is YAML
    result = subprocess.run(
        [*launch(ranks), WORKER, file], capture_output=True, text=True, timeout=240, cwd=folder
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return Path(job["output"]["path"])


def keys_of(model_dir):
    return json.loads((model_dir / "config.json").read_text())


def report_of(output):
    return json.loads((output / "dotresize" / "report.json").read_text())


def run_python(version, *arguments):
    """Returns the standard output of a Python program that imports this transformers version."""
    command = [forking_python(MODELS, VERSIONS[version]), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONPATH": VERSIONS[version]})
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


SCORE_ALL = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
import load_and_score
tokens, *directories = sys.argv[1:]
sys.exit(max(load_and_score.main([directory, tokens]) for directory in directories))
"""


def score_all(version, directories, tokens):
    """Returns the perplexity of each model over rows of tokens."""
    return list(map(float, run_python(version, "-c", SCORE_ALL, tokens, *directories).split()))
