"""Fixtures: a real dotresize-server on a free loopback port, called with stubs made from proto/."""

import atexit
import contextlib
import functools
import itertools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import grpc
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("DOTRESIZE_BUILD", SOURCE / "build")) / "bin"
PROGRAM = str(BINARIES / "dotresize-server")
# A loopback address for this process's servers, so that no other process takes their port during a restart.
ADDRESS = f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 256}.{1 + os.getpid() // 25600 % 254}"

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from client_package import make_client_package  # noqa: E402

_package = tempfile.TemporaryDirectory(prefix="dotresize-client-")
make_client_package(_package.name, "dotresize/v1/workers", "google/rpc/status", "google/rpc/error_details")
sys.path.insert(0, _package.name)

from dotresize.v1 import job_pb2, jobs_pb2, jobs_pb2_grpc, sweep_pb2, workers_pb2, workers_pb2_grpc  # noqa: E402, F401
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

ENDED = (jobs_pb2.Job.SUCCEEDED, jobs_pb2.Job.FAILED, jobs_pb2.Job.CANCELLED)


def eventually(seconds, condition):
    """Polls condition() and returns its first true value. Fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)
    return value


def free_port():
    """Returns a free port of the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spec(output, **changes):
    """Returns a job on the example model that takes a second or two; `method__width=8` sets method.width."""
    tokens = SOURCE / "tests/data/calibration.safetensors"
    result = job_pb2.JobSpec(
        name="test",
        model=job_pb2.Model(path=str(SOURCE / "examples/docs-llama")),
        output=job_pb2.Output(path=str(output)),
        method=job_pb2.Method(sparsity=0.2),
        calibration=job_pb2.Calibration(tokens=str(tokens), samples=2),
        resources=job_pb2.Resources(ranks=2),
    )
    for key, value in changes.items():
        message = result
        *path, field = key.split("__")
        for part in path:
            message = getattr(message, part)
        if isinstance(value, (list, tuple)):
            getattr(message, field)[:] = value
        else:
            setattr(message, field, value)
    return result


def few_tokens(path):
    """Writes four rows of the evaluation tokens to a file."""
    rows = load_file(SOURCE / "tests/data/evaluation.safetensors")["tokens"][:4]
    save_file({"tokens": rows}, path)
    return str(path)


def long_spec(output, **changes):
    """Returns a job that is still calibrating when a test interferes."""
    return spec(output, **{"calibration__samples": 64, **changes})


@functools.cache
def many_tokens():
    """Returns a token file that takes the example model many minutes."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="dotresize-tokens-")) / "tokens.safetensors"
    atexit.register(shutil.rmtree, path.parent)
    save_file({"tokens": np.full((8192, 512), 17, dtype=np.int32)}, path)
    return path


def endless_spec(output, **changes):
    """Returns a job that outlasts any test."""
    result = spec(output, **{
        "method__name": job_pb2.Method.slicegpt, "calibration__tokens": str(many_tokens()), **changes})
    result.calibration.ClearField("samples")
    return result


def script(path, commands):
    """Writes a program that runs these shell commands in place of the worker and answers --version."""
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\n{commands}\n')
    path.chmod(0o755)
    return str(path)


def details(error):
    """Returns (reason, {field: description}) of a failed call."""
    trailers = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "dotresize"
    request = error_details_pb2.BadRequest()
    for detail in status.details[1:]:
        assert detail.Unpack(request) or detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR)
    return info.reason, {v.field: v.description for v in request.field_violations}


@contextlib.contextmanager
def refused(code):
    """Expects that the call in the block fails with the code. Yields a list that gets its details."""
    found = []
    with pytest.raises(grpc.RpcError) as caught:
        yield found
    assert caught.value.code() == code, caught.value
    found.extend(details(caught.value))


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.certificate = folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=authority", "-keyout", folder / "ca.key", "-out", self.certificate)

    def issue(self, name, days=2):
        """Returns (certificate, key) for this host."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extensions = self.folder / f"{name}.cnf"
        extensions.write_text(f"subjectAltName=IP:127.0.0.1,IP:{ADDRESS},DNS:localhost")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.folder / "ca.key",
                "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", certificate)
        return certificate, key

    def folder_of(self, name, *authorities):
        """Returns a folder for --tls with a certificate of its own. `authorities`: ca.crt, client-ca.crt, which are this one's."""
        folder = self.folder / f"{name}.tls"
        folder.mkdir(exist_ok=True)
        for file, issued in zip(("tls.crt", "tls.key"), self.issue(name)):
            shutil.copy(issued, folder / file)
            (folder / file).chmod(0o600)
        for file in authorities:
            shutil.copy(self.certificate, folder / file)
        return folder


def processes_of(job_id):
    """Returns {pid: environment} of the live processes of a job, including the supervisor."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if f"DOTRESIZE_JOB_ID={job_id}".encode() in environment and state not in "ZX":
            variables = (item.decode(errors="replace").partition("=") for item in environment)
            found[int(entry.name)] = {name: value for name, _, value in variables}
    return found


def ranks_of(job_id):
    """Returns {rank: pid} of a job."""
    return {
        int(environment["OMPI_COMM_WORLD_RANK"]): pid
        for pid, environment in processes_of(job_id).items()
        if "OMPI_COMM_WORLD_RANK" in environment
    }


def tell_progress(environment, **progress):
    """Sends a heartbeat of the worker with this environment."""
    request = workers_pb2.HeartbeatRequest(
        job_id=environment["DOTRESIZE_JOB_ID"], attempt=int(environment["DOTRESIZE_ATTEMPT"]),
        progress=jobs_pb2.Progress(**progress))
    token = environment["DOTRESIZE_ATTEMPT_TOKEN"]
    with grpc.insecure_channel(environment["DOTRESIZE_COORDINATOR"]) as channel:
        workers_pb2_grpc.WorkersStub(channel).Heartbeat(
            request, timeout=20, metadata=[("authorization", f"Bearer {token}")])


def is_in(server, id_, state):
    def arrived():
        job = server.get(id_)
        assert job.state == state or job.state not in ENDED, job
        return job.state == state and job
    return eventually(60, arrived)


def says(server, id_, text):
    """Waits until the job's launcher says the text. Returns the job."""
    def told():
        job = server.get(id_)
        assert job.state not in ENDED, job
        return text in job.launcher_status and job
    return eventually(60, told)


def reasons(server, id_):
    """Returns [(state, reason)] of the job's events."""
    return [(event.state_change.state, event.state_change.reason) for event in server.watch(id_)
            if event.HasField("state_change")]


class Server:
    def __init__(self, state, *options, prefix=(), **environment):
        self.command = [*prefix, PROGRAM, "--listen", f"{ADDRESS}:0",
                        "--state", str(state), *options]
        self.environment = {**os.environ, **environment}
        self.state = state
        self.process = None
        self.channel = None
        self.ids = set()

    def start(self, again=20):
        with open(f"{self.state}.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line and self.process.wait(20) == 75 and again > 0:
            # A supervisor that a killed server was about to start still has its lock for a moment.
            time.sleep(0.1)
            return self.start(again - 1)
        assert line.startswith("listening on "), self.log()[-2000:]
        self.endpoint = line.split()[-1]
        if "--http" in self.command:
            line = self.process.stdout.readline()
            assert line.startswith("health and metrics at "), line
            self.http = line.split()[-1]
        assert (self.state / "endpoint").read_text().strip() == self.endpoint
        self.connect()
        return self

    def connect(self):
        """Opens a new connection."""
        self.channel = grpc.insecure_channel(
            self.endpoint, options=[("grpc.use_local_subchannel_pool", 1)])
        self.jobs = jobs_pb2_grpc.JobsStub(self.channel)

    def log(self):
        """Returns the log of this server and of earlier ones on its state directory."""
        with open(f"{self.state}.log", errors="replace") as log:
            return log.read()

    def end(self, signal_number):
        if self.channel:
            self.channel.close()
        self.process.send_signal(signal_number)
        code = self.process.wait(20)
        self.process.stdout.close()
        self.process = None
        return code

    def kill_and_restart(self):
        before = self.endpoint
        self.end(signal.SIGKILL)
        self.start()
        assert self.endpoint == before, "running jobs know only the old one"

    def create(self, job_spec, request_id=""):
        job = self.jobs.CreateJob(
            jobs_pb2.CreateJobRequest(spec=job_spec, request_id=request_id), timeout=20)
        self.ids.add(job.id)
        return job

    def get(self, job_id):
        return self.jobs.GetJob(jobs_pb2.GetJobRequest(id=job_id), timeout=20)

    def cancel(self, job_id):
        return self.jobs.CancelJob(jobs_pb2.CancelJobRequest(id=job_id), timeout=20)

    def resume(self, job_id, fresh=False):
        return self.jobs.ResumeJob(jobs_pb2.ResumeJobRequest(id=job_id, fresh=fresh), timeout=20)

    def watch(self, job_id, after_seq=0, timeout=240):
        return self.jobs.WatchJob(
            jobs_pb2.WatchJobRequest(id=job_id, after_seq=after_seq), timeout=timeout)

    def logs(self, job_id, follow=False, offset=0):
        chunks = self.jobs.GetLogs(
            jobs_pb2.GetLogsRequest(id=job_id, follow=follow, offset=offset), timeout=240)
        return b"".join(chunk.data for chunk in chunks)

    def wait(self, job_id, seconds=240):
        """Waits for the job's end. Returns the job."""
        for _ in self.watch(job_id, timeout=seconds):
            pass
        job = self.get(job_id)
        assert job.state in ENDED
        return job

    def wait_for_phase(self, job_id, phase, seconds=120):
        def arrived():
            job = self.get(job_id)
            assert job.state not in ENDED, (job, self.logs(job_id)[-2000:])
            return job.progress.phase == phase
        eventually(seconds, arrived)

    def close(self):
        """Cleans up everything that the test left behind."""
        if self.process:
            self.end(signal.SIGTERM)
        for job_id in self.ids:
            for pid in processes_of(job_id):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def make_server(tmp_path):
    """Returns make_server(*options, **environment), which starts a server that ends with the test."""
    numbers = itertools.count()
    with contextlib.ExitStack() as servers:

        def make(*options, prefix=(), **environment):
            if environment.get("DOTRESIZE_WORKER") == "/bin/false":
                environment["DOTRESIZE_WORKER"] = script(tmp_path / "false", "exit 1")
            server = Server(tmp_path / f"state{next(numbers)}", *options, prefix=prefix, **environment)
            servers.callback(server.close)
            return server.start()

        yield make
