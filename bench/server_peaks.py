"""Largest resident size of dotresize-server under what costs a client little.

    server_peaks.py BUILD_DIR [idle ranges bodies sweeps watchers]

idle: 4000 connections that only greet, then eight clients that call. ranges: seven requests for the largest file of the
pages, each with 2700 ranges. bodies: forms of 500 bytes that are 600 MB unpacked. sweeps: ten GetSweep at once of 4096
jobs, the most that a sweep may have, whose results are 15 MB. watchers: 300 streams of two callers.
Each case has a server of its own. Sizes are in MiB.
"""

import contextlib
import ctypes
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IDLE, RANGES, SWEEPS, WATCHERS = 4000, 2700, 10, 300
RESULT_BYTES = 15 << 20
BOMB_BYTES = 600 << 20


def peak_mib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def channel_to(server):
    return conftest.grpc.insecure_channel(
        server.endpoint, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)])


def call(function):
    try:
        function()
        return "OK"
    except conftest.grpc.RpcError as error:
        return error.code().name


def count(answers):
    return {answer: answers.count(answer) for answer in sorted(set(answers))}


def in_parallel(number, body):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(body())) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count(answers)


def http(server, *lines, body=b""):
    """Returns the status."""
    host, port = server.http.split("//")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        with contextlib.suppress(OSError):
            connection.sendall("\r\n".join([*lines, "Host: 127.0.0.1", "", ""]).encode() + body)
        answer = connection.recv(100)
        with contextlib.suppress(OSError):
            while connection.recv(1 << 20):
                pass
        return int(answer.split()[1])


def idle(server, _):
    host, port = server.endpoint.split(":")
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    connections = []
    for _ in range(IDLE):
        connections.append(socket.create_connection((host, int(port)), timeout=60, source_address=("127.0.0.9", 0)))
        with contextlib.suppress(OSError):
            connections[-1].sendall(greeting)

    def probe():
        with channel_to(server) as channel:
            info = conftest.jobs_pb2_grpc.JobsStub(channel).GetServerInfo
            return call(lambda: info(conftest.jobs_pb2.GetServerInfoRequest(), timeout=20))

    return count([probe() for _ in range(8)])


def ranges(server, _):
    return in_parallel(7, lambda: http(server, "GET /chart.js HTTP/1.1", "Range: bytes=" + ",".join(["0-"] * RANGES)))


def bodies(server, _):
    library = ctypes.CDLL("libbrotlienc.so.1")
    size = ctypes.c_size_t(1 << 16)
    packed = ctypes.create_string_buffer(size.value)
    assert library.BrotliEncoderCompress(9, 24, 0, ctypes.c_size_t(BOMB_BYTES), bytes(BOMB_BYTES), ctypes.byref(size), packed)
    body = packed.raw[:size.value]
    lines = ["POST /sign-in HTTP/1.1", "Content-Encoding: br", "Content-Type: application/x-www-form-urlencoded",
             f"Content-Length: {len(body)}"]  # fmt: skip
    return in_parallel(2, lambda: http(server, *lines, body=body))


def sweeps(server, folder):
    id_ = test_budgets.sweep_with_a_large_result(server, folder, RESULT_BYTES)
    get = conftest.jobs_pb2.GetSweepRequest(id=id_)

    def one():
        with channel_to(server) as channel:
            return call(lambda: conftest.jobs_pb2_grpc.JobsStub(channel).GetSweep(get, timeout=120))

    return in_parallel(SWEEPS, one)


def watchers(server, folder):
    callers = []
    for name in ("ann", "bob"):
        command = [conftest.PROGRAM, "token", "--tokens", server.command[-1], name, "read"]
        secret = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
        callers.append([("authorization", f"Bearer {secret}")])
    server.process.send_signal(1)
    conftest.eventually(20, lambda: "reloaded the tokens" in server.log())
    stubs = [conftest.jobs_pb2_grpc.JobsStub(channel_to(server)) for _ in range(10)]
    streams = [stubs[i % 10].WatchJobs(conftest.jobs_pb2.WatchJobsRequest(), metadata=callers[i % 2]) for i in range(WATCHERS)]
    return count([call(lambda stream=stream: next(stream)) for stream in streams])


CASES = {"idle": idle, "ranges": ranges, "bodies": bodies, "sweeps": sweeps, "watchers": watchers}


def main(names):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    for name in names or CASES:
        with tempfile.TemporaryDirectory(prefix="dotresize-peaks-") as made:
            folder = Path(made)
            worker = conftest.script(folder / "worker", "exit 1")
            options = ["--http", "127.0.0.1:0", "--max-attempts", "1", "--max-rate", "0"]
            if name == "watchers":
                (folder / "tokens").touch(mode=0o600)
                options += ["--tokens", str(folder / "tokens")]
            server = conftest.Server(folder / "state", *options, DOTRESIZE_WORKER=worker).start()
            before = peak_mib(server)
            answers = CASES[name](server, folder)
            print(f"{name}: {before:.0f} -> {peak_mib(server):.0f} MiB, {answers}", flush=True)
            server.close()


if __name__ == "__main__":
    os.environ["DOTRESIZE_BUILD"] = str(Path(sys.argv[1]).absolute())
    sys.path.insert(0, str(ROOT / "tests/server"))
    import conftest
    import test_budgets

    main(sys.argv[2:])
