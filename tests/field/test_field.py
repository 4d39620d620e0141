"""Every entry of table.py: its command gives what the entry expects."""

import json
import os
import subprocess
import tempfile

import pytest
from conftest import place_of, program_environment, selected
from expectations import Equal, document_of, found_in
from table import EVAL, TABLE

LONGEST_S = 120


def may_run(situation):
    return os.geteuid() == 0 or not situation.as_root


def run(situation, place):
    """Runs the command in its place. One that needs root has a table of mounts of its own."""
    shell = ["unshare", "--mount", "bash", "-c"] if situation.as_root else ["bash", "-c"]
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        done = subprocess.run([*shell, situation.command], cwd=place.folder, env=program_environment(situation), stdin=subprocess.DEVNULL,
                              stdout=stdout, stderr=stderr, timeout=LONGEST_S)  # fmt: skip
        for stream, name in ((stdout, "stdout"), (stderr, "stderr")):
            stream.seek(0)
            setattr(done, name, stream.read())
    return done


def evaluated_together(situations):
    """Returns the ends of commands that should give a perplexity and say nothing, by name. One process evaluates all models; if
    there is more to say, each command has to run by itself, and nothing is returned."""
    models = [str(place_of(situation) / "model") for situation in situations]
    if not models:
        return {}
    place = place_of(situations[0])
    done = subprocess.run(["dotresize", "eval", *models, *EVAL.split()[3:]], cwd=place.folder, env=program_environment(situations[0]),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_S)  # fmt: skip
    if done.returncode != 0 or document_of(done)["warnings"] or "warning" in done.stderr:
        return {}
    document = document_of(done)
    assert [model["model"] for model in document["models"]] == models
    return {situation.name: subprocess.CompletedProcess(situation.command, 0, json.dumps(document | {"models": [model]}), "")
            for situation, model in zip(situations, document["models"], strict=True)}  # fmt: skip


def is_silent(situation):
    return situation.command == EVAL and isinstance(situation.expectation, Equal) and not situation.expectation.words


@pytest.fixture(scope="session")
def commands(request, in_transformers_4, pool):
    """Returns a function that gives the end of a situation's command."""
    situations = [situation for situation in selected(request) if may_run(situation)]
    together = evaluated_together([situation for situation in situations if is_silent(situation)])
    alone = {situation.name: pool.submit(run, situation, place_of(situation)) for situation in situations if situation.name not in together}
    return lambda name: together[name] if name in together else alone[name].result()


@pytest.mark.parametrize("situation", TABLE, ids=lambda situation: situation.name)
def test_situation(situation, commands, place, references, found):
    if not may_run(situation):
        pytest.skip("needs root, to mount file systems or to become another user")
    done = commands(situation.name)
    row = [situation.name, found_in(done), situation.expectation]
    try:
        situation.expectation.check(done, place, references)
        found.append([*row, "as expected"])
    except AssertionError:
        found.append([*row, "**no**"])
        raise


def test_names_are_unique():
    names = [situation.name for situation in TABLE]
    assert len(set(names)) == len(names)
