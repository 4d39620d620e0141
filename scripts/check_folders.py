#!/usr/bin/env python3
"""Checks that C++ sources include files of lower folders alone, in the order below: so folders never use each other in a circle."""

import pathlib
import re
import subprocess
import sys

# The lowest folders come first. Those of a row stand beside each other. A folder that is not named belongs to the one around it,
# but each folder of server/ has to be named.
ORDER = """
base
worker/python
job
client worker server/common
server/store
server/access
server/admission server/launch
server/transfer
server/schedule
server/api
server/http
server/web
server
"""

LEVEL = {folder: level for level, row in enumerate(ORDER.strip().splitlines()) for folder in row.split()}
INCLUDE = re.compile(r'^ *# *include "([^"]+)"')


def folder_of(file: str) -> str:
    """Folder of ORDER that a file lies in."""
    folder = pathlib.PurePath(file).parent
    while str(folder) not in LEVEL and len(folder.parts) > 1 and folder.parts[0] != "server":
        folder = folder.parent
    return str(folder)


def faults_of(file: str) -> list[str]:
    """Includes of a file that the order forbids, and its folder if the order lacks it."""
    own = folder_of(file)
    if own not in LEVEL:
        return [f"{file}: its folder has no place in ORDER of scripts/check_folders.py"]
    faults = []
    for number, line in enumerate(pathlib.Path(file).read_text(encoding="utf-8").splitlines(), 1):
        include = INCLUDE.match(line)
        used = folder_of(include.group(1)) if include else own
        if used != own and used in LEVEL and LEVEL[used] >= LEVEL[own]:
            faults.append(f"{file}:{number}: {own} includes {include.group(1)}, but {used} is not below it")
    return faults


def main() -> None:
    """Checks all files that git knows."""
    listed = subprocess.run(["git", "ls-files", *{folder.split("/")[0] for folder in LEVEL}], check=True, capture_output=True, text=True)
    files = [file for file in listed.stdout.splitlines() if file.endswith((".h", ".cpp", ".cu", ".cuh"))]
    faults = [fault for file in files if pathlib.Path(file).exists() for fault in faults_of(file)]
    if faults:
        sys.exit("\n".join(faults) + "\ncheck_folders: error: a folder may include those before it in ORDER; move the file, or what it needs")


if __name__ == "__main__":
    main()
