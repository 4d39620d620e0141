"""Tests of operational risks: hostile clients, full tables, damaged files, a machine that is not ready."""

import ctypes
import json
import os
import pty
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import grpc
import pytest
from conftest import (BINARIES, ENDED, PROGRAM, SOURCE, details, endless_spec, eventually, jobs_pb2,
                      jobs_pb2_grpc, processes_of, refused, script, spec, tell_progress)

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


@pytest.fixture
def server(make_server):
    return make_server("--max-ranks", "4", DOTRESIZE_WORKER="/bin/false")


@pytest.mark.parametrize("fault", ["worker", "mpirun"])
def test_machine_that_cannot_start_jobs_holds_the_queue_and_drains_nothing(make_server, tmp_path, fault):
    commands = tmp_path / "bin"
    commands.mkdir()
    # Rank 0 of a job of two ranks is killed once: failed launches use up no attempt.
    worker = script(commands / "worker", f"""
        [ -e {tmp_path}/later ] || {{ touch {tmp_path}/first; exec sleep 300; }}
        [ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec sleep 300
        mkdir {tmp_path}/killed-$DOTRESIZE_JOB_ID && kill -9 $$
        exit 65""")
    # This mpirun comes first in PATH and answers --version, but cannot be run.
    if fault == "mpirun":
        script(commands / "mpirun", 'exec /no/such/interpreter 2> /dev/null; exit 127')
    server = make_server("--max-ranks", "5", "--max-attempts", "2", "--retry-delay", "0", DOTRESIZE_WORKER=worker,
                         PATH=f"{commands}:{os.environ['PATH']}")
    running = server.create(spec(tmp_path / "running", resources__ranks=1)).id
    eventually(20, (tmp_path / "first").exists)
    tell_progress(next(iter(processes_of(running).values())), phase="calibrate")
    (tmp_path / "later").touch()
    if fault == "worker":
        os.rename(worker, commands / "away")
    ids = [server.create(spec(tmp_path / f"out{i}")).id for i in range(3)]
    eventually(20, lambda: server.log().count("the queue is held") >= 2)
    assert all(server.get(id_).state not in ENDED for id_ in ids)
    if fault == "worker":
        eventually(20, lambda: "the queue is held for 2 s" in server.log())  # although an earlier job runs
        assert "cannot start jobs: " in server.get(ids[2]).waiting_for
    os.rename(commands / ("away" if fault == "worker" else "mpirun"),
              commands / ("worker" if fault == "worker" else "broken"))
    for id_ in ids:
        job = server.wait(id_)  # mpirun ends like rank 0, or like the other one that it then killed
        assert job.error.code in ("INVALID_INPUT", "RANK_FAILED", "RANK_KILLED"), job
        assert job.attempt == job.unstarted_attempts + 2
    server.cancel(running)


def test_path_that_leads_elsewhere_after_the_admission_is_not_followed(make_server, tmp_path):
    server = make_server("--max-ranks", "2",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    first = server.create(spec(tmp_path / "first")).id
    eventually(20, lambda: processes_of(first))
    (tmp_path / "a").mkdir()
    waiting = server.create(spec(tmp_path / "a" / "out")).id
    victim = tmp_path / "victim/out.partial/journal/owner.json"
    victim.parent.mkdir(parents=True)
    victim.write_text(f'{{"job_id": "{waiting}", "attempt": 1}}')
    (tmp_path / "a").rmdir()
    (tmp_path / "a").symlink_to(tmp_path / "victim")
    server.cancel(first)
    job = server.wait(waiting)
    assert job.state == jobs_pb2.Job.FAILED
    assert job.error.code == "INVALID_INPUT"
    assert "does not lead to" in job.error.message
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=waiting), timeout=20)
    assert victim.exists()


def test_model_whose_link_leads_in_a_circle_fails_its_job_and_holds_no_queue(make_server, tmp_path):
    server = make_server("--max-ranks", "2", DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    first = server.create(spec(tmp_path / "first")).id
    eventually(20, lambda: processes_of(first))
    shutil.copytree(SOURCE / "examples/docs-llama", tmp_path / "model")
    waiting = server.create(spec(tmp_path / "out", model__path=str(tmp_path / "model"))).id
    (tmp_path / "model/circle").symlink_to(tmp_path / "model/circle")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(spec(tmp_path / "another", model__path=str(tmp_path / "model")))
    assert "circle" in found[1]["model.path"]
    server.cancel(first)
    assert server.wait(waiting).error.code == "INVALID_INPUT"
    assert "the queue is held" not in server.log()


def test_state_is_private_and_what_jobs_write_is_not(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER=script(
        tmp_path / "worker", f"umask > {tmp_path}/umask; echo text > {tmp_path}/written; exit 1"))
    server.wait(server.create(spec(tmp_path / "out", resources__ranks=1)).id)
    open_to_others = [path for path in server.state.rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
    before = os.umask(0)
    os.umask(before)
    assert int((tmp_path / "umask").read_text(), 8) == before
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o666 & ~before


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-"])
def test_jobs_end_though_streams_of_the_server_are_closed(make_server, tmp_path, closed):
    server = make_server(prefix=("sh", "-c", f'exec "$@" {closed}', "sh"), DOTRESIZE_WORKER=script(tmp_path / "worker", "echo said; exit 1"))
    job = server.wait(server.create(spec(tmp_path / "out", resources__ranks=1)).id, seconds=60)
    assert job.state == jobs_pb2.Job.FAILED and b"said" in server.logs(job.id)


def test_damaged_record_hides_no_other_and_can_be_deleted(server, tmp_path):
    ids = [server.create(spec(tmp_path / f"out{i}")).id for i in range(3)]
    for id_ in ids:
        server.wait(id_)
    with sqlite3.connect(server.state / "jobs.sqlite") as table:
        table.execute("UPDATE jobs SET body = x'ff00' WHERE id = ?", (ids[1],))
    server.kill_and_restart()
    assert [job.id for job in server.jobs.ListJobs(jobs_pb2.ListJobsRequest()).jobs] == ids[::-1]
    assert server.get(ids[1]).error.code == "DAMAGED_RECORD"
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=ids[1]), timeout=20)
    assert server.wait(server.create(spec(tmp_path / "next")).id).state in ENDED


def test_backup_of_a_running_server_is_a_state_directory(make_server, server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    server.wait(id_)
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest())
    command = [PROGRAM, "backup", "--state", server.state, tmp_path / "state1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("1 jobs copied"), done.stderr
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 64, "it exists"
    beside = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--state", tmp_path / "state1"],
                            env=server.environment, capture_output=True, text=True, timeout=20)
    assert beside.returncode == 75 and f"is a copy of {server.state}" in beside.stderr
    job, logs, events = server.get(id_), server.logs(id_), list(server.watch(id_))
    server.end(signal.SIGTERM)
    restored = make_server()
    assert restored.state == tmp_path / "state1"
    assert restored.get(id_) == job
    assert restored.jobs.GetServerInfo(jobs_pb2.GetServerInfoRequest()).drained
    assert restored.logs(id_) == logs != b""
    assert list(restored.watch(id_)) == events


def test_backup_that_cannot_be_made_leaves_nothing(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    server.wait(id_)
    state = server.state
    (tmp_path / "link").symlink_to(state / "jobs")

    def back_up(target):
        return subprocess.run([PROGRAM, "backup", "--state", state, target], capture_output=True, text=True, timeout=60)
    for inside in (state / "copy", state / "jobs/copy", tmp_path / "link/copy", state):
        before = sorted(state.rglob("*"))
        done = back_up(inside)
        assert done.returncode == 64 and "lies in the state directory" in done.stderr, done.stderr
        assert sorted(state.rglob("*")) == before
    (state / "jobs" / id_ / "folder").mkdir()
    (state / "jobs" / id_ / "folder").chmod(0)
    if os.geteuid() != 0:
        assert back_up(tmp_path / "copy").returncode == 69
    (state / "jobs" / id_ / "folder").rmdir()
    with sqlite3.connect(state / "jobs.sqlite") as table:
        table.execute("ALTER TABLE jobs RENAME TO others")
    assert back_up(tmp_path / "copy").returncode == 69
    assert not list(tmp_path.glob("copy*"))
    with sqlite3.connect(state / "jobs.sqlite") as table:
        table.execute("ALTER TABLE others RENAME TO jobs")
    assert back_up(tmp_path / "copy").returncode == 0


def test_table_that_is_damaged_is_refused_by_name(server):
    server.end(signal.SIGTERM)
    with open(server.state / "jobs.sqlite", "r+b") as table:
        table.write(b"\xff" * 4096)
    done = subprocess.run(server.command, env=server.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 69
    assert "jobs.sqlite" in done.stderr


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests_are_refused_before_they_are_unpacked(server, algorithm):
    before = memory_of(server.process.pid)
    with pytest.raises(grpc.RpcError) as caught:
        server.jobs.GetJob(jobs_pb2.GetJobRequest(id="j" * (200 << 20)), timeout=60,
                           compression=algorithm)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert memory_of(server.process.pid) < before + (32 << 20)
    server.connect()
    assert not server.jobs.ListJobs(jobs_pb2.ListJobsRequest()).jobs


def memory_of(pid):
    """Returns the peak memory of the process in bytes."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def run_logs(server, *arguments, **options):
    return subprocess.Popen([BINARIES / "dotresize", "logs", *arguments], **options,
                            env={**os.environ, "DOTRESIZE_SERVER": server.endpoint})


def test_log_on_a_terminal_does_not_steer_it(make_server, tmp_path):
    hostile = "a\x1b[2J\x9bb\u202ec \u00e9\n"
    (tmp_path / "hostile").write_text(hostile)
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", f"cat {tmp_path}/hostile; exit 1"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    server.wait(id_)
    assert run_logs(server, id_, stdout=subprocess.PIPE).communicate(timeout=20)[0] == hostile.encode()
    document = run_logs(server, id_, "-o", "json", stdout=subprocess.PIPE).communicate(timeout=20)[0]
    assert json.loads(document) == {"id": id_, "log": hostile}
    terminal, end = pty.openpty()
    assert run_logs(server, id_, stdout=end).wait(20) == 0
    assert os.read(terminal, 1000).decode() == "a?[2J?b?c \u00e9\r\n"
    os.close(end)
    os.close(terminal)


def test_long_log_is_cut_and_passed_on_piece_by_piece(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER=script(
        tmp_path / "worker", "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the last words; exit 1"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    assert "the last words" in server.wait(id_).error.message
    # A program inherits the peak of its parent, so start it from a small one.
    measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)")
    with open(tmp_path / "log.json", "w+") as file:
        done = subprocess.run(
            [sys.executable, "-c", measure, BINARIES / "dotresize", "logs", id_, "-o", "json",
             "--server", server.endpoint], stdout=file, stderr=subprocess.PIPE, text=True, check=True)
        file.seek(0)
        log = json.load(file)["log"]
    assert int(done.stderr) << 10 < 100 << 20
    assert 64 << 20 < len(log) < 65 << 20
    assert "the log has reached its limit" in log
    assert log.endswith("x\nthe last words\n")


def channels(server, count):
    return [grpc.insecure_channel(server.endpoint, options=[("grpc.use_local_subchannel_pool", 1)])
            for _ in range(count)]


def test_streams_of_one_client_keep_nothing_from_others(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    eventually(20, lambda: processes_of(id_))
    hoard = []
    for channel in channels(server, 3):
        jobs = jobs_pb2_grpc.JobsStub(channel)
        hoard += [jobs.GetLogs(jobs_pb2.GetLogsRequest(id=id_, follow=True), timeout=120)
                  for _ in range(60)]
    server.connect()
    stream = server.watch(id_)
    assert next(stream).state_change.state == jobs_pb2.Job.QUEUED
    server.cancel(id_)
    assert list(stream)[-1].state_change.state == jobs_pb2.Job.CANCELLED
    for logs in hoard:
        assert list(logs) == []


def test_readers_that_do_not_read_take_bounded_memory(make_server, tmp_path):
    """Each reader buffering the whole log would take 40 MB."""
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", "head -c 40000000 /dev/zero; sleep 300"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    log = server.state / "jobs" / id_ / "log"
    eventually(60, lambda: log.exists() and log.stat().st_size >= 40000000)
    before = memory_of(server.process.pid)
    streams = []
    for channel in channels(server, 2):
        jobs = jobs_pb2_grpc.JobsStub(channel)
        streams += [jobs.GetLogs(jobs_pb2.GetLogsRequest(id=id_, follow=True), timeout=120) for _ in range(40)]
    for stream in streams:
        next(stream)
    time.sleep(2)
    assert memory_of(server.process.pid) < before + (64 << 20)
    assert server.get(id_).id == id_
    for stream in streams:
        stream.cancel()


def test_many_calls_at_once_are_all_answered(server, tmp_path):
    server.create(spec(tmp_path / "out"))
    stubs = [jobs_pb2_grpc.JobsStub(channel) for channel in channels(server, 6)]
    for stub in stubs:
        stub.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20)
    server.process.send_signal(signal.SIGSTOP)  # makes the calls arrive together
    calls = [stub.ListJobs.future(jobs_pb2.ListJobsRequest(), timeout=60)
             for stub in stubs for _ in range(50)]
    time.sleep(0.5)
    server.process.send_signal(signal.SIGCONT)
    assert all(len(call.result().jobs) == 1 for call in calls)


def test_streams_beyond_the_limit_of_one_address_are_refused(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    streams = []
    for channel in channels(server, 3):
        jobs = jobs_pb2_grpc.JobsStub(channel)
        streams += [jobs.WatchJob(jobs_pb2.WatchJobRequest(id=id_), timeout=120) for _ in range(85)]
    for stream in streams:
        next(stream)
    last = server.watch(id_)
    next(last)  # keeps the two calls in order
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as found:
        next(server.watch(id_))
    assert found[0] == "TOO_MANY_STREAMS"
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        next(server.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(), timeout=20))
    for stream in streams:
        stream.cancel()
    eventually(20, lambda: watches(server, id_))
    server.cancel(id_)


def watches(server, id_):
    try:
        return next(server.watch(id_))
    except grpc.RpcError:
        return None


def health_of(server):
    return server.channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20)


def test_job_table_that_another_program_has_locked_is_said_to_be_so(server, tmp_path):
    waiting = server.create(spec(tmp_path / "before"))
    other = sqlite3.connect(server.state / "jobs.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(grpc.RpcError) as caught:
        server.create(spec(tmp_path / "out"))
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert details(caught.value)[0] == "STORE_UNAVAILABLE"
    assert b"google.rpc.RetryInfo" in dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
    assert server.get(waiting.id).id == waiting.id, "reading goes on"
    eventually(20, lambda: health_of(server) == NOT_SERVING)
    other.execute("ROLLBACK")
    eventually(20, lambda: health_of(server) == SERVING)
    assert server.wait(server.create(spec(tmp_path / "out")).id).state in ENDED


def test_server_that_is_stopped_in_the_midst_of_a_round_blames_no_job(make_server, tmp_path):
    server = make_server("--heartbeat-timeout", "5", "--max-attempts", "1",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    ended, healthy = (server.create(spec(tmp_path / f"out{i}", resources__ranks=1)).id for i in range(2))
    for id_ in (ended, healthy):
        eventually(20, lambda id_=id_: processes_of(id_))
        tell_progress(next(iter(processes_of(id_).values())), phase="calibrate")
    environment = next(iter(processes_of(healthy).values()))
    other = sqlite3.connect(server.state / "jobs.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for pid in processes_of(ended):
        os.kill(pid, signal.SIGKILL)
    time.sleep(1)  # the scheduler now waits to store the end of the first job; the other job is next
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(7)
    other.execute("ROLLBACK")
    server.process.send_signal(signal.SIGCONT)
    time.sleep(1)  # it looks at the other job before that beats again

    def has_ended():
        tell_progress(environment, phase="calibrate")
        return server.get(ended).state in ENDED

    eventually(20, has_ended)
    for _ in range(6):
        tell_progress(environment, phase="calibrate")
        time.sleep(0.5)
    assert server.get(healthy).state == jobs_pb2.Job.RUNNING
    server.cancel(healthy)


def test_reason_why_a_job_is_stopped_outlives_the_server(make_server, tmp_path):
    worker = script(tmp_path / "worker", "trap 'sleep 4; exit 2' TERM; while :; do sleep 0.2; done")
    server = make_server("--heartbeat-timeout", "5", "--max-attempts", "1", DOTRESIZE_WORKER=worker)
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    eventually(20, lambda: server.get(id_).HasField("stop_reason"))
    server.kill_and_restart()
    error = server.wait(id_).error
    assert (error.code, error.message) == ("LOST", "no heartbeat for 5 s; the job was stopped")


def supervisor_of(id_):
    def found():
        for pid in processes_of(id_):
            with open(f"/proc/{pid}/cmdline", "rb") as command_line:
                if b"\0supervise\0" in command_line.read():
                    return pid
        return None
    return eventually(20, found)


def test_supervisors_that_are_stopped_keep_no_job(make_server, tmp_path):
    worker = script(tmp_path / "worker", f"trap '' TERM; touch {tmp_path}/$DOTRESIZE_JOB_ID; sleep 300")
    server = make_server(DOTRESIZE_WORKER=worker)
    before, while_ending = (server.create(spec(tmp_path / f"out{i}", resources__ranks=1)).id for i in range(2))
    for id_ in (before, while_ending):
        eventually(20, (tmp_path / id_).exists)
    os.kill(supervisor_of(before), signal.SIGSTOP)
    (server.state / "jobs" / before / "attempt-1/supervisor.json").unlink()  # like an attempt that has not begun
    server.cancel(before)
    assert server.wait(before, seconds=60).state == jobs_pb2.Job.CANCELLED
    server.cancel(while_ending)
    time.sleep(2)
    os.kill(supervisor_of(while_ending), signal.SIGSTOP)
    assert server.wait(while_ending, seconds=60).state == jobs_pb2.Job.CANCELLED
    assert processes_of(before) == processes_of(while_ending) == {}


def test_connections_beyond_the_limit_do_not_stop_the_server(make_server, tmp_path):
    """gRPC's own listener would never accept again with so few descriptors."""
    server = make_server("--max-ranks", "4", prefix=["prlimit", "--nofile=512:512"])
    host, port = server.endpoint.split(":")
    connections = [socket.create_connection((host, int(port)), timeout=20) for _ in range(700)]
    for connection in connections:
        connection.close()
    server.connect()
    # The server turns callers away until it has noticed that the earlier ones are gone.
    server.jobs.ListJobs(jobs_pb2.ListJobsRequest(), wait_for_ready=True, timeout=20)
    assert server.wait(server.create(spec(tmp_path / "out")).id).state == jobs_pb2.Job.SUCCEEDED


def test_server_that_does_not_answer_ends_for_its_service_manager(server):
    (server.state / "workers.sock").unlink()
    assert server.process.wait(60) == 69
    assert "does not answer" in server.log()


def test_secret_of_an_attempt_goes_to_no_port_that_another_program_may_have(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    processes = eventually(20, lambda: processes_of(id_))
    coordinators = {environment["DOTRESIZE_COORDINATOR"] for environment in processes.values()}
    assert coordinators == {f"unix:{server.state}/workers.sock"}


def test_log_says_what_was_found_at_the_start_and_every_cancel_once(make_server, tmp_path):
    server = make_server("--max-ranks", "2")
    running = server.create(endless_spec(tmp_path / "running")).id
    queued = server.create(spec(tmp_path / "queued")).id
    eventually(10, lambda: server.get(queued).queue_position == 1)  # the other job has started
    for _ in range(2):
        server.cancel(queued)
    server.cancel(running)
    eventually(30, lambda: server.get(running).state == jobs_pb2.Job.CANCELLED)
    log = server.log()
    assert "at most 2 ranks at once; 0 queued, 0 running jobs" in log
    assert [line.split(": ")[-1] for line in log.splitlines() if queued in line and "cancel" in line] == [
        "cancelled while QUEUED"]


def test_a_queued_job_with_an_unknown_key_is_not_run_without_it(make_server, tmp_path):
    server = make_server()
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20)
    id_ = server.create(spec(tmp_path / "out")).id
    server.end(signal.SIGTERM)
    with sqlite3.connect(server.state / "jobs.sqlite") as table:
        (body,), = table.execute("SELECT body FROM jobs WHERE id = ?", [id_]).fetchall()
        job = jobs_pb2.Job.FromString(body)
        job.spec.method.MergeFromString(b"\x7a\x018")  # field 15, a retired key
        table.execute("UPDATE jobs SET body = ? WHERE id = ?", [job.SerializeToString(), id_])
    server.start()
    server.jobs.ResumeServer(jobs_pb2.ResumeServerRequest(), timeout=20)
    failed = server.wait(id_)
    assert failed.state == jobs_pb2.Job.FAILED
    assert "spec.method: has a field that this version does not know, number 15" in failed.error.message


def test_sigterm_ends_a_server_whose_threads_hang(make_server):
    server = make_server()
    ptrace = ctypes.CDLL(None).ptrace
    seize, interrupt, of_threads = 0x4206, 0x4207, 0x40000000
    threads = [int(thread) for thread in os.listdir(f"/proc/{server.process.pid}/task")]
    threads.remove(server.process.pid)
    for thread in threads:
        if ptrace(seize, thread, None, None) != 0:
            pytest.skip("threads of other processes cannot be stopped here")
        ptrace(interrupt, thread, None, None)
    server.process.send_signal(signal.SIGTERM)
    for thread in threads:
        while os.WIFSTOPPED(os.waitpid(thread, of_threads)[1]):
            pass
    assert server.process.wait(20) == 0
    assert "did not stop in time" in server.log()
