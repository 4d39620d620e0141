"""Every entry of table.py: its command gives what the entry expects."""

import os
import subprocess
import tempfile

import pytest
from conftest import place_of, program_environment, selected
from expectations import found_in
from table import TABLE

LONGEST_S = 120


def may_run(situation):
    return os.geteuid() == 0 or not situation.as_root


def run(situation, place):
    """Runs the command in its place. One that needs root has a table of mounts of its own."""
    shell = ["unshare", "--mount", "bash", "-c"] if situation.as_root else ["bash", "-c"]
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        done = subprocess.run([*shell, situation.command], cwd=place.folder, env=program_environment(), stdin=subprocess.DEVNULL,
                              stdout=stdout, stderr=stderr, timeout=LONGEST_S)  # fmt: skip
        for stream, name in ((stdout, "stdout"), (stderr, "stderr")):
            stream.seek(0)
            setattr(done, name, stream.read())
    return done


@pytest.fixture(scope="session")
def commands(request, in_transformers_4, pool):
    """Returns the ends of all commands by the name of the situation."""
    situations = [situation for situation in selected(request) if may_run(situation)]
    return {situation.name: pool.submit(run, situation, place_of(situation)) for situation in situations}


@pytest.mark.parametrize("situation", TABLE, ids=lambda situation: situation.name)
def test_situation(situation, commands, place, references, found):
    if not may_run(situation):
        pytest.skip("needs root, to mount file systems or to become another user")
    done = commands[situation.name].result()
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
