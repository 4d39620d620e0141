"""Jobs on a real server, computed by the real worker."""

import json
import signal
import subprocess
import sys
import time
import uuid

import pytest

from conftest import SOURCE, Cli


def wait_for_state(cli, job_id, state, seconds=60):
    deadline = time.monotonic() + seconds
    while (job := cli.json("status", job_id))["state"] != state:
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
    return job


@pytest.fixture
def running(cli, job_files):
    """A job that does not end by itself."""
    job_id = cli.json("submit", job_files.endless())["id"]
    wait_for_state(cli, job_id, "RUNNING")
    yield job_id
    cli("cancel", job_id, "--wait")


def test_submit_and_wait_ends_with_the_table_of_the_result(cli, job_files, tmp_path):
    done = cli("submit", job_files.evaluated(), "--wait")
    for row in ("perplexity", "parameters", "bytes", str(tmp_path / "out-tiny")):
        assert row in done.stdout
    assert "running" in done.stderr
    assert (tmp_path / "out-tiny" / "config.json").exists()


def test_an_ended_job_can_be_looked_at_and_deleted(cli, job_files, tmp_path):
    job = cli.json("submit", job_files("looked-at"), "--wait")
    job_id = job["id"]
    assert job["state"] == "SUCCEEDED"
    assert job["result"]["compressed"]["parameters"] < job["result"]["dense"]["parameters"]
    assert cli.json("status", job_id) == job
    assert "succeeded" in cli("status", job_id).stdout
    assert job_id in [listed["id"] for listed in cli.json("list", "--state", "succeeded")["jobs"]]
    assert job_id not in cli("list", "--state", "failed,cancelled").stdout
    assert cli.json("logs", job_id)["log"] == cli("logs", job_id, "-f").stdout
    assert cli.json("report", job_id) == cli.json("report", tmp_path / "out-looked-at")
    cli("delete", job_id)
    cli("status", job_id, exit_code=65)
    assert (tmp_path / "out-looked-at").exists()


def test_drained_server_and_its_queue_are_shown(cli, job_files):
    assert cli.json("admin", "drain")["drained"]
    try:
        job_id = cli("submit", job_files("waiting"), "--label", "team=nlp", "--label", "round=1", "--priority", "-3",
                     "--deadline", "600", "--ttl", "3600").stdout.strip()
        deadline = time.monotonic() + 20
        while "the server is drained" not in (text := cli("status", job_id).stdout):
            assert time.monotonic() < deadline, text
        assert "1 in the queue" in text
        assert "the server is drained" in cli("admin", "info").stdout
        job, = cli.json("list", "--label", "round=1", "--label", "team=nlp")["jobs"]
        assert job["options"] == {"priority": -3, "labels": {"team": "nlp", "round": "1"}, "deadline_s": 600,
                                  "ttl_seconds_after_finished": 3600}
        assert job_id not in cli("list", "--label", "team=other").stdout
        cli("list", "--label", "team", exit_code=65)
        cli("cancel", job_id)
    finally:
        cli("admin", "resume")


def test_without_wait_only_the_id_is_on_stdout(cli, job_files):
    job_id = cli("submit", job_files("id-only")).stdout.strip()
    assert cli.json("status", job_id)["id"] == job_id
    cli("watch", job_id)


def test_watch_with_json_prints_one_event_per_line(cli, job_files):
    job_id = cli("submit", job_files("events")).stdout.strip()
    events = [json.loads(line) for line in cli("watch", job_id, "-o", "json").stdout.splitlines()]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert events[-1]["state_change"]["state"] == "SUCCEEDED"


def test_the_same_request_id_gives_the_same_job(cli, job_files):
    request_id = str(uuid.uuid4())
    file = job_files("once")
    ids = {cli.json("submit", file, "--request-id", request_id)["id"] for _ in range(2)}
    assert len(ids) == 1
    cli("submit", job_files("other"), "--request-id", request_id, exit_code=65)
    cli("watch", ids.pop())


def test_a_cancelled_job_ends_those_who_watch_with_two(cli, running):
    watcher = cli.start("watch", running)
    cli("cancel", running, "--wait")
    stdout, stderr = watcher.communicate(timeout=60)
    assert watcher.returncode == 2, stderr
    assert cli.json("status", running)["state"] == "CANCELLED"
    cli("report", running, exit_code=65)


def test_an_interrupt_stops_the_watching_and_not_the_job(cli, running):
    watcher = cli.start("watch", running)
    while "running" not in watcher.stderr.readline():
        pass
    watcher.send_signal(signal.SIGINT)
    _, stderr = watcher.communicate(timeout=20)
    assert watcher.returncode == 130
    assert f"dotresize cancel {running}" in stderr
    assert cli.json("status", running)["state"] == "RUNNING"


def test_a_running_job_cannot_be_deleted(cli, running):
    assert "cancel" in cli("delete", running, exit_code=65).stderr


def test_a_job_that_the_server_refuses_says_which_field(cli, job_files, tmp_path):
    job = job_files("lost", model={"path": str(tmp_path / "no-such-model")})
    error = cli.json("submit", job, exit_code=65)["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert "no-such-model" in error["message"]


def test_an_unknown_job(cli):
    for verb in ("status", "watch", "cancel", "delete", "logs", "report"):
        assert cli.json(verb, "nonexistent", exit_code=65)["error"]["code"] == "NOT_FOUND"


def test_without_a_server(offline):
    for verb in (["status", "x"], ["watch", "x"], ["list"], ["logs", "x", "-f"]):
        assert "127.0.0.1:1" in offline(*verb, exit_code=69).stderr


def test_submit_waits_for_a_server_that_is_coming_up(own_server, job_files):
    cli = Cli(own_server.address)
    own_server.stop()
    submit = cli.start("submit", job_files(), "-o", "json")
    assert "trying again" in submit.stderr.readline() + submit.stderr.readline()
    own_server.start()
    stdout, stderr = submit.communicate(timeout=30)
    assert submit.returncode == 0, stderr
    assert [job["id"] for job in cli.json("list")["jobs"]] == [json.loads(stdout)["id"]]


def test_watch_survives_a_server_that_is_killed(own_server, job_files):
    cli = Cli(own_server.address)
    job_id = cli.json("submit", job_files.endless())["id"]
    watcher = cli.start("watch", job_id)
    while "running" not in watcher.stderr.readline():
        pass
    own_server.kill()
    while "away" not in watcher.stderr.readline():
        pass
    own_server.start()
    cli("cancel", job_id)
    _, stderr = watcher.communicate(timeout=60)
    assert watcher.returncode == 2, stderr
    assert "back" in stderr


def test_the_python_example_submits_a_job(server, job_files):
    done = subprocess.run(
        [sys.executable, SOURCE / "examples" / "submit.py", server.address,
         job_files.evaluated("python")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "perplexity" in done.stdout
