"""Tests of jobs whose ranks others start: a real Slurm, and a person who runs a command. Kubernetes: test_kubernetes.py."""

import json
import os
import signal
import subprocess

import grpc
import pytest
from conftest import (BINARIES, ENDED, SOURCE, endless_spec, eventually, free_port, is_in, job_pb2, jobs_pb2, processes_of,
                      reasons, refused, says, script, spec, workers_pb2, workers_pb2_grpc)
from slurm_cluster import SlurmCluster, why_not

Job = jobs_pb2.Job
needs_slurm = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
LAUNCHERS = SOURCE / "deploy/launchers"
GPU = {"resources__device": job_pb2.Resources.cuda, "resources__ranks": 4}


@pytest.fixture(scope="module")
def slurm():
    cluster = SlurmCluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def make_slurm_server(make_server, slurm):
    def make(*options, launcher="slurm", **environment):
        server = make_server("--launcher", launcher, "--workers", f"127.0.0.1:{free_port()}",
                             "--retry-delay", "0", *options, SLURM_CONF=slurm.environment["SLURM_CONF"],
                             OMPI_MCA_btl_vader_single_copy_mechanism="none", **environment)
        servers.append(server)
        return server

    servers = []
    yield make
    for server in servers:
        slurm.signal("slurmctld", signal.SIGCONT)
        subprocess.run(["scancel", "--user=root"], env=slurm.environment)
        eventually(30, lambda: not slurm.run("squeue", "--noheader"))


@pytest.fixture
def patient_worker(tmp_path):
    """Returns a worker whose ranks record what they see and wait until they are ended."""
    return script(tmp_path / "worker", f'echo "$CUDA_VISIBLE_DEVICES" > {tmp_path}/rank-$SLURM_PROCID; exec sleep 300')


@pytest.fixture
def make_external_server(make_server):
    return lambda *options: make_server(
        "--launcher", "external", "--workers", f"127.0.0.1:{free_port()}", *options)


def attempt_file(server, id_, attempt=1):
    """Returns the content of the file that the ranks of an attempt read."""
    file = server.state / f"jobs/{id_}/attempt-{attempt}/attempt.json"
    eventually(20, file.exists)
    assert file.stat().st_mode & 0o077 == 0
    return json.loads(file.read_text())


def beat(attempt):
    """Sends a heartbeat of rank 0. Returns whether the answer tells it to end."""
    request = workers_pb2.HeartbeatRequest(job_id=attempt["job_id"], attempt=attempt["attempt"])
    with grpc.insecure_channel(attempt["coordinator"]) as channel:
        answer = workers_pb2_grpc.WorkersStub(channel).Heartbeat(
            request, timeout=20, metadata=[("authorization", f"Bearer {attempt['token']}")])
    return answer.stop


@needs_slurm
def test_slurm_runs_a_job_to_its_end(make_slurm_server, slurm, tmp_path):
    server = make_slurm_server("--http", "127.0.0.1:0")
    job = server.create(spec(tmp_path / "out"))
    assert job.launcher == "slurm"
    secret = attempt_file(server, job.id)["token"]
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, (ended.error, server.logs(job.id)[-2000:])
    assert ended.result.compressed.bytes < ended.result.dense.bytes
    assert (tmp_path / "out/dotresize/report.json").exists()
    batch = slurm.job(f"dotresize-{job.id}-1")
    assert (batch["JobState"], batch["NumTasks"], batch["Requeue"]) == ("COMPLETED", "2", "0")
    assert int(batch["MinMemoryCPU"].rstrip("M")) * 2 << 20 >= ended.memory_bytes
    assert not list(server.state.glob("jobs/*/attempt-1/attempt.json")), "the secret goes with the attempt"
    assert secret not in slurm.run("scontrol", "show", "job", batch["JobId"])
    assert secret not in slurm.run("scontrol", "write", "batch_script", batch["JobId"], "-")
    shown = subprocess.run([BINARIES / "dotresize", "admin", "info", "--server", server.endpoint], capture_output=True,
                           text=True, timeout=60, check=True)
    assert "launchers  slurm" in shown.stdout


@needs_slurm
def test_slurm_gives_gpus_and_a_cancel_outlives_the_server(make_slurm_server, slurm, patient_worker, tmp_path):
    server = make_slurm_server(DOTRESIZE_WORKER=patient_worker)
    id_ = server.create(spec(tmp_path / "out", **GPU)).id
    ranks = [tmp_path / f"rank-{rank}" for rank in range(4)]
    eventually(60, lambda: all(rank.exists() and rank.read_text() for rank in ranks))
    gpus = [rank.read_text().strip() for rank in ranks]
    assert len(set(gpus)) == 1, "all see those of their node, which NCCL needs, and take them in turn"
    seen = gpus[0].split(",")
    assert len(set(seen)) == len(seen) == 4 and set(seen) <= set("01234567")
    says(server, id_, "is RUNNING")
    slurm.signal("slurmctld", signal.SIGSTOP)
    assert server.cancel(id_).cancelling
    server.end(signal.SIGKILL)
    slurm.signal("slurmctld", signal.SIGCONT)
    server.start()
    assert server.wait(id_).state == Job.CANCELLED
    assert slurm.job(f"dotresize-{id_}-1")["JobState"] == "CANCELLED"
    eventually(20, lambda: not processes_of(id_))


@needs_slurm
def test_job_that_has_lost_its_node_is_tried_again(make_slurm_server, slurm, patient_worker, tmp_path):
    server = make_slurm_server(DOTRESIZE_WORKER=patient_worker)
    id_ = server.create(spec(tmp_path / "out")).id
    says(server, id_, "is RUNNING")
    before = attempt_file(server, id_)
    assert not beat(before)
    slurm.signal("slurmd", signal.SIGKILL)
    slurm.daemons["slurmd"].wait(20)
    slurm.run("scontrol", "update", f"nodename={slurm.host}", "state=down", "reason=lost")
    eventually(60, lambda: server.get(id_).attempt == 2)
    assert beat(before), "ranks of before are told to end"
    with pytest.raises(grpc.RpcError) as caught:
        beat({**attempt_file(server, id_, 2), "token": before["token"]})
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    slurm.start("slurmd", "-D", "-N", slurm.host)
    says(server, id_, "is RUNNING")
    server.cancel(id_)
    server.wait(id_)
    assert any(state == Job.QUEUED and reason.endswith("has lost a node") for state, reason in reasons(server, id_))


@needs_slurm
def test_job_that_slurm_refuses_fails_with_its_reason(make_slurm_server, tmp_path):
    wrapper = script(tmp_path / "launcher", f'exec {LAUNCHERS}/slurm "$@" --partition=nowhere')
    server = make_slurm_server(launcher=f"slurm={wrapper}")
    job = server.wait(server.create(spec(tmp_path / "out")).id)
    assert (job.state, job.error.code) == (Job.FAILED, "INVALID_INPUT")
    assert "Slurm refuses the job: sbatch: error: Batch job submission failed: Invalid partition" in job.error.message


@needs_slurm
def test_killed_rank_of_slurm_is_named(make_slurm_server, tmp_path):
    server = make_slurm_server("--max-attempts", "1", DOTRESIZE_WORKER=script(
        tmp_path / "worker", "test $SLURM_PROCID = 0 || kill -9 $$; exec sleep 300"))
    job = server.wait(server.create(spec(tmp_path / "out")).id)
    assert (job.error.code, job.error.rank, job.error.signal) == ("RANK_KILLED", 1, 9), job.error


@needs_slurm
def test_job_of_slurm_that_ends_well_without_an_output_is_lost(make_slurm_server, tmp_path):
    server = make_slurm_server("--max-attempts", "1", DOTRESIZE_WORKER=script(tmp_path / "worker", "exit 0"))
    job = server.wait(server.create(spec(tmp_path / "out")).id)
    assert (job.error.code, job.error.message) == ("LOST", "the job under slurm ended with exit code 0")


def test_somebody_runs_the_command_of_a_job(make_external_server, tmp_path):
    server = make_external_server()
    id_ = server.create(spec(tmp_path / "out")).id
    command = says(server, id_, "waits for somebody to run its command").command
    shown = subprocess.run([BINARIES / "dotresize", "status", id_, "--server", server.endpoint], capture_output=True,
                           text=True, timeout=60, check=True)
    assert command in shown.stdout
    server.kill_and_restart()
    assert says(server, id_, "waits").command == command
    done = subprocess.run(
        command.replace("mpirun", "mpirun --allow-run-as-root --oversubscribe --bind-to none"), shell=True,
        capture_output=True, text=True, timeout=240, env={**os.environ, "OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
    assert done.returncode == 0, done.stderr
    job = server.wait(id_)
    assert (job.state, job.attempt) == (Job.SUCCEEDED, 1)
    assert (Job.RUNNING, "") in reasons(server, id_)


def test_a_command_that_is_started_twice_changes_nothing_for_the_first(make_external_server, tmp_path):
    server = make_external_server()
    id_ = server.create(endless_spec(tmp_path / "out", resources__ranks=1)).id
    command = says(server, id_, "waits").command.split()[3:]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        is_in(server, id_, Job.RUNNING)
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 65 and "another job is writing" in second.stderr
        server.cancel(id_)
        assert first.wait(60) == 2
    assert server.wait(id_).state == Job.CANCELLED
    assert not any("another job" in reason for _, reason in reasons(server, id_))


def test_cancel_reaches_ranks_that_somebody_else_has_started(make_external_server, tmp_path):
    server = make_external_server()
    waiting, running = (server.create(endless_spec(tmp_path / f"out{i}", resources__ranks=1)).id for i in range(2))
    assert server.get(waiting).state not in ENDED
    with subprocess.Popen(says(server, running, "waits").command.split()[3:], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as worker:
        is_in(server, running, Job.RUNNING)
        for id_ in (waiting, running):
            server.cancel(id_)
        assert worker.wait(60) == 2
    for id_ in (waiting, running):
        assert server.wait(id_).state == Job.CANCELLED
    assert list(tmp_path.glob("out*")) == []


def test_job_chooses_among_the_launchers_of_its_server(make_server, patient_worker, tmp_path):
    server = make_server("--launcher", "local,external", "--workers", f"127.0.0.1:{free_port()}", "--max-ranks", "1",
                         CUDA_VISIBLE_DEVICES="", DOTRESIZE_WORKER=patient_worker)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(spec(tmp_path / "out", resources__launcher="slurm"))
    assert "local, external" in found[1]["resources.launcher"]
    elsewhere = {**GPU, "resources__launcher": "external"}
    first, *_, last = others = [server.create(spec(tmp_path / f"out{i}", **elsewhere)).id for i in range(101)]
    here = server.create(spec(tmp_path / "out", resources__ranks=1))
    assert not here.HasField("launcher")
    says(server, first, "waits")
    is_in(server, here.id, Job.STARTING)
    eventually(60, lambda: "one of the 100 jobs that others run" in server.get(last).waiting_for)
    def seen():
        info = server.jobs.GetServerInfo(jobs_pb2.GetServerInfoRequest(), timeout=20)
        # Jobs that run elsewhere take nothing here.
        return (info.used.ranks, info.used.gpus) == (1, 0) and info
    info = eventually(20, seen)
    assert list(info.launchers) == ["local", "external"]
    server.cancel(first)
    says(server, last, "waits")
    for id_ in (*others, here.id):
        server.cancel(id_)


@pytest.mark.parametrize("options, fault", [
    (["--launcher", "slurm"], "needs --workers"),
    (["--launcher", "external", "--workers", "127.0.0.1:0"], "needs a port"),
    (["--launcher", "external", "--workers", "0.0.0.0:7"], "a ca.crt in it"),
    (["--launcher", "pbs", "--workers", "127.0.0.1:7"], "share/dotresize/launchers/pbs is not a program that this user may execute"),
    (["--launcher", "local,local"], "local is given twice")], ids=str)
def test_launchers_that_cannot_work_are_refused_by_name(tmp_path, options, fault):
    done = subprocess.run([BINARIES / "dotresize-server", "--state", tmp_path / "state", *options], capture_output=True,
                          text=True, timeout=60, env={**os.environ, "DOTRESIZE_WORKER": "/bin/false"})
    assert done.returncode == 64
    assert fault in done.stderr
