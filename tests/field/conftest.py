"""The places of situations, what transformers 4 gives for them, and a table of what was found."""

import functools
import gc
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_S = 500
BIN = Path(os.environ.get("DOTRESIZE_BIN", ROOT / "build" / "bin"))
os.environ["HF_HUB_OFFLINE"] = "1"
ENVIRONMENT = dict(os.environ)  # pytest changes its own while other threads start programs
sys.path.append(str(ROOT / "tests" / "output"))

import reference  # noqa: E402
from expectations import tokens_for  # noqa: E402
from forking import HELPERS, forking_python  # noqa: E402
from situations import session_folder  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--found", metavar="FILE", help="write a table of what every command gave beside what was expected")


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


def program_environment(situation):
    """Returns the environment of a user who has the programs in PATH and an empty cache. Other users and tables of mounts have a
    Python of their own."""
    home = Path(session_folder().name) / "home"
    home.mkdir(exist_ok=True)
    more = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "OMP_NUM_THREADS": "1"}
    python = sys.executable if situation.as_root else forking_python(HELPERS)
    return ENVIRONMENT | more | {"DOTRESIZE_PYTHON": python, "OMPI_MCA_rmaps_base_oversubscribe": "1", "PYTHONPATH": "", "LC_ALL": "C.UTF-8"}


def selected(request):
    """Returns the situations whose tests this session runs."""
    return [item.callspec.params["situation"] for item in request.session.items if hasattr(item, "callspec")]


@functools.cache
def place_of(situation):
    return situation.make()


@pytest.fixture
def place(situation):
    return place_of(situation)


def scores_in_transformers_4(names, pairs):
    """Returns transformers 4's perplexity, or its refusal, by name. One process computes all of them."""
    done = subprocess.run([sys.executable, reference.__file__, pairs], env=os.environ | {"PYTHONPATH": str(ROOT / ".venv-transformers4")},
                          capture_output=True, text=True, timeout=LONGEST_S)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(names, json.loads(done.stdout), strict=True))


@pytest.fixture(scope="session")
def pool():
    """Runs two programs at a time, beside transformers 5 in this process."""
    with ThreadPoolExecutor(2) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def in_transformers_4(request, pool):
    asked = [situation for situation in selected(request) if 4 in situation.versions]
    pairs = Path(session_folder().name) / "pairs.json"
    # Places are made by this thread alone.
    pairs.write_text(json.dumps([[str(place_of(situation) / name) for name in ("model", "tokens.safetensors")] for situation in asked]))
    return pool.submit(scores_in_transformers_4, [situation.name for situation in asked], pairs)


@pytest.fixture
def references(in_transformers_4, situation, place):
    """Returns what the versions of transformers that the situation names give for it."""
    found = {}
    if 5 in situation.versions:
        found[5] = reference.score(place / "model", tokens_for(situation.expectation, place))
    if 4 in situation.versions:
        found[4] = in_transformers_4.result()[situation.name]
    return found


@pytest.fixture(scope="session")
def found(request):
    """Collects rows of the table of `--found`, and writes it at the end."""
    rows = []
    yield rows
    if file := request.config.getoption("--found"):
        lines = ["| situation | found | expected | |", "| --- | --- | --- | --- |"]
        cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        Path(file).write_text("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n")
