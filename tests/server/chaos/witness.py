"""Witness of test_chaos.py: what all clients have seen, and the checks of a job that has ended."""

import contextlib
import hashlib
import json
import shutil
import threading
import time

from conftest import jobs_pb2

Job = jobs_pb2.Job

STALL_S = 400  # a longer time without any event is a stall


def tree(path):
    """Returns {name: SHA-256, or target of a link} of all files below the path."""
    found = {}
    for file in sorted(path.rglob("*")):
        if file.is_symlink():
            found[str(file.relative_to(path))] = str(file.readlink())
        elif file.is_file():
            found[str(file.relative_to(path))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def remove(path):
    """Removes a file, a link or a folder, although a fault may be putting something back into it."""
    while path.is_symlink() or path.exists():
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def fault_of_files(folder, files):
    """Returns what is wrong with a model's files, by its SHA256SUMS; empty if it is whole."""
    if "SHA256SUMS" not in files:
        return "it has no SHA256SUMS"
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split(maxsplit=1)
        if files.get(name.removeprefix("*")) != digest:
            return f"{name} is not what SHA256SUMS says"
    return ""


class Witness:
    """Observations of all clients together. Thread-safe."""

    def __init__(self, earlier):
        self.earlier = earlier  # {owner: files} of models that some jobs overwrite
        self.lock = threading.Lock()
        self.faults = []
        self.models = {}  # {name: SHA-256} of the tensors, the same for all jobs with the same Order.model
        self.orders = {}  # by id
        self.fallible = set()  # ids of jobs that may fail, too
        self.tampered = set()  # ids of jobs whose unfinished output or statistics somebody changed
        self.read_only = set()  # ids of jobs whose output was on a read-only disk for a while
        self.without_token = set()  # names of clients that had no token for a while
        self.ended = 0
        self.full_disks = 0  # full or read-only
        self.last = time.monotonic()

    def happened(self):
        self.last = time.monotonic()

    def tampered_with(self, order):
        self.fallible.add(order.id)
        self.tampered.add(order.id)

    def check_stall(self):
        assert time.monotonic() - self.last < STALL_S, f"nothing has happened for {STALL_S} s"

    def fault(self, order, what):
        with self.lock:
            self.faults.append(f"job {order.number} ({order.id}, {order.kind}): {what}")

    def kind_of(self, id_):
        order = self.orders.get(id_)
        return order.kind if order else ""

    def has_output(self, id_):
        order = self.orders.get(id_)
        return bool(order) and order.kind != "overwrite" and order.output.exists()

    def disk_is_full(self, full):
        with self.lock:
            self.full_disks += 1 if full else -1
            for order in self.unfinished():
                order.may_fail = True

    def disk_is_read_only(self):
        with self.lock:
            self.read_only.update(order.id for order in self.unfinished() if order.kind == "disk")

    def unfinished(self):
        """Returns the jobs that have not ended. The caller has the lock."""
        return [order for order in self.orders.values() if order.job is None]

    def accepted(self, order):
        with self.lock:
            self.orders[order.id] = order
            order.may_fail = self.full_disks > 0
        self.happened()

    def one_has_ended(self):
        with self.lock:
            self.ended += 1
        self.happened()

    def fault_of_tensors(self, what, files):
        """Returns what is wrong with tensors that must be those of all other jobs of which `what` is the same."""
        tensors = {name: digest for name, digest in files.items() if name.endswith(".safetensors")}
        with self.lock:
            same = tensors and self.models.setdefault(what, tensors) == tensors
        return "" if same else "another model"

    def fault_of_model(self, order):
        """Returns what is wrong if the model is not whole, of this attempt, and the same as that of every other such job."""
        if order.output.is_symlink() or not order.output.exists():
            return "its output is a link" if order.output.is_symlink() else "no output"
        files = tree(order.output)
        if wrong := fault_of_files(order.output, files):
            return wrong
        owner = json.loads((order.output / "dotresize/owner.json").read_text())
        if owner != {"job_id": order.id, "attempt": order.job.attempt, "owner": order.owner}:
            return f"its output is of {owner}"
        return self.fault_of_tensors(order.model, files)

    def fault_of_sweep(self, order):
        """Returns what is wrong with the models of a sweep, finished or not. Those under their own name are always whole."""
        done = order.job.state == Job.SUCCEEDED and order.id not in self.tampered
        results = json.loads((order.output / "results.json").read_text()) if done else {}
        if done and len(results["variants"]) != 2 + order.number % 2:
            return f"its variants are {results['variants']}"
        for variant in results.get("variants", []):
            if variant["state"] != "done" or not variant["model"]:  # each is the best of its sparsity
                return f"a variant is {variant}"
        for model in order.output.glob("variants/*/model"):
            if model.parent.is_symlink():
                continue
            files = tree(model)
            if wrong := fault_of_files(model, files) or self.fault_of_tensors(model.parent.name, files):
                return f"{model.parent.name}: {wrong}"
        return ""

    def fault_of_statistics(self, order):
        """Returns what is wrong with saved statistics. Those under their own name are always whole."""
        folder = order.statistics
        if folder.is_symlink():
            return "its statistics are a link"
        if not folder.exists():
            return "no statistics" if order.job.state == Job.SUCCEEDED and order.id not in self.tampered else ""
        entries = {path: path.with_suffix(".json") for path in (folder / "junctions").glob("*.safetensors")}
        if not entries or not (folder / "statistics.json").exists():
            return "its statistics are not whole"
        for entry, sum_ in entries.items():
            if hashlib.sha256(entry.read_bytes()).hexdigest() not in sum_.read_text():
                return f"{entry.name} of its statistics is not what {sum_.name} says"
        return ""

    def check_outputs(self, order, state):
        """Checks what a job leaves in its own places, and removes it."""
        if order.kind == "sweep":
            wrong = self.fault_of_sweep(order)
            remove(order.output)
        elif order.job.state == Job.SUCCEEDED:
            wrong = self.fault_of_model(order)
            remove(order.output)
        elif order.kind == "overwrite":
            wrong = "" if tree(order.output) == self.earlier[order.owner] else "the earlier model is not what it was"
        else:
            wrong = "its output is there" if order.output.exists() and not order.taken else ""
        if wrong:
            self.fault(order, f"{state}, and {wrong}")
        if order.kind == "statistics":
            if wrong := self.fault_of_statistics(order):
                self.fault(order, f"{state}, and {wrong}")
            remove(order.statistics)
            remove(order.unfinished_statistics)

    def check_left(self, order, state):
        """Checks the unfinished output of a job that has ended: a journal, or a complete one."""
        if order.kind == "overwrite" or order.id in self.tampered or not order.partial.exists():
            return
        left = sorted(path.name for path in order.partial.iterdir())
        if order.job.state == Job.FAILED and left == ["journal"]:
            return
        if order.job.state == Job.FAILED and order.may_fail and not fault_of_files(order.partial, tree(order.partial)):
            order.to_resume = "complete"
        elif order.job.state == Job.FAILED and order.id in self.read_only:
            order.to_resume = "some files"  # nobody could remove them
        else:
            self.fault(order, f"{state}, and {left} is left in its unfinished output")

    def check_end(self, order):
        """Checks a job that has just ended."""
        state = Job.State.Name(order.job.state)
        self.check_outputs(order, state)
        self.check_left(order, state)
        expected = {"bad": {Job.FAILED}, "cancel": {Job.CANCELLED, Job.SUCCEEDED}}.get(order.kind, {Job.SUCCEEDED})
        fallible = order.may_fail or self.full_disks > 0 or order.id in self.fallible
        if order.job.state not in expected and not (fallible and order.job.state == Job.FAILED):
            self.fault(order, f"{state}: {order.job.error}")
        if order.job.owner != order.owner:
            self.fault(order, f"it belongs to {order.job.owner!r}, not to {order.owner!r}")
