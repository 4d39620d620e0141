"""A stand-in for the Kubernetes API of MPIJobs, over HTTPS, and for mpi-operator, on this machine.

Neither Debian nor PyPI has a binary package of kube-apiserver. Objects are checked as strictly as with fieldValidation=Strict:
MPI_JOB has the fields, types and values of the tests' MPIJobs, according to the API reference, the custom resource definition
of mpi-operator 0.8.2 and that program's own checks. The operator calls the API like any other client.
"""

import contextlib
import datetime
import http.client
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import urllib.parse
import uuid

from conftest import processes_of

NAMESPACE = "models"
GROUP = "/apis/kubeflow.org/v2beta1"
JOBS = f"{GROUP}/namespaces/{NAMESPACE}/mpijobs"
# Answers to kubectl's first questions.
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
        {"name": "kubeflow.org", "versions": [{"groupVersion": "kubeflow.org/v2beta1", "version": "v2beta1"}],
         "preferredVersion": {"groupVersion": "kubeflow.org/v2beta1", "version": "v2beta1"}}]},
    GROUP: {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "kubeflow.org/v2beta1", "resources": [
        {"name": "mpijobs", "singularName": "mpijob", "namespaced": True, "kind": "MPIJob",
         "verbs": ["create", "delete", "get", "list"]}]}}
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class Map:
    """A mapping of texts to values of this kind."""

    def __init__(self, kind):
        self.kind = kind


# A kind is a type, a pattern of the whole text, a set of values, a list of one kind, or an object's fields ("!" if required).
QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kMGTPE]i?)?")
LABELS = Map(re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"))
SECURITY = {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int,
            "seccompProfile": {"type!": {"RuntimeDefault", "Localhost", "Unconfined"}}}
CONTAINER = {
    "name!": NAME, "image": str, "command": [str], "args": [str], "env": [{"name!": str, "value": str}],
    "resources": {"limits": Map(QUANTITY), "requests": Map(QUANTITY)},
    "securityContext": SECURITY | {"allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool,
                                   "capabilities": {"add": [str], "drop": [str]}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool}]}
POD = {
    "automountServiceAccountToken": bool, "serviceAccountName": str, "nodeSelector": Map(str), "containers!": [CONTAINER],
    "securityContext": SECURITY | {"fsGroup": int, "fsGroupChangePolicy": {"OnRootMismatch", "Always"}},
    "volumes": [{"name!": NAME, "configMap": {"name": str}, "emptyDir": {"medium": {"", "Memory"}, "sizeLimit": QUANTITY},
                 "persistentVolumeClaim": {"claimName!": str, "readOnly": bool}}]}
REPLICAS = {"replicas!": int, "restartPolicy!": {"Never", "OnFailure"},
            "template!": {"metadata": {"labels": LABELS, "annotations": Map(str)}, "spec!": POD}}
MPI_JOB = {
    "apiVersion!": {"kubeflow.org/v2beta1"}, "kind!": {"MPIJob"},
    "metadata!": {"name!": NAME, "namespace": {NAMESPACE}, "labels": LABELS, "annotations": Map(str)},
    "spec!": {
        "slotsPerWorker!": int, "runLauncherAsWorker": bool, "mpiImplementation": {"OpenMPI", "Intel", "MPICH"},
        "sshAuthMountPath": str, "launcherCreationPolicy": {"AtStartup", "WaitForWorkersReady"},
        "runPolicy": {"cleanPodPolicy": {"None", "Running", "All"}, "backoffLimit": int, "activeDeadlineSeconds": int,
                      "ttlSecondsAfterFinished": int, "suspend": bool},
        "mpiReplicaSpecs!": {"Launcher!": REPLICAS, "Worker!": REPLICAS}}}


def faults(value, kind, path="it"):
    """Returns the violations of the kind, such as ["spec.runPolicy: ..."]."""
    if isinstance(kind, Map):
        kind = {key: kind.kind for key in value} if isinstance(value, dict) else {}
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return [f"{path}: must be an object"]
        fields = {key.rstrip("!"): member for key, member in kind.items()}
        found = [f"{path}.{key[:-1]}: Required value" for key in kind if key.endswith("!") and key[:-1] not in value]
        found += [f"{path}.{key}: unknown field" for key in value if key not in fields]
        return found + [fault for key in value if key in fields for fault in faults(value[key], fields[key], f"{path}.{key}")]
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{path}: must be a list"]
        return [fault for i, item in enumerate(value) for fault in faults(item, kind[0], f"{path}[{i}]")]
    if isinstance(kind, set):
        ok = isinstance(value, str) and value in kind
    elif isinstance(kind, re.Pattern):
        ok = not isinstance(value, bool) and isinstance(value, (str, int)) and kind.fullmatch(str(value))
    else:
        ok = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return [] if ok else [f"{path}: Invalid value: {value!r}"]


REASONS = {403: "Forbidden", 422: "Invalid", 503: "ServiceUnavailable"}


def status_object(code, reason, message):
    # kubectl shows the causes of what is invalid, not its message.
    details = {"details": {"kind": "MPIJob", "causes": [{"field": "spec", "message": message}]}} if reason == "Invalid" else {}
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message, **details}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge(target, patch):
    """Applies a merge patch (RFC 7396)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


class Refused(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.body = code, status_object(code, reason, message)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body, **headers):
        text = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(text), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(text)

    def do(self):
        api = self.server.api
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(self.path)
        query = {key: values[0] for key, values in urllib.parse.parse_qs(url.query).items()}
        operator = self.headers.get("User-Agent") == Operator.AGENT
        api.calls.append((self.command, url.path, body.decode()))
        fault = None if operator else api.fault(self.command)
        if fault and not fault.get("after"):
            return self.answer(fault["code"], status_object(fault["code"], REASONS[fault["code"]], fault["message"]), **fault.get("headers", {}))
        try:
            if self.headers.get("Authorization") != f"Bearer {api.token.read_text().strip()}":
                raise Refused(401, "Unauthorized", "Unauthorized")
            code, answer = api.handle(self.command, url.path, query, json.loads(body) if body else None)
        except Refused as refused:
            code, answer = refused.code, refused.body
        if fault and fault.get("after"):  # done, but the client gets no answer
            fault["after"].set()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.answer(code, answer)

    do_GET = do_POST = do_DELETE = do_PATCH = do


class KubernetesApi:
    """The API. `calls`: (method, path, body) of each call. `with api.failing(...)` sets the answer to all clients except the
    operator."""

    def __init__(self, folder, certificate, key):
        self.token = folder / "api-token"
        self.token.write_text("eyJhbGciOi.first\n")
        self.ca = certificate
        self.calls = []
        self.objects = {}
        self.faults = []
        self.lock = threading.RLock()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.api = self
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def fault(self, method):
        with self.lock:
            return next((fault for fault in self.faults if fault["method"] in (None, method)), None)

    @contextlib.contextmanager
    def failing(self, code=503, message="the server is currently unable to handle the request", method=None, **more):
        fault = {"code": code, "message": message, "method": method, **more}
        with self.lock:
            self.faults.append(fault)
        try:
            yield
        finally:
            with self.lock:
                self.faults.remove(fault)

    def handle(self, method, path, query, body):
        with self.lock:
            if path in DISCOVERY:
                return 200, DISCOVERY[path]
            if path == JOBS:
                return self.create(body) if method == "POST" else self.list(query)
            name, _, subresource = path.removeprefix(JOBS + "/").partition("/")
            if name not in self.objects:
                raise Refused(404, "NotFound", f'mpijobs.kubeflow.org "{name}" not found')
            if method == "DELETE":
                return self.delete(name, body)
            if method == "PATCH":
                return self.patch(name, subresource, body)
            return 200, self.objects[name]

    def create(self, body):
        name = body.get("metadata", {}).get("name", "")
        found = faults(body, MPI_JOB)
        longest = f"{name}-worker-{body['spec']['mpiReplicaSpecs']['Worker']['replicas'] - 1}" if not found else name
        if not NAME.fullmatch(longest):
            found.append(f"metadata.name: {longest} is no label of DNS")
        if found:
            raise Refused(422, "Invalid", f'MPIJob.kubeflow.org "{name}" is invalid: ' + "; ".join(found))
        if name in self.objects:
            raise Refused(409, "AlreadyExists", f'mpijobs.kubeflow.org "{name}" already exists')
        body["metadata"] |= {"namespace": NAMESPACE, "uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1,
                             "resourceVersion": "1"}
        self.objects[name] = body
        return 201, body

    def list(self, query):
        wanted = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
        found = [item for name, item in sorted(self.objects.items()) if name > query.get("continue", "")
                 and wanted.items() <= item["metadata"].get("labels", {}).items()]
        limit = int(query.get("limit", len(found)))
        page, rest = found[:limit], found[limit:]
        metadata = {"resourceVersion": "7", **({"continue": page[-1]["metadata"]["name"]} if rest else {})}
        return 200, {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJobList", "metadata": metadata, "items": page}

    def delete(self, name, options):
        metadata = self.objects[name]["metadata"]
        uid = options.get("preconditions", {}).get("uid", metadata["uid"])
        if uid != metadata["uid"]:
            raise Refused(409, "Conflict", "the UID in the precondition does not match the UID in record")
        if options.get("propagationPolicy") == "Foreground":
            metadata |= {"deletionTimestamp": now(), "finalizers": ["foregroundDeletion"]}
        else:
            del self.objects[name]
        return 200, self.objects.get(name, {})

    def patch(self, name, subresource, body):
        item = self.objects[name]
        merge(item, {"status": body["status"]} if subresource == "status" else body)
        if "deletionTimestamp" in item["metadata"] and not item["metadata"].get("finalizers"):
            del self.objects[name]
        return 200, item


class Operator:
    """Plays mpi-operator and the kubelets: runs each launcher's command here, with what it needs of the workers."""

    AGENT = "operator"

    def __init__(self, api, environment):
        self.api = api
        self.environment = {**os.environ, **environment}
        self.processes = {}
        self.deaf = False  # ignores everything while set
        self.stopping = threading.Event()
        self.context = ssl.create_default_context(cafile=api.ca)
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def call(self, method, path, body=None):
        """Calls the API with the current token. An old one is refused after a replacement."""
        for _ in range(10):
            status, content = self.call_once(method, path, body)
            if status != 401:
                return content
        raise AssertionError(f"{method} {path}: {content}")

    def call_once(self, method, path, body):
        connection = http.client.HTTPSConnection("127.0.0.1", self.api.port, context=self.context, timeout=20)
        connection.request(method, path, json.dumps(body) if body else None,
                           {"Authorization": f"Bearer {self.api.token.read_text().strip()}", "User-Agent": self.AGENT,
                            "Content-Type": "application/merge-patch+json"})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def loop(self):
        while not self.stopping.wait(0.1):
            if not self.deaf:
                for item in self.call("GET", JOBS)["items"]:
                    self.look_after(item)

    def look_after(self, item):
        name = item["metadata"]["name"]
        process = self.processes.get(name)
        if "deletionTimestamp" in item["metadata"]:
            self.kill(name)
            self.call("PATCH", f"{JOBS}/{name}", {"metadata": {"finalizers": None}})
        elif not item.get("status"):
            self.set_condition(item, "Created")
            self.start(item)
            self.set_condition(item, "Running")
        elif process and process.poll() is not None and not any(
                condition["type"] in ("Succeeded", "Failed") for condition in item["status"]["conditions"]):
            if process.returncode == 0:
                self.set_condition(item, "Succeeded")
            else:
                self.set_condition(item, "Failed", "BackoffLimitExceeded/", "Job has reached the specified backoff limit: ")

    def start(self, item):
        launcher = item["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        labels = item["metadata"]["labels"]
        self.processes[item["metadata"]["name"]] = subprocess.Popen(
            launcher["command"], env={**self.environment, "DOTRESIZE_JOB_ID": labels["dotresize.dev/job"]},
            start_new_session=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def set_condition(self, item, kind, reason="", message=""):
        """Sets a condition like setCondition of the operator."""
        conditions = [condition for condition in item.get("status", {}).get("conditions", []) if condition["type"] != kind]
        for condition in conditions:
            if kind in ("Succeeded", "Failed") and condition["type"] == "Running":
                condition["status"] = "False"
        conditions.append({"type": kind, "status": "True", "reason": reason or f"MPIJob{kind}", "message": message,
                           "lastTransitionTime": now(), "lastUpdateTime": now()})
        workers = item["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        item["status"] = {"conditions": conditions, "replicaStatuses": {
            "Launcher": {"active": 1}, "Worker": {"active": workers if kind == "Running" else 0}}}
        self.call("PATCH", f"{JOBS}/{item['metadata']['name']}/status", {"status": item["status"]})

    def evict(self, name):
        """Evicts a worker pod; the others go on."""
        self.set_condition(self.call("GET", f"{JOBS}/{name}"), "Failed", "MPIJobEvicted", "1/2 workers are evicted")

    def is_running(self, name):
        return name in self.processes and self.processes[name].poll() is None

    def kill(self, name):
        process = self.processes.get(name)
        if not process or process.poll() is not None:
            return
        for pid in processes_of(name.removeprefix("dotresize-").rpartition("-")[0]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(20)

    def close(self):
        self.stopping.set()
        self.thread.join(30)
        for name in self.processes:
            self.kill(name)
