"""Orders of test_chaos.py: the jobs that its clients submit, by kind."""

import pathlib
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pydoc_data.topics import topics

import numpy as np
from conftest import SOURCE, job_pb2, jobs_pb2, spec
from safetensors.numpy import load_file, save_file

Job = jobs_pb2.Job

METHODS = {"magnitude": job_pb2.Method.magnitude, "slicegpt": job_pb2.Method.slicegpt}
# Weights of the kinds of jobs. disk: its output lies directly below a mount point. bad: its tokens are beyond the vocabulary.
# foreign: another's files are in place of its unfinished output. sweep: two or three tiny jobs. statistics: saves them. text:
# a tokenizer makes its tokens.
ORDERS = {"plain": 45, "cancel": 12, "overwrite": 8, "disk": 12, "bad": 5, "foreign": 4, "sweep": 4, "statistics": 4, "text": 6}
# Kinds of faults that meet one kind of job alone. ClientOnCall submits such a job if there is none.
NEEDED = {
    "exchange sweep": "sweep", "kill runner": "sweep", "stop runner": "sweep", "exchange statistics": "statistics",
    "stop tokenizer": "text", "kill tokenizer": "text", "damage cache": "text", "fill cache": "text",
    "fill output": "disk", "remount output": "disk",
}  # fmt: skip
SEQLEN = 256


class Inputs:
    """Files that the jobs read."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        rows = load_file(SOURCE / "tests/data/evaluation.safetensors")["tokens"]
        self.few_tokens = folder / "few.safetensors"
        save_file({"tokens": np.ascontiguousarray(rows[:2, :64])}, self.few_tokens)
        self.bad_tokens = folder / "bad.safetensors"
        save_file({"tokens": np.full((2, 64), 10**6, dtype=np.int32)}, self.bad_tokens)  # beyond the vocabulary

    def text(self, number):
        """Returns a text of its own for each number. All have the same tokens in their whole windows."""
        path = self.folder / f"{number}.txt"
        if not path.exists():
            start = "".join(topics[name] for name in ("assert", "assignment"))[:7000]  # 7 windows and some tokens
            path.write_text(f"{start}\n\n{number:05}\n")
        return path


@dataclass
class Order:
    """A job to submit, and its known state."""

    number: int
    kind: str
    method: str
    ranks: int
    cancel_after: int  # events
    output: pathlib.Path
    inputs: Inputs
    text: int  # number of its text
    priority: int = 0
    id: str = ""
    owner: str = ""  # name of the client's token
    events: list = field(default_factory=list)
    job: Job = None  # after its end
    may_fail: bool = False  # a disk was full or read-only meanwhile, or its output's place was taken
    taken: bool = False  # somebody made a directory in its output's place
    to_resume: str = ""  # what a failed job has left: "complete", if its output lacks only its name, or "some files"

    @property
    def partial(self):
        return self.output.with_name(self.output.name + ".partial")

    def is_in(self, stage):
        """Returns whether an unfinished output is there; in the late stage with a file of the model."""
        return self.partial.is_dir() and (stage != "late" or any(self.partial.glob("*.safetensors*")))

    @property
    def statistics(self):
        return self.output.with_name(self.output.name + ".statistics")

    @property
    def unfinished_statistics(self):
        return self.output.with_name(self.output.name + ".statistics.partial")

    @property
    def model(self):
        """Returns what is the same for all jobs that make the same tensors."""
        return (self.method, self.kind if self.kind in ("statistics", "text") else "")

    def spec(self):
        changes = {
            "bad": {"calibration__tokens": str(self.inputs.bad_tokens)},
            "overwrite": {"output__overwrite": True},
            "sweep": {"calibration__tokens": str(self.inputs.few_tokens), "evaluation__tokens": str(self.inputs.few_tokens),
                      "resources__ranks": 1},
            "statistics": {"calibration__statistics__save": str(self.statistics),
                           "calibration__activations": job_pb2.Calibration.original},
            "text": {"calibration__tokens": "", "calibration__text": [str(self.inputs.text(self.text))],
                     "calibration__seqlen": SEQLEN},
        }.get(self.kind, {})  # fmt: skip
        return spec(self.output, **{
            "name": f"chaos-{self.number}", "method__name": METHODS[self.method],
            "resources__ranks": self.ranks, "resources__timeout_s": 60, **changes})  # fmt: skip

    def submit(self, jobs):
        """Returns a function that submits it to the service, any number of times."""
        request = (jobs_pb2.CreateSweepRequest if self.kind == "sweep" else jobs_pb2.CreateJobRequest)(
            spec=self.spec(), request_id=f"chaos-{self.number}")  # fmt: skip
        request.options.priority = self.priority
        if self.kind != "sweep":
            return lambda: jobs.CreateJob(request, timeout=5)
        request.sweep.axes.add(key="method.sparsity").values.extend([0.2, 0.3, 0.4][: 2 + self.number % 2])
        request.sweep.parallel = 1 + self.cancel_after % 2
        return lambda: jobs.CreateSweep(request, timeout=5).job


def make_orders(seed, jobs, folder, disk, inputs):
    random_ = random.Random(f"jobs-{seed}")
    kinds = {kind: often for kind, often in ORDERS.items() if kind != "disk" or disk}
    orders = []
    for number in range(jobs):
        kind = random_.choices(list(kinds), list(kinds.values()))[0]
        where = disk if kind == "disk" else folder
        method, ranks, cancel_after = random_.choice(list(METHODS)), random_.choice([1, 1, 2, 2, 3]), random_.randrange(5)
        text = number if random_.random() < 0.6 else 0
        orders.append(Order(number, kind, method, ranks, cancel_after, where / str(number), inputs, text))
    return orders


class Orders:
    """Source of the clients' orders: at least `least` of them, and more until no fault is left. Thread-safe."""

    def __init__(self, orders, least, disk):
        self.disk = disk
        self.left = deque(orders)
        self.least = least
        self.enough = False  # set when no fault is left
        self.wanted = None  # kind of job for which a fault waits
        self.lock = threading.Lock()

    def take(self):
        """Returns the next order; None if there are no more."""
        with self.lock:
            if not self.left or (self.least <= 0 and self.enough):
                return None
            self.least -= 1
            return self.left.popleft()

    def take_wanted(self):
        """Waits for a wanted kind. Returns an urgent order of it; None if there are no more."""
        while self.left and not self.enough:
            with self.lock:
                order = next((order for order in self.left if self.wanted in (order.kind, None)), None)
                if self.wanted and order:
                    self.left.remove(order)
                    order.priority = 100
                    order.text = order.number  # not in the cache of tokens
                    return order
                plain = next((order for order in self.left if order.kind == "plain"), None)
                if self.wanted and plain:
                    plain.kind = self.wanted
                    plain.output = self.disk / plain.output.name if self.wanted == "disk" else plain.output
                    continue
            time.sleep(0.02)
        return None
