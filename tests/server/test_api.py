"""Tests of the Jobs API from a client's view. The worker of these jobs fails at once, or sleeps."""

import concurrent.futures
import signal
import subprocess

import grpc
import pytest
from conftest import ENDED, SOURCE, Server, job_pb2, jobs_pb2, refused, script, spec

Change = jobs_pb2.JobChange
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def server(make_server):
    return make_server("--max-ranks", "4", DOTRESIZE_WORKER="/bin/false")


@pytest.fixture(scope="module")
def idle_server(tmp_path_factory):
    """Returns a server shared by the tests whose every call is refused."""
    server = Server(tmp_path_factory.mktemp("idle") / "state", "--max-ranks", "4")
    yield server.start()
    server.close()


def not_a_model(path):
    path = path / "model"
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "gpt2"}')
    return str(path)


HOSTILE_SPECS = {
    "endless name": ("name", {"name": "n" * 101}),
    "control characters in the name": ("name", {"name": "a\x1b[2Jb"}),
    "C1 control in the name": ("name", {"name": "a\x9b2Jb"}),
    "text direction in the name": ("name", {"name": "a\u202eb"}),
    "relative model": ("model.path", {"model__path": "examples/docs-llama"}),
    "model with a NUL": ("model.path", {"model__path": "/tmp/a\0b"}),
    "no such model": ("model.path", {"model__path": "/no/such/model"}),
    "other architecture": ("model.path", {"model__path": not_a_model}),
    "endless path": ("output.path", {"output__path": "/" + "p" * 5000}),
    "root as output": ("output.path", {"output__path": "/"}),
    "output is the model": ("output.path",
                            {"output__path": str(SOURCE / "examples/docs-llama")}),
    "reserved output": ("output.path", {"output__path": "/tmp/a.partial"}),
    "both widths": ("method.sparsity", {"method__width": 64}),
    "sparsity of one": ("method.sparsity", {"method__sparsity": 1.0}),
    "sparsity that is no number": ("method.sparsity", {"method__sparsity": float("nan")}),
    "nothing is left": ("method.sparsity", {"method__sparsity": 0.999}),
    "unknown method": ("method.name", {"method__name": 99}),
    "negative lambda": ("method.lambda", {"method__lambda": -1.0}),
    "no such tokens": ("calibration.tokens", {"calibration__tokens": "/no/such/tokens"}),
    "text and tokens": ("calibration.text", {"calibration__text": ["/tmp/a.txt"]}),
    "no samples": ("calibration.samples", {"calibration__samples": 0}),
    "windows beyond the model": ("calibration.seqlen", {"calibration__seqlen": 4096}),
    "no ranks": ("resources.ranks", {"resources__ranks": 0}),
    "more ranks than sublayers": ("resources.ranks", {"resources__ranks": 13}),
    "more ranks than the server has": ("resources.ranks", {"resources__ranks": 5}),
}


@pytest.mark.parametrize("field, changes", HOSTILE_SPECS.values(), ids=HOSTILE_SPECS.keys())
def test_bad_spec_is_refused_with_its_field(idle_server, tmp_path, field, changes):
    changes = {key: value(tmp_path) if callable(value) else value
               for key, value in changes.items()}
    with refused(INVALID) as found:
        idle_server.create(spec(tmp_path / "out", **changes))
    reason, fields = found
    assert reason == "INVALID_FIELD"
    assert field in fields
    assert len(fields[field]) > 5
    assert not idle_server.jobs.ListJobs(jobs_pb2.ListJobsRequest()).jobs


HOSTILE_REQUESTS = {
    "no id": ("id", "GetJob", jobs_pb2.GetJobRequest()),
    "endless id": ("id", "GetJob", jobs_pb2.GetJobRequest(id="j" * 65)),
    "id with control characters": ("id", "CancelJob", jobs_pb2.CancelJobRequest(id="a\0b")),
    "negative page": ("page_size", "ListJobs", jobs_pb2.ListJobsRequest(page_size=-1)),
    "foreign page token": ("page_token", "ListJobs", jobs_pb2.ListJobsRequest(page_token="7")),
    "unknown state": ("filter.states", "ListJobs",
                      jobs_pb2.ListJobsRequest(filter={"states": [42]})),
    "request id with blanks": ("request_id", "CreateJob",
                               jobs_pb2.CreateJobRequest(request_id="a b", spec=spec("/tmp/x"))),
    "endless request id": ("request_id", "CreateJob",
                           jobs_pb2.CreateJobRequest(request_id="r" * 129, spec=spec("/tmp/x"))),
    "empty request": ("model.path", "CreateJob", jobs_pb2.CreateJobRequest()),
    "endless spec": ("spec", "CreateJob", jobs_pb2.CreateJobRequest(
        spec=spec("/tmp/x", calibration__text=["/" + "t" * 4000] * 100))),
}


@pytest.mark.parametrize(
    "field, method, request_", HOSTILE_REQUESTS.values(), ids=HOSTILE_REQUESTS.keys())
def test_bad_request_is_refused_with_its_field(idle_server, field, method, request_):
    with refused(INVALID) as found:
        getattr(idle_server.jobs, method)(request_, timeout=20)
    assert field in found[1]


@pytest.mark.parametrize("field, method, request_", [
    ("after_seq", "WatchJob", jobs_pb2.WatchJobRequest(id="j-0", after_seq=-1)),
    ("offset", "GetLogs", jobs_pb2.GetLogsRequest(id="j-0", offset=-1)),
    ("tail_bytes", "GetLogs", jobs_pb2.GetLogsRequest(id="j-0", tail_bytes=-1)),
    ("limit_bytes", "GetLogs", jobs_pb2.GetLogsRequest(id="j-0", limit_bytes=-1)),
    ("cursor", "WatchJobs", jobs_pb2.WatchJobsRequest(cursor="0.1.2")),
    ("filter.states", "WatchJobs", jobs_pb2.WatchJobsRequest(filter={"states": [42]})),
])
def test_bad_stream_request_is_refused_with_its_field(idle_server, field, method, request_):
    with refused(INVALID) as found:
        list(getattr(idle_server.jobs, method)(request_, timeout=20))
    assert field in found[1]


def test_message_beyond_the_limit_is_refused(server):
    with pytest.raises(grpc.RpcError) as caught:
        server.jobs.GetJob(jobs_pb2.GetJobRequest(id="j" * (2 << 20)), timeout=20)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_unknown_job_is_not_found_by_any_method(server):
    id_ = "j-0123456789abcdef"
    calls = [
        lambda: server.get(id_),
        lambda: server.cancel(id_),
        lambda: server.resume(id_),
        lambda: server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=id_), timeout=20),
        lambda: list(server.watch(id_)),
        lambda: server.logs(id_),
    ]
    for call in calls:
        with refused(grpc.StatusCode.NOT_FOUND) as found:
            call()
        assert found[0] == "JOB_NOT_FOUND"


def test_validate_only_stores_nothing(server, tmp_path):
    job = server.jobs.CreateJob(
        jobs_pb2.CreateJobRequest(spec=spec(tmp_path / "out"), validate_only=True), timeout=20)
    assert job.id == ""
    assert job.spec.name == "test"
    assert not server.jobs.ListJobs(jobs_pb2.ListJobsRequest()).jobs


def test_server_without_a_worker_does_not_start(server):
    server.end(signal.SIGTERM)
    environment = server.environment | {"DOTRESIZE_WORKER": "/no/such/worker"}
    done = subprocess.run(server.command, env=environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 69
    assert "/no/such/worker" in done.stderr


def test_request_id_sent_twice_gives_one_job(server, tmp_path):
    wanted = spec(tmp_path / "out")
    first = server.create(wanted, "r-1")
    server.wait(first.id)
    (tmp_path / "out").mkdir()  # like an output that the job made
    assert server.create(wanted, "r-1").id == first.id
    with refused(grpc.StatusCode.ALREADY_EXISTS) as found:
        server.create(spec(tmp_path / "out", name="other"), "r-1")
    assert found[0] == "REQUEST_ID_REUSED"
    assert len(server.jobs.ListJobs(jobs_pb2.ListJobsRequest()).jobs) == 1


def test_a_job_without_a_name_has_that_of_its_output(server, tmp_path):
    wanted = spec(f"{tmp_path}/llama-80/", name="")
    first = server.create(wanted, "r-1")
    assert server.get(first.id).spec.name == "llama-80"
    server.wait(first.id)
    again = server.create(wanted, "r-1")
    assert (again.id, again.already_submitted) == (first.id, True)


def test_a_server_expands_no_home_directory(server):
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.create(spec("~/out"))
    assert found[1]["output.path"] == "'~/out' is not an absolute path; ~ is not expanded here"


def test_request_id_sent_by_many_at_once_gives_one_job(server, tmp_path):
    wanted = spec(tmp_path / "out")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = list(pool.map(lambda _: server.create(wanted, "same"), range(32)))
    assert len({job.id for job in jobs}) == 1


def test_existing_output_is_refused_unless_it_may_be_overwritten(server, tmp_path):
    (tmp_path / "out/dotresize").mkdir(parents=True)
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.create(spec(tmp_path / "out"))
    assert found[0] == "OUTPUT_EXISTS"
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.create(spec(tmp_path / "out", output__overwrite=True))
    assert found[0] == "OUTPUT_FOREIGN"
    (tmp_path / "out/dotresize/report.json").write_text("{}")
    server.create(spec(tmp_path / "out", output__overwrite=True))


def test_directory_of_somebody_else_is_never_taken_for_an_unfinished_output(server, tmp_path):
    thesis = tmp_path / "out.partial/thesis"
    thesis.parent.mkdir()
    thesis.write_text("only copy")
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.create(spec(tmp_path / "out"))
    assert found[0] == "OUTPUT_FOREIGN"
    assert thesis.read_text() == "only copy"


def test_paths_outside_the_allowed_roots_are_denied(make_server, tmp_path):
    inside = tmp_path / "root"
    inside.mkdir()
    server = make_server("--allow-root", str(inside), "--allow-root", str(SOURCE))
    (inside / "link").symlink_to(tmp_path)
    for output in (tmp_path / "out", inside / "link" / "out", inside / ".." / "out"):
        with refused(grpc.StatusCode.PERMISSION_DENIED) as found:
            server.create(spec(output))
        assert found[0] == "PATH_NOT_ALLOWED"
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        server.create(spec(inside / "out", model__path="/etc"))
    (inside / "model").mkdir()
    (inside / "model/config.json").symlink_to("/etc/passwd")
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        server.create(spec(inside / "out", model__path=str(inside / "model")))
    assert server.create(spec(inside / "out")).id


def test_no_job_touches_the_paths_of_another(make_server, tmp_path):
    server = make_server("--max-ranks", "2",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_bytes((SOURCE / "examples/docs-llama/config.json").read_bytes())
    (model / "dotresize").mkdir()
    (model / "dotresize/report.json").write_text("{}")
    id_ = server.create(spec(tmp_path / "x", model__path=str(model))).id
    for output in ("x/b", "x.partial/b", "model"):
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
            server.create(spec(tmp_path / output, output__overwrite=True))
        assert found[0] == "OUTPUT_IN_USE", output
    server.cancel(id_)


def test_pages_are_newest_first_and_stable(server, tmp_path):
    ids = [server.create(spec(tmp_path / f"out{i}", name=f"n{i % 2}")).id for i in range(5)]
    for id_ in ids:
        server.wait(id_)
    first = server.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=3))
    server.create(spec(tmp_path / "later"))
    second = server.jobs.ListJobs(
        jobs_pb2.ListJobsRequest(page_size=3, page_token=first.next_page_token))
    assert [job.id for job in first.jobs] + [job.id for job in second.jobs] == ids[::-1]
    assert second.next_page_token == ""
    named = server.jobs.ListJobs(jobs_pb2.ListJobsRequest(
        filter={"name": "n1", "states": [jobs_pb2.Job.FAILED]}))
    assert [job.id for job in named.jobs] == [ids[3], ids[1]]


def test_list_lowers_its_page_and_leaves_specs_out_on_demand(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out", name="named")).id
    server.wait(id_)
    request = jobs_pb2.ListJobsRequest(page_size=2_000_000_000, view=jobs_pb2.ListJobsRequest.BASIC)
    job, = server.jobs.ListJobs(request, timeout=20).jobs
    assert (job.id, job.state, job.spec) == (id_, server.get(id_).state, type(job.spec)(name="named"))


def test_part_of_a_log(make_server, tmp_path):
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", "printf 0123456789; exit 1"))
    id_ = server.create(spec(tmp_path / "out", resources__ranks=1)).id
    server.wait(id_)

    def log(**part):
        chunks = server.jobs.GetLogs(jobs_pb2.GetLogsRequest(id=id_, **part), timeout=20)
        return b"".join(chunk.data for chunk in chunks)

    assert log(tail_bytes=3) == b"789"
    assert log(tail_bytes=99, limit_bytes=4) == b"0123"
    assert log(tail_bytes=3, offset=8, follow=True) == b"89"
    assert log(limit_bytes=0) == log(tail_bytes=0) == b""


def test_watch_replays_from_where_it_was_left(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    events = list(server.watch(id_))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[0].state_change.state == jobs_pb2.Job.QUEUED
    assert events[-1].state_change.state == jobs_pb2.Job.FAILED
    assert list(server.watch(id_, after_seq=1)) == events[1:]
    assert list(server.watch(id_, after_seq=1000)) == []


def watch_all(server, cursor=None, **filter_):
    return server.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(filter=filter_, cursor=cursor), timeout=60)


def until(stream, done):
    """Reads the stream until done(changes). Returns the changes."""
    changes = []
    for change in stream:
        changes.append(change)
        if done(changes):
            return changes
    raise AssertionError(changes)


def is_synced(changes):
    return changes[-1].kind == Change.SYNCED


def states_by_id(changes):
    states = {}
    for change in changes:
        states.setdefault(change.job.id, []).append(change.job.state)
    return states


def test_watch_over_all_jobs_brings_every_change_of_each_in_order(server, tmp_path):
    stream = watch_all(server)
    assert [change.kind for change in until(stream, is_synced)] == [Change.LISTING, Change.SYNCED]
    ids = [server.create(spec(tmp_path / f"out{i}", resources__ranks=1)).id for i in range(8)]

    def all_ended(changes):
        return sum(change.job.state in ENDED for change in changes) == len(ids)

    changes = until(stream, all_ended)
    assert {change.kind for change in changes} == {Change.CHANGED}
    assert states_by_id(changes) == {
        id_: [event.state_change.state for event in server.watch(id_)] for id_ in ids}
    assert all(change.job.spec == job_pb2.JobSpec(name="test") for change in changes)
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=ids[3]), timeout=20)
    gone, = until(stream, bool)
    assert (gone.kind, gone.job.id) == (Change.DELETED, ids[3])


def test_watch_over_all_jobs_misses_none_over_a_reconnect_and_a_restart(server, tmp_path):
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20)
    ids = [server.create(spec(tmp_path / f"out{i}")).id for i in range(70)]
    stream = watch_all(server)
    listed = until(stream, is_synced)
    assert [change.job.id for change in listed[1:-1]] == ids[::-1]
    stream.cancel()
    ids.append(server.create(spec(tmp_path / "later")).id)
    server.cancel(ids[0])
    stream = watch_all(server, listed[-1].cursor)
    assert [(change.kind, change.job.id) for change in until(stream, lambda changes: len(changes) == 2)] == [
        (Change.CHANGED, ids[-1]), (Change.CHANGED, ids[0])]
    server.process.send_signal(signal.SIGTERM)
    with refused(grpc.StatusCode.UNAVAILABLE) as found:
        next(stream)
    assert found[0] == "SERVER_STOPPING"
    assert server.end(signal.SIGTERM) == 0
    server.start()
    again = until(watch_all(server, listed[-1].cursor), is_synced)
    assert [change.job.id for change in again[1:-1]] == ids[::-1]
    assert again[-2].job.state == jobs_pb2.Job.CANCELLED


def test_watch_over_all_jobs_keeps_to_its_filter(server, tmp_path):
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20)

    def create(name, team):
        request = jobs_pb2.CreateJobRequest(spec=spec(tmp_path / name, name=name),
                                            options=jobs_pb2.JobOptions(labels={"team": team}))
        return server.jobs.CreateJob(request, timeout=20).id

    first = create("first", "nlp")
    stream = watch_all(server, labels={"team": "nlp"}, states=[jobs_pb2.Job.QUEUED])
    changes = until(stream, is_synced)
    server.cancel(create("other", "vision"))
    server.cancel(first)
    create("last", "nlp")
    changes += until(stream, lambda changes: changes[-1].job.spec.name == "last")
    assert [(change.kind, change.job.spec.name) for change in changes] == [
        (Change.LISTING, ""), (Change.LISTED, "first"), (Change.SYNCED, ""), (Change.LEFT, "first"),
        (Change.CHANGED, "last")]
    with refused(INVALID) as found:
        next(watch_all(server, changes[-1].cursor))
    assert "cursor" in found[1], "it is that of another filter"


def test_ended_job_can_be_deleted_and_is_forgotten(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    server.wait(id_)
    assert (server.state / "jobs" / id_).is_dir()
    server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(id=id_), timeout=20)
    assert not (server.state / "jobs" / id_).exists()
    with refused(grpc.StatusCode.NOT_FOUND):
        server.get(id_)


def test_delete_of_a_missing_job_is_no_error_on_demand(server):
    request = jobs_pb2.DeleteJobRequest(id="j-0", allow_missing=True)
    server.jobs.DeleteJob(request, timeout=20)
    with refused(INVALID):
        server.jobs.DeleteJob(jobs_pb2.DeleteJobRequest(allow_missing=True), timeout=20)


def test_acknowledged_jobs_survive_a_kill(server, tmp_path):
    ids = [server.create(spec(tmp_path / f"out{i}")).id for i in range(3)]
    server.kill_and_restart()
    for id_ in ids:
        assert server.wait(id_).error.code == "RANK_FAILED"


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_state_directory_that_others_can_enter_is_refused(server, mode):
    server.end(signal.SIGTERM)
    server.state.chmod(mode)
    done = subprocess.run(server.command, env=server.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 69
    assert "chmod 700" in done.stderr
    server.state.chmod(0o700)
    server.start()


def test_second_server_on_a_state_directory_is_refused(server):
    second = subprocess.run(
        server.command, env=server.environment, capture_output=True, text=True, timeout=20)
    assert second.returncode == 75
    assert "in use by another dotresize-server" in second.stderr


def test_second_server_on_an_address_is_refused(server, tmp_path):
    command = [*server.command]
    command[command.index("--listen") + 1] = server.endpoint
    command[command.index("--state") + 1] = str(tmp_path / "other")
    second = subprocess.run(
        command, env=server.environment, capture_output=True, text=True, timeout=20)
    assert second.returncode == 69
    assert f"cannot listen on {server.endpoint}" in second.stderr


@pytest.mark.parametrize("path, message", [
    ("spec", b"\xf8\x06\x01"),  # field 111
    ("spec.resources", b"\x3a\x03\xf8\x06\x01"),
])
def test_field_that_this_server_does_not_know_is_refused(server, tmp_path, path, message):
    wanted = spec(tmp_path / "out")
    wanted.MergeFromString(message)
    with refused(INVALID) as found:
        server.create(wanted)
    assert "111" in found[1][path]


def test_log_beyond_its_end_is_empty(server, tmp_path):
    id_ = server.create(spec(tmp_path / "out")).id
    server.wait(id_)
    assert server.logs(id_, offset=2**63 - 1) == b""


def test_content_of_a_file_that_is_no_json_is_not_quoted(idle_server, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"a": s3cret:x:19000}')
    with refused(INVALID) as found:
        idle_server.create(spec(tmp_path / "out", model__path=str(tmp_path / "model")))
    assert "JSON" in found[1]["model.path"]
    assert "s3" not in found[1]["model.path"]


def test_sigterm_ends_the_server_well(server):
    assert server.end(signal.SIGTERM) == 0


def test_a_server_that_does_not_start_leaves_nothing_to_end(tmp_path):
    server = Server(tmp_path / "state", "--max-ranks", "0")
    with pytest.raises(AssertionError):
        server.start()
    server.close()
    assert server.process is None


def test_endpoint_file_with_garbage_is_no_obstacle(server):
    server.end(signal.SIGTERM)
    for garbage in ("127.0.0.1:99999999999\n", "127.0.0.1:\n", "\xff\n", ""):
        (server.state / "endpoint").write_text(garbage)
        server.start()
        server.end(signal.SIGTERM)
    server.start()


def test_health_and_reflection_answer(server):
    check = server.channel.unary_unary("/grpc.health.v1.Health/Check")
    for service in (b"", b"dotresize.v1.Jobs", b"dotresize.v1.Workers"):
        request = b"\x0a" + bytes([len(service)]) + service if service else b""
        assert check(request, timeout=20) == b"\x08\x01"  # SERVING
    reflect = server.channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    answer = next(reflect(iter([b"\x3a\x00"]), timeout=20))  # list_services
    assert b"dotresize.v1.Jobs" in answer
