"""Clients of test_chaos.py. Each submits jobs, follows them to their ends whatever happens to the server, and checks its
answers."""

import contextlib
import shutil
import threading
import time
import traceback
from collections import deque

import grpc
from chaos.access import WithToken
from conftest import ENDED, details, jobs_pb2, jobs_pb2_grpc

Job = jobs_pb2.Job

OPEN_JOBS = 3  # per client
TRANSIENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED,
             grpc.StatusCode.UNAUTHENTICATED)  # fmt: skip


class Client(threading.Thread):
    def __init__(self, name, server, orders, witness, model):
        super().__init__(daemon=True)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.min_reconnect_backoff_ms", 1000), ("grpc.max_reconnect_backoff_ms", 500)]  # fmt: skip
        self.owner = name
        channel = grpc.insecure_channel(server.endpoint, options=options)
        self.channel = grpc.intercept_channel(channel, WithToken(server.access.tokens[name]))
        self.jobs = jobs_pb2_grpc.JobsStub(self.channel)
        self.orders = orders
        self.witness = witness
        self.model = model
        self.failure = ""

    def run(self):
        try:
            self.follow_all()
        except Exception:
            self.failure = traceback.format_exc()
        self.channel.close()

    def follow_all(self):
        open_ = deque()
        for order in iter(self.orders.take, None):
            if self.submit(order):
                open_.append(order)
            if len(open_) == OPEN_JOBS:
                self.follow(open_.popleft())
        for order in open_:
            self.follow(order)

    def until_answered(self, order, call):
        """Repeats the call while its error may be transient, like every client should."""
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                if not self.is_transient(order, error):
                    raise
            self.witness.check_stall()
            time.sleep(0.1)

    def is_transient(self, order, error):
        if error.code() == grpc.StatusCode.UNAUTHENTICATED and self.owner not in self.witness.without_token:
            self.witness.fault(order, f"the token of {self.owner}, which nobody has taken, is refused: {error.details()}")
        # The output of a new job cannot be made while its disk is read-only.
        return error.code() in TRANSIENT or (order.kind == "disk" and "Read-only file system" in str(error))

    def submit(self, order):
        """Returns whether the server accepted the job."""
        order.owner = self.owner
        if order.kind == "overwrite":
            shutil.copytree(self.model, order.output)
        call = order.submit(self.jobs)
        try:
            job = self.until_answered(order, call)
        except grpc.RpcError as error:
            if order.kind != "foreign" or details(error)[0] not in ("OUTPUT_FOREIGN", "NOT_THE_OWNER"):
                raise
            self.witness.one_has_ended()
            return False
        order.id = job.id
        self.witness.accepted(order)
        self.cancel_if_due(order)
        again = self.until_answered(order, call)
        if again.id != job.id or not again.already_submitted:
            self.witness.fault(order, f"submitted again it is {again.id}")
        return True

    def follow(self, order):
        while not self.watch(order):
            self.witness.check_stall()
            time.sleep(0.05)
        order.job = self.get(order)
        if order.job.state not in ENDED or order.events[-1].state_change.state != order.job.state:
            self.witness.fault(order, f"its events are over, and it is {Job.State.Name(order.job.state)}")
        self.witness.check_end(order)
        self.witness.one_has_ended()

    def get(self, order):
        return self.until_answered(order, lambda: self.jobs.GetJob(jobs_pb2.GetJobRequest(id=order.id), timeout=5))

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
        self.get(order)  # the server must still have the job
        return False

    def cancel_if_due(self, order):
        if order.kind == "cancel" and len(order.events) >= order.cancel_after:
            cancel = jobs_pb2.CancelJobRequest(id=order.id)
            self.until_answered(order, lambda: self.jobs.CancelJob(cancel, timeout=5))


class ClientOnCall(Client):
    """Submits urgent jobs, one at a time, of the kinds that faults wait for."""

    def follow_all(self):
        for order in iter(self.orders.take_wanted, None):
            if self.submit(order):
                self.follow(order)
