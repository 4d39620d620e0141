"""Tests of the server's web pages over HTTP."""

import functools
import html
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.parse

import numpy as np
import pytest
from chromium import Chromium, Tab
from conftest import (ADDRESS, BINARIES, ENDED, PROGRAM, SOURCE, Server, eventually, job_pb2, jobs_pb2, processes_of, script,
                      spec, workers_pb2, workers_pb2_grpc)
from safetensors.numpy import load_file, save_file

Job = jobs_pb2.Job
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{TITLE}}"
WORKER = os.environ.get("DOTRESIZE_WORKER") or str(BINARIES / "dotresize-worker")
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"


class Browser:
    """Fetches pages, and sends the cookie that the server has set."""

    def __init__(self, url, context=None):
        scheme, address = url.split("://")
        self.connect = (functools.partial(http.client.HTTPConnection, address) if scheme == "http" else
                        functools.partial(http.client.HTTPSConnection, address, context=context))
        self.cookie = None

    def fetch(self, path, form=None, **headers):
        """Fetches a page, or posts `form`. Returns (status, headers, text)."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            headers["Cookie"] = self.cookie
        body = None
        if form is not None:
            body = urllib.parse.urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = self.connect(timeout=20)
        connection.request("GET" if form is None else "POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def page(self, path, **headers):
        status, _, text = self.fetch(path, **headers)
        assert status == 200, text
        return text

    def sign_in(self, token, **form):
        status, headers, text = self.fetch("/sign-in", {"token": token, **form})
        if status == 303:
            self.cookie = headers["Set-Cookie"].split(";")[0]
        return status, headers, text

    def form_token(self, path):
        return re.search(r'name="form_token" value="(\w{64})"', self.page(path))[1]

    def post(self, id_, verb, token):
        """Sends a form of a job's page. Returns the status."""
        return self.fetch(f"/jobs/{id_}/{verb}", {"form_token": token})[0]


def audit_of(server):
    return [json.loads(line) for line in (server.state / "audit.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def worker(folder):
    """Returns a worker whose job name selects its action: sleep, fail after a hostile line in its log, or work."""
    return script(folder / "worker", f"""for last; do :; done
grep -q sleeper "$last" && exec sleep 300
grep -q onerror "$last" || exec {WORKER} "$@"
printf '<img src=y onerror=alert(2)>\\033]0;owned\\007 \\342\\200\\256end\\n'
exit 65""")


@pytest.fixture(scope="module")
def small(folder):
    """Returns small(name), which makes a job that takes a second."""
    rows = load_file(SOURCE / "tests/data/evaluation.safetensors")["tokens"]
    tokens = folder / "tokens.safetensors"
    save_file({"tokens": np.ascontiguousarray(rows[:2, :64])}, tokens)
    made = []

    def make(name, **changes):
        made.append(name)
        job = spec(folder / f"out{len(made)}", name=name, calibration__tokens=str(tokens),
                   evaluation__tokens=str(tokens), method__name=job_pb2.Method.slicegpt,
                   **{"resources__ranks": 1, **changes})
        job.calibration.ClearField("samples")
        return job
    return make


@pytest.fixture(scope="module")
def server(folder, worker):
    """Starts a server without tokens."""
    running = Server(folder / "open", "--http", "127.0.0.1:0", "--max-ranks", "2", "--max-attempts", "1",
                     "--heartbeat-timeout", "600", DOTRESIZE_WORKER=worker).start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser(server):
    return Browser(server.http)


@pytest.fixture(scope="module")
def sleeper(server, small):
    """Returns a job that takes one of the two ranks and does not end by itself."""
    id_ = server.create(small("sleeper")).id
    eventually(20, lambda: processes_of(id_))
    yield id_
    server.cancel(id_)


@pytest.fixture(scope="module")
def queued(server, sleeper, small):
    """Returns a job that needs both ranks and lets others go first."""
    id_ = server.jobs.CreateJob(jobs_pb2.CreateJobRequest(
        spec=small("waits long", resources__ranks=2), options=jobs_pb2.JobOptions(priority=-1)), timeout=20).id
    yield id_
    server.cancel(id_)


def test_pages_show_resources_queue_and_jobs(browser, sleeper, queued, folder):
    eventually(10, lambda: "1 of 2" in browser.page("/"))
    page = browser.page("/")
    assert f'<a href="/jobs/{sleeper}">sleeper</a>' in page and f'<a href="/jobs/{queued}">waits long</a>' in page
    assert "number 1; waits for 2 ranks (1 free)" in page
    assert all(f"<dt>{name}</dt>" in page for name in ("Running", "Queued", "Ranks", "GPUs", "Memory", "Launchers"))
    job = browser.page(f"/jobs/{queued}")
    assert "1 in the queue" in job and str(folder) in job and "&quot;slicegpt&quot;" in job
    listed = browser.page("/jobs?name=waits+long&state=queued")
    assert queued in listed and sleeper not in listed
    assert queued not in browser.page("/jobs?state=succeeded")
    assert browser.fetch("/jobs?state=none")[0] == 400
    assert [browser.fetch(f"/jobs/{id_}")[0] for id_ in ("j-0", "x" * 64, "x" * 65)] == [404] * 3
    assert browser.fetch(f"/jobs/{queued}/report")[0] == 404


def test_progress_of_a_job_is_on_its_page(server, browser, sleeper):
    (environment, *_) = (env for env in processes_of(sleeper).values() if "DOTRESIZE_ATTEMPT_TOKEN" in env)
    progress = jobs_pb2.Progress(phase="calibrate", fraction=0.45, junctions_done=6, junctions_total=13,
                                 tokens_per_second=1234, eta_s=42)
    workers_pb2_grpc.WorkersStub(server.channel).Heartbeat(
        workers_pb2.HeartbeatRequest(job_id=sleeper, attempt=1, progress=progress), timeout=20,
        metadata=(("authorization", f"Bearer {environment['DOTRESIZE_ATTEMPT_TOKEN']}"),))
    for page in (browser.page("/"), browser.page(f"/jobs/{sleeper}")):
        assert '<progress max="100" value="45"' in page
        assert "calibrate 45 %, junctions 6/13, 1.23k tok/s, ETA 0:42" in page
        assert "data-live" in page and '<noscript><meta http-equiv="refresh"' in page
    assert "last heartbeat" in browser.page(f"/jobs/{sleeper}")


@pytest.fixture
def chromium(tmp_path):
    running = Chromium(tmp_path)
    yield running
    running.close()


def test_job_that_has_succeeded_has_its_result_with_the_figures_of_its_report(server, browser, chromium, small, folder):
    job = server.wait(server.create(small("good")).id, 60)
    assert job.state == Job.SUCCEEDED, server.logs(job.id)
    page = browser.page(f"/jobs/{job.id}")
    assert "<caption>Result</caption>" in page and "<h2>Log</h2>" in page
    shown = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert (shown["kind"], shown["report"]["name"]) == ("job", "good")
    assert "data-live" not in page, "it does not change any more"
    for address in (f"{server.http}/jobs/{job.id}", f"{server.http}/jobs/{job.id}/report"):
        tab = Tab(chromium, address)
        drawn = tab.evaluate("Array.from(document.querySelectorAll('figure canvas'), (canvas) => Chart.getChart(canvas)?.width)")
        assert len(drawn) > 3 and all(drawn) and tab.evaluate("document.getElementById('spectrum') !== null")
        assert tab.complaints() == [] and all(url.startswith(f"{server.http}/") for url in tab.loaded())

    status, headers, report = browser.fetch(f"/jobs/{job.id}/report")
    assert (status, headers["Content-Security-Policy"].split()[0]) == (200, "sandbox")
    written = folder / "report.html"
    subprocess.run([BINARIES / "dotresize", "report", job.result.output_path, "--html", written], check=True,
                   capture_output=True, timeout=60)
    assert report == written.read_text()

    os.rename(job.result.output_path, folder / "moved")
    os.symlink(folder / "moved", job.result.output_path)
    assert "is no longer the model of this job" in browser.page(f"/jobs/{job.id}")
    assert browser.fetch(f"/jobs/{job.id}/report")[0] == 404


def test_hostile_texts_are_shown_as_texts(server, browser, small):
    job = server.wait(server.create(small(HOSTILE)).id, 60)
    assert job.state == Job.FAILED
    pages = [browser.page(path) for path in (f"/jobs/{job.id}", "/", "/jobs", "/jobs?" + urllib.parse.urlencode(
        {"name": HOSTILE, "owner": HOSTILE}))]
    for page in pages:
        assert "<img" not in page and "{{TITLE}}" in page
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    assert "&lt;img src=y onerror=alert(2)&gt;?]0;owned? ?end" in pages[0]
    assert "INVALID_INPUT" in pages[0] and html.escape(HOSTILE, quote=False)[:20] in pages[0]
    assert all(code < 500 and "<img" not in text for code, _, text in (
        browser.fetch("/jobs?state=%3Cimg%3E"), browser.fetch("/jobs?page=%3Cimg%3E"),
        browser.fetch("/jobs/%3Cimg%3E"), browser.fetch("/jobs?name=%00%ff")))


def test_pages_load_nothing_from_elsewhere_and_are_kept_by_nobody(browser, sleeper):
    for path in ("/", "/jobs", f"/jobs/{sleeper}", "/jobs/none"):
        _, headers, text = browser.fetch(path)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith(POLICY) and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
        assert headers["Referrer-Policy"] == "same-origin" and headers["X-Frame-Options"] == "DENY"
        assert not re.search(r"<(script(?! src=\"/)|style)|<\w[^>]*\s(on\w+|style)=", text), "nothing inline"
        links = re.findall(r'(?:src|href|action)="([^"]*)"', text)
        assert links and all(link.startswith("/") or link == "data:," for link in links)
        for link in links:
            if re.match(r"/\w+\.(js|css)", link):
                status, headers, _ = browser.fetch(link)
                assert status == 200 and "immutable" in headers["Cache-Control"]


def test_other_sites_neither_see_pages_nor_send_forms(server, browser, sleeper):
    token = browser.form_token(f"/jobs/{sleeper}")
    assert browser.fetch("/", Host="evil.example:80")[0] == 403
    assert browser.fetch("/healthz", Host="evil.example:80")[0] == 200
    before = len(audit_of(server))
    path = f"/jobs/{sleeper}/cancel"
    assert browser.fetch(path, {"form_token": token}, Host="evil.example")[0] == 403
    for form, headers in (({}, {}), ({"form_token": ""}, {}), ({"form_token": "0" * 64}, {}),
                          ({"form_token": token}, {"Origin": "http://evil.example"}),
                          ({"form_token": token}, {"Origin": "null"}),
                          ({"form_token": token}, {"Origin": "http://127.0.0.1:1"})):
        assert browser.fetch(path, form, **headers)[0] == 403
    assert browser.fetch(path)[0] == 404, "a link cancels nothing"
    lines = audit_of(server)[before:]
    assert [(line["method"], line["job"], line["allowed"]) for line in lines] == [("CancelJob", sleeper, False)] * 6
    assert server.get(sleeper).state not in ENDED and not server.get(sleeper).cancelling


def test_forms_cancel_resume_and_delete(server, browser, sleeper, small):
    id_ = server.create(small("waits", resources__ranks=2)).id
    token = browser.form_token(f"/jobs/{id_}")
    status, headers, _ = browser.fetch(f"/jobs/{id_}/cancel", {"form_token": token}, Origin=server.http)
    assert (status, headers["Location"]) == (303, f"/jobs/{id_}")
    server.wait(id_)
    assert browser.post(id_, "resume", token) == 303
    assert server.get(id_).state != Job.CANCELLED
    assert browser.post(id_, "delete", token) == 409, "it has not ended"
    server.cancel(id_)
    server.wait(id_)
    assert browser.post(id_, "delete", token) == 303
    assert browser.fetch(f"/jobs/{id_}")[0] == browser.fetch(f"/jobs/{id_}/cancel", {"form_token": token})[0] == 404
    lines = [line for line in audit_of(server) if line["job"] == id_ and line["peer"].startswith("ipv4:127.0.0.1:")]
    assert [(line["method"], line["code"]) for line in lines if line["method"] != "CreateJob"] == [
        ("CancelJob", 0), ("ResumeJob", 0), ("DeleteJob", 9), ("CancelJob", 0), ("DeleteJob", 0), ("CancelJob", 5)]


def test_long_list_has_several_pages(server, browser, queued, small):
    job = small("one & more", resources__ranks=2)
    ids = []
    for number in range(51):
        job.output.path += "x"
        ids.append(server.create(job).id)
    first = browser.page("/jobs?name=one+%26+more")
    assert ids[50] in first and ids[1] in first and ids[0] not in first
    older = html.unescape(re.search(r'<a href="([^"]*)">Older jobs</a>', first)[1])
    second = browser.page(older)
    assert ids[0] in second and ids[1] not in second and "Newest jobs" in second and "Older jobs</a>" not in second
    assert re.search(r"and \d+ more jobs", browser.page("/"))
    for id_ in ids:
        server.cancel(id_)


@pytest.fixture(scope="module")
def secrets(folder):
    """Returns {name: token}."""
    def make(name, role):
        return subprocess.run([PROGRAM, "token", "--tokens", folder / "tokens", name, role], check=True,
                              capture_output=True, text=True, timeout=20).stdout.strip()
    return {name: make(name, role) for name, role in
            {"ann": "submit", "ben": "submit", "eve": "read", "root": "admin"}.items()}


@pytest.fixture(scope="module")
def closed_server(folder, worker, secrets):
    running = Server(folder / "closed", "--http", "127.0.0.1:0", "--tokens", str(folder / "tokens"),
                     DOTRESIZE_WORKER=worker).start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def anns_job(closed_server, secrets, small):
    answer = closed_server.jobs.CreateJob(jobs_pb2.CreateJobRequest(spec=small("sleeper of ann")), timeout=20,
                                          metadata=(("authorization", f"Bearer {secrets['ann']}"),))
    closed_server.ids.add(answer.id)
    return answer.id


def signed_in(server, secrets, name):
    browser = Browser(server.http)
    assert browser.sign_in(secrets[name])[0] == 303
    return browser


def test_with_tokens_pages_ask_for_one(closed_server, secrets, anns_job):
    stranger = Browser(closed_server.http)
    for path in ("/", "/jobs", f"/jobs/{anns_job}", f"/jobs/{anns_job}/report"):
        status, headers, text = stranger.fetch(path)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "sleeper" not in text and 'action="/sign-in"' in text
    before = len(audit_of(closed_server))
    assert stranger.fetch("/", Authorization="Bearer wrong")[0] == 401
    assert stranger.sign_in("wrong")[0] == stranger.sign_in(secrets["ann"] + "0")[0] == 401
    assert [(line["method"], line["allowed"]) for line in audit_of(closed_server)[before:]] == [
        ("GetServerInfo", False), ("SignIn", False), ("SignIn", False)]
    page = stranger.page(f"/jobs/{anns_job}", Authorization=f"Bearer {secrets['root']}")
    assert "sleeper of ann" in page and "<form" not in page, "a program is to use the API"


def test_session_lasts_until_it_is_ended(closed_server, secrets, anns_job):
    browser = Browser(closed_server.http)
    status, headers, _ = browser.sign_in(secrets["ann"], next=f"/jobs/{anns_job}")
    assert (status, headers["Location"]) == (303, f"/jobs/{anns_job}")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(headers["Set-Cookie"].split("; "))
    assert "Secure" not in headers["Set-Cookie"] and secrets["ann"] not in headers["Set-Cookie"]
    page = browser.page("/")
    assert "ann (submit)" in page and secrets["ann"] not in page and browser.cookie.split("=")[1] not in page
    other = Browser(closed_server.http)
    assert other.sign_in(secrets["ann"], next="//evil.example")[1]["Location"] == "/"
    assert other.fetch("/sign-in", {"token": secrets["ann"]}, Origin="http://evil.example")[0] == 403
    assert browser.fetch("/sign-out", {"form_token": "0" * 64})[0] == 403
    assert browser.page("/")
    assert browser.fetch("/sign-out", {"form_token": browser.form_token("/")})[0] == 303
    assert browser.fetch("/")[0] == 401
    kept = [path.read_bytes() for path in closed_server.state.rglob("*") if path.is_file()]
    secret = browser.cookie.split("=")[1].encode()
    assert not any(secret in content for content in [*kept, closed_server.log().encode()])


def test_role_and_owner_decide_what_forms_do(closed_server, secrets, anns_job):
    ann, ben, eve = (signed_in(closed_server, secrets, name) for name in ("ann", "ben", "eve"))
    before = len(audit_of(closed_server))
    for other in (ben, eve):
        assert "/cancel" not in other.page(f"/jobs/{anns_job}")
        assert other.post(anns_job, "cancel", other.form_token("/")) == 403
        assert ann.post(anns_job, "cancel", other.form_token("/")) == 403, "the form of another session"
    assert "/cancel" in ann.page(f"/jobs/{anns_job}")
    assert ann.post(anns_job, "cancel", ann.form_token("/")) == 303
    assert [(line["method"], line["caller"], line["allowed"]) for line in audit_of(closed_server)[before:]] == [
        ("CancelJob", "ben", False), ("CancelJob", "ann", False), ("CancelJob", "eve", False),
        ("CancelJob", "ann", False), ("CancelJob", "ann", True)]
    eventually(20, lambda: 'class="state cancelled"' in ann.page(f"/jobs/{anns_job}"))
    root = signed_in(closed_server, secrets, "root")
    assert root.post(anns_job, "delete", root.form_token("/")) == 303
    assert ann.fetch(f"/jobs/{anns_job}")[0] == 404


def test_admins_drain_the_server_and_resume_it(closed_server, secrets):
    root, ann = (signed_in(closed_server, secrets, name) for name in ("root", "ann"))
    assert "/server/" not in ann.page("/")
    page = root.page("/")
    assert 'action="/server/drain"' in page and "/server/resume" not in page and 'data-state=""' in page
    before = len(audit_of(closed_server))

    def post(browser, verb, token, **headers):
        return browser.fetch(f"/server/{verb}", {"form_token": token}, **headers)[0]

    token = root.form_token("/")
    assert root.fetch("/server/drain")[0] == 404, "a link drains nothing"
    assert post(root, "drain", "0" * 64) == post(root, "drain", token, Origin="http://evil.example") == 403
    assert post(root, "drain", ann.form_token("/")) == 403, "the form of another session"
    assert post(ann, "drain", ann.form_token("/")) == 403, "the role is too low"
    assert Browser(closed_server.http).fetch("/server/drain", {"form_token": token})[0] == 401
    assert "drained" not in root.page("/")
    assert post(root, "drain", token) == 303
    page = root.page("/")
    assert "The server is drained" in page and 'action="/server/resume"' in page and 'data-state="drained"' in page
    assert post(ann, "resume", ann.form_token("/")) == 403
    assert post(root, "resume", token) == 303
    assert "drained" not in root.page("/")
    assert [(line["method"], line["caller"], line["allowed"]) for line in audit_of(closed_server)[before:]] == [
        ("DrainServer", "root", False)] * 3 + [("DrainServer", "ann", False), ("DrainServer", "root", True),
                                               ("ResumeServer", "ann", False), ("ResumeServer", "root", True)]


@pytest.fixture(scope="module")
def certificate(folder):
    """Returns a certificate for a server with TLS, and the context in which a browser accepts it."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:127.0.0.1,IP:{ADDRESS}",
                    "-keyout", folder / "tls.key", "-out", folder / "tls.crt"], check=True, capture_output=True)
    (folder / "tls.key").chmod(0o600)
    return ["--http", "127.0.0.1:0", "--tls", str(folder)], ssl.create_default_context(cafile=folder / "tls.crt")


def test_cookie_is_for_https_alone_if_the_server_has_a_certificate(make_server, folder, certificate, worker, secrets):
    options, context = certificate
    server = make_server(*options, "--tokens", str(folder / "tokens"), DOTRESIZE_WORKER=worker)
    browser = Browser(server.http, context)
    cookie = browser.sign_in(secrets["eve"])[1]["Set-Cookie"]
    assert cookie.startswith("__Host-dotresize-") and "Secure" in cookie.split("; ")
    assert "eve (read)" in browser.page("/")


def test_there_are_no_pages_if_the_api_knows_clients_by_certificates_alone(make_server, folder, certificate, worker):
    options, context = certificate
    shutil.copy(folder / "tls.crt", folder / "client-ca.crt")
    server = make_server(*options, DOTRESIZE_WORKER=worker)
    (folder / "client-ca.crt").unlink()
    browser = Browser(server.http, context)
    assert [browser.fetch(path)[0] for path in ("/", "/jobs", "/jobs/j-0", "/style.css")] == [404] * 4
    assert browser.fetch("/healthz")[0] == browser.fetch("/readyz")[0] == 200
    assert browser.fetch("/metrics")[0] == 403, "only clients with a certificate may call the API"
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    assert "dotresize_serving 1" in Browser(server.http, context).page("/metrics")
