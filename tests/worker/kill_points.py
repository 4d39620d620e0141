"""Kills jobs at random points, damages their journals, resumes them and compares the models.

    tests/worker/kill_points.py [--seed N] [--first N] [--points N] [--schedule NAME]

Not a part of the tests: takes some minutes of two cores. Exit code 1 if a model differs, a job does not resume, or entries of
the journal were computed again.
"""

import argparse
import contextlib
import functools
import itertools
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

import harness
import interrupted

sys.path.append(str(harness.ROOT / "tests"))
from small_disk import fill, small_disk  # noqa: E402

SCHEDULES = {
    "own": ("original", {"width": 160}),
    "shared by all": ("original", {"width": 160, "format": "stock"}),
    "token_parallel": ("compressed", {"width": 160}),
    "healed": ("original", {"width": 160}),
}
HEAL = {"epochs": 2, "learning_rate": 0.0002}
METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]
RANKS = [1, 2, 3, 8]
# Numbers of journal entries to wait for. The larger, the later the kill.
WAITS = [0, 1, 2, 3, 5, 8, 12, 16, 20, 24]
WAITS_IF_HEALED = [20, 30, 34, 38, 42, 46, 50, 54]
THREADS = [1, 2]
DISK_MIB = 192  # a job that heals asks for 100


def job(output, schedule, name):
    activations, method = SCHEDULES[schedule]
    spec = harness.job(
        output, method={"name": name, **method}, samples=16, activations=activations, evaluate=False
    )
    return {**spec, "heal": HEAL} if schedule == "healed" else spec


@functools.cache
def budget_of_groups(schedule, name, ranks):
    with tempfile.TemporaryDirectory() as directory:
        spec = job(f"{directory}/out", schedule, name)
        spec["resources"]["ranks"] = ranks
        return harness.budget_for(spec, directory, groups=4 if ranks < 8 else 2)


@functools.cache
def uninterrupted(schedule, name, threads):
    with tempfile.TemporaryDirectory() as directory:
        spec = job(f"{directory}/out", schedule, name)
        harness.run_to_report(spec, directory, threads=threads)
        return harness.shard_hashes(f"{directory}/out")


def truncate(random_, journal, name):
    files = sorted(journal.glob(f"{name}.*"))
    interrupted.truncate(random_.choice(files))


def flip_a_bit(random_, journal, name):
    """Flips a bit of the entry's tensors if it has any, else of its JSON."""
    path = sorted(journal.glob(f"{name}.*"))[-1]
    interrupted.flip_bit(path, random_.randrange(path.stat().st_size))


def remove(random_, journal, name):
    random_.choice(sorted(journal.glob(f"{name}.*"))).unlink()


def write_garbage(random_, journal, name):
    (journal / f"{name}.json").write_bytes(random_.randbytes(40))


DAMAGES = [truncate, flip_a_bit, remove, write_garbage]


def damage(random_, journal):
    """Damages some entries. Returns their names."""
    names = sorted(interrupted.entries(journal))
    chosen = random_.sample(names, min(len(names), random_.choice([0, 0, 1, 2, 4])))
    for name in chosen:
        random_.choice(DAMAGES)(random_, journal, name)
    return set(chosen)


def unfinished_entries(journal, damaged):
    """Returns the entries of junctions that are incomplete, the updates, and the layers from the first one on that is not
    healed."""
    names = interrupted.entries(journal) - damaged
    healed = next(layer for layer in itertools.count() if f"healing-{layer}" not in names or f"healed-{layer}" in damaged)
    of_layers = {name for name in names if name.startswith(("healed-", "healing-"))}
    of_healing = {name for name in of_layers if int(name.split("-")[1]) >= healed}
    of_healing |= {name for name in names if name.startswith("updates-")}
    of_junctions = {name for name in names if name.startswith(("map-", "shared-", "junction-"))}
    numbers = {name.split("-")[1] for name in interrupted.solved(journal) - damaged}
    shared = any(name.startswith("shared-") for name in names | damaged)
    finished = numbers if shared else {n for n in numbers if f"map-{n}" not in damaged}
    return of_healing | {name for name in of_junctions if name.split("-")[1] not in finished}


class Point:
    def __init__(self, random_, kinds, schedules):
        self.random = random_
        self.schedule = random_.choice(schedules)
        self.method = random_.choice(METHODS)
        self.kind = random_.choice(kinds)
        self.in_groups = random_.random() < 0.7
        # The threads of the run that begins the journal determine the rounding of decompositions.
        self.threads = random_.choice(THREADS)
        self.reference = (self.schedule, self.method, self.threads)
        self.wait = random_.choice(WAITS_IF_HEALED if self.schedule == "healed" else WAITS)
        self.delay = random_.uniform(0, 0.1)
        self.interruptions = random_.choice([1, 1, 2])
        self.tried = []  # ranks × threads of each run
        self.damaged = 0

    def next_run(self, spec):
        begun = (interrupted.journal_of(spec) / "job.json").exists()
        threads = self.random.choice(THREADS) if begun else self.threads
        ranks = self.random.choice(RANKS)
        spec["resources"]["ranks"] = ranks
        spec["resources"].pop("memory", None)
        if self.in_groups and self.schedule != "token_parallel":
            spec["resources"]["memory"] = budget_of_groups(self.schedule, self.method, ranks)
        self.tried.append(f"{ranks}x{threads}")
        return threads

    def interrupt(self, spec, directory):
        """Interrupts a job. Returns False if it ended by itself before."""
        running = harness.Running(spec, directory, threads=self.next_run(spec))
        journal = interrupted.journal_of(spec)
        running.wait_for("prepare" if self.wait == 0 else "calibrate")
        if not interrupted.wait_for_entries(running, journal, self.wait):
            return False
        time.sleep(self.delay)
        if running.process.poll() is not None:
            return False
        if self.kind == "full disk":
            fill(journal.parent.parent / "others")
            code, _ = running.end(120)
            (journal.parent.parent / "others").unlink()
            if code != 0 and "No space left on device" not in running.log:
                raise AssertionError(f"a full disk is not named:\n{running.log}")
        else:
            interrupted.kill(running, self.kind)
        self.wait += self.random.choice([0, 1, 4])
        return not pathlib.Path(spec["output"]["path"]).exists()

    def run(self, directory, disk):
        """Runs the point. Returns what is wrong; empty if nothing is."""
        spec = job(disk / "out", self.schedule, self.method)
        journal = interrupted.journal_of(spec)
        done = False
        damaged = set()
        for _ in range(self.interruptions):
            done = done or not self.interrupt(spec, directory)
            if done or not journal.exists():
                continue
            damaged |= damage(self.random, journal)
        self.damaged = len(damaged)
        if done:
            self.tried.append("ended")
        else:
            unfinished = unfinished_entries(journal, damaged)
            code, log, rewritten = interrupted.finish_watched(spec, directory, self.next_run(spec))
            if code != 0:
                return f"exit code {code}:\n{log}"
            again = rewritten - damaged - unfinished
            if again:
                return f"computed again: {sorted(again)}\n{log}"
        if harness.shard_hashes(disk / "out") != uninterrupted(*self.reference):
            return "another model"
        left = sorted(path.name for path in disk.iterdir() if path.name.startswith("out."))
        return f"left: {left}" if left else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first point")
    parser.add_argument("--schedule", choices=SCHEDULES, help="default: any")
    options = parser.parse_args()
    schedules = [options.schedule] if options.schedule else list(SCHEDULES)
    kinds = interrupted.KILLS + (["full disk"] if os.geteuid() == 0 else [])
    failed = killed = 0
    row = "{:>5}  {:14}  {:13}  {:12}  {:>7}  {:>7}  {:24}  {}"
    columns = ["point", "schedule", "method", "kill", "entries", "damaged", "ranks x threads"]
    print(row.format(*columns, "result"))
    for number in range(options.first, options.first + options.points):
        point = Point(random.Random(f"{options.seed}-{number}"), kinds, schedules)
        entries = point.wait
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            disk = pathlib.Path(directory)
            if point.kind == "full disk":
                disk = stack.enter_context(small_disk(disk / "disk", DISK_MIB))
                if disk is None:
                    raise SystemExit("kill_points: error: a tmpfs cannot be mounted")
            stack.callback(harness.kill_all)
            try:
                wrong = point.run(directory, disk)
            except AssertionError as error:
                wrong = str(error)
            shutil.rmtree(disk / "out.partial", ignore_errors=True)
        failed += bool(wrong)
        killed += "ended" not in point.tried
        told = [number, point.schedule, point.method, point.kind, entries, point.damaged]
        print(row.format(*told, ", ".join(point.tried), "WRONG" if wrong else "same"))
        if wrong:
            print(wrong)
        sys.stdout.flush()
    print(f"seed {options.seed}: {killed} interrupted jobs resumed, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
