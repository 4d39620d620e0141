"""Submits jobs to a dotresize-server, follows them across its restarts, and fetches their results.

    with Client("compress.example.com:50051", tls_ca="ca.pem", token_file="token") as client:
        job = client.submit("job.yaml", request_id=run, labels={"pipeline": run})
        job = client.wait(job.id, lambda progress: print(progress.phase, progress.fraction))
        client.fetch(job.id, "results")

The stub `client.jobs` makes all other calls of the API, with messages of `dotresize.v1.jobs_pb2`.
"""

import hashlib
import ipaddress
import os
import pathlib
import random
import time

import grpc
import yaml
from google.protobuf import json_format
from google.protobuf.message import Message

from dotresize.v1 import job_pb2, jobs_pb2, jobs_pb2_grpc

CHUNK = 1 << 20
CALL_TIMEOUT_S = 60
MAY_PASS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
PATHS = ("path", "text", "tokens", "save", "use")  # fields of a JobSpec, in whatever section


class BadJob(ValueError):
    """The job file is invalid; the text names the error."""


class JobFailed(Exception):
    """The job `job` has FAILED or was CANCELLED."""

    def __init__(self, job):
        super().__init__(f"{job.id} is {jobs_pb2.Job.State.Name(job.state)}: {job.error.code} {job.error.message}".rstrip(": "))
        self.job = job


class DamagedFile(Exception):
    """The fetched file does not match its listing, or the listing has a fault or an invalid name."""


def read_job(job):
    """Returns the JobSpec of a job file, or of its content as a dictionary. Relative paths are relative to the file's folder, or to
    the working directory for a dictionary. Raises BadJob, OSError."""
    folder = pathlib.Path.cwd()
    if not isinstance(job, dict):
        folder = pathlib.Path(job).resolve().parent
        try:
            job = yaml.safe_load(pathlib.Path(job).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise BadJob(f"{job}: {error}") from None
    try:
        spec = json_format.ParseDict(job, job_pb2.JobSpec())
    except (json_format.ParseError, AttributeError, TypeError) as error:
        raise BadJob(str(error)) from None
    make_absolute(spec, folder)
    return spec


def make_absolute(section, folder):
    """Makes paths of present fields absolute; "~/" is the home directory. Creates no section: an empty one is a request, as
    `evaluation: {}` is."""
    def absolute(path):
        if not path or path.startswith(("hf://", "s3://")):
            return path
        return os.path.abspath(folder / (os.path.expanduser(path) if path == "~" or path.startswith("~/") else path))
    for field, value in section.ListFields():
        if field.name in PATHS and isinstance(value, str):
            setattr(section, field.name, absolute(value))
        elif field.name in PATHS:
            value[:] = [absolute(path) for path in value]
        elif isinstance(value, Message):
            make_absolute(value, folder)


def is_local(server):
    """Returns true if data sent to the server stay on this machine."""
    host = server.rpartition(":")[0].strip("[]")
    try:
        return server.startswith("unix:") or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Client:
    """Connection to one server. The arguments default to the variables DOTRESIZE_SERVER, DOTRESIZE_TLS_CA, DOTRESIZE_CERT,
    DOTRESIZE_KEY and DOTRESIZE_TOKEN_FILE, as on the command line. Calls raise grpc.RpcError, after up to
    `patience_s` seconds of repetition if the server is unavailable or overloaded."""

    def __init__(self, server=None, *, tls_ca=None, cert=None, key=None, token_file=None, patience_s=600):
        def given(value, name):
            return value or os.environ.get(name)
        self.server = given(server, "DOTRESIZE_SERVER") or "127.0.0.1:50051"
        self.patience_s = patience_s
        ca, cert, key, token_file = (given(tls_ca, "DOTRESIZE_TLS_CA"), given(cert, "DOTRESIZE_CERT"), given(key, "DOTRESIZE_KEY"),
                                     given(token_file, "DOTRESIZE_TOKEN_FILE"))
        token = pathlib.Path(token_file).read_text().strip() if token_file else ""
        if token and not ca and not is_local(self.server):
            raise ValueError("a token goes to another machine over TLS alone: tls_ca")
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        if ca:
            files = [pathlib.Path(file).read_bytes() if file else None for file in (ca, key, cert)]
            self.channel = grpc.secure_channel(self.server, grpc.ssl_channel_credentials(*files))
        else:
            self.channel = grpc.insecure_channel(self.server)
        self.jobs = jobs_pb2_grpc.JobsStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.channel.close()

    def call(self, method, request):
        """Returns the answer of an idempotent call, repeating the call until the server answers."""
        return self.persistent(lambda _: method(request, metadata=self.metadata, timeout=CALL_TIMEOUT_S))

    def persistent(self, attempt):
        """Repeats attempt(heard) while the server is away. The attempt calls `heard()` when the server has answered in between."""
        last = time.monotonic()
        pause = 0.5

        def heard():
            nonlocal last, pause
            last, pause = time.monotonic(), 0.5
        while True:
            try:
                return attempt(heard)
            except grpc.RpcError as error:
                if error.code() not in MAY_PASS or time.monotonic() - last > self.patience_s:
                    raise
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(10.0, 2 * pause)

    def submit(self, job, request_id, *, labels=None, deadline_s=None, ttl_s=None, priority=None, webhook=None):
        """Submits a job file, a dictionary or a JobSpec, and returns the Job. Repeated calls with the same `request_id` return the same
        job: use a new one for each new job."""
        spec = job if isinstance(job, job_pb2.JobSpec) else read_job(job)
        options = jobs_pb2.JobOptions(labels=labels or {}, deadline_s=deadline_s, ttl_seconds_after_finished=ttl_s, priority=priority)
        if webhook:
            options.notify.webhook = webhook
        return self.call(self.jobs.CreateJob, jobs_pb2.CreateJobRequest(spec=spec, request_id=request_id, options=options))

    def watch(self, job_id, after_seq=0):
        """Yields the events of the job after `after_seq` until it has ended, across restarts of the server."""
        while True:
            stream = iter(self.persistent(lambda _, seq=after_seq: self.begin_watch(job_id, seq)))
            try:
                for event in stream:
                    after_seq = event.seq
                    yield event
                return
            except grpc.RpcError as error:
                if error.code() not in MAY_PASS:
                    raise

    def begin_watch(self, job_id, after_seq):
        """Returns a stream that has delivered its first event or its end."""
        stream = self.jobs.WatchJob(jobs_pb2.WatchJobRequest(id=job_id, after_seq=after_seq), metadata=self.metadata)
        first = next(stream, None)
        return iter(()) if first is None else _chain(first, stream)

    def wait(self, job_id, tell=None):
        """Waits until the job has SUCCEEDED and returns it. Calls tell(Progress) meanwhile. Raises JobFailed."""
        for event in self.watch(job_id):
            if tell and event.HasField("progress"):
                tell(event.progress)
        job = self.call(self.jobs.GetJob, jobs_pb2.GetJobRequest(id=job_id))
        if job.state != jobs_pb2.Job.SUCCEEDED:
            raise JobFailed(job)
        return job

    def fetch(self, job_id, directory, *, model=False):
        """Fetches the artifacts of an ended job (report, model card, log), or all files of its model, into `directory`. Continues the
        partial files of an earlier call. Returns the paths. Raises DamagedFile."""
        listing = self.call(self.jobs.ListArtifacts, jobs_pb2.ListArtifactsRequest(id=job_id, model=model))
        return [self.fetch_file(job_id, artifact, pathlib.Path(directory)) for artifact in listing.artifacts]

    def fetch_file(self, job_id, artifact, directory):
        if artifact.fault:
            raise DamagedFile(f"{artifact.name}: {artifact.fault}")
        parts = pathlib.PurePosixPath(artifact.name).parts
        if not parts or any(part in ("/", "..", ".") or "\0" in part for part in parts):
            raise DamagedFile(f"{artifact.name!r} is no name of a file")
        path = directory.joinpath(*parts)
        if path.exists() and sha256_of(path) == artifact.sha256:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".part")
        self.persistent(lambda heard: self.read_more(job_id, artifact, partial, heard))
        if artifact.sha256 and sha256_of(partial) != artifact.sha256:
            partial.unlink()
            raise DamagedFile(f"{artifact.name}: has other bytes than its hash says")
        partial.replace(path)
        return path

    def read_more(self, job_id, artifact, partial, heard):
        offset = partial.stat().st_size if partial.exists() else 0
        if offset > artifact.size:
            partial.unlink()
            offset = 0
        request = jobs_pb2.GetArtifactRequest(id=job_id, name=artifact.name, offset=offset)
        with partial.open("ab") as file:
            for chunk in self.jobs.GetArtifact(request, metadata=self.metadata):
                heard()
                file.write(chunk.data)


def _chain(first, rest):
    yield first
    yield from rest


def sha256_of(path):
    """Returns the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()
