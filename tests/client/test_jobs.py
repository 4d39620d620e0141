"""Tests with jobs on a real server, computed by the real worker."""

import json
import re
import signal
import subprocess
import sys
import time
import uuid

import numpy as np
import pytest
from conftest import SOURCE, JobFiles, example_environment, read_until
from safetensors.numpy import save_file


@pytest.fixture
def job_files(tmp_path):
    """Writes jobs of one rank: tests/server has those of several, and endless ones take all of a processor."""
    return JobFiles(tmp_path, ranks=1)


def wait_for_state(cli, job_id, state, seconds=60):
    deadline = time.monotonic() + seconds
    while (job := cli.json("status", job_id))["state"] != state:
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
    return job


@pytest.fixture
def running(cli, job_files):
    """Starts a job that does not end by itself."""
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
        resumed = cli("admin", "resume").stdout
    assert re.search(r"^drained +no$", resumed, re.M) and "the server is drained" not in resumed


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
    again = cli("submit", file, "--request-id", request_id)
    assert again.stderr.startswith("already submitted, it is ")
    cli("submit", job_files("other"), "--request-id", request_id, exit_code=65)
    cli("watch", ids.pop())


def test_a_cancelled_job_ends_those_who_watch_with_two(cli, running):
    watcher = cli.start("watch", running)
    cli("cancel", running, "--wait")
    stdout, stderr = watcher.communicate(timeout=60)
    assert watcher.returncode == 2, stderr
    assert cli.json("status", running)["state"] == "CANCELLED"
    cli("report", running, exit_code=65)


def foreign_tokens(directory):
    """Returns a job's calibration that only its ranks refuse: its ids are those of a larger vocabulary."""
    path = directory / "foreign.safetensors"
    save_file({"tokens": np.full((2, 64), 10**6, np.int32)}, path)
    return {"tokens": str(path)}


def test_a_failed_job_has_a_page_with_its_reason_and_its_log(cli, job_files, tmp_path):
    name = "</script><img src=x onerror=alert(1)>"
    job = cli.json("submit", job_files(name="foreign", calibration=foreign_tokens(tmp_path)), "--wait",
                   "--set", f"name={name}", exit_code=65)
    page = tmp_path / "page.html"
    cli("report", job["id"], "--html", page)
    html = page.read_text()
    assert "INVALID_INPUT" in html and "is outside the vocabulary" in html and "End of the log" in html
    assert "&lt;img src=x" in html and "<img" not in html


def test_an_interrupt_stops_the_watching_and_not_the_job(cli, running):
    watcher = cli.start("watch", running)
    read_until(watcher.stderr, "running")
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
        assert cli.json(verb, "j-0123456789abcdef", exit_code=65)["error"]["code"] == "NOT_FOUND"


def test_without_a_server(offline):
    for verb in (["status", "x"], ["watch", "x"], ["list"], ["logs", "x", "-f"]):
        assert "127.0.0.1:1" in offline(*verb, exit_code=69).stderr


def test_submit_waits_for_a_server_that_is_coming_up(own_server, own_cli, job_files):
    own_server.stop()
    submit = own_cli.start("submit", job_files(), "-o", "json")
    assert "trying again" in submit.stderr.readline() + submit.stderr.readline()
    own_server.start()
    stdout, stderr = submit.communicate(timeout=30)
    assert submit.returncode == 0, stderr
    assert [job["id"] for job in own_cli.json("list")["jobs"]] == [json.loads(stdout)["id"]]


def test_watch_survives_a_server_that_is_killed(own_server, own_cli, job_files):
    job_id = own_cli.json("submit", job_files.endless())["id"]
    watcher = own_cli.start("watch", job_id)
    read_until(watcher.stderr, "running")
    own_server.kill()
    read_until(watcher.stderr, "away")
    own_server.start()
    own_cli("cancel", job_id)
    _, stderr = watcher.communicate(timeout=60)
    assert watcher.returncode == 2, stderr
    assert "back" in stderr


def test_list_watch_has_a_line_for_each_change_also_over_a_restart(own_server, own_cli, job_files):
    first = own_cli.json("submit", job_files("first"), "--wait")["id"]
    watching = own_cli.start("list", "--watch")

    def states_until(id_, state):
        """Reads lines up to this state and returns {id: states}."""
        seen = {}
        while state not in seen.get(id_, []):
            line = watching.stdout.readline().split()
            assert line, watching.communicate()
            seen.setdefault(line[0], []).append(line[1])
        return seen

    assert states_until(first, "succeeded") == {"ID": ["STATE"], first: ["succeeded"]}
    second = own_cli("submit", job_files("second")).stdout.strip()
    states = states_until(second, "succeeded")
    assert states.keys() == {second}
    assert list(dict.fromkeys(states[second])) == ["queued", "starting", "running", "succeeded"]
    own_server.kill()
    assert "away" in watching.stderr.readline()
    own_server.start()
    own_cli("delete", first)
    third = own_cli("submit", job_files("third")).stdout.strip()
    states = states_until(third, "succeeded")
    if first not in states:
        states |= states_until(first, "gone")
    assert states.pop(first) in (["deleted"], ["gone"]) and states.keys() == {third}
    assert "back" in watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 130
    changes = own_cli.start("list", "--watch", "--state", "failed", "-o", "json")
    assert [json.loads(changes.stdout.readline())["kind"] for _ in range(2)] == ["LISTING", "SYNCED"]
    changes.kill()
    changes.communicate()


def test_a_dry_run_shows_the_plan_and_submits_nothing(cli, job_files):
    done = cli("submit", job_files("dry"), "--dry-run")
    assert "peak memory" in done.stdout and "nothing was submitted" in done.stderr
    assert cli.json("list", "--name", "dry")["jobs"] == []
    job = job_files("dry", method={"width": 999})
    error = cli("submit", job, "--dry-run", exit_code=65).stderr
    assert f"{job}:1: method.width: 999 is more than" in error
    cli("submit", job, "--dry-run", "--set", "method.width=64")


def test_jobs_are_named_by_the_beginning_of_their_ids_and_several_at_once(cli, job_files):
    ids = [cli.json("submit", job_files(f"prefix-{n}"))["id"] for n in range(2)]
    for job_id in ids:
        cli("watch", job_id[:12])
        assert cli.json("status", job_id[2:12])["id"] == job_id
    done = cli.json("delete", *ids, "j-0000000000000000", exit_code=65)["jobs"]
    assert [entry.get("deleted") for entry in done] == [True, True, None]
    assert done[2]["error"]["code"] == "NOT_FOUND"
    for job_id in ids:
        cli("status", job_id, exit_code=65)


def test_prune_forgets_jobs_that_ended_long_ago(own_cli, job_files):
    job_id = own_cli.json("submit", job_files("old"), "--wait")["id"]
    assert own_cli.json("prune", "--keep-days", "1")["ids"] == []
    time.sleep(1.1)  # job times are compared in seconds
    assert own_cli.json("prune", "--keep-days", "0", "--dry-run") == {"deleted": False, "ids": [job_id]}
    assert own_cli.json("prune", "--keep-days", "0") == {"deleted": True, "ids": [job_id]}
    assert own_cli.json("list")["jobs"] == []


def test_jobs_share_their_tokenised_texts(own_server, own_cli, job_files, tmp_path):
    for name in ("first", "second"):
        text = tmp_path / f"{name}.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
        own_cli("submit", job_files(name, calibration={"tokens": None, "text": [str(text)], "samples": 2,
                                                   "seqlen": 64}), "--wait")
    assert len(list((own_server.state / "tokens/.dotresize-cache").glob("*.safetensors"))) == 1


def test_damaged_tokens_of_a_cache_are_made_again(own_server, own_cli, job_files, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
    calibration = {"tokens": None, "text": [str(text)], "samples": 2, "seqlen": 64}
    cache = own_server.state / "tokens/.dotresize-cache"
    perplexities = []
    for name in ("first", "second", "third"):
        own_cli("submit", job_files.evaluated(name, calibration=calibration), "--wait")
        report = json.loads((tmp_path / f"out-{name}/dotresize/report.json").read_text())
        perplexities.append(report["compressed"]["perplexity"])
        (tokens,) = cache.glob("*.safetensors")
        content = bytearray(tokens.read_bytes())
        content[-400:-200] = bytes(200)  # still valid ids
        tokens.write_bytes(content)
    assert perplexities[0] == perplexities[1] == perplexities[2]


def test_a_queued_job_says_what_it_waits_for_and_is_cancelled_once(own_cli, job_files):
    running = own_cli.json("submit", job_files.endless("runs"), "--set", "resources.ranks=2")["id"]
    wait_for_state(own_cli, running, "RUNNING")
    first, second = (own_cli("submit", job_files(f"waits-{n}")).stdout.strip() for n in range(2))
    assert own_cli.json("status", first)["queue_position"] == 1
    assert re.search(r"^waits for  .*1 rank", own_cli("status", first).stdout, re.M)
    assert own_cli.json("status", second)["queue_position"] == 2
    own_cli("cancel", first, second, running, "--wait")
    assert own_cli.json("status", first)["state"] == "CANCELLED"


EXAMPLE = [sys.executable, SOURCE / "examples" / "submit.py"]


def run_example(*arguments, **environment):
    return subprocess.run([*EXAMPLE, *arguments], capture_output=True, text=True, timeout=120,
                          env=example_environment(**environment))


def test_the_python_example_submits_a_job(server, job_files):
    job = job_files.evaluated("python")
    done = run_example(server.address, job, "--request-id", "python-1")
    assert done.returncode == 0, done.stderr
    assert "perplexity" in done.stdout
    again = run_example(server.address, job, "--request-id", "python-1")
    assert again.returncode == 0 and "already submitted" in again.stderr


def test_the_python_example_ends_as_the_command_line_does(server, job_files, tmp_path):
    assert run_example(server.address).returncode == 64
    assert run_example("127.0.0.1:1", job_files(), "--patience", "0").returncode == 69
    # The cases are a refusal by the server with its field, a failed job, a typing error and a text that is not a list.
    refused = run_example(server.address, job_files("wide", method={"width": 999}))
    assert refused.returncode == 65 and "method.width: 999" in refused.stderr
    foreign = job_files("foreign", calibration=foreign_tokens(tmp_path))
    failed = run_example(server.address, foreign)
    assert failed.returncode == 65 and "is FAILED: INVALID_INPUT" in failed.stderr
    for line, fault in (("method: {sparsty: 0.2}", 'no field named "sparsty" at "JobSpec.method"'),
                        ("method: {sparsity: much}", "parse float: much at JobSpec.method.sparsity"),
                        ("calibration: {text: a.txt}", "repeated field text must be in []")):
        job = tmp_path / "bad.yaml"
        job.write_text(line + "\n")
        bad = run_example(server.address, job)
        assert bad.returncode == 65 and fault in bad.stderr and "Traceback" not in bad.stderr


def test_the_python_example_makes_paths_of_statistics_absolute(server, job_files, tmp_path):
    refused = run_example(server.address, job_files(calibration={"statistics": {"use": "kept"}}))
    assert refused.returncode == 65 and f"{tmp_path / 'kept'}' has no statistics" in refused.stderr


def test_the_python_example_sends_a_token_over_tls_alone(job_files, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    done = run_example("example.org:50051", job_files(), DOTRESIZE_TOKEN_FILE=str(token))
    assert done.returncode == 65 and "TLS alone" in done.stderr
