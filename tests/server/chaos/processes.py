"""Processes of the jobs of test_chaos.py."""

import contextlib
import os
import pathlib
from dataclasses import dataclass


def role_of(command_line):
    arguments = command_line.split(b"\0")
    program = pathlib.PurePath(os.fsdecode(arguments[0])).name
    if arguments[1:2] == [b"supervise"]:
        return "supervisor"
    if arguments[1:2] == [b"sweep"]:
        return "runner"  # of a sweep
    if program.startswith("python") and b"tokenize_text" in arguments:
        return "tokenizer"
    return {"mpirun": "mpirun", "dotresize-worker": "rank"}.get(program, "other")


def variable(environment, name):
    """Returns a variable of the text of /proc/PID/environ."""
    prefix = name.encode() + b"="
    return next((item[len(prefix):].decode() for item in environment.split(b"\0") if item.startswith(prefix)), None)


@dataclass(frozen=True)
class Process:
    pid: int
    job: str
    role: str

    def signal(self, number):
        """Sends a signal. Returns False if the process is gone."""
        with contextlib.suppress(OSError):
            environment = pathlib.Path(f"/proc/{self.pid}/environ").read_bytes()
            if variable(environment, "DOTRESIZE_JOB_ID") == self.job:
                os.kill(self.pid, number)
                return True
        return False


def processes_of_jobs(state):
    """Returns the live processes of all jobs of this state directory's server, including supervisors."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            job = variable((entry / "environ").read_bytes(), "DOTRESIZE_JOB_ID")
            if not job or not (state / "jobs" / job).exists():
                continue
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(Process(int(entry.name), job, role_of((entry / "cmdline").read_bytes())))
    return found
