"""Tests of the scheduler: GPUs, memory, priorities, backfill, drain, deadlines."""

import json
import re
import time

import grpc
import pytest
from chaos.faults import Clock
from conftest import (ENDED, details, eventually, job_pb2, jobs_pb2, processes_of, refused, script, spec,
                      tell_progress)

Job = jobs_pb2.Job
GPU = {"resources__device": job_pb2.Resources.cuda, "resources__ranks": 4}
ONE = {"resources__device": job_pb2.Resources.cpu, "resources__ranks": 1}


@pytest.fixture
def make_patient_server(make_server, tmp_path):
    """Starts a server whose jobs wait until they are cancelled, or until a file `go` exists."""
    worker = script(tmp_path / "worker", f"until test -e {tmp_path}/go; do sleep 0.2; done; exit 65")
    return lambda *options, **environment: make_server(*options, DOTRESIZE_WORKER=worker, **environment)


def create(server, job_spec, **options):
    job = server.jobs.CreateJob(
        jobs_pb2.CreateJobRequest(spec=job_spec, options=jobs_pb2.JobOptions(**options)), timeout=20)
    server.ids.add(job.id)
    return job.id


def ranks(server, id_, count):
    """Waits until all workers of the job run. Returns their environments."""
    def found():
        workers = [environment for pid, environment in processes_of(id_).items() if is_worker(pid)]
        return len(workers) == count and workers
    return eventually(30, found)


def is_worker(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return command.read().startswith(b"/bin/sh\0")
    except OSError:
        return False


def waits_for(server, id_, text):
    """Waits until the scheduler gives this reason for the job. Returns the job."""
    def told():
        job = server.get(id_)
        assert job.state == Job.QUEUED, job
        return text in job.waiting_for and job
    return eventually(20, told)


def test_jobs_lease_disjoint_gpus_and_a_small_one_is_backfilled(make_patient_server, tmp_path):
    server = make_patient_server("--max-ranks", "16", "--memory", "1TiB", CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7")
    first, second, third = (server.create(spec(tmp_path / f"out{i}", **GPU)).id for i in range(3))
    small = server.create(spec(tmp_path / "small", **ONE)).id
    leases = {}
    for id_ in (first, second):
        visible = {environment["CUDA_VISIBLE_DEVICES"] for environment in ranks(server, id_, 4)}
        assert visible == {server.get(id_).gpus}, "all ranks see those of the job"
        leases[id_] = set(visible.pop().split(","))
    assert leases[first] | leases[second] == set("01234567")
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in ranks(server, small, 1)] == [""]
    job = waits_for(server, third, "4 GPUs (0 free)")
    assert job.queue_position == 1

    def is_counted():
        info = server.jobs.GetServerInfo(jobs_pb2.GetServerInfoRequest(), timeout=20)
        assert (info.capacity.gpus, info.queued_jobs, info.running_jobs) == (8, 1, 3)
        return (info.used.gpus, info.used.ranks) == (8, 9)

    eventually(20, is_counted)
    server.kill_and_restart()
    waits_for(server, third, "4 GPUs (0 free)")
    server.cancel(second)
    visible = {environment["CUDA_VISIBLE_DEVICES"] for environment in ranks(server, third, 4)}
    assert set(visible.pop().split(",")) == leases[second], "the leases of earlier jobs are known"
    for id_ in (first, third, small):
        server.cancel(id_)


def test_backfill_leaves_what_the_head_needs(make_patient_server, tmp_path):
    server = make_patient_server("--max-ranks", "4", CUDA_VISIBLE_DEVICES="")
    running = server.create(spec(tmp_path / "out0", resources__ranks=2)).id
    environment = ranks(server, running, 2)[0]
    head = server.create(spec(tmp_path / "out1", resources__ranks=3)).id
    small = server.create(spec(tmp_path / "out2", **ONE)).id
    waits_for(server, head, "3 ranks (2 free)")
    assert waits_for(server, small, "1 ranks (0 free beside").queue_position == 2
    assert not server.get(head).HasField("expected_start_time"), "nobody knows"
    tell_progress(environment, phase="calibrate", eta_s=500)
    eventually(20, lambda: server.get(head).HasField("expected_start_time"))
    assert 490 < server.get(head).expected_start_time.seconds - time.time() < 510
    assert not server.get(small).HasField("expected_start_time")
    server.cancel(head)
    ranks(server, small, 1)
    for id_ in (running, small):
        server.cancel(id_)


def test_higher_priority_comes_first(make_patient_server, tmp_path):
    server = make_patient_server("--max-ranks", "1")
    running = server.create(spec(tmp_path / "out", **ONE)).id
    ranks(server, running, 1)
    ids = {priority: create(server, spec(tmp_path / f"out{priority}", **ONE), priority=priority)
           for priority in (-1, 0, 7)}
    assert [server.get(ids[priority]).queue_position for priority in (7, 0, -1)] == [1, 2, 3]
    (tmp_path / "go").touch()
    for id_ in ids.values():
        server.wait(id_)
    begun = re.findall(r"job (\S+): attempt 1 with", server.log())
    assert begun == [running, ids[7], ids[0], ids[-1]]


def test_memory_of_the_plan_is_leased(make_patient_server, tmp_path):
    server = make_patient_server()
    checked = server.jobs.CreateJob(
        jobs_pb2.CreateJobRequest(spec=spec(tmp_path / "out", **ONE), validate_only=True), timeout=20)
    assert checked.memory_bytes > 100 << 20
    server = make_patient_server("--memory", str(checked.memory_bytes * 5 // 2))
    ids = [server.create(spec(tmp_path / f"out{i}", **ONE)).id for i in range(3)]
    for id_ in ids[:2]:
        ranks(server, id_, 1)
        with open(server.state / "jobs" / id_ / "job.json") as file:
            assert int(json.load(file)["resources"]["memory"]) == checked.memory_bytes * 5 // 2
    waits_for(server, ids[2], " of memory (")
    for id_ in ids:
        server.cancel(id_)
    server = make_patient_server("--memory", "1MiB")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(spec(tmp_path / "out", **ONE))
    assert "resources.memory" in found[1]


def test_job_that_needs_more_gpus_than_there_are_is_refused_or_takes_the_cpu(make_patient_server, tmp_path):
    server = make_patient_server("--memory", "1TiB", CUDA_VISIBLE_DEVICES="0,1")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(spec(tmp_path / "out", **GPU))
    assert "CUDA_VISIBLE_DEVICES" in found[1]["resources.device"]
    id_ = server.create(spec(tmp_path / "out", resources__ranks=3)).id
    assert {environment["CUDA_VISIBLE_DEVICES"] for environment in ranks(server, id_, 3)} == {""}
    server.cancel(id_)


def test_drained_server_starts_nothing_also_after_a_restart(make_patient_server, tmp_path):
    server = make_patient_server()
    running = server.create(spec(tmp_path / "out0", **ONE)).id
    ranks(server, running, 1)
    assert server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20).drained
    waiting = server.create(spec(tmp_path / "out1", **ONE)).id
    waits_for(server, waiting, "the server is drained")
    server.kill_and_restart()
    waits_for(server, waiting, "the server is drained")
    assert server.get(running).state not in ENDED, "it goes on"
    resumed = server.jobs.ResumeServer(jobs_pb2.ResumeServerRequest(), timeout=20)
    assert not resumed.drained and resumed.paused == ""
    ranks(server, waiting, 1)
    audit = [json.loads(line)["method"] for line in (server.state / "audit.jsonl").read_text().splitlines()]
    assert audit == ["CreateJob", "DrainServer", "CreateJob", "ResumeServer"]
    for id_ in (running, waiting):
        server.cancel(id_)


def test_job_is_stopped_at_its_deadline(make_patient_server, tmp_path):
    server = make_patient_server()
    job = server.wait(create(server, spec(tmp_path / "out", **ONE), deadline_s=1))
    assert (job.state, job.error.code) == (Job.FAILED, "DEADLINE_EXCEEDED")
    assert processes_of(job.id) == {}


def is_forgotten(server, id_):
    try:
        server.get(id_)
    except grpc.RpcError as error:
        return details(error)[0] == "JOB_NOT_FOUND"
    return False


def test_job_whose_time_after_the_end_is_over_is_forgotten(make_patient_server, tmp_path):
    server = make_patient_server()
    (tmp_path / "go").touch()
    kept = create(server, spec(tmp_path / "out0", **ONE), ttl_seconds_after_finished=3600)
    gone = create(server, spec(tmp_path / "out1", **ONE), ttl_seconds_after_finished=0)
    server.wait(kept)
    eventually(30, lambda: is_forgotten(server, gone))
    assert not (server.state / "jobs" / gone).exists()
    assert server.get(kept).state == Job.FAILED


def test_job_is_kept_as_long_as_it_asks_whatever_the_clock_says(make_patient_server, tmp_path):
    clock = Clock(tmp_path / "clock")
    server = make_patient_server(**clock.environment())
    (tmp_path / "go").touch()
    kept = create(server, spec(tmp_path / "out0", **ONE), ttl_seconds_after_finished=3600)
    server.wait(kept)
    for jump in (2 * 86400, -86400):
        clock.set(jump)
        eventually(20, lambda: server.log().count("the clock was set by") >= (1 if jump > 0 else 2))
        gone = create(server, spec(tmp_path / f"out{jump}", **ONE), ttl_seconds_after_finished=0)
        eventually(30, lambda: is_forgotten(server, gone))
        assert server.get(kept).state == Job.FAILED
    server.kill_and_restart()
    gone = create(server, spec(tmp_path / "out1", **ONE), ttl_seconds_after_finished=0)
    eventually(30, lambda: is_forgotten(server, gone))
    assert server.get(kept).state == Job.FAILED, "the next server begins with another clock"


def test_jobs_are_listed_by_label(make_patient_server, tmp_path):
    server = make_patient_server("--max-ranks", "1")
    ids = [create(server, spec(tmp_path / f"out{i}", **ONE), labels={"team": team, "round": str(i)})
           for i, team in enumerate(["a", "b", "a"])]

    def listed(size=0, token="", **labels):
        return server.jobs.ListJobs(jobs_pb2.ListJobsRequest(
            page_size=size, page_token=token, filter=jobs_pb2.ListJobsRequest.Filter(labels=labels)), timeout=20)

    assert [job.id for job in listed(team="a").jobs] == [ids[2], ids[0]]
    assert [job.id for job in listed(team="a", round="0").jobs] == [ids[0]]
    assert not listed(team="c").jobs
    page = listed(1, team="a", round="2")
    assert not page.next_page_token
    page = listed(1, team="a")
    assert [job.id for job in listed(1, page.next_page_token, team="a").jobs] == [ids[0]]
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        listed(1, page.next_page_token, team="b")
    for id_ in ids:
        server.cancel(id_)


@pytest.mark.parametrize("options", [
    {"priority": 101}, {"deadline_s": 0}, {"labels": {"": "a"}}, {"labels": {"a": "b c"}},
    {"labels": {"a" * 64: "b"}}, {"labels": {f"k{i}": "" for i in range(17)}}], ids=str)
def test_bad_options_are_refused_with_their_field(make_patient_server, tmp_path, options):
    server = make_patient_server()
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        create(server, spec(tmp_path / "out", **ONE), **options)
    assert list(found[1]) == [f"options.{next(iter(options))}"]


def leases_in(log):
    """Returns {GPU: [(begin, end), ...]} of the attempts that wrote the log, in their order."""
    attempts = {}
    for line in log.read_text().splitlines():
        attempt, gpu, moment, what = line.split(",")
        attempts.setdefault((attempt, gpu), {})[what] = float(moment)
    leases = {}
    for (_, gpu), moments in attempts.items():
        leases.setdefault(gpu, []).append((moments["begin"], moments["end"]))
    return {gpu: sorted(moments) for gpu, moments in leases.items()}


def test_leases_stay_disjoint_over_kills_of_the_server(make_server, tmp_path):
    def note(what):
        return f'echo "$DOTRESIZE_JOB_ID-$DOTRESIZE_ATTEMPT,$CUDA_VISIBLE_DEVICES,$(date +%s.%N),{what}" >> {tmp_path}/log'

    server = make_server("--max-ranks", "5", "--memory", "1TiB", CUDA_VISIBLE_DEVICES="0,1,2", DOTRESIZE_WORKER=script(
        tmp_path / "worker", f"{note('begin')}; sleep 0.3; {note('end')}; exit 65"))
    ids = []
    for i in range(24):
        device = job_pb2.Resources.cpu if i % 3 == 0 else job_pb2.Resources.cuda
        ids.append(server.create(spec(tmp_path / f"out{i}", resources__ranks=1, resources__device=device)).id)
        if i % 5 == 4:
            server.kill_and_restart()
    for id_ in ids:
        assert server.wait(id_).error.code == "INVALID_INPUT"
        ends = [event for event in server.watch(id_) if event.state_change.state in ENDED]
        assert len(ends) == 1
    leases = leases_in(tmp_path / "log")
    assert {"", "0", "1"} <= leases.keys() <= {"", "0", "1", "2"}
    for gpu in leases.keys() - {""}:
        for (_, end), (begin, _) in zip(leases[gpu], leases[gpu][1:]):
            assert end <= begin, f"two jobs had GPU {gpu} at once"
    eventually(20, lambda: server.jobs.GetServerInfo(
        jobs_pb2.GetServerInfoRequest(), timeout=20).used == jobs_pb2.ResourceAmounts())
