"""Tests of the notifications about the ends of jobs."""

import base64
import hashlib
import hmac
import http.server
import json
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time

import grpc
import pytest
from conftest import BINARIES, PROGRAM, Authority, Server, eventually, jobs_pb2, refused, spec

DENIED = grpc.StatusCode.PERMISSION_DENIED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
Notification = jobs_pb2.Notification
KEY = b"0123456789abcdef0123456789abcdef"


class Listener:
    """Receives messages. `answers`: statuses for the first ones, then 200. None: no answer."""

    def __init__(self, answers=(), context=None):
        self.messages = []
        self.answers = list(answers)
        self.silence = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.messages.append((self.path, dict(self.headers), body))
                status = outer.answers.pop(0) if outer.answers else 200
                if status is None:
                    outer.silence.wait(60)
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.origin = f"{'https' if context else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.silence.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def listen():
    """Returns listen(answers), which starts a listener that ends with the test."""
    running = []

    def make(*arguments):
        running.append(Listener(*arguments))
        return running[-1]
    yield make
    for listener in running:
        listener.close()


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "key"
    file.write_text("whsec_" + base64.b64encode(KEY).decode() + "\n")
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def make_notifying(make_server, secret):
    """Returns make_notifying(PREFIX...), which starts a server whose jobs fail at once."""
    def make(*prefixes, **environment):
        options = [word for prefix in prefixes for word in ("--allow-webhook", prefix)]
        return make_server(*options, "--webhook-secret", secret, DOTRESIZE_WORKER="/bin/false", **environment)
    return make


def create(server, output, url, **options):
    request = jobs_pb2.CreateJobRequest(spec=spec(output, resources__ranks=1, name="told"),
                                        options=jobs_pb2.JobOptions(notify=jobs_pb2.Notify(webhook=url), **options))
    job = server.jobs.CreateJob(request, timeout=20)
    server.ids.add(job.id)
    return job.id


def notified(server, id_, state=Notification.DELIVERED):
    return eventually(30, lambda: (found := server.get(id_).notification).state == state and found)


def checked(message):
    """Checks the signature of a message. Returns its content."""
    _, headers, body = message
    at = headers["webhook-timestamp"]
    assert abs(int(at) - time.time()) < 300
    signed = f"{headers['webhook-id']}.{at}.".encode() + body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}" and headers["Content-Type"] == "application/json"
    return json.loads(body)


def test_message_is_signed_and_sent_until_it_is_taken(make_notifying, listen, tmp_path):
    hook = listen([500, 503])
    server = make_notifying(hook.origin + "/hooks")
    id_ = create(server, tmp_path / "out", hook.origin + "/hooks/ci?run=7", labels={"run": "7"})
    job = server.wait(id_)
    assert notified(server, id_).attempts == 3
    assert [path for path, _, _ in hook.messages] == ["/hooks/ci?run=7"] * 3
    assert len({headers["webhook-id"] for _, headers, _ in hook.messages}) == 1
    for message in hook.messages:
        content = checked(message)
    assert content["type"] == "job.failed"
    data = content["data"]
    assert (data["id"], data["name"], data["state"]) == (id_, "told", "FAILED")
    assert data["labels"] == {"run": "7"} and data["error"]["message"] == job.error.message
    assert data["create_time"] <= data["start_time"] <= data["end_time"] == content["timestamp"]
    done = subprocess.run([BINARIES / "dotresize", "status", id_, "-o", "json", "--server", server.endpoint],
                          capture_output=True, timeout=20, check=True)
    shown = json.loads(done.stdout)["notification"]
    assert (shown["state"], shown["attempts"], shown["last_status"], shown["last_error"]) == ("DELIVERED", 3, 200, "")
    text = subprocess.run([BINARIES / "dotresize", "status", id_, "--server", server.endpoint],
                          capture_output=True, text=True, timeout=20, check=True).stdout
    assert "delivered at" in text and "after 3 attempts" in text
    assert "run=7" not in server.log() and "ci?" not in server.log()


def test_command_line_names_a_webhook(make_notifying, listen, tmp_path):
    hook = listen()
    server = make_notifying(hook.origin)
    (tmp_path / "job.json").write_text(json.dumps({
        "name": "told", "model": {"path": str(spec("/o").model.path)}, "output": {"path": str(tmp_path / "out")},
        "method": {"sparsity": 0.2}, "calibration": {"tokens": str(spec("/o").calibration.tokens), "samples": 8}}))
    submit = [BINARIES / "dotresize", "submit", tmp_path / "job.json", "--server", server.endpoint, "--webhook"]
    assert subprocess.run([*submit, "https://other.example/"], capture_output=True, timeout=20).returncode == 77
    done = subprocess.run([*submit, hook.origin], capture_output=True, text=True, timeout=20, check=True)
    server.ids.add(id_ := done.stdout.strip())
    notified(server, id_)
    assert hook.messages[0][0] == "/" and checked(hook.messages[0])["data"]["id"] == id_


@pytest.mark.parametrize("url, code", [
    ("https://ci.example.com/hook", DENIED), ("https://ci.example.com/hooksmith", DENIED),
    ("https://ci.example.com:8443/hooks", DENIED), ("http://ci.example.com/hooks", DENIED),
    ("https://ci.example.com.evil.example/hooks", DENIED), ("https://evil.example/?https://ci.example.com/hooks", DENIED),
    ("https://evil.example/hooks", DENIED), ("http://169.254.169.254/latest", DENIED),
    ("https://ci.example.com/hooks/../admin", INVALID), ("https://ci.example.com/hooks/%2e%2e/admin", INVALID),
    ("https://ci.example.com@evil.example/hooks", INVALID), ("https://user:word@ci.example.com/hooks", INVALID),
    ("https://ci.example.com\\@evil.example/hooks", INVALID), ("https://ci.example.com/hooks#x", INVALID),
    ("https://ci.example.com/hooks\r\nX: y", INVALID), ("ftp://ci.example.com/hooks", INVALID),
    ("//ci.example.com/hooks", INVALID), ("https://", INVALID), ("https://ci.example.com:0/hooks", INVALID),
    ("https://ci.example.com/hooks/" + "x" * 2048, INVALID), ("", INVALID)])
def test_address_that_is_not_allowed_is_refused(denying, tmp_path, url, code):
    with refused(code) as found:
        create(denying, tmp_path / "out", url)
    assert found[0] == "WEBHOOK_NOT_ALLOWED" if code == DENIED else "options.notify.webhook" in found[1]


@pytest.fixture(scope="module")
def denying(tmp_path_factory):
    folder = tmp_path_factory.mktemp("denying")
    (folder / "key").touch(0o600)
    (folder / "key").write_text("whsec_" + base64.b64encode(KEY).decode())
    running = Server(folder / "state", "--allow-webhook", "https://ci.example.com/hooks",
                     "--webhook-secret", str(folder / "key")).start()
    yield running
    running.close()


@pytest.mark.parametrize("url", ["https://ci.example.com/hooks", "https://CI.example.com:443/hooks/a/b?c=d%20e"])
def test_address_below_a_prefix_is_taken(denying, tmp_path, url):
    options = jobs_pb2.JobOptions(notify=jobs_pb2.Notify(webhook=url))
    denying.jobs.CreateJob(jobs_pb2.CreateJobRequest(spec=spec(tmp_path / "out"), validate_only=True, options=options),
                           timeout=20)


def test_a_killed_server_goes_on_telling(make_notifying, listen, tmp_path):
    hook = listen([500, None])
    server = make_notifying(hook.origin)
    id_ = create(server, tmp_path / "out", hook.origin)
    eventually(30, lambda: len(hook.messages) == 2)  # the second message has no answer yet
    server.end(signal.SIGKILL)
    hook.silence.set()
    server.start()
    notification = notified(server, id_)
    assert len(hook.messages) == 3 and notification.attempts == 2, "that of the killed one is not known"
    first, *others = (checked(message) for message in hook.messages)
    assert all(other == first for other in others)
    assert {headers["webhook-id"] for _, headers, _ in hook.messages} == {notification.id}


def test_who_does_not_answer_holds_up_neither_jobs_nor_the_servers_end(make_notifying, listen, tmp_path):
    mute = listen([None] * 9)
    server = make_notifying(mute.origin)
    first = create(server, tmp_path / "out0", mute.origin)
    eventually(30, lambda: mute.messages)
    second = create(server, tmp_path / "out1", mute.origin)
    assert server.wait(second, 20).state == jobs_pb2.Job.FAILED, "while the first message has no answer"
    begin = time.monotonic()
    assert server.end(signal.SIGTERM) == 0 and time.monotonic() - begin < 5
    server.start()
    assert server.get(first).notification.state == Notification.PENDING


def test_redirects_are_not_followed_and_who_is_gone_is_left_alone(make_notifying, listen, tmp_path):
    hook = listen([302, 410])
    server = make_notifying(hook.origin + "/hooks")
    id_ = create(server, tmp_path / "out", hook.origin + "/hooks")
    notification = notified(server, id_, Notification.GIVEN_UP)
    assert (notification.attempts, notification.last_status) == (2, 410)
    assert [path for path, _, _ in hook.messages] == ["/hooks"] * 2


def test_https_with_the_authority_of_the_environment(make_notifying, listen, tmp_path):
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("hook"))
    hook = listen((), context)
    trusting = make_notifying(hook.origin, SSL_CERT_FILE=str(authority.certificate))
    id_ = create(trusting, tmp_path / "out0", hook.origin)
    notified(trusting, id_)
    checked(hook.messages[0])
    other = make_notifying(hook.origin)
    id_ = create(other, tmp_path / "out1", hook.origin)
    other.wait(id_)
    notification = eventually(30, lambda: (found := other.get(id_).notification).attempts and found)
    assert notification.state == Notification.PENDING and "authority" in notification.last_error
    assert len(hook.messages) == 1


def test_a_resumed_job_tells_of_its_new_end_and_one_that_is_not_allowed_any_more_of_none(make_notifying, listen, tmp_path):
    hook = listen()
    server = make_notifying(hook.origin)
    id_ = create(server, tmp_path / "out", hook.origin, ttl_seconds_after_finished=3600)
    first = notified(server, id_).id
    server.resume(id_)
    second = eventually(30, lambda: (found := server.get(id_).notification).state == Notification.DELIVERED and
                        found.id != first and found.id)
    assert [headers["webhook-id"] for _, headers, _ in hook.messages] == [first, second]
    server.jobs.DrainServer(jobs_pb2.DrainServerRequest(), timeout=20)
    waiting = create(server, tmp_path / "later", hook.origin)
    assert server.get(waiting).notification.state == Notification.STATE_UNSPECIFIED
    server.end(signal.SIGTERM)
    at = server.command.index("--allow-webhook")
    server.command[at + 1] = "https://elsewhere.example"
    server.start()
    server.cancel(waiting)
    assert "no longer allows" in notified(server, waiting, Notification.GIVEN_UP).last_error
    assert len(hook.messages) == 2
    with sqlite3.connect(server.state / "jobs.sqlite") as table:
        assert table.execute("SELECT count(*) FROM notifications").fetchone() == (0,)


@pytest.mark.parametrize("prefix, content, mode, said", [
    ("https://ci.example.com", None, 0, "needs --webhook-secret"),
    ("ci.example.com", "whsec_" + base64.b64encode(KEY).decode(), 0o600, "is not https://HOST"),
    ("https://u:p@ci.example.com", "whsec_" + base64.b64encode(KEY).decode(), 0o600, "is not https://HOST"),
    ("https://ci.example.com", "s3cret", 0o600, "openssl rand -base64 32"),
    ("https://ci.example.com", "whsec_" + base64.b64encode(KEY).decode(), 0o644, "chmod 600")])
def test_prefix_without_a_key_is_refused_at_the_start(tmp_path, prefix, content, mode, said):
    options = ["--allow-webhook", prefix]
    if content:
        (tmp_path / "key").write_text(content)
        (tmp_path / "key").chmod(mode)
        options += ["--webhook-secret", tmp_path / "key"]
    done = subprocess.run([PROGRAM, "--state", tmp_path / "state", "--listen", "127.0.0.1:0", *options],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 64 and said in done.stderr and "s3cret" not in done.stderr


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\n" + b"X-Line: y\r\n" * 2_000_000, b"HTTP/1.1 200 " + b"K" * 20_000_000 + b"\r\n\r\n"])
def test_endless_answer_is_cut_off(make_notifying, tmp_path, first):
    sent = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                try:
                    connection.sendall(first)
                except OSError as error:
                    sent.append(error)
        thread = threading.Thread(target=answer)
        thread.start()
        server = make_notifying(origin := f"http://127.0.0.1:{listener.getsockname()[1]}")
        before = memory_of(server)
        told = create(server, tmp_path / "out", f"{origin}/")
        eventually(30, lambda: server.get(told).notification.attempts > 0)
        thread.join(20)
    assert sent, "the server has read no more"
    assert memory_of(server) < before + (16 << 20)
    assert server.process.poll() is None


def memory_of(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
