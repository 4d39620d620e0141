#!/usr/bin/env python3
"""A launcher for test_contract.py that runs the one rank of a job on this machine, and keeps what it knows beside itself.

Files of the tests: `VERB.sh`, shell commands in its place; `submit.delay`, seconds between start and answer; `status.json`, the
answer on every attempt that it knows. `calls` has all calls, `started` a line for each start.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HOME = pathlib.Path(__file__).parent
VERB, ASKED = sys.argv[1], json.load(sys.stdin)


def submit():
    folder = HOME / "attempts" / ASKED["name"]
    if folder.exists():
        return
    with (HOME / "started").open("a") as file:
        file.write(ASKED["name"] + "\n")
    if (HOME / "submit.delay").exists():
        time.sleep(float((HOME / "submit.delay").read_text()))
    folder.mkdir(parents=True)
    with open(ASKED["log"], "ab") as log:
        child = subprocess.Popen(
            ["sh", "-c", '"$@"; echo $? >"$0.new"; mv "$0.new" "$0"', folder / "exit", *ASKED["command"]], start_new_session=True,
            cwd="/", env=ASKED["environment"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    (folder / "pid").write_text(str(child.pid))


def standing(folder):
    if (HOME / "status.json").exists():
        return json.loads((HOME / "status.json").read_text())
    if (folder / "exit").exists():
        return {"state": "ended", "exit_code": int((folder / "exit").read_text())}
    try:
        state = pathlib.Path(f"/proc/{(folder / 'pid').read_text()}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        state = "X"
    if state in "XZ":
        return {"state": "ended", "code": "LOST", "message": "its process is gone"}
    return {"state": "running", "note": "the toy runs"}


def status():
    json.dump({"attempts": {folder.name: standing(folder) for folder in (HOME / "attempts").glob("*")}}, sys.stdout)


def cancel():
    pid = HOME / "attempts" / ASKED["name"] / "pid"
    if pid.exists():
        try:
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass


with (HOME / "calls").open("a") as file:
    file.write(json.dumps([VERB, ASKED]) + "\n")
if (HOME / f"{VERB}.sh").exists():
    os.execvp("sh", ["sh", HOME / f"{VERB}.sh"])
{"submit": submit, "status": status, "cancel": cancel}[VERB]()
