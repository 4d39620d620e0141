"""Tests of jobs whose models and outputs are in S3 or on a Hub."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import venv
import zipfile

import grpc
import pytest
from conftest import PROGRAM, SOURCE, Authority, eventually, is_in, jobs_pb2, processes_of, refused, script, spec
from test_security import Client, tokens  # noqa: F401
from test_webhooks import listen, secret  # noqa: F401

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "remote"))
from services import BUCKET, hub, s3  # noqa: E402, F401

Job = jobs_pb2.Job
ALL_CASES = bool(os.environ.get("DOTRESIZE_ALL_CASES"))
MODEL = SOURCE / "examples/docs-llama"
IN, OUT = f"s3://{BUCKET}/in/docs-llama", f"s3://{BUCKET}/out/small"


@pytest.fixture(autouse=True)
def model_in_s3(s3):  # noqa: F811
    s3.put("in/docs-llama", MODEL)


def remote_spec(model=IN, output=OUT, **changes):
    return spec(output, model__path=str(model), resources__ranks=1, **changes)


def gets(s3, folder):
    return [path for method, path, _ in s3.requests if method == "GET" and f"/{folder}/" in path]


def test_from_s3_to_s3_beneath_roots(make_server, s3, tmp_path):
    (tmp_path / "models").mkdir()
    server = make_server("--allow-remote", f"s3://{BUCKET}/", "--allow-root", SOURCE / "tests", "--allow-root", tmp_path / "models",
                         "--allow-model-fetch", **s3.environment)
    job = server.create(remote_spec())
    assert job.fetching and job.state == Job.QUEUED
    secret = s3.environment["AWS_SECRET_ACCESS_KEY"]
    is_in(server, job.id, Job.RUNNING)
    assert all(secret not in environment.values() for environment in processes_of(job.id).values())
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, ended.error
    assert ended.result.output_path == OUT and ended.result.revision and not (ended.fetching or ended.pushing)
    assert [(file.url, bool(file.revision)) for file in ended.fetched] == [(IN, True)]
    sums = dict(reversed(line.split("  ", 1)) for line in s3.read("out/small/SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(s3.read(f"out/small/{name}")).hexdigest() for name in s3.names("out/small") if name != "SHA256SUMS"}
    report = s3.read("out/small/dotresize/report.json").decode()
    assert f'"path": "{IN}@' in report and f'"path": "{OUT}"' in report and str(server.state) not in report
    phases = {event.progress.phase for event in server.watch(job.id) if event.HasField("progress")}
    assert {"fetch", "push"} <= phases
    eventually(20, lambda: not list((server.state / "remote/outputs").glob("*/small")))
    left = {artifact.name: artifact.sha256 for artifact in server.jobs.ListArtifacts(jobs_pb2.ListArtifactsRequest(id=job.id)).artifacts}
    assert left.keys() == {"job.json", "log", "plan.txt", "README.md", "dotresize/report.json"}
    assert left["dotresize/report.json"] == hashlib.sha256(report.encode()).hexdigest()
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as why:
        server.jobs.ListArtifacts(jobs_pb2.ListArtifactsRequest(id=job.id, model=True))
    assert why[0] == "NO_MODEL"
    assert secret not in server.log() and secret.encode() not in server.logs(job.id)
    assert all(secret.encode() not in file.read_bytes() for file in server.state.rglob("*") if file.is_file())
    # A second job with the same output is refused before anything is computed.
    again = server.wait(server.create(remote_spec(method__sparsity=0.5)).id)
    assert (again.state, again.error.code, again.attempt) == (Job.FAILED, "FETCH_FAILED", 0)
    assert again.error.message.startswith("EXISTS: ")


def test_what_is_not_allowed_is_refused(make_server, s3, tmp_path):
    server = make_server("--allow-remote", f"s3://{BUCKET}/in", **s3.environment)
    for changes in ({"output": OUT}, {"model": f"s3://{BUCKET}/inner", "output": tmp_path / "out"},
                    {"model": "hf://org/tiny", "output": tmp_path / "out"}):
        with refused(grpc.StatusCode.PERMISSION_DENIED) as why:
            server.create(remote_spec(**changes))
        assert why[0] == "REMOTE_NOT_ALLOWED"
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        server.create(remote_spec(model=f"s3://{BUCKET}/in/../secret", output=tmp_path / "out"))
    request = jobs_pb2.CreateSweepRequest(spec=remote_spec(output=tmp_path / "out"))
    request.sweep.axes.add(key="method.sparsity").values.extend([0.2, 0.3])
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as why:
        server.jobs.CreateSweep(request, timeout=20)
    assert "model.path" in why[1]
    closed = make_server()
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        closed.create(remote_spec(output=tmp_path / "out"))


def test_refusals_and_what_only_the_model_shows(make_server, s3, hub, tmp_path):
    server = make_server("--allow-remote", "s3://", "--allow-remote", "hf://org/", **s3.environment, **hub.environment)
    wide = remote_spec(output=tmp_path / "wide", method__width=999)
    wide.method.ClearField("sparsity")
    nowhere = [remote_spec(model, tmp_path / f"out{len(model)}") for model in (f"s3://{BUCKET}/nothing", "hf://org/none")]
    jobs = [server.create(each).id for each in [*nowhere, wide]]
    ended = [server.wait(id_) for id_ in jobs]
    assert all(job.state == Job.FAILED and job.attempt == 0 for job in ended)
    errors = [(job.error.code, job.error.message) for job in ended]
    assert errors[0][0] == "FETCH_FAILED" and errors[0][1].startswith("NOT_FOUND: ")
    assert errors[1][0] == "FETCH_FAILED" and errors[1][1].startswith("NO_CREDENTIALS: ")
    assert errors[2][0] == "INVALID_INPUT" and "999" in errors[2][1]


def test_several_fetches_at_a_time_a_cancel_and_a_killed_server(make_server, s3, tmp_path):
    server = make_server("--allow-remote", "s3://", **s3.environment)
    s3.put("other", MODEL)
    s3.hold.clear()
    first = server.create(remote_spec(output=OUT))
    job = server.create(remote_spec(output=tmp_path / "out"))
    # No other job may write there, in it or around it, or read it as a model.
    for changes in ({"output": OUT}, {"output": f"{OUT}/nested"}, {"output": f"s3://{BUCKET}/out"}, {"model": OUT, "output": tmp_path / "x"}):
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as why:
            server.create(remote_spec(**changes))
        assert why[0] == "OUTPUT_IN_USE"
    second = server.create(remote_spec(model=f"s3://{BUCKET}/other", output=tmp_path / "second"))
    assert s3.held.acquire(timeout=60) and s3.held.acquire(timeout=60)  # the first two wait for the same copy
    server.cancel(first.id)
    server.cancel(second.id)
    assert server.wait(first.id).state == server.wait(second.id).state == Job.CANCELLED
    server.kill_and_restart()
    s3.hold.set()
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, ended.error


def test_a_resumed_job_reads_the_commit_that_it_read_before(make_server, hub, tmp_path):
    files = {file.name: file.read_bytes() for file in MODEL.iterdir() if file.is_file()}
    first = hub.commit("org/tiny", files)
    server = make_server("--allow-remote", "hf://org/", **hub.environment, DOTRESIZE_WORKER=script(tmp_path / "idle", "exec sleep 600"))

    def started():
        """Returns the revision that the job's attempt reads, and cancels the attempt."""
        revision = is_in(server, job.id, Job.STARTING).fetched[0].revision
        server.cancel(job.id)
        assert server.wait(job.id).state == Job.CANCELLED
        return revision
    job = server.create(remote_spec(model="hf://org/tiny", output=tmp_path / "out"))
    assert started() == first
    second = hub.commit("org/tiny", files | {"README.md": b"new"})
    server.resume(job.id)
    assert started() == first
    server.resume(job.id, fresh=True)
    assert started() == second


@pytest.mark.skipif(not ALL_CASES, reason="two jobs of many seconds")
def test_a_push_takes_no_ranks_and_can_be_cancelled(make_server, s3, tmp_path):
    server = make_server("--allow-remote", "s3://", "--max-ranks", "1", **s3.environment)
    s3.hold.clear()
    job = server.create(remote_spec(model=MODEL))
    assert s3.held.acquire(timeout=120)
    assert server.get(job.id).pushing and server.get(job.id).state == Job.RUNNING
    beside = server.wait(server.create(remote_spec(model=MODEL, output=tmp_path / "beside")).id)
    assert beside.state == Job.SUCCEEDED, beside.error
    server.cancel(job.id)
    assert server.wait(job.id).state == Job.CANCELLED
    assert not list((server.state / "remote/outputs").glob("*/small"))
    assert "SHA256SUMS" not in s3.names("out/small")


def test_a_failed_push_is_resumed_without_computing_by_a_server_that_is_killed(make_server, s3):
    server = make_server("--allow-remote", "s3://", **s3.environment)
    s3.refused = ("PUT", "POST", "DELETE")
    job = server.create(remote_spec())
    failed = server.wait(job.id)
    assert (failed.state, failed.error.code) == (Job.FAILED, "PUSH_FAILED") and failed.error.message.startswith("NO_PERMISSION: ")
    # The output waits to be pushed, so no other output takes its place.
    refusal = server.wait(server.create(remote_spec()).id).error
    assert refusal.code == "FETCH_FAILED" and "resume or delete that job" in refusal.message
    s3.refused = ()
    fetched = len(gets(s3, "in/docs-llama"))
    s3.hold.clear()
    server.resume(job.id)
    assert s3.held.acquire(timeout=120)
    assert server.get(job.id).pushing
    server.end(signal.SIGKILL)
    s3.hold.set()
    server.start()
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED and ended.attempt == 2, ended.error
    assert "SHA256SUMS" in s3.names("out/small")
    assert not (server.state / "jobs" / job.id / "attempt-2/supervisor.json").exists(), "nothing was computed"
    assert len(gets(s3, "in/docs-llama")) == fetched


def test_what_a_server_has_pushed_and_not_removed_the_next_one_removes(make_server, s3):
    server = make_server("--allow-remote", "s3://", **s3.environment)
    job = server.wait(server.create(remote_spec(output__maps=True)).id)
    assert job.state == Job.SUCCEEDED
    assert "dotresize/maps.safetensors" in s3.names("out/small")
    assert not list((server.state / "jobs").rglob("maps.safetensors")), "with the report, which is kept here"
    server.end(signal.SIGKILL)
    (folder,) = (server.state / "remote/outputs").iterdir()
    of_others = folder.with_name("of-another-server") / "small"
    for output, owner in ((folder / "small", job.id), (of_others, "j-0123456789abcdef")):
        (output / "dotresize").mkdir(parents=True)
        (output / "dotresize/owner.json").write_text(json.dumps({"job_id": owner, "attempt": 1}))
    server.start()
    eventually(20, lambda: not (folder / "small").exists())
    assert of_others.exists()


def test_output_at_a_url_stays_its_owners(make_server, s3, tokens):  # noqa: F811
    file, secrets = tokens
    server = make_server("--allow-remote", "s3://", "--tokens", str(file), **s3.environment)
    ann, ben, root = (Client(server, secrets[name]) for name in ("ann", "ben", "root"))

    def end(client, **changes):
        id_ = client.create(remote_spec(output__overwrite=True, **changes)).id
        return eventually(60, lambda: (job := client.get(id_)).state in (Job.SUCCEEDED, Job.FAILED) and job)
    made = end(ann)
    assert made.state == Job.SUCCEEDED, made.error
    ann.call("DeleteJob", jobs_pb2.DeleteJobRequest(id=made.id))
    assert json.loads(s3.read("out/small/dotresize/owner.json"))["owner"] == "ann"
    before = s3.read("out/small/SHA256SUMS")
    refusal = end(ben, method__sparsity=0.5).error
    assert refusal.code == "FETCH_FAILED" and refusal.message.startswith("NO_PERMISSION: ") and "owner.json" in refusal.message
    assert s3.read("out/small/SHA256SUMS") == before
    for client in (ann, root):
        assert end(client, method__sparsity=0.5).state == Job.SUCCEEDED
    assert json.loads(s3.read("out/small/dotresize/owner.json"))["owner"] == "root"


@pytest.fixture
def client_python(tmp_path):
    """Returns the interpreter of an environment with the client's wheel and its dependencies. pip fetches them with
    DOTRESIZE_ALL_CASES; otherwise they are those of the tests."""
    source = tmp_path / "source"
    shutil.copytree(SOURCE / "client/python", source / "client/python", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    shutil.copytree(SOURCE / "proto", source / "proto")
    venv.create(tmp_path / "venv", with_pip=ALL_CASES)
    python = tmp_path / "venv/bin/python"

    def pip(interpreter, *arguments):
        done = subprocess.run([interpreter, "-m", "pip", "--disable-pip-version-check", *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    if ALL_CASES:
        pip(python, "install", source / "client/python")
        return python
    pip(sys.executable, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", tmp_path, source / "client/python")
    [wheel] = tmp_path.glob("dotresize_client-*.whl")
    assert any(name.endswith("/licenses/LICENSE") for name in zipfile.ZipFile(wheel).namelist())
    pip(sys.executable, "--python", python, "install", "--no-deps", "--no-index", wheel)
    [packages] = (tmp_path / "venv/lib").glob("python3*/site-packages")
    (packages / "tests.pth").write_text(str(pathlib.Path(grpc.__file__).parents[1]) + "\n")
    return python


PIPELINE = """
import sys
from dotresize.client import Client

model, output, webhook = sys.argv[1:]
job = {"name": "pipeline", "model": {"path": model}, "output": {"path": output}, "method": {"name": "slicegpt", "width": 128},
       "calibration": {"tokens": "tokens.safetensors", "samples": 2}, "resources": {"ranks": 1}}
with Client(tls_ca="ca.pem", token_file="token") as client:
    sent = client.submit(job, "run-7", labels={"run": "7"}, webhook=webhook)
    assert client.submit(job, "run-7", labels={"run": "7"}, webhook=webhook).id == sent.id
    phases = set()
    done = client.wait(sent.id, lambda progress: phases.add(progress.phase))
    assert "push" in phases, phases
    client.fetch(sent.id, "results")
    print(sent.id, done.result.revision)
"""


def test_a_pipeline_in_an_empty_environment(make_server, s3, client_python, listen, secret, tmp_path):  # noqa: F811
    listener = listen()
    authority = Authority(tmp_path / "tls")
    tokens = tmp_path / "tokens"
    token = subprocess.run([PROGRAM, "token", "--tokens", tokens, "ci", "submit"], capture_output=True, text=True, check=True).stdout
    server = make_server("--tls", authority.folder_of("server"), "--tokens", tokens, "--allow-remote", f"s3://{BUCKET}/",
                         "--allow-webhook", listener.origin, "--webhook-secret", secret, **s3.environment)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "token").write_text(token)
    shutil.copy(authority.certificate, folder / "ca.pem")
    shutil.copy(SOURCE / "tests/data/calibration.safetensors", folder / "tokens.safetensors")
    done = subprocess.run([client_python, "-I", "-c", PIPELINE, IN, OUT, listener.origin + "/hook"], cwd=folder, capture_output=True,
                          text=True, env={"DOTRESIZE_SERVER": server.endpoint})
    assert done.returncode == 0, done.stderr
    id_, revision = done.stdout.split()
    assert revision and "SHA256SUMS" in s3.names("out/small")
    assert {"job.json", "log", "plan.txt", "README.md", "dotresize/report.json"} <= {
        str(file.relative_to(folder / "results")) for file in (folder / "results").rglob("*")}
    eventually(20, lambda: [path for path, *_ in listener.messages] == ["/hook"])
    server.ids.add(id_)
