"""Faults of test_chaos.py: the choice of faults and times, and how each is made and ended."""

import heapq
import itertools
import math
import os
import random
import signal
import sqlite3
import struct
import time
from dataclasses import dataclass, replace

from chaos import access, exchanges, files
from chaos.processes import processes_of_jobs
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
    "kill runner": 2, "stop runner": 2,  # of a sweep
    "kill job": 6,  # all of its processes at once
    "lock table": 8,
    "flip journal": 8,  # one bit of the journal from which the job resumes
    "exchange output": 6,  # replaces the unfinished output by a link to somebody's files
    "exchange sweep": 5, "exchange statistics": 4,  # the same with a directory of a sweep, and unfinished statistics
    "take output": 4,  # somebody makes a directory in the output's place
    "jump clock": 6,  # sets the clock of the server and its jobs by a day
    "stop tokenizer": 4, "kill tokenizer": 4,
    "damage cache": 5,  # one bit of kept tokens, or of their hash
    "revoke token": 6,  # of a client
}
# Faults that need small disks. fill cache: puts more into the cache of tokens than it may keep. remount output: read-only.
DISK_KINDS = {"fill state": 4, "fill output": 4, "fill cache": 4, "remount output": 4}


@dataclass(frozen=True)
class Point:
    number: int
    kind: str
    stage: str  # stage of the job it meets: "starting", "any", "late" (its output, or a file of its model, exists)
    delay: float  # seconds before the fault
    lasts: float  # seconds; inf: it never ends
    choice: float  # in [0, 1): selects the victim

    def __str__(self):
        lasts = f"for {self.lasts:.1f} s" if self.lasts else ""
        return f"{self.number:>4}  {self.kind:19}  {self.stage:8}  after {self.delay:.2f} s  {lasts}"


def duration(random_, kind):
    action, victim = kind.split()
    if action == "kill" or victim == "cache":
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
        if point.kind in OTHERS:
            return OTHERS[point.kind](self, replace(point, stage=stage))
        if what in ("server", "table", "clock"):
            return getattr(self, f"{action}_{what}")(point)
        victim = self.choose_process(point, what, stage)
        if not victim:
            return None
        if what == "job":
            return self.kill_job(victim.job)
        # A job that does not learn the end of a process, or cannot go on without it, fails.
        ends = action == "kill" or point.lasts == math.inf
        of_sweep = self.witness.kind_of(victim.job) == "sweep" and what in ("rank", "mpirun")
        if ends and (of_sweep or what == "tokenizer" or point.kind == "stop rank"):
            self.witness.fallible.add(victim.job)
        if not victim.signal(signal.SIGKILL if action == "kill" else signal.SIGSTOP):
            return None
        if action == "stop":
            self.end_later(point.lasts, lambda: victim.signal(signal.SIGCONT))
        return f"{victim.role} {victim.pid} of {victim.job}"

    def choose_process(self, point, what, stage):
        victims = [process for process in self.processes() if what in ("job", process.role)]
        if stage == "starting":
            victims = [process for process in victims if process.pid not in self.known]
        if stage == "late" and what != "tokenizer":
            victims = [process for process in victims if self.witness.has_output(process.job)]
        if point.lasts == math.inf and what == "rank":  # a sweep waits for its jobs for ever
            victims = [process for process in victims if self.witness.kind_of(process.job) != "sweep"]
        return sorted(victims, key=lambda process: process.pid)[int(point.choice * len(victims))] if victims else None

    def kill_job(self, job):
        if self.witness.kind_of(job) == "sweep":  # it may see that its own job is killed
            self.witness.fallible.add(job)
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

    def unfinished(self, choice, what):
        """Picks one of the paths that what(order) finds for jobs that have not ended. Returns (order, path), or None."""
        with self.witness.lock:
            orders = self.witness.unfinished()
        found = [(order, path) for order in orders for path in what(order)]
        return found[int(choice * len(found))] if found else None

    def jump_clock(self, point):
        self.clock.set(86400 if point.choice < 0.5 else -86400)
        self.end_later(point.lasts, lambda: self.clock.set(0))
        return "clock"


OTHERS = {
    "fill state": files.fill_state, "fill output": files.fill_output, "remount output": files.remount_output,
    "flip journal": files.flip_journal, "damage cache": files.damage_cache, "fill cache": files.fill_cache,
    "exchange output": exchanges.exchange_output, "exchange sweep": exchanges.exchange_sweep,
    "exchange statistics": exchanges.exchange_statistics, "take output": exchanges.take_output,
    "revoke token": access.revoke_token,
}  # fmt: skip
