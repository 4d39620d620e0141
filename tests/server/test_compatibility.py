"""Tests of state directories that servers of earlier commits have left (tests/data/compat/README.md)."""

import json
import os
import shutil
import sqlite3
import subprocess

import grpc
import pytest
from conftest import BINARIES, SOURCE, jobs_pb2, refused

DATA = SOURCE / "tests/data/compat"
EARLIER = ("146ac88", "f51f9d4")


def as_it_was(job):
    """Returns the job without keys that were added since. They must be empty for an earlier job."""
    assert job.pop("fetched") == []
    if "result" in job:
        assert job["result"].pop("warnings") == []
    return job


class Earlier:
    """The stored files of a commit, and a server on a copy of its state that starts no job."""

    def __init__(self, commit, tmp_path, make_server):
        self.data = DATA / commit
        self.jobs = json.loads((self.data / "jobs.json").read_text())["jobs"]
        for job in self.jobs:  # removes keys that were dropped or have no default any more; all jobs had the default
            assert job["spec"]["method"].pop("cost_scale") == "max"
            assert job["spec"]["resources"].pop("launcher") == "local"
        shutil.copytree(self.data / "state", tmp_path / "state0")
        (tmp_path / "state0").chmod(0o700)  # the mode that the server gives it
        (tmp_path / "state0/drained").touch()
        self.server = make_server()

    def list(self, *options):
        done = subprocess.run([BINARIES / "dotresize", "list", "-o", "json", *options], capture_output=True, check=True,
                              env={**os.environ, "DOTRESIZE_SERVER": self.server.endpoint})
        return [as_it_was(job) for job in json.loads(done.stdout)["jobs"]]

    def named(self, name):
        job, = (job for job in self.jobs if job["spec"]["name"] == name)
        return job


@pytest.fixture(params=EARLIER)
def earlier(request, make_server, tmp_path):
    return Earlier(request.param, tmp_path, make_server)


@pytest.fixture
def newest(make_server, tmp_path):
    return Earlier(EARLIER[-1], tmp_path, make_server)


def test_jobs_have_all_their_fields_unchanged(earlier):
    assert earlier.list() == earlier.jobs


def test_events_end_with_the_state_of_the_job(earlier):
    for job in earlier.jobs:
        if job["state"] == "QUEUED":
            continue
        events = list(earlier.server.watch(job["id"]))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert jobs_pb2.Job.State.Name(events[-1].state_change.state) == job["state"]


def test_logs_are_read_whole(earlier):
    for job in earlier.jobs:
        if job["attempt"] > 0:
            log = earlier.data / "state/jobs" / job["id"] / "log"
            assert earlier.server.logs(job["id"]) == log.read_bytes() != b""


def test_request_is_known_and_its_job_can_be_deleted(make_server, tmp_path):
    earlier = Earlier(EARLIER[0], tmp_path, make_server)
    server = earlier.server
    job = server.get(earlier.jobs[0]["id"])
    assert server.create(job.spec, job.request_id).id == job.id
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=job.id), timeout=20)
    with refused(grpc.StatusCode.NOT_FOUND):
        server.get(job.id)
    assert not (server.state / "jobs" / job.id).exists()


def test_queue_owners_labels_and_sweeps_are_kept(newest):
    server = newest.server
    first, waiting, sweep = (newest.named(name) for name in ("first", "waiting", "sweeping"))
    assert [server.get(job["id"]).queue_position for job in (first, waiting)] == [1, 2]
    assert newest.list("--label", "team=nlp", "--state", "queued") == [waiting]
    assert newest.list("--owner", "ann") == newest.jobs and not newest.list("--owner", "ben")
    assert server.jobs.GetSweep(jobs_pb2.GetSweepRequest(id=sweep["id"]), timeout=20).job.sweep_size.jobs == 2
    server.cancel(first["id"])
    assert server.get(waiting["id"]).queue_position == 1


def test_a_queued_job_with_a_key_that_is_gone_is_not_run_without_it(make_server, tmp_path):
    waiting, = (job for job in json.loads((DATA / EARLIER[-1] / "jobs.json").read_text())["jobs"]
                if job["spec"]["name"] == "waiting")
    shutil.copytree(DATA / EARLIER[-1] / "state", tmp_path / "state0")
    (tmp_path / "state0").chmod(0o700)
    with sqlite3.connect(tmp_path / "state0/jobs.sqlite") as table:
        (body,), = table.execute("SELECT body FROM jobs WHERE id = ?", [waiting["id"]]).fetchall()
        job = jobs_pb2.Job.FromString(body)
        job.spec.method.MergeFromString(b"\x7a\x018")  # shortcuts: "8"
        table.execute("UPDATE jobs SET body = ? WHERE id = ?", [job.SerializeToString(), waiting["id"]])
    server = make_server()
    failed = server.wait(waiting["id"])
    assert failed.state == jobs_pb2.Job.FAILED
    assert "spec.method: has a field that this version does not know, number 15" in failed.error.message
