"""Tests of what outlasts a call: permissions end with their token, and a directory says itself whose it is."""

import json
import shutil
import signal
import subprocess
import time

import grpc
import pytest
from conftest import PROGRAM, eventually, few_tokens, jobs_pb2, processes_of, refused, script, spec, sweep_pb2
from test_security import Client, audit_of, tokens  # noqa: F401
from test_web import Browser
from test_webhooks import Notification, listen, secret  # noqa: F401

Job = jobs_pb2.Job
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNKNOWN = grpc.StatusCode.UNAUTHENTICATED


def token_command(file, *words):
    return subprocess.run([PROGRAM, "token", "--tokens", file, *words], capture_output=True, text=True, timeout=60)


def change_line(server, file, name, line=""):
    """Replaces the line of a NAME, as an operator does with an editor, and has the server read the file again."""
    rows = [row for row in file.read_text().splitlines() if row.split()[0] != name]
    digits = next(row.split()[2] for row in file.read_text().splitlines() if row.split()[0] == name)
    file.write_text("\n".join([*rows, *([f"{name} {line} {digits}"] if line else [])]) + "\n")
    count = server.log().count("reloaded the tokens")
    server.process.send_signal(signal.SIGHUP)
    eventually(20, lambda: server.log().count("reloaded the tokens") > count)


def ends_with(stream, seconds=5):
    """Reads the stream to its end, which must come within the seconds. Returns its code and the messages."""
    begin, messages = time.monotonic(), []
    try:
        for message in stream:
            messages.append(message)
        code = grpc.StatusCode.OK
    except grpc.RpcError as error:
        code = error.code()
    assert time.monotonic() - begin < seconds, "it goes on"
    return code, messages


@pytest.fixture
def server(make_server, tokens, tmp_path):  # noqa: F811
    """Has pages; its jobs run until they are cancelled."""
    return make_server("--tokens", str(tokens[0]), "--http", "127.0.0.1:0", DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))


def test_session_ends_with_the_line_of_its_token_and_falls_with_its_role(server, tokens):  # noqa: F811
    file, secrets = tokens
    root, ann = Browser(server.http), Browser(server.http)
    assert root.sign_in(secrets["root"])[0] == ann.sign_in(secrets["ann"])[0] == 303
    form = {"form_token": root.form_token("/")}
    change_line(server, file, "root", "read")
    assert "root (read)" in root.page("/") and root.fetch("/server/drain", form)[0] == 403
    change_line(server, file, "root")
    assert root.fetch("/server/drain", form)[0] == root.fetch("/")[0] == 401
    assert root.fetch("/sign-out", form)[0] == 401
    assert "ann (submit)" in ann.page("/")
    assert not any(line["method"] == "DrainServer" and line["allowed"] for line in audit_of(server))


def test_streams_end_with_the_line_of_their_token(server, tokens, tmp_path):  # noqa: F811
    file, secrets = tokens
    eve, ben = (Client(server, secrets[name]).metadata for name in ("eve", "ben"))
    id_ = Client(server, secrets["ann"]).create(spec(tmp_path / "out", resources__ranks=1)).id
    eventually(20, lambda: processes_of(id_))

    def streams(metadata):
        return [server.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(), timeout=60, metadata=metadata),
                server.jobs.WatchJob(jobs_pb2.WatchJobRequest(id=id_), timeout=60, metadata=metadata),
                server.jobs.GetLogs(jobs_pb2.GetLogsRequest(id=id_, follow=True), timeout=60, metadata=metadata)]
    of_eve, of_ben = streams(eve), streams(ben)
    for stream in [*of_eve[:2], *of_ben[:2]]:
        next(stream)
    before = len(audit_of(server))
    change_line(server, file, "eve")
    for stream in of_eve:
        assert ends_with(stream)[0] == UNKNOWN
    lines = audit_of(server)[before:]
    assert sorted(line["method"] for line in lines) == ["GetLogs", "WatchJob", "WatchJobs"] and not any(line["allowed"] for line in lines)
    Client(server, secrets["ann"]).call("CancelJob", jobs_pb2.CancelJobRequest(id=id_))
    assert ends_with(of_ben[1], 20)[1][-1].state_change.state == Job.CANCELLED
    assert ends_with(of_ben[2], 20)[0] == grpc.StatusCode.OK
    of_ben[0].cancel()


def test_file_that_is_being_sent_stops_with_the_line_of_the_token(make_server, tokens, tmp_path):  # noqa: F811
    file, secrets = tokens
    worker = script(tmp_path / "worker", "head -c 60000000 /dev/zero; exit 1")
    server = make_server("--tokens", str(file), DOTRESIZE_WORKER=worker)
    ann = Client(server, secrets["ann"])
    id_ = ann.create(spec(tmp_path / "out", resources__ranks=1)).id
    eventually(30, lambda: ann.get(id_).state == Job.FAILED)
    stream = server.jobs.GetArtifact(jobs_pb2.GetArtifactRequest(id=id_, name="log"), timeout=60,
                                     metadata=Client(server, secrets["eve"]).metadata)
    next(stream)
    change_line(server, file, "eve")
    code, chunks = ends_with(stream, 20)
    assert code == UNKNOWN and sum(len(chunk.data) for chunk in chunks) < 50_000_000


def test_webhooks_are_sent_for_those_alone_who_may_still_submit(make_server, tokens, listen, secret, tmp_path):  # noqa: F811
    file, secrets = tokens
    listener = listen([500] * 3)
    server = make_server("--tokens", str(file), "--allow-webhook", listener.origin, "--webhook-secret", secret,
                         DOTRESIZE_WORKER="/bin/false")

    def end(name):
        request = jobs_pb2.CreateJobRequest(spec=spec(tmp_path / name, resources__ranks=1))
        request.options.notify.webhook = f"{listener.origin}/{name}"
        return Client(server, secrets[name]).call("CreateJob", request).id

    def notification(id_):
        return Client(server, secrets["root"]).get(id_).notification
    ids = {name: end(name) for name in ("ann", "ben", "root")}
    eventually(20, lambda: len(listener.messages) >= 3)
    change_line(server, file, "ann")
    change_line(server, file, "ben", "read")
    told = [eventually(30, lambda: (found := notification(ids[name])).state == Notification.GIVEN_UP and found) for name in ("ann", "ben")]
    assert {found.last_error for found in told} == {"its owner has no token any more with which jobs may be submitted"}
    eventually(30, lambda: notification(ids["root"]).state == Notification.DELIVERED)


def test_jobs_go_on_without_their_owners_token(make_server, tokens, tmp_path):  # noqa: F811
    file, secrets = tokens
    server = make_server("--tokens", str(file), "--max-ranks", "1",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 65"))
    ann, root = (Client(server, secrets[name]) for name in ("ann", "root"))
    ids = [ann.create(spec(tmp_path / f"out{i}", resources__ranks=1)).id for i in range(2)]
    eventually(20, lambda: processes_of(ids[0]))
    change_line(server, file, "ann")
    (tmp_path / "go").touch()
    for id_ in ids:
        eventually(20, lambda: root.get(id_).error.code == "INVALID_INPUT")


@pytest.fixture
def working(make_server, tokens, tmp_path):  # noqa: F811
    """Runs the real worker, beneath one directory."""
    (tmp_path / "models").mkdir()
    return make_server("--tokens", str(tokens[0]))


def small(output, **changes):
    return spec(output, **{"resources__ranks": 1, **changes})


def wait(client, id_):
    return eventually(60, lambda: (job := client.get(id_)).state in (Job.SUCCEEDED, Job.FAILED) and job)


def content_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_directory_stays_its_owners_when_its_job_is_forgotten(working, tokens, tmp_path):  # noqa: F811
    server, secrets = working, tokens[1]
    ann, ben, root = (Client(server, secrets[name]) for name in ("ann", "ben", "root"))
    made = tmp_path / "models/out"
    id_ = ann.create(small(made)).id
    assert wait(ann, id_).state == Job.SUCCEEDED
    ann.call("DeleteJob", jobs_pb2.DeleteJobRequest(id=id_))
    assert json.loads((made / "dotresize/owner.json").read_text()) == {"job_id": id_, "attempt": 1, "owner": "ann"}
    before = content_of(made)

    def is_refused(client, job_spec):
        with refused(DENIED) as found:
            client.call("CreateJob", jobs_pb2.CreateJobRequest(spec=job_spec, validate_only=True))
        assert found[0] == "NOT_THE_OWNER"
        return True
    again = small(made, output__overwrite=True)
    assert is_refused(ben, again) and is_refused(ben, small(made / "inside")), "it is not even written into"
    for client in (ann, root):
        client.call("CreateJob", jobs_pb2.CreateJobRequest(spec=again, validate_only=True))
    (made / "dotresize/owner.json").unlink()
    assert is_refused(ann, again) and is_refused(ben, again), "nobody's is the admins'"
    root.call("CreateJob", jobs_pb2.CreateJobRequest(spec=again, validate_only=True))
    (made / "dotresize/owner.json").write_bytes(before["dotresize/owner.json"])
    # Ann's journal is not taken over, nor her unfinished statistics.
    for name in ("next.partial/journal", "sums.partial"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "owner.json").write_bytes(before["dotresize/owner.json"])
        (tmp_path / "models" / name / "map-0.json").write_text("{}")
    assert is_refused(ben, small(tmp_path / "models/next"))
    assert is_refused(ben, small(tmp_path / "models/other", calibration__statistics__save=str(tmp_path / "models/sums")))
    assert content_of(made) == before


def test_what_appears_after_the_admission_is_its_owners_too(working, tokens, tmp_path):  # noqa: F811
    """The worker looks at the directories again. Its right comes from the server, and a job file has no key for it."""
    server, secrets = working, tokens[1]
    ben, root = (Client(server, secrets[name]) for name in ("ben", "root"))
    root.call("DrainServer", jobs_pb2.DrainServerRequest())
    mark = json.dumps({"job_id": "j-0", "attempt": 1, "owner": "ann"})
    ids = {name: ben.create(small(tmp_path / "models" / name, output__overwrite=True)).id for name in ("whole", "unfinished")}
    folders = [tmp_path / "models/whole/dotresize", tmp_path / "models/unfinished.partial/journal"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "owner.json").write_text(mark)
        (folder / "report.json").write_text("{}")
    root.call("ResumeServer", jobs_pb2.ResumeServerRequest())
    for id_ in ids.values():
        job = wait(ben, id_)
        assert (job.state, job.error.code) == (Job.FAILED, "INVALID_INPUT") and "belongs to 'ann'" in job.error.message
    assert all(content_of(folder) == {"owner.json": mark.encode(), "report.json": b"{}"} for folder in folders)
    with refused(DENIED):
        ben.call("ResumeJob", jobs_pb2.ResumeJobRequest(id=ids["whole"], fresh=True))


def test_sweep_removes_no_model_of_another_owner(working, tokens, tmp_path):  # noqa: F811
    server, secrets = working, tokens[1]
    ann, ben, root = (Client(server, secrets[name]) for name in ("ann", "ben", "root"))
    base = small(tmp_path / "models/sweep", evaluation__tokens=few_tokens(tmp_path / "models/tokens.safetensors"))
    request = jobs_pb2.CreateSweepRequest(spec=base, sweep=sweep_pb2.SweepSpec(keep=sweep_pb2.SweepSpec.all))
    request.sweep.axes.add(key="method.sparsity").values.extend([0.3])
    id_ = ann.call("CreateSweep", request).job.id
    assert wait(ann, id_).state == Job.SUCCEEDED
    ann.call("DeleteJob", jobs_pb2.DeleteJobRequest(id=id_))
    before = content_of(tmp_path / "models/sweep")
    models = [name for name in before if name.endswith("dotresize/owner.json")]
    assert len(models) == 1 and all(json.loads(before[name])["owner"] == "ann" for name in ["owner.json", *models])
    request.sweep.keep = sweep_pb2.SweepSpec.none
    with refused(DENIED) as found:
        ben.call("CreateSweep", request)
    assert found[0] == "NOT_THE_OWNER" and content_of(tmp_path / "models/sweep") == before
    shutil.rmtree(tmp_path / "models/sweep")
    root.call("DrainServer", jobs_pb2.DrainServerRequest())
    late = ben.call("CreateSweep", request).job.id
    for name, content in before.items():
        (tmp_path / "models/sweep" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "models/sweep" / name).write_bytes(content)
    root.call("ResumeServer", jobs_pb2.ResumeServerRequest())
    assert wait(ben, late).error.code == "INVALID_INPUT"
    assert content_of(tmp_path / "models/sweep") == before


def test_request_ids_are_each_owners_own(server, tokens, tmp_path):  # noqa: F811
    ann, ben = (Client(server, tokens[1][name]) for name in ("ann", "ben"))
    of_ann = ann.create(spec(tmp_path / "a", resources__ranks=1), "nightly-1").id
    of_ben = ben.create(spec(tmp_path / "b", resources__ranks=1), "nightly-1").id
    assert of_ann != of_ben
    assert ben.create(spec(tmp_path / "b", resources__ranks=1), "nightly-1").id == of_ben


def test_tokens_that_are_made_side_by_side_all_arrive_and_revoked_ones_stay_so(tokens):  # noqa: F811
    file = tokens[0]
    for round_ in range(4):
        before = file.read_text().splitlines()
        names = [f"new-{round_}-{i}" for i in range(9)]
        commands = [["ann" if round_ == 0 else f"new-{round_ - 1}-0", "--revoke"], ["ben", "--rotate"], *([name, "submit"] for name in names)]
        running = [subprocess.Popen([PROGRAM, "token", "--tokens", file, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for words in commands]
        assert all(process.wait(60) == 0 for process in running), [process.stderr.read() for process in running]
        after = [row.split()[0] for row in file.read_text().splitlines()]
        kept = {row.split()[0] for row in before} - {commands[0][0]}
        assert set(after) == kept | set(names) and all(after.count(name) == 1 for name in names)
    assert token_command(file, "ann", "--revoke").returncode == 64, "it has none any more"
    assert token_command(file, "eve", "--revoke", "--rotate").returncode == 64
    assert sorted(path.name for path in file.parent.glob("tokens*")) == ["tokens"]
