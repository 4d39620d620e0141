"""Runs the built programs of dotresize. Their progress and errors go where this program's go."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXIT_DATA = 65


class Failure(Exception):
    """Nothing can be made of this; `code` is the exit code (docs/cli.md)."""

    def __init__(self, message, code=EXIT_DATA):
        super().__init__(message)
        self.code = code


def program():
    found = Path(os.environ.get("DOTRESIZE_BIN", ROOT / "build" / "bin")) / "dotresize"
    if not found.is_file():
        raise Failure(f"{found}: not there: build it (scripts/build.sh), or set DOTRESIZE_BIN", 69)
    return found


def dotresize(*arguments, accept=(0,), quiet=False):
    """The JSON document of `dotresize ARGUMENTS -o json`. Quiet: a failure gives None, and prints nothing."""
    command = [program(), *map(str, arguments), "-o", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quiet else None, text=True)
    if done.returncode in accept:
        return json.loads(done.stdout)
    if quiet:
        return None
    raise Failure(f"dotresize {arguments[0]} has ended with {done.returncode}", done.returncode)
