"""Tests of fetching what ended jobs have left over the API."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
from conftest import (BINARIES, PROGRAM, SOURCE, Server, eventually, job_pb2, jobs_pb2, refused, spec)
from dotresize import client as python_client
from safetensors.numpy import load_file, save_file

OF_JOB = {"job.json", "log", "plan.txt"}
OF_RESULT = {"README.md", "dotresize/report.json", "dotresize/report.html"}
DENIED = grpc.StatusCode.PERMISSION_DENIED
WRONG = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def tokens(folder):
    """Returns {name: secret} of clients with these roles."""
    def make(name, role):
        return subprocess.run([PROGRAM, "token", "--tokens", folder / "tokens", name, role],
                              capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    secrets = {name: make(name, role) for name, role in {"ann": "submit", "ben": "submit", "eve": "read"}.items()}
    for name, secret in secrets.items():
        (folder / name).write_text(secret)
    return secrets


@pytest.fixture(scope="module")
def server(folder, tokens):
    """Starts a server that allows clients to fetch models."""
    running = Server(folder / "state", "--http", "127.0.0.1:0", "--tokens", str(folder / "tokens"), "--allow-model-fetch",
                     DOTRESIZE_WORKER=os.environ.get("DOTRESIZE_WORKER") or str(BINARIES / "dotresize-worker")).start()
    yield running
    running.close()


class Caller:
    def __init__(self, server, secret):
        self.server = server
        self.metadata = (("authorization", f"Bearer {secret}"),)

    def list(self, id_, model=False):
        found = self.server.jobs.ListArtifacts(jobs_pb2.ListArtifactsRequest(id=id_, model=model), timeout=20,
                                               metadata=self.metadata)
        return {artifact.name: artifact for artifact in found.artifacts}

    def get(self, id_, name, offset=0):
        """Returns (Artifact, bytes)."""
        first, *chunks = self.server.jobs.GetArtifact(jobs_pb2.GetArtifactRequest(id=id_, name=name, offset=offset),
                                                      timeout=20, metadata=self.metadata)
        assert not first.data and all(0 < len(chunk.data) <= 256 << 10 for chunk in chunks)
        assert not any(chunk.HasField("artifact") for chunk in chunks)
        return first.artifact, b"".join(chunk.data for chunk in chunks)


@pytest.fixture(scope="module")
def ann(server, tokens):
    return Caller(server, tokens["ann"])


def small(folder, name, **changes):
    """Returns a job that takes a second and has a model of ten megabytes."""
    rows = load_file(SOURCE / "tests/data/evaluation.safetensors")["tokens"]
    file = folder / "tokens.safetensors"
    save_file({"tokens": np.ascontiguousarray(rows[:2, :64])}, file)
    job = spec(folder / name, name=name, calibration__tokens=str(file), method__name=job_pb2.Method.slicegpt,
               **{"resources__ranks": 1, "output__report_html": True, **changes})
    job.calibration.ClearField("samples")
    return job


@pytest.fixture(scope="module")
def job(server, ann, folder):
    """Returns a job of Ann's that has succeeded."""
    made = server.jobs.CreateJob(jobs_pb2.CreateJobRequest(spec=small(folder, "out")), timeout=20, metadata=ann.metadata)
    server.ids.add(made.id)

    def ended():
        job = server.jobs.GetJob(jobs_pb2.GetJobRequest(id=made.id), timeout=20, metadata=ann.metadata)
        assert job.state != jobs_pb2.Job.FAILED, job
        return job.state == jobs_pb2.Job.SUCCEEDED and job
    return eventually(60, ended)


@pytest.fixture
def output(job):
    """Returns the model directory, and restores it after the test."""
    path = pathlib.Path(job.result.output_path)
    kept = path.with_name("kept")
    shutil.copytree(path, kept)
    yield path
    path.unlink() if path.is_symlink() else shutil.rmtree(path)
    kept.rename(path)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def fetch(server, *arguments, token, address=None, exit_code=0):
    """Runs `dotresize fetch` for the client with this token file."""
    done = subprocess.run([BINARIES / "dotresize", "fetch", *map(str, arguments), "--server", address or server.endpoint],
                          env=os.environ | {"DOTRESIZE_TOKEN_FILE": str(token)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == exit_code, done.stderr
    return done


def files_below(path):
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_files_of_a_job_are_listed_and_streamed_with_their_hashes(ann, job):
    listed = ann.list(job.id)
    assert listed.keys() == OF_JOB | OF_RESULT
    model = ann.list(job.id, model=True)
    output = pathlib.Path(job.result.output_path)
    assert model.keys() == files_below(output)
    for name, artifact in {**listed, **model}.items():
        about, data = ann.get(job.id, name)
        assert about == artifact and (len(data), sha256(data)) == (artifact.size, artifact.sha256), name
        assert ann.get(job.id, name, artifact.size - 1)[1] == data[-1:]
        assert ann.get(job.id, name, artifact.size)[1] == b""
        if name not in OF_JOB:
            assert data == (output / name).read_bytes()
    assert b"junctions" in ann.get(job.id, "plan.txt")[1]
    with refused(grpc.StatusCode.OUT_OF_RANGE):
        ann.get(job.id, "log", listed["log"].size + 1)


def test_the_python_client_submits_waits_and_goes_on_with_a_fetch(server, folder, tmp_path):
    with python_client.Client(server.endpoint, token_file=folder / "ann") as client:
        job = small(folder, "python")
        ids = {client.submit(job, "python-client").id for _ in range(2)}
        server.ids |= ids
        [id_] = ids
        phases = []
        output = pathlib.Path(client.wait(id_, lambda progress: phases.append(progress.phase)).result.output_path)
        assert phases
        [weights] = output.glob("*.safetensors")
        (tmp_path / (weights.name + ".part")).write_bytes(weights.read_bytes()[:1000])
        fetched = client.fetch(id_, tmp_path, model=True)
        assert {str(path.relative_to(tmp_path)) for path in fetched} == files_below(tmp_path) == files_below(output)
        assert weights.read_bytes() == (tmp_path / weights.name).read_bytes()
        (tmp_path / "README.md.part").write_text("something else")
        (tmp_path / "README.md").unlink()
        with pytest.raises(python_client.DamagedFile, match="README.md"):
            client.fetch(id_, tmp_path, model=True)
        with pytest.raises(python_client.BadJob, match="modle"):
            client.submit({"modle": {"path": "x"}}, "bad")


def test_the_python_client_asks_for_what_the_job_file_says_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    (tmp_path / "job.yaml").write_text(json.dumps({
        "model": {"path": "model"}, "output": {"path": "s3://bucket/out"}, "method": {"size": 0.8},
        "calibration": {"text": ["a.txt", "/b.txt", "~/c.txt"], "statistics": {"save": "kept"}}}))
    found = python_client.read_job(tmp_path / "job.yaml")
    assert (found.model.path, found.output.path) == (str(tmp_path / "model"), "s3://bucket/out")
    assert list(found.calibration.text) == [str(tmp_path / "a.txt"), "/b.txt", "/home/somebody/c.txt"]
    assert found.calibration.statistics.save == str(tmp_path / "kept")
    assert {field.name for field, _ in found.ListFields()} == {"model", "output", "method", "calibration"}


@pytest.mark.parametrize("server, local", [("127.0.0.2:1", True), ("localhost:1", True), ("[::1]:1", True), ("unix:/run/x", True),
                                           ("127.0.0.1.example.com:1", False), ("10.0.0.1:1", False)])  # fmt: skip
def test_the_python_client_keeps_a_token_from_the_wire(server, local, tmp_path):
    (tmp_path / "token").write_text("secret")
    with contextlib.nullcontext() if local else pytest.raises(ValueError, match="TLS"):
        python_client.Client(server, token_file=tmp_path / "token").close()


@pytest.mark.parametrize("name", ["", "..", "../out/README.md", "/etc/passwd", "dotresize/../README.md", "./log",
                                  "attempt-1/exit.json", "LOG", "log\0"])
def test_a_name_that_is_not_listed_leads_nowhere(ann, job, name):
    with refused(grpc.StatusCode.NOT_FOUND) as found:
        ann.get(job.id, name)
    assert found[0] == "NO_ARTIFACT"


def test_a_model_is_for_its_owner_and_what_all_see_of_a_job_for_all(server, tokens, job, folder):
    ben, eve = (Caller(server, tokens[name]) for name in ("ben", "eve"))
    for caller, reason in ((ben, "NOT_THE_OWNER"), (eve, "ROLE_TOO_LOW")):
        for call in (lambda: caller.list(job.id, model=True), lambda: caller.get(job.id, "config.json")):
            with refused(DENIED) as found:
                call()
            assert found[0] == reason
        assert caller.list(job.id).keys() == OF_JOB | OF_RESULT
        assert json.loads(caller.get(job.id, "dotresize/report.json")[1])["name"] == "out"
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        Caller(server, "0" * 64).list(job.id)
    fetch(server, job.id, folder / "foreign", "--model", token=folder / "ben", exit_code=77)
    assert not (folder / "foreign").exists()
    audit = [json.loads(line) for line in (server.state / "audit.jsonl").read_text().splitlines()]
    assert ("GetArtifact", "ben", False) in [(line["method"], line["caller"], line["allowed"]) for line in audit]


def test_fetched_model_is_the_one_that_was_made(server, job, folder):
    target = folder / "fetched"
    done = fetch(server, job.id, f"{target}/", "--model", "-o", "json", token=folder / "ann")
    files = {file["name"]: file for file in json.loads(done.stdout)["files"]}
    assert files.keys() == files_below(target) == files_below(pathlib.Path(job.result.output_path))
    verified = subprocess.run([BINARIES / "dotresize", "verify", target], capture_output=True, text=True, timeout=60)
    assert verified.returncode == 0, verified.stdout
    assert "exists already" in fetch(server, job.id, target, token=folder / "ann", exit_code=65).stderr
    few = folder / "few"
    assert "6 files" in fetch(server, job.id[2:9], few, token=folder / "ann").stdout
    assert files_below(few) == OF_JOB | OF_RESULT


class Line:
    """A connection to the server that passes a limited number of its bytes, then closes or sends no more."""

    def __init__(self, endpoint):
        self.target = endpoint.rsplit(":", 1)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.limits = []  # byte limits of the next connections; no limit after them
        self.passed = 0
        self.sockets = []
        self.stalled = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection((self.target[0], int(self.target[1])))
            self.sockets += [client, server]
            limit = self.limits.pop(0) if self.limits else None
            threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
            threading.Thread(target=self.copy_back, args=(server, client, limit), daemon=True).start()

    def close(self):
        for side in (self.listener, *self.sockets):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def copy(source, to):
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
        except OSError:
            pass

    def copy_back(self, source, to, limit):
        passed = 0
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
                passed += len(data)
                self.passed += len(data)
                if limit and passed > limit[1]:
                    if limit[0] == "stall":
                        self.stalled.set()
                        return
                    for side in (source, to):
                        side.shutdown(socket.SHUT_RDWR)
                    return
        except OSError:
            pass


def test_a_cut_fetch_goes_on_where_it_was(server, job, folder):
    line = Line(server.endpoint)
    line.limits = [("cut", 3 << 20), ("stall", 3 << 20)]
    target = folder / "resumed"
    command = [BINARIES / "dotresize", "fetch", job.id, target, "--model", "--server", line.address]
    environment = os.environ | {"DOTRESIZE_TOKEN_FILE": str(folder / "ann")}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert line.stalled.wait(60), "after the cut it has connected again"
    partial = target.with_name("resumed.partial")

    def kept():
        return sum((partial / name).stat().st_size for name in files_below(partial))
    eventually(20, lambda: kept() > 4 << 20)  # each connection has passed 3 MiB; the cut may have lost some of them
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before, line.passed = kept(), 0
    fetch(server, job.id, target, token=folder / "ann", exit_code=65)  # a different fetch does not use the part that exists
    fetch(server, job.id, target, "--model", token=folder / "ann", address=line.address)
    line.close()
    original = pathlib.Path(job.result.output_path)
    assert files_below(target) == files_below(original)
    size = sum((original / name).stat().st_size for name in files_below(original))
    assert line.passed < size - before + (1 << 18), "what is there is not fetched again"
    assert all((target / name).read_bytes() == (original / name).read_bytes() for name in files_below(original))


def frame(kind, flags, stream, payload):
    """Returns a frame of HTTP/2 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def call_without_reading(server, method, request):
    """Makes a call with an unlimited window and reads no answers. Returns its connection."""
    settings, headers, window, data, end_stream, end_headers = 4, 1, 8, 0, 1, 4
    fields = {":method": "POST", ":scheme": "http", ":path": f"/dotresize.v1.Jobs/{method}", ":authority": "localhost",
              "content-type": "application/grpc", "te": "trailers"}
    block = b"".join(b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in field) for field in fields.items())
    message = request.SerializeToString()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    host, port = server.endpoint.rsplit(":", 1)
    connection.connect((host, int(port)))
    connection.sendall(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(settings, 0, 0, (4).to_bytes(2, "big") + (2**31 - 1).to_bytes(4, "big"))  # the window of a stream
        + frame(window, 0, 0, (2**30).to_bytes(4, "big"))
        + frame(headers, end_headers, 1, block)
        + frame(data, end_stream, 1, b"\0" + len(message).to_bytes(4, "big") + message))
    return connection


def test_a_reader_that_takes_nothing_does_not_keep_a_server_from_stopping(make_server, tmp_path):
    server = make_server("--allow-model-fetch")
    job = server.create(small(tmp_path, "out"))
    assert server.wait(job.id).state == jobs_pb2.Job.SUCCEEDED
    request = jobs_pb2.GetArtifactRequest(id=job.id, name="model-00001-of-00001.safetensors")
    with call_without_reading(server, "GetArtifact", request) as connection:
        eventually(20, lambda: len(connection.recv(1 << 20, socket.MSG_PEEK)) > 1 << 15)
        assert server.end(signal.SIGTERM) == 0
    assert "closed 1 connections whose readers had stalled" in server.log()


@pytest.mark.parametrize("slow", ["README.md", "SHA256SUMS"])  # the one is read, the other also to find its entry
def test_a_disk_that_does_not_answer_delays_only_who_asks_for_its_files(make_server, tmp_path, slow):
    link = tmp_path / "slow"
    server = make_server("--allow-model-fetch", LD_PRELOAD=str(BINARIES.parent / "lib/libslow_disk.so"), DOTRESIZE_SLOW_LINK=str(link))
    jobs = [server.create(small(tmp_path, name)) for name in ("out", "other")]
    job, other = (server.wait(job.id) for job in jobs)
    file = pathlib.Path(job.result.output_path) / slow
    request = jobs_pb2.GetArtifactRequest(id=job.id, name=slow)
    with contextlib.ExitStack() as at_end:
        link.symlink_to(file)
        at_end.callback(link.unlink)
        calls = [server.jobs.GetArtifact(request, timeout=60) for _ in range(6)]
        eventually(20, link.with_name("slow.reached").exists)
        calls.pop().cancel()
        server.connect()
        assert Caller(server, "").get(other.id, slow)[1] == (pathlib.Path(other.result.output_path) / slow).read_bytes()
        assert list(server.watch(other.id, timeout=20))
    for call in calls:
        assert b"".join(chunk.data for chunk in call) == file.read_bytes()


def test_ctrl_c_stops_a_fetch_which_goes_on_later(server, job, folder):
    line = Line(server.endpoint)
    line.limits = [("stall", 2 << 20)]
    target = folder / "stopped"
    process = subprocess.Popen(
        [BINARIES / "dotresize", "fetch", job.id, target, "--model", "--server", line.address],
        env=os.environ | {"DOTRESIZE_TOKEN_FILE": str(folder / "ann")}, stderr=subprocess.PIPE, text=True)
    assert line.stalled.wait(60)
    process.send_signal(signal.SIGINT)
    assert "the same command continues from there" in process.communicate(timeout=20)[1] and process.returncode == 130
    line.close()
    fetch(server, job.id, target, "--model", token=folder / "ann")


def test_links_in_the_place_of_files_are_not_followed(server, ann, job, output, folder):
    secret = folder / "secret"
    secret.mkdir(exist_ok=True)
    (secret / "report.json").write_text('"s3cret"')
    (secret / "owner.json").write_bytes((output / "dotresize/owner.json").read_bytes())
    (output / "README.md").unlink()
    (output / "README.md").symlink_to(secret / "report.json")
    with refused(WRONG) as found:
        ann.get(job.id, "README.md")
    assert found[0] == "ARTIFACT_CHANGED"
    assert "README.md" in ann.list(job.id)["README.md"].fault and not ann.list(job.id)["log"].fault
    assert "README.md" in fetch(server, job.id, folder / "linked", token=folder / "ann", exit_code=65).stderr
    shutil.rmtree(output / "dotresize")
    (output / "dotresize").symlink_to(secret)
    for name in ("dotresize/report.json", "config.json"):
        with refused(grpc.StatusCode.NOT_FOUND):
            ann.get(job.id, name)
    shutil.rmtree(output)
    shutil.copytree(output.with_name("kept"), folder / "elsewhere")
    output.symlink_to(folder / "elsewhere")
    with refused(grpc.StatusCode.NOT_FOUND):
        ann.get(job.id, "config.json")
    with refused(WRONG) as found:
        ann.list(job.id, model=True)
    assert found[0] == "NO_MODEL" and ann.list(job.id).keys() == OF_JOB


def test_a_changed_file_is_not_taken_for_the_jobs(server, job, output, folder):
    data = bytearray((output / "config.json").read_bytes())
    data[5] ^= 1
    (output / "config.json").write_bytes(data)
    done = fetch(server, job.id, folder / "changed", "--model", token=folder / "ann", exit_code=69)
    assert "config.json" in done.stderr and not (folder / "changed").exists()


def test_files_are_on_the_http_port_but_no_model(server, job, tokens):
    def read(name, **headers):
        request = urllib.request.Request(f"{server.http}/jobs/{job.id}/files/{name}", headers={
            "Authorization": f"Bearer {tokens['eve']}", **headers})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.headers["Content-Disposition"] == "attachment"
            return answer.status, answer.read()

    report = (pathlib.Path(job.result.output_path) / "dotresize/report.json").read_bytes()
    assert read("dotresize/report.json") == (200, report)
    assert read("dotresize/report.json", Range="bytes=10-19") == (200, report)
    for name in ("config.json", "../log", "dotresize/owner.json"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            read(name)
        assert caught.value.code == 404


def test_a_job_without_a_model_has_its_log_alone(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER="/bin/false")
    id_ = server.create(spec(tmp_path / "out")).id
    assert server.wait(id_).state == jobs_pb2.Job.FAILED
    anybody = Caller(server, "")
    assert anybody.list(id_).keys() == OF_JOB
    with refused(DENIED) as found:
        anybody.list(id_, model=True)
    assert found[0] == "MODELS_STAY"
    assert "does not hand out models" in fetch(server, id_, tmp_path / "m", "--model", token="", exit_code=77).stderr
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20)
    waiting = server.create(spec(tmp_path / "waiting")).id
    with refused(WRONG) as found:
        anybody.list(waiting)
    assert found[0] == "JOB_NOT_ENDED"
