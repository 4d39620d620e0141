"""Tests of health, metrics and logs from a monitoring system's view."""

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest
from chaos.faults import Clock
from conftest import ADDRESS, ENDED, PROGRAM, eventually, jobs_pb2, processes_of, refused, script, spec

HTTP = ("--http", "127.0.0.1:0")


def fetch(server, page, token=None, context=None):
    """Returns (status, text) of a page."""
    request = urllib.request.Request(server.http + page)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(server):
    """Returns {"name{labels}": value} of the metrics, checked for Prometheus' rules."""
    status, text = fetch(server, "/metrics")
    assert status == 200
    values, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name.startswith("dotresize_")
            assert (kind == "counter") == name.endswith("_total")
            types[name] = kind
        elif not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            assert re.sub(r"(_bucket|_sum|_count)?({.*})?$", "", sample) in types, line
            values[sample] = float(value)
    return values


def test_metrics_tell_what_the_server_does(make_server, tmp_path):
    server = make_server(*HTTP, "--max-ranks", "1", "--max-attempts", "1",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", f"test -e {tmp_path}/go || sleep 300; exit 65"))
    first = server.create(spec(tmp_path / "out0", resources__ranks=1)).id
    eventually(20, lambda: processes_of(first))
    second = server.create(spec(tmp_path / "out1", resources__ranks=1)).id
    seen = metrics(server)
    assert seen['dotresize_jobs{state="queued"}'] == 1
    assert seen['dotresize_jobs{state="starting"}'] == 1
    eventually(10, lambda: 1 <= metrics(server)["dotresize_queue_head_age_seconds"] < 60)
    assert seen["dotresize_jobs_created_total"] == 2
    assert seen["dotresize_attempts_total"] == 1
    assert seen["dotresize_last_success_timestamp_seconds"] == 0
    assert seen["dotresize_state_free_bytes"] > 0
    assert seen["dotresize_table_bytes"] > 0
    assert seen["dotresize_serving"] == 1
    assert seen["dotresize_queue_held"] == 0
    (tmp_path / "go").touch()
    server.cancel(first)
    assert server.wait(second).error.code == "INVALID_INPUT"
    server.wait(first)
    seen = metrics(server)
    assert seen['dotresize_jobs_ended_total{state="cancelled",code=""}'] == 1
    assert seen['dotresize_jobs_ended_total{state="failed",code="INVALID_INPUT"}'] == 1
    assert seen["dotresize_events_total"] == 6
    assert seen["dotresize_queue_head_age_seconds"] == 0


def test_calls_are_counted_by_method_and_code(make_server):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    server.jobs.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20)
    for call in (lambda: server.get("j-0"), lambda: list(server.watch("j-0"))):
        with pytest.raises(Exception, match="NOT_FOUND"):
            call()
    unknown = server.channel.unary_unary("/dotresize.v1.Jobs/NoSuchMethod")
    with pytest.raises(Exception, match="UNIMPLEMENTED"):
        unknown(b"", timeout=20)
    seen = metrics(server)
    calls = {name: value for name, value in seen.items() if name.startswith("dotresize_calls_total")}
    assert len(calls) == 3, calls
    assert seen['dotresize_call_duration_seconds_count{method="ListJobs"}'] == 1
    assert 'dotresize_call_duration_seconds_count{method="WatchJob"}' not in seen, "a stream takes as long as its job"
    assert {tuple(sorted(re.findall(r'"(\w+)"', name))) for name in calls} == {
        ("ListJobs", "OK"), ("GetJob", "NOT_FOUND"), ("NOT_FOUND", "WatchJob")}


def test_age_of_the_queue_is_no_other_when_the_clock_is_set(make_server, tmp_path):
    clock = Clock(tmp_path / "clock")
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false", **clock.environment())
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20)
    server.create(spec(tmp_path / "out"))
    ages = []
    for jump in (0, 2 * 86400, -86400):
        clock.set(jump)
        ages.append(metrics(server)["dotresize_queue_head_age_seconds"])
    assert ages == sorted(ages) and 0 <= ages[0] and ages[-1] < 120


def test_malformed_requests_are_their_callers_fault(make_server):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    for method in ("Jobs/GetJob", "Jobs/CreateJob", "Workers/Heartbeat"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
            server.channel.unary_unary(f"/dotresize.v1.{method}")(b"\x0a\xff", timeout=20)
        assert found == ["INVALID_FIELD", {"request": "is not a message of this method's type"}]
    for method in ("WatchJob", "GetLogs"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            list(server.channel.unary_stream(f"/dotresize.v1.Jobs/{method}")(b"\x0a\xff", timeout=20))
    calls = {name for name in metrics(server) if name.startswith("dotresize_calls_total")}
    assert len(calls) == 4 and all('code="INVALID_ARGUMENT"' in name for name in calls)


def test_readiness_is_that_of_the_job_table(make_server):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    assert fetch(server, "/readyz") == (200, "job table: ok\ndisk: ok\nscheduler: ok\nconnections: ok\nqueue: ok\n")
    other = sqlite3.connect(server.state / "jobs.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    status, text = eventually(20, lambda: (answer := fetch(server, "/readyz"))[0] == 503 and answer)
    assert "job table: database is locked\n" in text
    assert fetch(server, "/healthz") == (200, "ok\n"), "a restart would not help"
    assert metrics(server)["dotresize_serving"] == 0
    other.execute("ROLLBACK")
    eventually(20, lambda: fetch(server, "/readyz")[0] == 200)
    assert fetch(server, "/nothing") == (404, "no such page\n")


@pytest.fixture
def small_state(tmp_path):
    """Puts the state directory that make_server gives its first server on a disk of 32 MiB."""
    state = tmp_path / "state0"
    state.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs", state], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted: {mounted.stderr}")
    yield state
    subprocess.run(["umount", "--lazy", state], check=True)


def test_without_space_a_server_is_not_ready_and_takes_no_job(small_state, make_server, tmp_path):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    filler = small_state / "filler"
    filler.write_bytes(bytes(20 << 20))
    with refused(grpc.StatusCode.UNAVAILABLE) as why:
        server.create(spec(tmp_path / "out"))
    assert why[0] == "LOW_SPACE"
    status, text = fetch(server, "/readyz")
    assert status == 503 and "disk: less than 16.0 MiB" in text
    filler.unlink()
    server.create(spec(tmp_path / "out"))
    eventually(20, lambda: fetch(server, "/readyz")[0] == 200)


def test_metrics_need_a_token_if_calls_do(make_server, tmp_path):
    tokens = tmp_path / "tokens"
    secret = subprocess.run([PROGRAM, "token", "--tokens", tokens, "prometheus", "read"],
                            check=True, capture_output=True, text=True).stdout.strip()
    server = make_server(*HTTP, "--tokens", str(tokens), DOTRESIZE_WORKER="/bin/false")
    assert fetch(server, "/metrics")[0] == 401
    assert fetch(server, "/metrics", "wrong")[0] == 401
    assert fetch(server, "/metrics", secret)[0] == 200
    audit = [json.loads(line) for line in (server.state / "audit.jsonl").read_text().splitlines()]
    assert [(line["method"], line["allowed"], line["code"]) for line in audit] == [("GetMetrics", False, 16)] * 2
    assert audit[0]["peer"].startswith("ipv4:127.0.0.1:") and "wrong" not in json.dumps(audit)
    assert fetch(server, "/healthz")[0] == fetch(server, "/readyz")[0] == 200


def test_metrics_are_not_given_out_faster_than_other_answers(make_server):
    server = make_server(*HTTP, "--max-rate", "1", DOTRESIZE_WORKER="/bin/false")
    codes = [fetch(server, "/metrics")[0] for _ in range(30)]
    assert codes[0] == 200 and codes[-1] == 429
    assert fetch(server, "/healthz")[0] == 200


def test_http_is_https_with_a_certificate(make_server, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:127.0.0.1,IP:{ADDRESS}",
                    "-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"],
                   check=True, capture_output=True)
    (tmp_path / "tls.key").chmod(0o600)
    server = make_server(*HTTP, "--tls", str(tmp_path), DOTRESIZE_WORKER="/bin/false")
    assert server.http.startswith("https://")
    context = ssl.create_default_context(cafile=tmp_path / "tls.crt")
    assert fetch(server, "/readyz", context=context)[0] == 200


@pytest.mark.parametrize("options", [["--http", "0.0.0.0:0"], ["--http", "nowhere"], ["--log", "xml"], ["--log", "info,debug"]])
def test_what_others_reach_or_nobody_knows_is_refused(tmp_path, options):
    done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--state", tmp_path / "state", *options],
                          env={**os.environ, "DOTRESIZE_WORKER": "/bin/false"}, capture_output=True, text=True,
                          timeout=20)
    assert done.returncode == 64
    assert options[0] in done.stderr


def test_a_worker_that_cannot_run_holds_the_queue_with_one_reason(make_server, tmp_path):
    worker = tmp_path / "worker"
    worker.write_text("#!/bin/sh\necho 'libtorch.so is missing' >&2\nexit 1\n")
    worker.chmod(0o755)
    server = make_server(*HTTP, DOTRESIZE_WORKER=str(worker))
    ids = [server.create(spec(tmp_path / f"out{i}", resources__ranks=ranks)).id for i, ranks in enumerate((1, 2, 1))]

    def held():
        status, text = fetch(server, "/readyz")
        return "queue: held" in text and (status, text)

    status, text = eventually(30, held)
    assert status == 200, "jobs are taken"
    assert "this machine cannot start jobs" in text and "--version ends with exit code 1: libtorch.so is missing" in text
    assert not any(server.get(id_).state in ENDED for id_ in ids)
    script(worker, "exit 65")
    for id_ in ids:
        job = server.wait(id_, seconds=60)
        assert (job.state, job.attempt - job.unstarted_attempts) == (jobs_pb2.Job.FAILED, 1), "once mended, by its own fault"


def connection_to(server):
    host, port = server.http.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_http_headers_are_limited_in_total(make_server):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    with connection_to(server) as connection:
        sent = 0
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
            for number in range(1024):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"a" * 7000))
                sent += 7000
            connection.sendall(b"\r\n")
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = connection.recv(100)
    assert b" 200 " not in answer, f"{sent} bytes of headers were read"
    assert fetch(server, "/healthz")[0] == 200


def test_slow_http_connections_do_not_keep_health_away(make_server):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    with contextlib.ExitStack() as slow:
        connections = [slow.enter_context(connection_to(server)) for _ in range(16)]
        for connection in connections:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        with urllib.request.urlopen(server.http + "/healthz", timeout=3) as answer:
            assert answer.status == 200


def test_idle_http_connections_take_nothing_from_the_rest(make_server, tmp_path):
    server = make_server(*HTTP, DOTRESIZE_WORKER=script(tmp_path / "worker", "exit 65"))
    host, port = server.http.removeprefix("http://").split(":")
    connections = [socket.create_connection((host, int(port)), timeout=20) for _ in range(40)]
    assert server.wait(server.create(spec(tmp_path / "out", resources__ranks=1)).id).state in ENDED
    for connection in connections:
        connection.close()
    assert fetch(server, "/healthz")[0] == 200


def test_port_of_another_server_is_not_shared(make_server, tmp_path):
    server = make_server(*HTTP, DOTRESIZE_WORKER="/bin/false")
    done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--state", tmp_path / "other", "--http",
                           server.http.removeprefix("http://")], env=server.environment, capture_output=True,
                          text=True, timeout=20)
    assert done.returncode == 69
    assert "--http: cannot listen on" in done.stderr


def test_json_log_says_of_which_job_and_attempt_it_is(make_server, tmp_path):
    server = make_server("--log", "json",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", "exit 65"))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    request = jobs_pb2.CreateJobRequest(spec=spec(tmp_path / "out", name="a \"b\" é", resources__ranks=1))
    id_ = server.jobs.CreateJob(request, metadata=[("traceparent", trace)], timeout=20).id
    server.wait(id_)
    request.spec.output.path += "2"
    malformed = server.jobs.CreateJob(request, metadata=[("traceparent", trace.replace("a", "A"))], timeout=20).id
    server.wait(malformed)
    server.end(signal.SIGTERM)
    lines = [json.loads(line) for line in server.log().splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    of_job = [line for line in lines if line.get("job") == id_]
    assert of_job[0]["message"] == "accepted, 'a \"b\" é'"
    assert of_job[-1]["message"].startswith("FAILED: ")
    assert of_job[-1]["attempt"] == 1
    assert {line["traceparent"] for line in of_job} == {trace}
    assert not any("traceparent" in line for line in lines if line.get("job") == malformed)
    # The scheduler may still have to report the end of a job.
    [stopping] = [line for line in lines if line["message"].startswith("stopping")]
    assert "job" not in stopping, "it is about the server"
