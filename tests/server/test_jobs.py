"""Tests of whole jobs: real workers under mpirun, killed, cancelled and found again."""

import contextlib
import ipaddress
import json
import os
import pathlib
import re
import signal
import threading
import time

import grpc
import numpy as np
import pytest
from conftest import (BINARIES, ENDED, endless_spec, eventually, few_tokens, jobs_pb2, long_spec, processes_of,
                      ranks_of, refused, script, spec)
from safetensors.numpy import save_file

Job = jobs_pb2.Job


@pytest.fixture
def server(make_server):
    return make_server("--max-ranks", "4", "--max-attempts", "1")


def check_nothing_is_left(job, tmp_path):
    assert processes_of(job.id) == {}
    assert list(tmp_path.glob("out*")) == []


def check_only_a_journal_is_left(job, tmp_path):
    """Checks that a job that failed during its work left a journal at most."""
    assert processes_of(job.id) == {}
    left = [path.relative_to(tmp_path) for path in tmp_path.glob("out*/*")]
    assert {str(path) for path in left} <= {"out.partial/journal"}


def states_of(server, job_id):
    return [event.state_change.state for event in server.watch(job_id)
            if event.HasField("state_change")]


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def open_addresses(pid):
    """Returns the addresses at which the process waits for TCP connections or UDP datagrams."""
    found = set()
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    for protocol, waiting in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        with open(f"/proc/{pid}/net/{protocol}") as table:
            for line in list(table)[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == waiting and f"socket:[{inode}]" in inodes:
                    digits = bytes.fromhex(local.split(":")[0])
                    words = b"".join(digits[i:i + 4][::-1] for i in range(0, len(digits), 4))
                    found.add(str(ipaddress.ip_address(words)))
    return found


def test_job_succeeds_with_its_numbers(server, tmp_path):
    tokens = few_tokens(tmp_path / "evaluation.safetensors")
    id_ = server.create(spec(tmp_path / "out", evaluation__tokens=tokens)).id
    log = []
    reader = threading.Thread(target=lambda: log.append(server.logs(id_, follow=True)))
    reader.start()
    events = list(server.watch(id_))
    reader.join(20)
    job = server.get(id_)
    assert job.state == Job.SUCCEEDED, (job, log)
    assert job.result.output_path == str(tmp_path / "out")
    assert job.result.compressed.parameters < job.result.dense.parameters
    assert 1 < job.result.dense.perplexity < job.result.compressed.perplexity
    assert job.attempt == 1
    assert job.end_time.seconds >= job.start_time.seconds >= job.create_time.seconds > 0
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    changes = [event.state_change.state for event in events if event.HasField("state_change")]
    assert changes == [Job.QUEUED, Job.STARTING, Job.RUNNING, Job.SUCCEEDED]
    assert any(event.HasField("progress") for event in events)
    assert log == [server.logs(id_)]
    assert server.logs(id_, offset=len(log[0]) - 3) == log[0][-3:]
    assert processes_of(id_) == {}


def test_no_rank_listens_beyond_this_host(server, tmp_path):
    id_ = server.create(endless_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    ranks = ranks_of(id_).values()
    assert len(ranks) == 2
    assert {address for pid in ranks for address in open_addresses(pid)} <= {"127.0.0.1", "::1"}
    server.cancel(id_)
    server.wait(id_)


def test_one_rank_runs_without_mpirun(make_server, tmp_path):
    server = make_server("--max-attempts", "1")
    id_ = server.create(endless_spec(tmp_path / "out", resources__ranks=1)).id
    server.wait_for_phase(id_, "calibrate")
    worker = [pid for pid in processes_of(id_)
              if command_line(pid).split(b"\0")[0].endswith(b"dotresize-worker")]
    assert len(processes_of(id_)) == 2, "supervisor and worker"
    assert {address for pid in worker for address in open_addresses(pid)} <= {"127.0.0.1", "::1"}
    os.kill(worker[0], signal.SIGSEGV)
    job = server.wait(id_)
    assert (job.error.code, job.error.rank, job.error.signal) == ("RANK_KILLED", 0, signal.SIGSEGV)
    check_only_a_journal_is_left(job, tmp_path)


def test_watch_that_breaks_off_resumes(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    stream = server.watch(id_)
    seen = [next(stream), next(stream)]
    stream.cancel()
    seen += list(server.watch(id_, after_seq=seen[-1].seq))
    assert seen == list(server.watch(id_))
    assert seen[-1].state_change.state == Job.SUCCEEDED


def test_killed_rank_fails_the_job_within_seconds_and_the_next_one_runs(server, tmp_path):
    job = server.create(long_spec(tmp_path / "out", resources__ranks=4))
    waiting = server.create(spec(tmp_path / "next"))
    server.wait_for_phase(job.id, "calibrate")
    os.kill(ranks_of(job.id)[3], signal.SIGKILL)
    job = server.wait(job.id, seconds=10)
    assert job.state == Job.FAILED
    assert job.error.code == "RANK_KILLED"
    assert job.error.rank == 3
    assert job.error.signal == signal.SIGKILL
    assert job.error.phase == "calibrate"
    assert job.error.host == os.uname().nodename
    assert "rank 3" in job.error.message and "Killed" in job.error.message
    check_only_a_journal_is_left(job, tmp_path)
    assert server.wait(waiting.id).state == Job.SUCCEEDED


def test_cancelled_job_leaves_no_rank(server, tmp_path):
    id_ = server.create(long_spec(tmp_path / "out", resources__ranks=4)).id
    server.wait_for_phase(id_, "calibrate")
    assert len(ranks_of(id_)) == 4
    assert server.cancel(id_).cancelling
    assert server.cancel(id_).id == id_
    job = server.wait(id_, seconds=30)
    assert job.state == Job.CANCELLED
    assert not job.cancelling
    check_nothing_is_left(job, tmp_path)
    assert server.cancel(id_).state == Job.CANCELLED


def test_ranks_that_do_not_react_are_cancelled_too(server, tmp_path):
    id_ = server.create(long_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    for pid in ranks_of(id_).values():
        os.kill(pid, signal.SIGSTOP)
    server.cancel(id_)
    job = server.wait(id_, seconds=30)
    assert job.state == Job.CANCELLED
    check_nothing_is_left(job, tmp_path)


def test_job_without_heartbeat_is_stopped(make_server, tmp_path):
    server = make_server("--heartbeat-timeout", "5", "--max-attempts", "1")
    id_ = server.create(long_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    os.kill(ranks_of(id_)[0], signal.SIGSTOP)
    job = server.wait(id_, seconds=40)
    assert job.state == Job.FAILED
    assert job.error.code == "LOST"
    assert "no heartbeat for 5 s" in job.error.message
    check_only_a_journal_is_left(job, tmp_path)


def test_a_rank_that_the_others_do_not_hear_is_lost(server, tmp_path):
    id_ = server.create(long_spec(tmp_path / "out", resources__ranks=4, resources__timeout_s=3)).id
    server.wait_for_phase(id_, "calibrate")
    os.kill(ranks_of(id_)[3], signal.SIGSTOP)
    job = server.wait(id_, seconds=40)
    assert (job.state, job.error.code) == (Job.FAILED, "LOST"), job
    assert re.search(r"rank 3 on \S+ has been silent for 3 s", job.error.message)
    check_only_a_journal_is_left(job, tmp_path)


@pytest.fixture
def late_server(make_server, tmp_path):
    """Starts a server whose jobs go on for a while after they have completed their output."""
    return make_server("--max-ranks", "4", DOTRESIZE_WORKER=script(
        tmp_path / "worker", f'{BINARIES}/dotresize-worker "$@" && exec sleep 300'))


def test_output_that_is_whole_is_a_success_if_its_processes_vanish(late_server, tmp_path):
    id_ = late_server.create(spec(tmp_path / "out")).id
    eventually(120, (tmp_path / "out").exists)
    for pid in processes_of(id_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job = late_server.wait(id_)
    assert job.state == Job.SUCCEEDED, job
    assert job.attempt == 1
    assert job.result.compressed.parameters < job.result.dense.parameters


def test_cancel_comes_too_late_for_an_output_that_is_whole(late_server, tmp_path):
    id_ = late_server.create(spec(tmp_path / "out")).id
    eventually(120, (tmp_path / "out").exists)
    late_server.cancel(id_)
    job = late_server.wait(id_)
    assert job.state == Job.SUCCEEDED, job
    assert not job.cancelling


def test_server_that_was_stopped_for_a_while_blames_no_job(make_server, tmp_path):
    server = make_server("--heartbeat-timeout", "5", "--max-ranks", "4")
    id_ = server.create(endless_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(7)
    server.process.send_signal(signal.SIGCONT)
    # By the time another job has ended, the scheduler has looked at all jobs.
    assert server.wait(server.create(spec(tmp_path / "next")).id).state == Job.SUCCEEDED
    assert server.get(id_).state == Job.RUNNING
    server.cancel(id_)
    assert server.wait(id_).state == Job.CANCELLED


def fail_after_a_junction(server, tmp_path):
    """Returns the id of a failed job with a journal."""
    id_ = server.create(spec(tmp_path / "out")).id
    journal = tmp_path / "out.partial" / "journal"
    eventually(120, lambda: list(journal.glob("junction-*.json")))
    os.kill(ranks_of(id_)[1], signal.SIGKILL)
    assert server.wait(id_).state == Job.FAILED
    return id_


def test_failed_job_goes_on_from_its_journal(server, tmp_path):
    id_ = fail_after_a_junction(server, tmp_path)
    assert [path.name for path in (tmp_path / "out.partial").iterdir()] == ["journal"]
    assert server.get(id_).unfinished_bytes > 0
    assert server.resume(id_).state == Job.QUEUED
    job = server.wait(id_)
    assert job.state == Job.SUCCEEDED
    assert job.attempt == 2
    assert not job.HasField("error")
    assert b"junctions are solved" in server.logs(id_)
    assert not (tmp_path / "out.partial").exists()
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.resume(id_)
    assert found[0] == "JOB_NOT_RESUMABLE"


def test_journal_of_a_failed_job_goes_with_the_job(server, tmp_path):
    id_ = fail_after_a_junction(server, tmp_path)
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=id_), timeout=20)
    assert not (tmp_path / "out.partial").exists()


def test_server_killed_after_the_acknowledgement_still_runs_the_job(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    server.kill_and_restart()
    assert server.wait(id_).state == Job.SUCCEEDED
    assert states_of(server, id_).count(Job.SUCCEEDED) == 1


def test_server_killed_while_a_job_runs_finds_it_again(server, tmp_path):
    id_ = server.create(long_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    before = ranks_of(id_)
    server.kill_and_restart()
    assert ranks_of(id_) == before
    job = server.wait(id_)
    assert job.state == Job.SUCCEEDED
    assert job.attempt == 1
    assert states_of(server, id_) == [Job.QUEUED, Job.STARTING, Job.RUNNING, Job.SUCCEEDED]


def test_end_of_a_job_is_not_missed_while_the_server_is_away(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    eventually(60, lambda: server.get(id_).state == Job.RUNNING)
    server.end(signal.SIGTERM)
    eventually(120, lambda: processes_of(id_) == {})
    server.start()
    assert server.wait(id_, seconds=10).state == Job.SUCCEEDED


def kill_all(id_):
    for pid in processes_of(id_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_job_whose_processes_vanish_is_started_again(make_server, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = make_server("--retry-delay", "0", TMPDIR=str(temporary))
    id_ = server.create(long_spec(tmp_path / "out", calibration__samples=24)).id  # the second attempt does all of it
    server.wait_for_phase(id_, "calibrate")
    assert list(pathlib.Path("/dev/shm").glob(f"*{id_}*/*")), "segments of its ranks"
    (directory,) = pathlib.Path("/dev/shm").glob(f"*{id_}*")
    assert re.fullmatch(rf"dotresize-{id_}-1-[0-9a-f]{{16}}", directory.name), "nobody can guess it"
    assert directory.stat().st_mode & 0o777 == 0o700
    kill_all(id_)  # like a crash of the machine
    eventually(60, lambda: server.get(id_).attempt == 2)
    job = server.wait(id_)
    assert job.state == Job.SUCCEEDED
    assert job.attempt == 2
    reasons = [event.state_change.reason for event in server.watch(id_)
               if event.state_change.state == Job.QUEUED]
    assert reasons == ["", "the processes of attempt 1 vanished"]
    assert not list(pathlib.Path("/dev/shm").glob(f"*{id_}*"))
    assert not list(temporary.iterdir()), "session files of MPI"

    alone = server.create(long_spec(tmp_path / "alone", resources__ranks=1)).id
    server.wait_for_phase(alone, "calibrate")
    kill_all(alone)
    server.cancel(alone)
    assert server.wait(alone).state == Job.CANCELLED
    assert not list(pathlib.Path("/dev/shm").glob(f"*{alone}*"))
    assert not list(temporary.iterdir()), "session files of MPI"


def test_job_with_a_killed_rank_waits_and_is_started_again(make_server, tmp_path):
    server = make_server("--retry-delay", "1")
    id_ = server.create(spec(tmp_path / "out")).id
    eventually(120, lambda: list((tmp_path / "out.partial/journal").glob("junction-*.json")))
    os.kill(ranks_of(id_)[1], signal.SIGKILL)
    job = server.wait(id_)
    assert job.state == Job.SUCCEEDED, job
    assert job.attempt == 2
    assert b"junctions are solved" in server.logs(id_)
    states = states_of(server, id_)
    assert states == [Job.QUEUED, Job.STARTING, Job.RUNNING] * 2 + [Job.SUCCEEDED]


def test_job_that_waits_for_another_attempt_can_be_cancelled(make_server, tmp_path):
    server = make_server("--retry-delay", "3600")
    id_ = server.create(spec(tmp_path / "out")).id
    eventually(120, lambda: list((tmp_path / "out.partial/journal").glob("junction-*.json")))
    os.kill(ranks_of(id_)[1], signal.SIGKILL)
    job = eventually(30, lambda: (job := server.get(id_)).state == Job.QUEUED and job)
    assert job.retry_time.seconds > job.create_time.seconds + 3000
    assert server.cancel(id_).state == Job.CANCELLED
    check_nothing_is_left(job, tmp_path)


def test_running_ranks_stay_within_the_limit_and_jobs_run_in_order(server, tmp_path):
    ids = [server.create(spec(tmp_path / f"out{i}", resources__ranks=3)).id for i in range(3)]

    def one_at_a_time():
        listed = server.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=100), timeout=20).jobs  # all at one moment
        states = [job.state for job in listed if job.id in ids]
        assert len(states) == len(ids)
        assert sum(state in (Job.STARTING, Job.RUNNING) for state in states) <= 1
        return all(state in ENDED for state in states)

    eventually(240, one_at_a_time)
    jobs = [server.get(id_) for id_ in ids]
    assert [job.state for job in jobs] == [Job.SUCCEEDED] * 3
    starts = [job.start_time.ToNanoseconds() for job in jobs]
    assert starts == sorted(starts)


def test_output_of_an_unfinished_job_is_taken(server, tmp_path):
    id_ = server.create(long_spec(tmp_path / "out")).id
    (tmp_path / "link").symlink_to(tmp_path)
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.create(spec(tmp_path / "link" / "out"))
    assert found[0] == "OUTPUT_IN_USE"
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=id_), timeout=20)
    assert found[0] == "JOB_NOT_ENDED"
    server.cancel(id_)
    server.wait(id_)


def test_a_token_file_with_another_header_is_refused_at_once(server, tmp_path):
    (tmp_path / "tokens.safetensors").write_bytes(b"\xff" * 64)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(spec(tmp_path / "out", calibration__tokens=str(tmp_path / "tokens.safetensors")))
    assert "tokens.safetensors" in found[1]["calibration.tokens"]


def test_bad_tokens_fail_the_job_as_invalid_input(server, tmp_path):
    save_file({"tokens": np.full((8, 64), 5000, dtype=np.int32)}, tmp_path / "tokens.safetensors")
    id_ = server.create(
        spec(tmp_path / "out", calibration__tokens=str(tmp_path / "tokens.safetensors"))).id
    job = server.wait(id_)
    assert job.state == Job.FAILED
    assert job.error.code == "INVALID_INPUT"
    assert "tokens.safetensors" in job.error.message
    check_nothing_is_left(job, tmp_path)


def test_name_of_any_characters_reaches_the_worker(server, tmp_path):
    england = "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F"
    name = f'{england} \\ud83c \u00e9 "\U0001F600"'
    job = server.wait(server.create(spec(tmp_path / "out", name=name)).id)
    assert job.state == Job.SUCCEEDED, job
    report = json.loads((tmp_path / "out/dotresize/report.json").read_text())
    assert name in json.dumps(report, ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")


def test_secrets_of_the_servers_environment_reach_no_rank(make_server, tmp_path):
    server = make_server(DOTRESIZE_TOKEN_FILE="/etc/tokens", DOTRESIZE_SECRET="hush", AWS_KEY="hush")
    id_ = server.create(endless_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    for environment in processes_of(id_).values():
        assert {"DOTRESIZE_TOKEN_FILE", "DOTRESIZE_SECRET", "AWS_KEY"}.isdisjoint(environment)
    server.cancel(id_)
    server.wait(id_)


def test_secret_of_an_attempt_is_in_no_file_and_no_command_line(server, tmp_path):
    id_ = server.create(long_spec(tmp_path / "out")).id
    server.wait_for_phase(id_, "calibrate")
    processes = processes_of(id_)
    secret = next(iter(processes.values()))["DOTRESIZE_ATTEMPT_TOKEN"].encode()
    assert len(secret) == 64
    for pid in processes:
        with open(f"/proc/{pid}/cmdline", "rb") as command_line:
            assert secret not in command_line.read()
    server.cancel(id_)
    server.wait(id_)
    for path in server.state.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes()
