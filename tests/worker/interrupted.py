"""Interrupts jobs, and reads their journals."""

import contextlib
import json
import os
import pathlib
import signal
import time

import harness

KILLS = ["rank 0", "another rank", "all ranks", "mpirun"]


def partial_of(spec):
    return pathlib.Path(spec["output"]["path"] + ".partial")


def journal_of(spec):
    return partial_of(spec) / "journal"


def entries(journal):
    """Returns the names of the complete entries."""
    return {path.stem for path in journal.glob("*.json")} - {"job", "owner"}


def solved(journal):
    """Returns the junctions that need no more work if nothing is damaged. Maps may exist before that."""
    return {name for name in entries(journal) if name.startswith("junction-")}


def versions(journal, names):
    """Returns, by file name, a version that changes when a file is written again."""
    found = {}
    for name in names:
        for path in (journal / f"{name}.json", journal / f"{name}.safetensors"):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found[path.name] = (status.st_ino, status.st_mtime_ns)
    return found


def wait_for_entries(running, journal, count, begin=""):
    """Waits for this many entries with this beginning. Returns False if the job ends before."""
    while sum(name.startswith(begin) for name in entries(journal)) < count:
        if running.process.poll() is not None:
            return False
        time.sleep(0.002)
    return True


def victims(running, kind):
    if kind == "mpirun":
        return [running.process.pid]
    ranks = [rank.pid for rank in running.ranks()]
    return {"rank 0": ranks[:1], "another rank": ranks[-1:], "all ranks": ranks}[kind]


def kill(running, kind):
    """Kills a running job with SIGKILL. Returns when all of it has ended."""
    ranks = running.ranks()
    assert ranks, running.log
    for pid in victims(running, kind):
        with contextlib.suppress(ProcessLookupError):  # ended by mpirun
            os.kill(pid, signal.SIGKILL)
    code, _ = running.end()
    assert harness.all_gone(ranks)
    return code


def run_to_entries(spec, directory, count, end, threads=1):
    """Starts the job and ends it by end(running) once its journal has this many entries. Returns the entries it then has."""
    running = harness.Running(spec, directory, threads=threads)
    assert wait_for_entries(running, journal_of(spec), count), running.log
    end(running)
    assert not pathlib.Path(spec["output"]["path"]).exists(), "ended before the kill"
    return entries(journal_of(spec))


def finish_watched(spec, directory, threads=1):
    """Runs the job to its end. Returns its exit code, its log, and the names of earlier journal entries that it wrote again."""
    journal = journal_of(spec)
    before = versions(journal, entries(journal))
    running = harness.Running(spec, directory, threads=threads)
    rewritten = set()
    while running.process.poll() is None:
        now = versions(journal, {pathlib.Path(name).stem for name in before})
        rewritten |= {pathlib.Path(name).stem for name in now if now[name] != before.get(name)}
        time.sleep(0.005)
    code, _ = running.end()
    return code, running.log, rewritten


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_bit(path, at=-1):
    """Flips a bit of the byte at position `at` (default: the last one)."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def change_job(journal, change):
    """Edits the journal's job.json by change(job)."""
    path = journal / "job.json"
    job = json.loads(path.read_text())
    change(job)
    path.write_text(json.dumps(job))


def change_weights(spec):
    """Flips a bit of the source's last weight. Its size and modification time do not change."""
    weights = max(pathlib.Path(spec["model"]["path"]).glob("*.safetensors"))
    before = weights.stat()
    with weights.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
