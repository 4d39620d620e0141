"""Jobs whose models and outputs are in S3 or on a Hub."""

import pathlib
import signal
import sys

import grpc
import pytest
from conftest import SOURCE, eventually, jobs_pb2, reasons, refused, spec

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "remote"))
from services import BUCKET, S3, Hub  # noqa: E402

Job = jobs_pb2.Job
MODEL = SOURCE / "examples/docs-llama"
IN, OUT = f"s3://{BUCKET}/in/docs-llama", f"s3://{BUCKET}/out/small"


@pytest.fixture
def s3():
    service = S3()
    service.put("in/docs-llama", MODEL)
    yield service
    service.close()


@pytest.fixture
def hub():
    service = Hub()
    yield service
    service.close()


def remote_spec(model=IN, output=OUT, **changes):
    return spec(output, model__path=model, resources__ranks=1, **changes)


def test_from_s3_to_s3_beneath_roots(make_server, s3, tmp_path):
    server = make_server("--allow-remote", f"s3://{BUCKET}/", "--allow-root", SOURCE / "tests", "--allow-root", tmp_path / "models",
                         **s3.environment)
    job = server.create(remote_spec())
    assert job.fetching and job.state == Job.QUEUED
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, ended.error
    assert ended.result.output_path == OUT and ended.result.revision and not ended.fetching
    assert [(file.url, bool(file.revision)) for file in ended.fetched] == [(IN, True)]
    assert "SHA256SUMS" in s3.names("out/small") and "dotresize/unfinished-push" not in s3.names("out/small")
    phases = {event.progress.phase for event in server.watch(job.id) if event.HasField("progress")}
    assert {"fetch", "push"} <= phases
    assert not list((server.state / "remote/outputs").glob("*/small")), "what was pushed is removed here"
    secret = s3.environment["AWS_SECRET_ACCESS_KEY"]
    assert secret not in server.log() and secret.encode() not in server.logs(job.id)
    assert all(secret.encode() not in file.read_bytes() for file in server.state.rglob("*") if file.is_file())
    # The same output once more: refused before anything is computed.
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
    closed = make_server()
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        closed.create(remote_spec(output=tmp_path / "out"))


def test_refusals_and_what_only_the_model_shows(make_server, s3, hub, tmp_path):
    server = make_server("--allow-remote", "s3://", "--allow-remote", "hf://org/", **s3.environment, **hub.environment)
    def fails(**changes):
        ended = server.wait(server.create(remote_spec(output=tmp_path / "out", **changes)).id)
        assert ended.state == Job.FAILED and ended.attempt == 0
        return ended.error.code, ended.error.message
    code, message = fails(model=f"s3://{BUCKET}/nothing")
    assert code == "FETCH_FAILED" and message.startswith("NOT_FOUND: ")
    code, message = fails(model="hf://org/none")
    assert code == "FETCH_FAILED" and message.startswith("NO_CREDENTIALS: ")
    code, message = fails(method__width=999)
    assert code == "INVALID_INPUT" and "999" in message


def test_a_cancel_and_a_killed_server_while_it_fetches(make_server, s3, tmp_path):
    server = make_server("--allow-remote", "s3://", **s3.environment)
    s3.hold.clear()
    first = server.create(remote_spec(output=tmp_path / "first"))
    assert s3.held.wait(60)
    server.cancel(first.id)
    s3.held.clear()
    job = server.create(remote_spec(output=tmp_path / "out"))
    assert s3.held.wait(60), "the next one is fetched, for the cancel has ended the first"
    assert server.wait(first.id).state == Job.CANCELLED
    server.kill_and_restart()
    s3.hold.set()
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, ended.error
    assert "SUCCEEDED" in [Job.State.Name(state) for state, _ in reasons(server, job.id)]


def test_a_failed_push_is_resumed_without_computing(make_server, s3):
    server = make_server("--allow-remote", "s3://", "--max-attempts", "1", DOTRESIZE_REMOTE_PATIENCE="1", **s3.environment)
    s3.refuse_writes = True
    job = server.create(remote_spec(model=str(MODEL)))
    failed = server.wait(job.id)
    assert (failed.state, failed.error.code) == (Job.FAILED, "PUSH_FAILED") and failed.error.message.startswith("NO_PERMISSION: ")
    s3.refuse_writes = False
    server.resume(job.id)
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED and ended.attempt == 2, ended.error
    assert "SHA256SUMS" in s3.names("out/small")
    assert not (server.state / "jobs" / job.id / "attempt-2/supervisor.json").exists(), "nothing was computed"


def test_a_killed_server_goes_on_pushing(make_server, s3):
    server = make_server("--allow-remote", "s3://", **s3.environment)
    s3.hold.clear()
    job = server.create(remote_spec(model=str(MODEL)))
    assert s3.held.wait(120)
    eventually(30, lambda: server.get(job.id).progress.phase == "push")
    server.end(signal.SIGKILL)
    s3.hold.set()
    server.start()
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED and ended.attempt == 1, ended.error
    assert "SHA256SUMS" in s3.names("out/small")
