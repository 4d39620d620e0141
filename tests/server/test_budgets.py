"""Tests of what one request, one connection and one address can take from the server."""

import contextlib
import json
import resource
import select
import signal
import socket
import subprocess
import threading
import time
import urllib.request
import zlib

import grpc
import pytest
from conftest import (PROGRAM, SOURCE, eventually, jobs_pb2, jobs_pb2_grpc, refused, script, spec, sweep_pb2)

MIB = 1 << 20
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")


def peak_of(server):
    """Returns the largest resident size of the server so far, in bytes."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


@contextlib.contextmanager
def grows_by_less_than(server, size):
    before = peak_of(server)
    yield
    assert peak_of(server) < before + size


def sweep_with_a_large_result(server, folder, size):
    """Runs a sweep whose jobs fail at once, and gives it a result of 4096 jobs with `size` bytes. Returns its id."""
    base = spec(folder / "sweep", resources__ranks=1, evaluation__tokens=str(SOURCE / "tests/data/evaluation.safetensors"))
    base.method.ClearField("sparsity")
    request = jobs_pb2.CreateSweepRequest(spec=base, sweep=sweep_pb2.SweepSpec())
    values = request.sweep.axes.add(key="method.sparsity").values.values
    for value in (0.2, 0.3):
        values.add(number_value=value)
    id_ = server.jobs.CreateSweep(request, timeout=60).job.id
    server.ids.add(id_)
    server.wait(id_)
    file = folder / "sweep/results.json"
    results = json.loads(file.read_text())
    variant = {**results["variants"][0], "reason": "x" * (size // 4096 - 200)}
    results["variants"] = [variant] * 4096
    file.write_text(json.dumps(results))
    return id_


def address_of(url):
    host, port = url.split("//")[1].split(":")
    return host, int(port)


def send(server, *lines, body=b"", buffer=None):
    """Sends a request to the HTTP port. Returns the socket."""
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(60)
    connection.connect(address_of(server.http))
    connection.sendall("\r\n".join([*lines, "Host: 127.0.0.1", "", ""]).encode() + body)
    return connection


def answer_of(connection):
    """Returns (status, header lines, body)."""
    data = b""
    with connection:
        while part := connection.recv(MIB):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), lines, body


@pytest.fixture
def http_server(make_server, tmp_path):
    return make_server("--http", "127.0.0.1:0", "--max-attempts", "1",
                       DOTRESIZE_WORKER=script(tmp_path / "worker", "head -c 60000000 /dev/zero | tr '\\0' x; exit 1"))


def test_ranges_make_no_answer_larger(http_server):
    whole = answer_of(send(http_server, "GET /chart.js HTTP/1.1"))
    assert whole[0] == 200
    with grows_by_less_than(http_server, 32 * MIB):
        ranges = "Range: bytes=" + ",".join(["0-"] * 2700)
        connections = [send(http_server, "GET /chart.js HTTP/1.1", ranges) for _ in range(3)]
        assert [answer_of(connection)[::2] for connection in connections] == [whole[::2]] * 3


FORM = "Content-Type: application/x-www-form-urlencoded"


@pytest.mark.parametrize("status, lines, body", [
    (415, ["Content-Encoding: gzip", FORM, "Content-Length: 100"], bytes(100)),
    (415, ["Content-Encoding: br", FORM, "Content-Length: 100"], bytes(100)),
    (411, [FORM, "Transfer-Encoding: chunked"], b"1\r\na\r\n0\r\n\r\n"),
    (411, [FORM], b""),
    (413, [FORM, "Content-Length: 8193"], bytes(8193)),
    (415, ["Content-Type: multipart/form-data; boundary=x", "Content-Length: 3"], b"--x"),
    (415, ["Content-Length: 3"], b"a=b"),
    (431, [FORM, "Content-Length: 0", *(f"X-{number}: y" for number in range(100))], b""),
], ids=["gzip", "brotli", "chunked", "no length", "long", "multipart", "no type", "many headers"])
def test_body_that_is_no_small_form_is_refused_unread(http_server, status, lines, body):
    found, _, text = answer_of(send(http_server, "POST /sign-in HTTP/1.1", *lines, body=body))
    assert (found, text.count(b"\n")) == (status, 1), text


def test_body_does_not_grow_by_its_encoding(http_server):
    packed = zlib.compress(bytes(48 * MIB), 9, zlib.MAX_WBITS | 16)
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    with grows_by_less_than(http_server, 32 * MIB):
        connection = send(http_server, "POST /sign-in HTTP/1.1", "Content-Encoding: gzip", FORM, "Transfer-Encoding: chunked")
        with contextlib.suppress(OSError):  # it is not read
            connection.sendall(body)
            answer_of(connection)


def test_connections_that_send_nothing_keep_no_thread_of_the_http_port(http_server):
    silent = [socket.create_connection(address_of(http_server.http)) for _ in range(36)]
    assert urllib.request.urlopen(f"{http_server.http}/healthz", timeout=20).read() == b"ok\n"
    assert not select.select(silent, [], [], 0)[0], "none has been closed to make room"
    for connection in silent:
        connection.close()


def test_a_reader_that_is_slow_does_not_hold_up_the_end(http_server, tmp_path):
    id_ = http_server.create(spec(tmp_path / "out", resources__ranks=1)).id
    http_server.wait(id_)
    page = send(http_server, f"GET /jobs/{id_}/files/log HTTP/1.1", buffer=4096)
    assert page.recv(15) == b"HTTP/1.1 200 OK"
    stream = http_server.jobs.GetLogs(jobs_pb2.GetLogsRequest(id=id_))
    next(stream)
    over = threading.Event()

    def read_slowly():
        with contextlib.suppress(OSError):
            while not over.wait(0.1) and page.recv(10):
                pass

    reader = threading.Thread(target=read_slowly)
    reader.start()
    begin = time.monotonic()
    http_server.process.send_signal(signal.SIGTERM)
    try:
        assert http_server.process.wait(60) == 0
        assert time.monotonic() - begin < 10
    finally:
        over.set()
        reader.join()
    http_server.process = None


def test_connections_that_only_greet_keep_nobody_from_calling(make_server):
    server = make_server("--http", "127.0.0.1:0", "--max-ranks", "4", prefix=["prlimit", "--nofile=512:512"])
    host, port = server.endpoint.split(":")
    watched = server.jobs.WatchJobs(jobs_pb2.WatchJobsRequest())
    next(watched)
    greeting = []
    for source in ("127.0.0.8", "127.0.0.9"):
        for _ in range(300):
            connection = socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0))
            with contextlib.suppress(OSError):  # cut already
                connection.sendall(GREETING)
            greeting.append(connection)
    for _ in range(8):
        with grpc.insecure_channel(server.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            jobs_pb2_grpc.JobsStub(channel).GetServerInfo(jobs_pb2.GetServerInfoRequest(), timeout=20)
    assert b"connections: ok" in urllib.request.urlopen(f"{server.http}/readyz", timeout=20).read()
    assert watched.is_active(), "a connection with a call is not cut"
    for connection in greeting:
        connection.close()


def frame(kind, flags, stream, payload):
    """Returns a frame of HTTP/2 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def refuse_answers(server, source, count):
    """Makes `count` calls on a connection from this address whose windows are closed: no answer can be sent. Returns the connection."""
    fields = {":method": "POST", ":scheme": "http", ":path": "/dotresize.v1.Jobs/GetServerInfo", ":authority": "localhost",
              "content-type": "application/grpc", "te": "trailers"}
    block = b"".join(b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in field) for field in fields.items())
    host, port = server.endpoint.split(":")
    connection = socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0))
    connection.sendall(GREETING + frame(4, 0, 0, (4).to_bytes(2, "big") + (0).to_bytes(4, "big")) + b"".join(
        frame(1, 4, stream, block) + frame(0, 1, stream, bytes(5)) for stream in range(1, 2 * count, 2)))
    return connection


def wait_for_headers(connection, count):
    """Waits until this number of answers has begun, or the connection is cut."""
    with connection.makefile("rb") as received, contextlib.suppress(ConnectionResetError):
        while count > 0 and len(header := received.read(9)) == 9:
            received.read(int.from_bytes(header[:3], "big"))
            count -= header[3] == 1


def test_answers_that_an_address_does_not_read_keep_nobody_from_calling(make_server):
    server = make_server()
    with contextlib.ExitStack() as connections:
        for _ in range(7):  # a connection has 100 calls at most, the server 512 threads
            unread = connections.enter_context(refuse_answers(server, "127.0.0.8", 100))
            wait_for_headers(unread, 100)
        for _ in range(8):
            server.jobs.GetServerInfo(jobs_pb2.GetServerInfoRequest(), timeout=20)


def costly_model(folder, **changes):
    """Makes a model of 4096 layers with 2048 experts, but without weights."""
    folder.mkdir()
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
              "intermediate_size": 6144, "num_hidden_layers": 4096, "num_attention_heads": 32, "num_key_value_heads": 4,
              "head_dim": 128, "vocab_size": 151936, "num_experts": 2048, "num_experts_per_tok": 8,
              "moe_intermediate_size": 768, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
              "norm_topk_prob": True, **changes}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    return str(folder)


def costly_sweep(model, output):
    """Plans a thousand jobs of this model, in minutes."""
    base = spec(output, model__path=model, resources__ranks=1, resources__memory="800000TiB", method__allow_larger=True)
    base.method.ClearField("sparsity")
    base.evaluation.SetInParent()
    request = jobs_pb2.CreateSweepRequest(spec=base, sweep=sweep_pb2.SweepSpec(), validate_only=True)
    sparsities = request.sweep.axes.add(key="method.sparsity").values
    for number in range(1000):
        sparsities.values.add(number_value=0.1 + number / 2000)
    return request


@pytest.fixture
def planner(make_server, tmp_path):
    """Starts a server that two callers know, and returns it with their stubs' options."""
    tokens = tmp_path / "tokens"
    secrets = [subprocess.run([PROGRAM, "token", "--tokens", str(tokens), name, "submit"],
                              capture_output=True, text=True, check=True).stdout.split()[-1] for name in ("ann", "bob")]
    server = make_server("--tokens", str(tokens), "--memory", "800000TiB")
    return server, *([("authorization", f"Bearer {secret}")] for secret in secrets)


def is_computing(server, least=0.3):
    """Waits until the server has used this many seconds of the processor since the call."""
    def seconds():
        with open(f"/proc/{server.process.pid}/stat") as stat:
            return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) / 100
    begin = seconds()
    eventually(20, lambda: seconds() > begin + least)


def test_costly_planning_holds_up_neither_others_nor_the_end(planner, tmp_path):
    server, ann, bob = planner
    request = costly_sweep(costly_model(tmp_path / "model"), tmp_path / "costly")
    calls = [server.jobs.CreateSweep.future(request, timeout=120, metadata=ann) for _ in range(3)]
    is_computing(server)
    small = costly_sweep(costly_model(tmp_path / "small", num_hidden_layers=2), tmp_path / "small-out")
    del small.sweep.axes[0].values.values[3:]
    begin = time.monotonic()
    assert len(server.jobs.CreateSweep(small, timeout=60, metadata=bob).results.variants) == 3
    assert time.monotonic() - begin < 5
    assert not any(call.done() and call.exception() is None for call in calls)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert time.monotonic() - begin < 10
    server.process = None


def test_planning_ends_when_its_caller_is_gone_and_when_it_takes_too_long(planner, tmp_path):
    server, ann, _ = planner
    request = costly_sweep(costly_model(tmp_path / "model"), tmp_path / "costly")
    call = server.jobs.CreateSweep.future(request, timeout=120, metadata=ann)
    is_computing(server)
    call.cancel()
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as found:
        server.jobs.CreateSweep(request, timeout=200, metadata=ann)
    assert found[0] == "REQUEST_TOO_COSTLY", "the first one no longer computes"


def answers_of(server, request, number):
    """Sends the GetSweep request `number` times at once. Returns the names of the answers' codes."""
    answers = []

    def ask():
        with grpc.insecure_channel(server.endpoint, options=[("grpc.use_local_subchannel_pool", 1),
                                                             ("grpc.max_receive_message_length", -1)]) as channel:  # fmt: skip
            try:
                jobs_pb2_grpc.JobsStub(channel).GetSweep(request, timeout=60)
                answers.append("OK")
            except grpc.RpcError as error:
                answers.append(error.code().name)

    threads = [threading.Thread(target=ask) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


FAILING_THREADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
static __thread int calls;
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (create == 0) create = dlsym(RTLD_NEXT, "pthread_create");
  return ++calls % 5 == 0 ? EAGAIN : create(thread, attributes, run, argument);
}
"""


def test_threads_that_find_no_memory_take_that_of_the_reserve(make_server, tmp_path):
    library = tmp_path / "failing.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-xc", "-"], input=FAILING_THREADS, text=True, check=True)
    server = make_server(LD_PRELOAD=str(library))
    assert len(server.jobs.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20).jobs) == 0


@pytest.mark.parametrize("left", [100 * MIB, 20 * MIB])
def test_a_server_without_memory_refuses_and_goes_on(make_server, tmp_path, left):
    server = make_server("--max-attempts", "1", "--max-rate", "0", DOTRESIZE_WORKER=script(tmp_path / "worker", "exit 1"))
    id_ = sweep_with_a_large_result(server, tmp_path, 15 * MIB)
    with open(f"/proc/{server.process.pid}/statm") as sizes:
        in_use = int(sizes.read().split()[0]) * resource.getpagesize()
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (in_use + left, resource.RLIM_INFINITY))
    answers = answers_of(server, jobs_pb2.GetSweepRequest(id=id_), 10)
    assert "RESOURCE_EXHAUSTED" in answers and set(answers) <= {"OK", "RESOURCE_EXHAUSTED"}
    assert server.jobs.GetJob(jobs_pb2.GetJobRequest(id=id_), timeout=20).id == id_
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    assert answers_of(server, jobs_pb2.GetSweepRequest(id=id_), 2) == ["OK"] * 2
