"""A real S3-compatible server (moto) and a Hub that answers huggingface_hub's requests, both on the loopback device."""

import base64
import hashlib
import http.server
import json
import logging
import re
import threading
import urllib.parse
import urllib.request

import boto3
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "models"
logging.getLogger("werkzeug").setLevel(logging.ERROR)


class S3:
    """An S3 server. `requests`: (method, path, Range) of each request. `cut`: {path: bytes after which the next answer breaks
    off}. `refused`: methods that get a 403. Requests for weights wait until `hold` is set; each releases `held` once."""

    def __init__(self):
        self.requests = []
        self.cut = {}
        self.refused = ()
        self.hold = threading.Event()
        self.hold.set()
        self.held = threading.Semaphore(0)
        application = DomainDispatcherApplication(create_backend_app)

        def watched(environ, start_response):
            path = environ["PATH_INFO"]
            self.requests.append((environ["REQUEST_METHOD"], path, environ.get("HTTP_RANGE")))
            if path.endswith(".safetensors") and not self.hold.is_set():
                self.held.release()
                self.hold.wait(60)
            if environ["REQUEST_METHOD"] in self.refused:
                start_response("403 Forbidden", [("Content-Type", "application/xml")])
                return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
            answer = application(environ, start_response)
            if environ["REQUEST_METHOD"] == "GET" and path in self.cut:
                return [b"".join(answer)[:self.cut.pop(path)]]
            return answer

        self.server = make_server("127.0.0.1", 0, watched, threaded=True)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.environment = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
                            "AWS_SECRET_ACCESS_KEY": "the-secret-key", "AWS_DEFAULT_REGION": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1",
                                   aws_access_key_id="AKIAEXAMPLE", aws_secret_access_key="the-secret-key")
        urllib.request.urlopen(f"{self.endpoint}/moto-api/reset", b"")  # removes the content of an earlier server of this process
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, prefix, folder, names=None):
        for file in sorted(folder.iterdir()):
            if file.is_file() and (names is None or file.name in names):
                self.client.upload_file(str(file), BUCKET, f"{prefix}/{file.name}")

    def names(self, prefix):
        listing = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix + "/")
        return sorted(each["Key"][len(prefix) + 1:] for each in listing.get("Contents", []))

    def read(self, key):
        return self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def close(self):
        self.hold.set()
        self.server.shutdown()


def blob_id(content):
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


class Hub:
    """Repositories in memory. `repos[kind/OWNER/NAME]`: a list of commits (id, {name: bytes}). `token` may write, and read
    private repositories; nobody may read `forbidden` ones. `requests` and `cut` are those of S3."""

    def __init__(self, token="hf_the_secret_token"):
        self.token = token
        self.repos, self.private, self.forbidden, self.blobs = {}, set(), set(), {}
        self.requests, self.cut = [], {}
        self.sent = {}  # bytes to send in place of the commit's, by (commit, name)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self, b"")

            do_HEAD = do_GET

            def do_POST(self):
                outer.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.environment = {"HF_ENDPOINT": self.endpoint, "HF_HUB_DISABLE_XET": "1"}

    def commit(self, repo, files, kind="models"):
        commits = self.repos.setdefault(f"{kind}/{repo}", [])
        commits.append((hashlib.sha1(f"{repo}{len(commits)}".encode()).hexdigest(), dict(files)))
        return commits[-1][0]

    def find(self, repo, revision):
        for commit, files in reversed(self.repos.get(repo, [])):
            if revision in ("main", commit):
                return commit, files
        return None, None

    def answer(self, call, body):
        path = urllib.parse.unquote(urllib.parse.urlsplit(call.path).path)
        self.requests.append((call.command, path, call.headers.get("Range")))
        allowed = call.headers.get("Authorization") == f"Bearer {self.token}"
        send = sender_of(call)
        if call.command in ("POST", "PUT") and not path.startswith("/lfs/") and not allowed:
            return send(401, {"error": "Invalid credentials"})
        if match := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            return self.info(send, f"{match[1]}/{match[2]}", match[3] or "main", allowed)
        if match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.file(call, send, f"{'datasets' if match[1] else 'models'}/{match[2]}", match[3], match[4], allowed)
        if path == "/api/validate-yaml":
            return send(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            request = json.loads(body)
            repo = f"{request['organization']}/{request['name']}"
            if f"models/{repo}" in self.repos:
                return send(409, {"error": "You already created this model repo", "url": f"{self.endpoint}/{repo}"})
            self.commit(repo, {".gitattributes": b"*.safetensors filter=lfs"})
            self.private.add(f"models/{repo}") if request.get("private") or request.get("visibility") == "private" else None
            return send(200, {"url": f"{self.endpoint}/{repo}"})
        if match := re.fullmatch(r"/api/models/(.+)/preupload/main", path):
            files = json.loads(body)["files"]
            return send(200, {"files": [{"path": each["path"], "shouldIgnore": False, "uploadMode":
                                         "lfs" if each["path"].endswith(".safetensors") else "regular"} for each in files]})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = [{"oid": each["oid"], "size": each["size"], **({} if each["oid"] in self.blobs else {
                "actions": {"upload": {"href": f"{self.endpoint}/lfs/{each['oid']}"}}})} for each in json.loads(body)["objects"]]
            return send(200, {"transfer": "basic", "objects": objects})
        if path.startswith("/lfs/"):
            assert hashlib.sha256(body).hexdigest() == path[5:]
            self.blobs[path[5:]] = body
            return send(200, {})
        if match := re.fullmatch(r"/api/models/(.+)/commit/main", path):
            return send(200, self.take_commit(match[1], [json.loads(line) for line in body.splitlines()]))
        send(404, {"error": "no such page"})

    def info(self, send, repo, revision, allowed):
        commit, files = self.find(repo, revision)
        if repo in self.forbidden:
            return send(403, {"error": "Forbidden"})
        if repo not in self.repos or (repo in self.private and not allowed):
            return send(404 if allowed else 401, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        if commit is None:
            return send(404, {"error": "Revision not found"}, {"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": name, "size": len(content), "blobId": blob_id(content),
                     **({"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
                        if name.endswith(".safetensors") else {})} for name, content in files.items()]
        send(200, {"id": repo.partition("/")[2], "sha": commit, "private": repo in self.private, "siblings": siblings})

    def file(self, call, send, repo, revision, name, allowed):
        commit, files = self.find(repo, revision)
        if commit is None or name not in files or (repo in self.private and not allowed):
            return send(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        content = files[name]
        etag = hashlib.sha256(content).hexdigest() if name.endswith(".safetensors") else blob_id(content)
        content = self.sent.get((commit, name), content)
        begin = re.fullmatch(r"bytes=(\d+)-", call.headers.get("Range") or "bytes=0-")
        begin = int(begin[1])
        part = content[begin:]
        call.send_response(206 if begin else 200)
        for header, value in {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Content-Length": len(part), "Accept-Ranges": "bytes"}.items():
            call.send_header(header, str(value))
        if begin:
            call.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        call.end_headers()
        if call.command == "HEAD":
            return
        if name in self.cut:
            call.wfile.write(part[:self.cut.pop(name)])
            call.close_connection = True
            return
        call.wfile.write(part)

    def take_commit(self, repo, lines):
        files = dict(self.repos[f"models/{repo}"][-1][1])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        commit = self.commit(repo, files)
        return {"success": True, "commitOid": commit, "commitUrl": f"{self.endpoint}/{repo}/commit/{commit}", "hookOutput": ""}

    def close(self):
        self.server.shutdown()


def sender_of(call):
    """Returns send(status, JSON, headers), which answers this call."""
    def send(status, document, headers=()):
        body = json.dumps(document).encode()
        call.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **dict(headers)}.items():
            call.send_header(name, str(value))
        call.end_headers()
        if call.command != "HEAD":
            call.wfile.write(body)
    return send


@pytest.fixture
def s3():
    service = S3()
    yield service
    service.close()


@pytest.fixture
def hub():
    service = Hub()
    yield service
    service.close()
