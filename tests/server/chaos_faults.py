"""Faults of test_chaos.py: the choice of faults and times, and how each is made and ended."""

import contextlib
import heapq
import itertools
import math
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import struct
import time
from dataclasses import dataclass

from conftest import BINARIES

# --heartbeat-timeout: with a shorter one, a job whose start takes longer on a busy machine would start again and again. With 8,
# on a quiet machine, some stops of the server last longer.
HEARTBEAT_TIMEOUT_S = int(os.environ.get("DOTRESIZE_CHAOS_HEARTBEAT", "60"))

# Weights of the kinds of faults.
KINDS = {
    "kill server": 16, "stop server": 8,
    "kill supervisor": 10, "stop supervisor": 8,
    "kill mpirun": 9, "stop mpirun": 7,
    "kill rank": 12, "stop rank": 8,
    "kill job": 6,  # all of its processes at once
    "lock table": 8,
    "flip journal": 8,  # one bit of the journal from which the job resumes
    "exchange output": 6,  # replaces the unfinished output by a link to somebody's files
    "jump clock": 6,  # sets the clock of the server and its jobs by a day
}
DISK_KINDS = {"fill state": 4, "fill output": 4}


@dataclass(frozen=True)
class Point:
    number: int
    kind: str
    stage: str  # stage of the job it meets: "starting", "any", "late" (its output exists)
    delay: float  # seconds before the fault
    lasts: float  # seconds; inf: it never ends
    choice: float  # in [0, 1): selects the victim

    def __str__(self):
        lasts = "" if self.kind.startswith("kill") else f"for {self.lasts:.1f} s"
        return f"{self.number:>4}  {self.kind:15}  {self.stage:8}  after {self.delay:.2f} s  {lasts}"


def duration(random_, kind):
    action, victim = kind.split()
    if action == "kill":
        return 0.0
    if victim == "server":
        return random_.uniform(0.2, 12.0)
    if action == "stop":
        return math.inf if random_.random() < 0.15 else random_.uniform(0.1, 4.0)
    return random_.uniform(0.5, 6.0)


def schedule(seed, points, kinds):
    random_ = random.Random(f"faults-{seed}")
    chosen = random_.choices(list(kinds), list(kinds.values()), k=points)
    return [
        Point(number, kind, random_.choice(["starting", "any", "any", "late"]), random_.uniform(0.0, 0.8),
              duration(random_, kind), random_.random())
        for number, kind in enumerate(chosen)
    ]  # fmt: skip


def role_of(command_line):
    arguments = command_line.split(b"\0")
    program = pathlib.PurePath(os.fsdecode(arguments[0])).name
    if len(arguments) > 1 and arguments[1] == b"supervise":
        return "supervisor"
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


def fill(disk):
    """Fills the disk. Returns the file that takes the room."""
    path = disk / "taken-by-others"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        room = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_frsize))
        while file.write(bytes(4096)):
            pass
    return path


class Clock:
    """Wall clock of the server and its jobs, shifted by the seconds in a file (clock_jump.cpp)."""

    def __init__(self, file):
        self.file = file
        self.set(0)

    def set(self, seconds):
        if not self.file.exists():
            self.file.write_bytes(bytes(8))
        with self.file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def environment(self):
        return {"LD_PRELOAD": str(BINARIES.parent / "lib" / "libclock_jump.so"), "DOTRESIZE_CLOCK_FILE": str(self.file)}


class Faults:
    """Makes faults, and in each tick() ends those whose time is over. Restarts the server whenever it is gone."""

    def __init__(self, server, disk, witness, clock, others):
        self.server = server
        self.disk = disk  # a small disk for some of the outputs
        self.witness = witness
        self.clock = clock
        self.others = others  # a folder of another user
        self.down = False
        self.known = set()  # pids from before the point
        self.to_end = []  # heap of (when, number, function)
        self.numbers = itertools.count()

    def tick(self):
        while self.to_end and self.to_end[0][0] <= time.monotonic():
            heapq.heappop(self.to_end)[2]()
        if self.down:
            self.start_server()
        time.sleep(0.02)

    def end_all(self):
        for _, _, end in self.to_end:
            end()
        self.to_end = []

    def start_server(self):
        try:
            self.server.start()
            self.down = False
        except AssertionError:  # the table is locked or the disk is full: try again, like a service manager
            self.server.process.wait(20)
            self.server.process = None
            time.sleep(0.2)

    def end_later(self, seconds, end):
        if seconds < math.inf:
            heapq.heappush(self.to_end, (time.monotonic() + seconds, next(self.numbers), end))

    def processes(self):
        return processes_of_jobs(self.server.state)

    def begin(self):
        """Prepares for the next point."""
        self.known = {process.pid for process in self.processes()}

    def make(self, point, stage):
        """Makes a fault. Returns its victim in words; None if there is none in this stage."""
        action, what = point.kind.split()
        if what in ("server", "table", "state", "output", "journal", "clock"):
            return getattr(self, f"{action}_{what}")(point)
        victims = [process for process in self.processes() if what in ("job", process.role)]
        if stage == "starting":
            victims = [process for process in victims if process.pid not in self.known]
        if stage == "late":
            victims = [process for process in victims if self.witness.has_output(process.job)]
        if not victims:
            return None
        victim = sorted(victims, key=lambda process: process.pid)[int(point.choice * len(victims))]
        if what == "job":
            return self.kill_job(victim.job)
        if not victim.signal(signal.SIGKILL if action == "kill" else signal.SIGSTOP):
            return None
        if action == "stop":
            self.end_later(point.lasts, lambda: victim.signal(signal.SIGCONT))
            if what == "rank" and point.lasts == math.inf:
                self.witness.fallible.add(victim.job)  # fails by resources.timeout_s
        return f"{victim.role} {victim.pid} of {victim.job}"

    def kill_job(self, job):
        for process in self.processes():
            if process.job == job:
                process.signal(signal.SIGKILL)
        return f"all of {job}"

    def kill_server(self, _):
        if self.down:
            return None
        self.down = True
        self.server.end(signal.SIGKILL)
        return "server"

    def stop_server(self, point):
        if self.down:
            return None
        process = self.server.process
        process.send_signal(signal.SIGSTOP)
        self.end_later(point.lasts, lambda: process.send_signal(signal.SIGCONT))  # has no effect if it is dead
        return "server"

    def lock_table(self, point):
        try:
            other = sqlite3.connect(self.server.state / "jobs.sqlite", isolation_level=None, timeout=0.1)
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # the server writes, or another fault has locked the table
            return None
        self.end_later(point.lasts, other.close)
        return "job table"

    def fill_disk(self, disk, point):
        self.witness.disk_is_full(True)
        taken = fill(disk)

        def free():
            taken.unlink(missing_ok=True)
            self.witness.disk_is_full(False)

        self.end_later(point.lasts, free)
        return str(disk)

    def fill_state(self, point):
        return self.fill_disk(self.server.state, point)

    def fill_output(self, point):
        return self.fill_disk(self.disk, point)

    def unfinished(self, choice, what):
        """Picks one of the paths that what(order.partial) finds for jobs that have not ended. Returns (order, path), or
        None."""
        with self.witness.lock:
            orders = [order for order in self.witness.orders.values() if order.job is None]
        found = [(order, path) for order in orders for path in what(order.partial)]
        return found[int(choice * len(found))] if found else None

    def flip_journal(self, point):
        found = self.unfinished(
            point.choice, lambda partial: [] if partial.is_symlink() else sorted((partial / "journal").glob("*.*"))
        )
        if not found:
            return None
        order, path = found
        random_ = random.Random(point.number)
        self.witness.tampered_with(order)
        try:
            with path.open("r+b", buffering=0) as file:
                place = random_.randrange(max(1, path.stat().st_size))
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes([(byte or b"0")[0] ^ 1 << random_.randrange(8)]))
        except FileNotFoundError:  # the job is done with it
            return None
        return f"{path.name} of {order.id}" + (f", {self.kill_job(order.id)}" if random_.random() < 0.5 else "")

    def exchange_output(self, point):
        found = self.unfinished(point.choice, lambda partial: [partial] if partial.is_dir() and not partial.is_symlink() else [])
        if not found or found[1].parent == self.disk:
            return None
        order, partial = found
        self.witness.tampered_with(order)
        taken, link_to = self.others / f"taken-{point.number}", self.others / f"kept-{point.number}"
        theirs = {link_to / name: f"{name} of somebody else" for name in ("README.md", "keep", "journal/job.json")}
        for path, text in theirs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        try:
            partial.rename(taken)
            partial.symlink_to(link_to)
        except OSError:  # the output is committed, or a new one exists
            return None

        def restore():
            if partial.is_symlink():
                partial.unlink()
            shutil.rmtree(taken, ignore_errors=True)
            left = {path: path.read_text() for path in link_to.rglob("*") if path.is_file()}
            if left != theirs:
                self.witness.fault(order, f"through a link it has changed {left.items() ^ theirs.items()}")

        self.end_later(point.lasts, restore)
        return f"{partial.name} of {order.id}"

    def jump_clock(self, point):
        self.clock.set(86400 if point.choice < 0.5 else -86400)
        self.end_later(point.lasts, lambda: self.clock.set(0))
        return "clock"
