"""Tests of the contract between server and launchers (docs/server.md), with launchers that fail in all ways, and of the one for ssh."""

import contextlib
import getpass
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import grpc
import pytest
from conftest import (SOURCE, eventually, free_port, is_in, jobs_pb2, processes_of, reasons, refused, says, script, spec)

Job = jobs_pb2.Job
TOY = pathlib.Path(__file__).parent / "toy_launcher.py"
SSHD = "/usr/sbin/sshd"


class Toy:
    """A launcher in a folder of its own, and the faults that it is given."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.program = folder / "toy"
        shutil.copy(TOY, self.program)
        self.program.chmod(0o755)

    def calls(self, verb):
        """Returns what it was asked with this verb."""
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [asked for name, asked in calls if name == verb]

    def started(self):
        file = self.folder / "started"
        return file.read_text().split() if file.exists() else []

    @contextlib.contextmanager
    def with_file(self, name, content):
        (self.folder / f"{name}.new").write_text(content)
        (self.folder / f"{name}.new").replace(self.folder / name)
        yield
        (self.folder / name).unlink()


@pytest.fixture
def toy(tmp_path):
    return Toy(tmp_path / "toy")


@pytest.fixture
def make_toy_server(make_server, toy):
    def make(*options, **environment):
        return make_server("--launcher", f"toy={toy.program}", "--workers", f"127.0.0.1:{free_port()}", "--retry-delay", "0",
                           *options, **environment)
    return make


@pytest.fixture
def patient_worker(tmp_path):
    """Returns a worker that waits until it is ended."""
    return script(tmp_path / "worker", "exec sleep 300")


def without_launcher(server):
    with urllib.request.urlopen(server.http + "/metrics", timeout=10) as answer:
        found = re.search(r"^dotresize_jobs_without_launcher (\d+)$", answer.read().decode(), re.MULTILINE)
    return int(found[1])


def one_rank(output, **changes):
    return spec(output, resources__ranks=1, **changes)


def attempt(id_, number=1):
    return f"dotresize-{id_}-{number}"


def test_job_runs_to_its_end(make_toy_server, toy, tmp_path):
    server = make_toy_server()
    job = server.create(one_rank(tmp_path / "out"))
    assert job.launcher == "toy"
    folder = server.state / f"jobs/{job.id}/attempt-1"
    eventually(20, (folder / "attempt.json").exists)
    secret = json.loads((folder / "attempt.json").read_text())["token"]
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, (ended.error, server.logs(job.id)[-2000:])
    asked, = toy.calls("submit")
    assert (asked["name"], asked["ranks"], asked["gpus_per_rank"], asked["memory_bytes"]) == (
        attempt(job.id), 1, 0, ended.memory_bytes)
    assert (asked["folder"], asked["log"]) == (str(folder / "launcher"), str(server.state / f"jobs/{job.id}/log"))
    assert (folder / "launcher").stat().st_mode & 0o777 == 0o700
    umask = os.umask(0)
    os.umask(umask)
    assert int(asked["umask"], 8) == umask and asked["environment"]["DOTRESIZE_JOB_ID"] == job.id
    assert toy.calls("status")[0] == {"attempts": {}}, "the first question has no names"
    assert toy.calls("cancel") == [{"name": attempt(job.id), "folder": asked["folder"]}], "an end is cleaned up"
    assert secret not in (toy.folder / "calls").read_text() and not (folder / "attempt.json").exists()


@pytest.mark.parametrize("fault, reason", [
    ("echo garbage", "status: "), ("echo '{\"attempts\": {\"'\"$(ls attempts)\"'\": {\"state\": \"odd\"}}}'", "state 'odd' is not one of"),
    ("echo down for maintenance >&2; exit 1", "down for maintenance")], ids=["garbage", "unknown state", "down"])
def test_job_is_what_it_was_while_there_is_no_answer(make_toy_server, toy, patient_worker, tmp_path, fault, reason):
    server = make_toy_server("--http", "127.0.0.1:0", DOTRESIZE_WORKER=patient_worker)
    first = server.create(one_rank(tmp_path / "out0")).id
    says(server, first, "the toy runs")
    assert without_launcher(server) == 0
    with toy.with_file("status.sh", f"cd {toy.folder}\n{fault}"):
        assert reason in says(server, first, "the toy runs; no answer since: ").launcher_status
        second = server.create(one_rank(tmp_path / "out1")).id
        eventually(20, lambda: "launcher toy does not answer: " in server.get(second).waiting_for)
        assert toy.started() == [attempt(first)]
        eventually(20, lambda: without_launcher(server) == 1)
    eventually(20, lambda: server.get(first).launcher_status == "the toy runs")
    assert server.get(first).attempt == 1
    for id_ in (first, second):
        server.cancel(id_)
        assert server.wait(id_).state == Job.CANCELLED


def test_what_is_refused_fails_with_its_reason(make_toy_server, toy, tmp_path):
    server = make_toy_server()
    with toy.with_file("submit.sh", "echo first >&2; echo no partition of this name >&2; exit 65"):
        job = server.wait(server.create(one_rank(tmp_path / "out")).id)
    assert (job.state, job.error.code, job.error.message) == (Job.FAILED, "INVALID_INPUT", "no partition of this name")


def test_what_is_not_taken_now_is_submitted_again_under_its_name(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    with toy.with_file("submit.sh", "echo the queue is full >&2; exit 75"):
        id_ = server.create(one_rank(tmp_path / "out")).id
        says(server, id_, "toy has not answered yet: the queue is full")
        eventually(20, lambda: len(toy.calls("submit")) > 2)
        waiting = server.create(one_rank(tmp_path / "waiting")).id
        eventually(20, lambda: "the queue is full" in server.get(waiting).waiting_for)
        cancelled = server.cancel(waiting)
        assert cancelled.state == Job.CANCELLED
    assert says(server, id_, "the toy runs").attempt == 1
    assert toy.started() == [attempt(id_)]


@pytest.mark.parametrize("before", [0.0, 3.0], ids=["answered", "not answered"])
def test_submission_of_a_killed_server_is_found_by_its_name(make_toy_server, toy, patient_worker, tmp_path, before):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    with toy.with_file("submit.delay", str(before)):
        id_ = server.create(one_rank(tmp_path / "out")).id
        eventually(20, toy.started)
        if before == 0.0:
            says(server, id_, "the toy runs")
        server.kill_and_restart()
        assert says(server, id_, "the toy runs").attempt == 1
    time.sleep(2)
    assert toy.started() == [attempt(id_)], "it was started once"


def test_cancel_waits_for_the_submission_of_a_killed_server(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    with toy.with_file("submit.delay", "5"):
        id_ = server.create(one_rank(tmp_path / "out")).id
        eventually(20, toy.started)
        server.kill_and_restart()
        server.cancel(id_)
        eventually(20, (toy.folder / "attempts" / attempt(id_) / "pid").exists)
    assert server.wait(id_).state == Job.CANCELLED
    assert not processes_of(id_)


def test_cancel_is_repeated_by_a_later_server(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    id_ = server.create(one_rank(tmp_path / "out")).id
    says(server, id_, "the toy runs")
    with toy.with_file("cancel.sh", "echo not now >&2; exit 1"):
        assert server.cancel(id_).cancelling
        says(server, id_, "no answer since: not now")
        server.kill_and_restart()
        says(server, id_, "no answer since: not now")
        assert processes_of(id_)
    assert server.wait(id_).state == Job.CANCELLED
    assert not processes_of(id_)


def test_what_is_cancelled_before_it_is_taken_is_never_started(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    with toy.with_file("submit.sh", "exit 1"):
        id_ = server.create(one_rank(tmp_path / "out")).id
        says(server, id_, "submit ended with exit code 1")
        server.cancel(id_)
        server.end(signal.SIGKILL)
    server.start()
    assert server.wait(id_).state == Job.CANCELLED
    assert toy.started() == []
    assert toy.calls("cancel")[-1]["name"] == attempt(id_), "a try may have reached the cluster"


def test_lost_attempt_is_ended_before_the_next_one(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    id_ = server.create(one_rank(tmp_path / "out")).id
    says(server, id_, "the toy runs")
    with toy.with_file("cancel.sh", "exit 1"):
        with toy.with_file("status.json", '{"state": "ended", "code": "LOST", "message": "node7 is down"}'):
            eventually(20, lambda: toy.calls("cancel"))
        server.kill_and_restart()
        time.sleep(2)
        assert server.get(id_).attempt == 1 and processes_of(id_)
    eventually(20, lambda: server.get(id_).attempt == 2)
    eventually(20, lambda: toy.started() == [attempt(id_), attempt(id_, 2)])
    assert (Job.QUEUED, "node7 is down") in reasons_so_far(server, id_), "it was kept over the restart"


def reasons_so_far(server, id_):
    server.cancel(id_)
    server.wait(id_)
    return reasons(server, id_)


def test_attempt_that_the_launcher_no_longer_knows_is_lost(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=patient_worker)
    id_ = server.create(one_rank(tmp_path / "out")).id
    says(server, id_, "the toy runs")
    server.end(signal.SIGKILL)
    for pid in processes_of(id_):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(toy.folder / "attempts" / attempt(id_))
    server.start()
    eventually(20, lambda: server.get(id_).attempt == 2)
    assert (Job.QUEUED, f"toy does not know {attempt(id_)}") in reasons_so_far(server, id_)


def test_end_without_an_output_has_the_exit_code(make_toy_server, toy, tmp_path):
    server = make_toy_server(DOTRESIZE_WORKER=script(tmp_path / "worker", "exit 3"))
    job = server.wait(server.create(one_rank(tmp_path / "out")).id)
    assert (job.error.code, job.error.message) == ("RANK_FAILED", "the job under toy ended with exit code 3")


def test_server_goes_on_with_jobs_of_others_while_a_launcher_hangs(make_toy_server, toy, patient_worker, tmp_path):
    server = make_toy_server("--launcher", "local", DOTRESIZE_WORKER=patient_worker)
    id_ = server.create(one_rank(tmp_path / "out")).id
    says(server, id_, "the toy runs")
    with toy.with_file("status.sh", "exec sleep 300"):
        eventually(90, lambda: "no answer since: status did not end within 60 s" in server.get(id_).launcher_status)
        waiting = server.create(one_rank(tmp_path / "waiting")).id
        eventually(20, lambda: "launcher toy does not answer: " in server.get(waiting).waiting_for)
        here = server.create(one_rank(tmp_path / "here", resources__launcher="local")).id
        is_in(server, here, Job.STARTING)
        assert server.get(waiting).state == Job.QUEUED
        begin = time.monotonic()
        assert server.end(signal.SIGTERM) == 0
        assert time.monotonic() - begin < 10, "it does not wait for the launcher"
    server.start()
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(one_rank(tmp_path / "no", resources__launcher="pbs"))
    assert found[1]["resources.launcher"] == "this server has no pbs, only toy, local (--launcher)"
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(one_rank(tmp_path / "no", resources__launcher="../pbs"))
    assert "is not a launcher's name" in found[1]["resources.launcher"]


@pytest.fixture
def sshd(tmp_path):
    """Runs an sshd. Returns the options of ssh with which it lets this user in."""
    if not os.path.exists(SSHD):
        pytest.skip("there is no sshd")
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True)
    port = free_port()
    settings = {"ListenAddress": "127.0.0.1", "AuthorizedKeysFile": tmp_path / "own.pub", "StrictModes": "no", "UsePAM": "no",
                "PidFile": "none", "PermitRootLogin": "yes"}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", "/dev/null", "-p", str(port), "-h", tmp_path / "host", *options],
                              stderr=(tmp_path / "sshd.log").open("wb"))
    yield (f"-p {port} -l {getpass.getuser()} -i {tmp_path}/own -o StrictHostKeyChecking=no "
           f"-o UserKnownHostsFile={tmp_path}/known_hosts -o LogLevel=ERROR")
    daemon.kill()
    daemon.wait(20)


@pytest.fixture
def make_ssh_server(make_server, sshd, tmp_path):
    def make(*options, **environment):
        launcher = script(tmp_path / "ssh-launcher", f'exec {SOURCE}/deploy/launchers/ssh "$@" {sshd}')
        return make_server(
            "--launcher", f"ssh={launcher}", "--workers", f"127.0.0.1:{free_port()}", "--retry-delay", "0",
            *options, DOTRESIZE_HOSTS="127.0.0.1:4", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_btl_vader_single_copy_mechanism="none", OMPI_MCA_hwloc_base_binding_policy="none", **environment)
    return make


def test_ssh_runs_a_job_to_its_end(make_ssh_server, tmp_path):
    server = make_ssh_server()
    id_ = server.create(spec(tmp_path / "out with blank")).id
    job = server.wait(id_)
    assert job.state == Job.SUCCEEDED, (job.error, server.logs(id_)[-2000:])
    assert not processes_of(id_)


def test_ssh_cancels_and_tells_what_is_lost(make_ssh_server, tmp_path):
    # As a rank does, it ends with its mpirun.
    worker = script(tmp_path / "worker", "exec setpriv --pdeathsig KILL sleep 300")
    server = make_ssh_server(DOTRESIZE_WORKER=worker)
    id_ = server.create(spec(tmp_path / "out")).id
    says(server, id_, "mpirun runs on 127.0.0.1:4")
    group = int((server.state / f"jobs/{id_}/attempt-1/launcher/pid").read_text().split()[0])
    server.kill_and_restart()
    says(server, id_, "mpirun runs on 127.0.0.1:4")
    eventually(20, lambda: len(processes_of(id_)) >= 2)
    os.killpg(group, signal.SIGKILL)
    eventually(20, lambda: server.get(id_).attempt == 2)
    says(server, id_, "mpirun runs on 127.0.0.1:4")
    server.cancel(id_)
    assert server.wait(id_).state == Job.CANCELLED
    eventually(20, lambda: not processes_of(id_))
    assert (Job.QUEUED, "mpirun on 127.0.0.1:4 is gone") in reasons(server, id_)


def test_ssh_tells_the_exit_code_of_mpirun(make_ssh_server, tmp_path):
    server = make_ssh_server("--max-attempts", "1", DOTRESIZE_WORKER=script(
        tmp_path / "worker", "test $OMPI_COMM_WORLD_RANK = 0 || { sleep 0.7; kill -9 $$; }; exec sleep 300"))
    job = server.wait(server.create(spec(tmp_path / "out")).id)
    assert (job.error.code, job.error.rank, job.error.signal) == ("RANK_KILLED", 1, 9), job.error
