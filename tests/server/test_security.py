"""Tests of access to the server, and of each caller's permissions."""

import json
import os
import shutil
import signal
import ssl
import subprocess

import grpc
import pytest
from conftest import (BINARIES, PROGRAM, Authority, Server, eventually, free_port, jobs_pb2, jobs_pb2_grpc, openssl,
                      processes_of, refused, script, spec)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "own")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture
def secure_server(make_server, authority):
    """Starts a server that accepts only clients with a certificate of the authority."""
    return make_server("--tls", str(authority.folder_of("server", "client-ca.crt")), DOTRESIZE_WORKER="/bin/false")


def list_jobs(server, authority, client=None):
    certificate, key = (path.read_bytes() for path in client) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), key, certificate)
    with grpc.secure_channel(server.endpoint, credentials) as channel:
        return jobs_pb2_grpc.JobsStub(channel).ListJobs(jobs_pb2.ListJobsRequest(), timeout=20)


def is_turned_away(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_ranks_elsewhere_call_only_the_server_of_their_attempts_authority(make_server, authority, stranger, tmp_path):
    server = make_server("--tls", str(authority.folder_of("ranks", "ca.crt")), "--launcher", "external",
                         "--workers", f"127.0.0.1:{free_port()}")
    server.channel = grpc.secure_channel(
        server.endpoint, grpc.ssl_channel_credentials(authority.certificate.read_bytes()))
    server.jobs = jobs_pb2_grpc.JobsStub(server.channel)
    id_ = server.create(spec(tmp_path / "out")).id
    command = eventually(20, lambda: server.get(id_).command)
    file = server.state / "jobs" / id_ / "attempt-1/attempt.json"
    attempt = json.loads(file.read_text())
    alone = command.split()[3:]  # one of the job's two ranks
    file.write_text(json.dumps({**attempt, "ca": stranger.certificate.read_text()}))
    assert subprocess.run(alone, capture_output=True, timeout=60).returncode == 1
    assert server.get(id_).state == jobs_pb2.Job.STARTING, "it has told nobody"
    file.write_text(json.dumps(attempt))
    assert subprocess.run(alone, capture_output=True, timeout=60).returncode == 1
    job = server.wait(id_)
    assert (job.state, job.error.code) == (jobs_pb2.Job.FAILED, "RANK_FAILED")
    assert "the job has 2 ranks, but MPI knows of 1" in job.error.message


def test_client_with_a_certificate_is_served(secure_server, authority):
    assert not list_jobs(secure_server, authority, authority.issue("client")).jobs


def test_client_without_a_certificate_of_the_authority_is_turned_away(secure_server, authority, stranger):
    assert is_turned_away(lambda: list_jobs(secure_server, authority))
    assert is_turned_away(lambda: list_jobs(secure_server, authority, stranger.issue("client")))
    assert is_turned_away(lambda: secure_server.jobs.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20))


def test_connection_ends_with_the_authority_that_let_it_in(make_server, authority, stranger):
    folder = authority.folder_of("changing", "client-ca.crt")
    server = make_server("--tls", str(folder), DOTRESIZE_WORKER="/bin/false")
    client = authority.issue("leaving")
    certificate, key = (path.read_bytes() for path in client)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), key, certificate)
    with grpc.secure_channel(server.endpoint, credentials) as channel:
        stream = jobs_pb2_grpc.JobsStub(channel).WatchJobs(jobs_pb2.WatchJobsRequest(), timeout=60)
        assert [next(stream).kind for _ in range(2)] == [jobs_pb2.JobChange.LISTING, jobs_pb2.JobChange.SYNCED]
        shutil.copy(stranger.certificate, folder / "client-ca.crt")
        server.process.send_signal(signal.SIGHUP)
        assert is_turned_away(lambda: next(stream))
    assert is_turned_away(lambda: list_jobs(server, authority, client))
    assert not list_jobs(server, authority, stranger.issue("coming")).jobs


def test_expired_certificate_is_turned_away(secure_server, authority):
    assert is_turned_away(lambda: list_jobs(secure_server, authority, authority.issue("old", days=-1)))


def test_client_does_not_talk_to_a_server_of_another_authority(secure_server, authority, stranger):
    assert is_turned_away(lambda: list_jobs(secure_server, stranger, authority.issue("client")))


def test_command_line_has_a_certificate(secure_server, authority):
    certificate, key = authority.issue("cli")
    command = [BINARIES / "dotresize", "list", "-o", "json", "--server", secure_server.endpoint]
    tls = ["--tls-ca", authority.certificate, "--cert", certificate, "--key", key]
    assert subprocess.run([*command, *tls], capture_output=True, timeout=60).returncode == 0
    environment = os.environ | {"DOTRESIZE_TLS_CA": str(authority.certificate),
                                "DOTRESIZE_CERT": str(certificate), "DOTRESIZE_KEY": str(key)}
    assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == 0
    plain = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert plain.returncode == 69 and "a server with TLS needs --tls-ca" in plain.stderr
    assert subprocess.run([*command, "--cert", certificate], capture_output=True, timeout=60).returncode == 65


class Client:
    """A client that calls with one token."""

    def __init__(self, server, token):
        self.server = server
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def call(self, method, request):
        answer = getattr(self.server.jobs, method)(request, timeout=20, metadata=self.metadata)
        return list(answer) if method in ("WatchJob", "WatchJobs", "GetLogs") else answer

    def create(self, job_spec, request_id=""):
        job = self.call("CreateJob", jobs_pb2.CreateJobRequest(spec=job_spec, request_id=request_id))
        self.server.ids.add(job.id)
        return job

    def get(self, id_):
        return self.call("GetJob", jobs_pb2.GetJobRequest(id=id_))


@pytest.fixture
def tokens(tmp_path):
    """Returns {name: secret} of clients with these roles, and the file with their hashes."""
    file = tmp_path / "tokens"

    def make(name, role):
        done = subprocess.run([PROGRAM, "token", "--tokens", file, name, role],
                              capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()

    secrets = {name: make(name, role) for name, role in
               {"ann": "submit", "ben": "submit", "eve": "read", "root": "admin"}.items()}
    return file, secrets


@pytest.fixture
def server_with_tokens(make_server, tokens, tmp_path):
    worker = script(tmp_path / "worker", "sleep 300")
    return make_server("--tokens", str(tokens[0]), DOTRESIZE_WORKER=worker)


def audit_of(server):
    return [json.loads(line) for line in (server.state / "audit.jsonl").read_text().splitlines()]


def calls_on(id_):
    """Returns a request for every method on a job, and whether it changes something."""
    return [("GetJob", jobs_pb2.GetJobRequest(id=id_), False),
            ("ListJobs", jobs_pb2.ListJobsRequest(), False),
            ("WatchJob", jobs_pb2.WatchJobRequest(id=id_), False),
            ("WatchJobs", jobs_pb2.WatchJobsRequest(), False),
            ("GetLogs", jobs_pb2.GetLogsRequest(id=id_), False),
            ("GetSweep", jobs_pb2.GetSweepRequest(id=id_), False),
            ("CreateJob", jobs_pb2.CreateJobRequest(spec=spec("/tmp/none")), True),
            ("CreateSweep", jobs_pb2.CreateSweepRequest(spec=spec("/tmp/none")), True),
            ("CancelJob", jobs_pb2.CancelJobRequest(id=id_), True),
            ("ResumeJob", jobs_pb2.ResumeJobRequest(id=id_), True),
            ("DeleteJob", jobs_pb2.DeleteJobRequest(id=id_), True)]


@pytest.mark.parametrize("token", ["", "0" * 64, "ann", "Bearer"])
def test_call_without_a_known_token_is_refused_and_written_down(server_with_tokens, tokens, tmp_path, token):
    server = server_with_tokens
    id_ = Client(server, tokens[1]["ann"]).create(spec(tmp_path / "out")).id
    before = len(audit_of(server))
    calls = calls_on(id_)
    for method, request, _ in calls:
        with refused(grpc.StatusCode.UNAUTHENTICATED) as found:
            Client(server, token).call(method, request)
        assert found[0] == "BAD_TOKEN"
    lines = audit_of(server)[before:]
    assert [line["method"] for line in lines] == [method for method, _, _ in calls]
    assert not any(line["allowed"] or line["caller"] for line in lines)
    assert Client(server, tokens[1]["ann"]).get(id_).state != jobs_pb2.Job.CANCELLED


def test_role_and_owner_decide_what_a_client_may_do(server_with_tokens, tokens, tmp_path):
    server = server_with_tokens
    ann, ben, eve, root = (Client(server, tokens[1][name]) for name in ("ann", "ben", "eve", "root"))
    id_ = ann.create(spec(tmp_path / "out", resources__ranks=1), "r").id
    assert ann.get(id_).owner == "ann"
    for method, request, changes in calls_on(id_):
        if not changes:
            if method not in ("WatchJob", "WatchJobs", "GetSweep"):  # the first two have no end; the job is not a sweep
                eve.call(method, request)
            continue
        with refused(grpc.StatusCode.PERMISSION_DENIED) as found:
            eve.call(method, request)
        assert found[0] == "ROLE_TOO_LOW"
        if method.startswith("Create"):
            continue
        with refused(grpc.StatusCode.PERMISSION_DENIED) as found:
            ben.call(method, request)
        assert found[0] == "NOT_THE_OWNER"
    ann.call("CancelJob", jobs_pb2.CancelJobRequest(id=id_))
    eventually(20, lambda: eve.get(id_).state == jobs_pb2.Job.CANCELLED)
    root.call("DeleteJob", jobs_pb2.DeleteJobRequest(id=id_))
    done = [(line["method"], line["caller"]) for line in audit_of(server) if line["allowed"]]
    assert done == [("CreateJob", "ann"), ("CancelJob", "ann"), ("DeleteJob", "root")]
    denied = [(line["method"], line["caller"], line["job"]) for line in audit_of(server) if not line["allowed"]]
    assert ("CancelJob", "ben", id_) in denied and ("DeleteJob", "eve", id_) in denied


def test_nobody_overwrites_what_anothers_job_has_made(server_with_tokens, tokens, tmp_path):
    server = server_with_tokens
    ann, ben, root = (Client(server, tokens[1][name]) for name in ("ann", "ben", "root"))
    id_ = ann.create(spec(tmp_path / "first", resources__ranks=1)).id
    made = tmp_path / "out/dotresize"
    made.mkdir(parents=True)
    (made / "report.json").write_text("{}")
    (made / "owner.json").write_text(json.dumps({"job_id": id_, "attempt": 1, "owner": "ann"}))
    again = spec(tmp_path / "out", resources__ranks=1, output__overwrite=True)
    with refused(grpc.StatusCode.PERMISSION_DENIED) as found:
        ben.create(again)
    assert found[0] == "NOT_THE_OWNER"
    for client in (ann, root):
        client.call("CreateJob", jobs_pb2.CreateJobRequest(spec=again, validate_only=True))


def said_of(client):
    with pytest.raises(grpc.RpcError) as caught:
        client.call("ListJobs", jobs_pb2.ListJobsRequest())
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    return caught.value.details()


def test_a_missing_token_and_a_wrong_one_are_told_apart(server_with_tokens):
    assert "carries no token" in said_of(Client(server_with_tokens, ""))
    assert "is unknown to this server" in said_of(Client(server_with_tokens, "0" * 64))


def test_a_token_that_nobody_has_seen_changes_nothing(tokens):
    file, _ = tokens
    before = file.read_bytes()
    for request in (["zoe", "read"], ["ann", "--rotate"]):
        for sink in (">/dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", f'exec "$@" {sink}', "sh", PROGRAM, "token", "--tokens", file, *request],
                                  capture_output=True, text=True, timeout=20)
            assert done.returncode == 1 and "cannot write to standard output" in done.stderr, done
            assert file.read_bytes() == before


def test_a_token_is_rotated_while_the_server_runs(server_with_tokens, tokens):
    file, secrets = tokens

    def rotate(name):
        done = subprocess.run([PROGRAM, "token", "--tokens", file, name, "--rotate"],
                              capture_output=True, text=True, timeout=20)
        return done.returncode, done.stdout.strip()

    def lets_in(secret):
        try:
            Client(server_with_tokens, secret).call("ListJobs", jobs_pb2.ListJobsRequest())
        except grpc.RpcError:
            return False
        return True

    code, second = rotate("ann")
    assert code == 0 and not lets_in(second)
    server_with_tokens.process.send_signal(signal.SIGHUP)
    eventually(20, lambda: lets_in(second))
    assert lets_in(secrets["ann"]), "until the next rotation"
    third = rotate("ann")[1]
    server_with_tokens.process.send_signal(signal.SIGHUP)
    eventually(20, lambda: lets_in(third))
    assert lets_in(second) and not lets_in(secrets["ann"]) and lets_in(secrets["ben"])
    assert rotate("nobody")[0] == 64
    file.write_text("no token file")
    server_with_tokens.process.send_signal(signal.SIGHUP)
    eventually(20, lambda: "the tokens stay unchanged" in server_with_tokens.log())
    assert lets_in(third)


def test_a_certificate_is_replaced_while_the_server_runs(make_server, authority, tmp_path):
    """The new certificate serves calls and pages. One that does not fit its key changes nothing, nor does an authority of clients
    that was not there at the start."""
    folder = tmp_path / "tls"

    def install(name):
        """Installs a certificate. Returns its text, as a server shows it."""
        shutil.copytree(authority.folder_of(name), folder, dirs_exist_ok=True)
        return (folder / "tls.crt").read_text()

    def shown():
        hosts = (server.endpoint, server.http.partition("://")[2])
        return {ssl.get_server_certificate(host.split(":")) for host in hosts}
    first = install("first")
    server = make_server("--tls", folder, "--http", "127.0.0.1:0", DOTRESIZE_WORKER="/bin/false")
    with grpc.secure_channel(server.endpoint, grpc.ssl_channel_credentials(authority.certificate.read_bytes())) as channel:
        jobs = jobs_pb2_grpc.JobsStub(channel)
        jobs.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20)
        assert shown() == {first}
        second = install("second")
        assert shown() == {first}
        server.process.send_signal(signal.SIGHUP)
        eventually(20, lambda: shown() == {second})
        jobs.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20)  # still over the connection from before
    shutil.copy(authority.certificate, folder / "client-ca.crt")
    server.process.send_signal(signal.SIGHUP)
    eventually(20, lambda: "client-ca.crt is new, which takes a restart" in server.log())
    shutil.copy(authority.issue("third")[0], folder / "tls.crt")
    server.process.send_signal(signal.SIGHUP)
    eventually(20, lambda: "is not the key of" in server.log())
    assert server.log().count("the certificates stay unchanged") == 2 and shown() == {second}


def test_denied_calls_do_not_fill_the_audit_log(server_with_tokens):
    before = len(audit_of(server_with_tokens))
    stranger = Client(server_with_tokens, "0" * 64)
    for _ in range(400):
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            stranger.call("ListJobs", jobs_pb2.ListJobsRequest())
    assert len(audit_of(server_with_tokens)) - before < 250


def test_too_few_open_files_are_refused_at_the_start(tmp_path):
    done = subprocess.run(["prlimit", "--nofile=80:80", PROGRAM, "--listen", "127.0.0.1:0", "--state", tmp_path / "state"],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and "80 is too low" in done.stderr and "LimitNOFILE" in done.stderr


def test_watch_of_an_owners_jobs_tells_of_no_others(server_with_tokens, tokens, tmp_path):
    server = server_with_tokens
    ann, ben = (Client(server, tokens[1][name]) for name in ("ann", "ben"))
    stream = server.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(filter={"owner": "ann"}), timeout=60,
                                   metadata=ann.metadata)
    assert [next(stream).kind for _ in range(2)] == [jobs_pb2.JobChange.LISTING, jobs_pb2.JobChange.SYNCED]
    foreign = ben.create(spec(tmp_path / "out0", resources__ranks=1)).id
    ben.call("CancelJob", jobs_pb2.CancelJobRequest(id=foreign))
    own = ann.create(spec(tmp_path / "out1", resources__ranks=1)).id
    ann.call("CancelJob", jobs_pb2.CancelJobRequest(id=own))
    seen = []
    while not seen or seen[-1].job.state != jobs_pb2.Job.CANCELLED:
        seen.append(next(stream))
    assert {(change.job.id, change.job.owner) for change in seen} == {(own, "ann")}


def test_tokens_are_in_no_file_of_the_server_and_in_no_log(server_with_tokens, tokens, tmp_path):
    file, secrets = tokens
    Client(server_with_tokens, secrets["ann"]).create(spec(tmp_path / "out"))
    kept = [path.read_bytes() for path in server_with_tokens.state.rglob("*") if path.is_file()]
    kept += [file.read_bytes(), server_with_tokens.log().encode()]
    for secret in secrets.values():
        assert len(secret) == 64
        assert not any(secret.encode() in content for content in kept)


def test_command_line_takes_its_token_from_a_file(server_with_tokens, tokens, tmp_path):
    (tmp_path / "mine").write_text(tokens[1]["ann"] + "\n")
    (tmp_path / "wrong").write_text("0" * 64 + "\n")
    server = server_with_tokens
    id_ = Client(server, tokens[1]["ann"]).create(spec(tmp_path / "out", resources__ranks=1)).id
    eventually(20, lambda: processes_of(id_))

    def run(*arguments, token="mine", address=server.endpoint):
        return subprocess.run([BINARIES / "dotresize", *arguments, "--server", address], capture_output=True,
                              timeout=60, env=os.environ | {"DOTRESIZE_TOKEN_FILE": str(tmp_path / token)}).returncode

    assert run("status", id_) == run("list") == run("logs", id_) == run("cancel", id_, "--wait") == 0
    assert run("watch", id_) == 2
    assert run("list", token="wrong") == 77
    assert run("list", token="missing") == 65
    assert run("list", address="192.0.2.1:50051") == 65, "it does not leave this machine without TLS"


def test_file_of_tokens_is_private_and_checked(tokens, tmp_path, make_server):
    file = tokens[0]
    again = subprocess.run([PROGRAM, "token", "--tokens", file, "ann", "read"], capture_output=True, timeout=20)
    assert again.returncode == 64
    start = [PROGRAM, "--state", tmp_path / "s", "--listen", "127.0.0.1:0", "--tokens", file]
    file.chmod(0o640)
    done = subprocess.run(start, capture_output=True, text=True, timeout=20)
    assert (done.returncode, "chmod 600" in done.stderr) == (64, True)
    file.chmod(0o600)
    file.write_text("ann submit s3cret\n")
    done = subprocess.run(start, capture_output=True, text=True, timeout=20)
    assert (done.returncode, "tokens:1" in done.stderr, "s3cret" in done.stderr) == (64, True, False)


def refusal(tmp_path, *options):
    """Returns the error of a server that refuses to start with these options."""
    done = subprocess.run([PROGRAM, "--state", tmp_path / "state", "--listen", "0.0.0.0:0", *map(str, options)],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 64, done.stderr
    return done.stderr


def test_address_that_others_reach_wants_certificates(tmp_path, authority):
    folder = authority.folder_of("reached")
    assert "--insecure" in refusal(tmp_path)
    assert "--insecure" in refusal(tmp_path, "--tls", folder)
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    assert "without TLS" in refusal(tmp_path, "--tokens", tokens)


def test_files_of_tls_that_cannot_be_are_refused_by_name(tmp_path, authority):
    folder = authority.folder_of("faulty", "client-ca.crt", "ca.crt")

    def fault():
        return refusal(tmp_path, "--insecure", "--tls", folder)

    for name in ("client-ca.crt", "ca.crt"):
        (folder / name).write_text("none")
        assert f"{name} has no certificate (PEM)" in fault()
        (folder / name).unlink()
    assert "ca.crt: without it ranks do not know the server" in refusal(
        tmp_path, "--insecure", "--tls", folder, "--workers", "127.0.0.1:7")
    (folder / "client-ca.crt").touch()
    assert "client-ca.crt is empty" in fault(), "it lets nobody in without a certificate"
    (folder / "client-ca.crt").unlink()
    (folder / "client-ca.crt").symlink_to(tmp_path / "nowhere")
    assert "client-ca.crt" in fault()
    (folder / "client-ca.crt").unlink()
    key = folder / "tls.key"
    key.rename(folder / "own.key")
    assert "tls.key is missing" in fault()
    openssl("ec", "-in", folder / "own.key", "-aes256", "-passout", "pass:secret", "-out", key)
    key.chmod(0o600)
    assert "passphrase" in fault()
    (folder / "own.key").rename(key)
    key.chmod(0o644)
    assert "chmod 600" in fault()
    key.chmod(0o600)
    (folder / "tls.crt").unlink()
    assert "tls.crt" in fault()
    assert "tls.crt is not a directory" in refusal(tmp_path, "--insecure", "--tls", folder / "tls.crt")
    assert "nowhere is not a directory" in refusal(tmp_path, "--insecure", "--tls", tmp_path / "nowhere")


def test_insecure_address_is_warned_about(tmp_path):
    server = Server(tmp_path / "state", "--insecure")
    server.command[2] = "0.0.0.0:0"
    server.start()
    server.close()
    assert "whoever reaches it could read and write files" in server.log()


def test_one_caller_does_not_call_too_often(make_server, tokens):
    file, secrets = tokens
    server = make_server("--tokens", str(file), "--max-rate", "1", DOTRESIZE_WORKER="/bin/false")
    ann, ben, nobody = (Client(server, secrets.get(name, "wrong")) for name in ("ann", "ben", "nobody"))

    def codes(client, method, request):
        found = []
        for _ in range(40):
            try:
                client.call(method, request)
                found.append(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                found.append(error.code())
        return found

    request = jobs_pb2.ListJobsRequest()
    assert set(codes(ann, "ListJobs", request)) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert not ben.call("ListJobs", request).jobs
    assert set(codes(nobody, "CancelJob", jobs_pb2.CancelJobRequest(id="j"))) == {
        grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}
    with open(server.state / "audit.jsonl") as lines:
        assert len(list(lines)) < 30, "who calls too often does not fill the disk"


def test_priority_above_others_and_drain_are_for_admins(make_server, tokens, tmp_path):
    file, secrets = tokens
    server = make_server("--tokens", str(file), DOTRESIZE_WORKER="/bin/false")
    ann, root = (Client(server, secrets[name]) for name in ("ann", "root"))
    request = jobs_pb2.CreateJobRequest(spec=spec(tmp_path / "out"), validate_only=True,
                                        options=jobs_pb2.JobOptions(priority=1))
    for call in (lambda: ann.call("CreateJob", request),
                 lambda: ann.call("DrainServer", jobs_pb2.DrainServerRequest()),
                 lambda: ann.call("ResumeServer", jobs_pb2.ResumeServerRequest())):
        with refused(grpc.StatusCode.PERMISSION_DENIED):
            call()
    assert not ann.call("GetServerInfo", jobs_pb2.GetServerInfoRequest()).drained
    root.call("CreateJob", request)
    request.options.priority = -1
    ann.call("CreateJob", request)
