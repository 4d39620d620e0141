"""Clients of test_chaos.py. Each submits jobs, follows them to their ends whatever happens to the server, and checks its
answers."""

import contextlib
import hashlib
import json
import pathlib
import random
import shutil
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass, field

import grpc
from conftest import ENDED, details, job_pb2, jobs_pb2, jobs_pb2_grpc, spec

Job = jobs_pb2.Job

STALL_S = 400  # a longer time without any event is a stall
OPEN_JOBS = 3  # per client
METHODS = {"magnitude": job_pb2.Method.magnitude, "slicegpt": job_pb2.Method.slicegpt}
# Weights of the kinds of jobs. bad: its tokens are not a token file. foreign: another's files are in place of its unfinished
# output.
ORDERS = {"plain": 55, "cancel": 12, "overwrite": 8, "disk": 15, "bad": 6, "foreign": 4}


@dataclass
class Order:
    """A job to submit, and its known state."""

    number: int
    kind: str
    method: str
    ranks: int
    cancel_after: int  # events
    output: pathlib.Path
    id: str = ""
    events: list = field(default_factory=list)
    job: Job = None  # after its end
    may_fail: bool = False  # a disk was full meanwhile

    @property
    def partial(self):
        return self.output.with_name(self.output.name + ".partial")

    def spec(self):
        changes = {"calibration__tokens": __file__} if self.kind == "bad" else {}
        return spec(self.output, name=f"chaos-{self.number}", method__name=METHODS[self.method],
                    calibration__samples=2, resources__ranks=self.ranks, resources__timeout_s=60,
                    output__overwrite=self.kind == "overwrite", **changes)  # fmt: skip


def make_orders(seed, jobs, folder, disk):
    random_ = random.Random(f"jobs-{seed}")
    kinds = {kind: often for kind, often in ORDERS.items() if kind != "disk" or disk}
    orders = []
    for number in range(jobs):
        kind = random_.choices(list(kinds), list(kinds.values()))[0]
        where = disk if kind == "disk" else folder
        orders.append(Order(number, kind, random_.choice(list(METHODS)), random_.choice([1, 1, 2, 2, 3]),
                            random_.randrange(5), where / str(number)))  # fmt: skip
    return orders


class Orders:
    """Source of the clients' orders: at least `least` of them, and more until no fault is left. Thread-safe."""

    def __init__(self, orders, least):
        self.left = deque(orders)
        self.least = least
        self.enough = False  # set when no fault is left
        self.lock = threading.Lock()

    def take(self):
        """Returns the next order; None if there are no more."""
        with self.lock:
            if not self.left or (self.least <= 0 and self.enough):
                return None
            self.least -= 1
            return self.left.popleft()


def tree(path):
    """Returns {name: SHA-256, or target of a link} of all files below the path."""
    found = {}
    for file in sorted(path.rglob("*")):
        if file.is_symlink():
            found[str(file.relative_to(path))] = str(file.readlink())
        elif file.is_file():
            found[str(file.relative_to(path))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


class Witness:
    """Observations of all clients together. Thread-safe."""

    def __init__(self, earlier):
        self.earlier = earlier  # a model that some jobs overwrite
        self.lock = threading.Lock()
        self.faults = []
        self.models = {}  # {name: SHA-256} of the tensors by method, the same for all of its jobs
        self.orders = {}  # by id
        self.fallible = set()  # ids of jobs that may fail, too
        self.tampered = set()  # ids of jobs whose unfinished output somebody changed
        self.ended = 0
        self.full_disks = 0
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

    def has_output(self, id_):
        order = self.orders.get(id_)
        return bool(order) and order.kind != "overwrite" and order.output.exists()

    def disk_is_full(self, full):
        with self.lock:
            self.full_disks += 1 if full else -1
            for order in self.orders.values():
                order.may_fail = order.may_fail or order.job is None

    def accepted(self, order):
        with self.lock:
            self.orders[order.id] = order
            order.may_fail = self.full_disks > 0
        self.happened()

    def one_has_ended(self):
        with self.lock:
            self.ended += 1
        self.happened()

    def check_model(self, order):
        """Checks that the model is whole, of this attempt, and the same as that of every other job of the method. Returns the
        error."""
        files = tree(order.output)
        sums = (order.output / "SHA256SUMS").read_text().splitlines()
        for line in sums:
            digest, name = line.split(maxsplit=1)
            if files.get(name.removeprefix("*")) != digest:
                return f"{name} is not what SHA256SUMS says"
        owner = json.loads((order.output / "dotresize/owner.json").read_text())
        if owner != {"job_id": order.id, "attempt": order.job.attempt, "owner": ""}:  # the server has no tokens
            return f"its output is of {owner}"
        tensors = {name: digest for name, digest in files.items() if name.endswith(".safetensors")}
        with self.lock:
            if not tensors or self.models.setdefault(order.method, tensors) != tensors:
                return "another model"
        return ""

    def check_end(self, order):
        """Checks a job that has just ended."""
        state = Job.State.Name(order.job.state)
        if order.job.state == Job.SUCCEEDED:
            wrong = self.check_model(order) if order.output.exists() else "no output"
            if order.output.is_symlink():
                wrong = "its output is a link"
            if wrong:
                self.fault(order, f"SUCCEEDED, but {wrong}")
            shutil.rmtree(order.output, ignore_errors=True)
        elif order.kind == "overwrite":
            if tree(order.output) != self.earlier:
                self.fault(order, f"{state}, and the earlier model is not what it was")
        elif order.output.exists():
            self.fault(order, f"{state}, and its output is there")
        if order.partial.exists() and order.kind != "overwrite" and order.id not in self.tampered:
            left = [path.name for path in order.partial.iterdir()]
            if order.job.state != Job.FAILED or left != ["journal"]:
                self.fault(order, f"{state}, and {left} is left in its unfinished output")
        expected = {"bad": {Job.FAILED}, "cancel": {Job.CANCELLED, Job.SUCCEEDED}}.get(order.kind, {Job.SUCCEEDED})
        fallible = order.may_fail or self.full_disks > 0 or order.id in self.fallible
        if order.job.state not in expected and not (fallible and order.job.state == Job.FAILED):
            self.fault(order, f"{state}: {order.job.error}")


class Client(threading.Thread):
    def __init__(self, endpoint, orders, witness, model):
        super().__init__(daemon=True)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.min_reconnect_backoff_ms", 1000), ("grpc.max_reconnect_backoff_ms", 500)]  # fmt: skip
        self.channel = grpc.insecure_channel(endpoint, options=options)
        self.jobs = jobs_pb2_grpc.JobsStub(self.channel)
        self.orders = orders
        self.witness = witness
        self.model = model
        self.failure = ""

    def run(self):
        try:
            open_ = deque()
            for order in iter(self.orders.take, None):
                if self.submit(order):
                    open_.append(order)
                if len(open_) == OPEN_JOBS:
                    self.follow(open_.popleft())
            for order in open_:
                self.follow(order)
        except Exception:
            self.failure = traceback.format_exc()
        self.channel.close()

    def until_answered(self, call):
        """Repeats the call while its error may be transient, like every client should."""
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
                                        grpc.StatusCode.RESOURCE_EXHAUSTED):  # fmt: skip
                    raise
            self.witness.check_stall()
            time.sleep(0.1)

    def submit(self, order):
        """Returns whether the server accepted the job."""
        if order.kind == "overwrite":
            shutil.copytree(self.model, order.output)
        request = jobs_pb2.CreateJobRequest(spec=order.spec(), request_id=f"chaos-{order.number}")
        try:
            job = self.until_answered(lambda: self.jobs.CreateJob(request, timeout=5))
        except grpc.RpcError as error:
            if order.kind != "foreign" or details(error)[0] != "OUTPUT_FOREIGN":
                raise
            self.witness.one_has_ended()
            return False
        order.id = job.id
        self.witness.accepted(order)
        self.cancel_if_due(order)
        again = self.until_answered(lambda: self.jobs.CreateJob(request, timeout=5))
        if again.id != job.id or not again.already_submitted:
            self.witness.fault(order, f"submitted again it is {again.id}")
        return True

    def follow(self, order):
        while not self.watch(order):
            self.witness.check_stall()
            time.sleep(0.05)
        order.job = self.until_answered(lambda: self.jobs.GetJob(jobs_pb2.GetJobRequest(id=order.id), timeout=5))
        if order.job.state not in ENDED or order.events[-1].state_change.state != order.job.state:
            self.witness.fault(order, f"its events are over, and it is {Job.State.Name(order.job.state)}")
        self.witness.check_end(order)
        self.witness.one_has_ended()

    def watch(self, order):
        """Follows the job's events. Returns whether they are over."""
        request = jobs_pb2.WatchJobRequest(id=order.id, after_seq=len(order.events))
        self.cancel_if_due(order)
        with contextlib.suppress(grpc.RpcError):
            for event in self.jobs.WatchJob(request, timeout=20):
                if event.seq != len(order.events) + 1:
                    self.witness.fault(order, f"event {event.seq} after {len(order.events)}")
                order.events.append(event)
                self.witness.happened()
                self.cancel_if_due(order)
            return True
        # The server must still have the job.
        self.until_answered(lambda: self.jobs.GetJob(jobs_pb2.GetJobRequest(id=order.id), timeout=5))
        return False

    def cancel_if_due(self, order):
        if order.kind == "cancel" and len(order.events) >= order.cancel_after:
            self.until_answered(lambda: self.jobs.CancelJob(jobs_pb2.CancelJobRequest(id=order.id), timeout=5))
