"""A state directory that a server of an earlier commit has left (tests/data/compat/README.md)."""

import json
import os
import shutil
import subprocess

import grpc
import pytest
from conftest import BINARIES, SOURCE, jobs_pb2, refused

DATA = SOURCE / "tests/data/compat"
JOBS = json.loads((DATA / "jobs.json").read_text())["jobs"]


@pytest.fixture
def server(make_server, tmp_path):
    shutil.copytree(DATA / "state", tmp_path / "state0")
    (tmp_path / "state0").chmod(0o700)  # as the server has made it
    return make_server()


def test_jobs_have_all_their_fields_unchanged(server):
    listed = subprocess.run([BINARIES / "dotresize", "list", "-o", "json"], capture_output=True, check=True,
                            env={**os.environ, "DOTRESIZE_SERVER": server.endpoint})
    assert json.loads(listed.stdout)["jobs"] == JOBS


def test_events_end_with_the_state_of_the_job(server):
    for job in JOBS:
        events = list(server.watch(job["id"]))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert jobs_pb2.Job.State.Name(events[-1].state_change.state) == job["state"]


def test_logs_are_read_whole(server):
    for job in JOBS:
        assert server.logs(job["id"]) == (DATA / "state/jobs" / job["id"] / "log").read_bytes() != b""


def test_request_is_known_and_its_job_can_be_deleted(server):
    job = server.get(JOBS[0]["id"])
    assert server.create(job.spec, job.request_id).id == job.id
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=job.id), timeout=20)
    with refused(grpc.StatusCode.NOT_FOUND):
        server.get(job.id)
    assert not (server.state / "jobs" / job.id).exists()
