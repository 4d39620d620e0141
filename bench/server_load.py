"""dotresize-server under load: the time of heartbeats and of others' calls, and the server's memory.

    server_load.py BUILD_DIR OUT.json [--only crowd table short_jobs] [--jobs N] [--short-jobs N]

crowd: heartbeats of a running job and GetJob of one client, while another client has 1100 idle connections, 300 lists
at once again and again, 64 streams of logs and 64 of events that it does not read, slow readers, and compressed
requests that become 16 MiB; then all of it together. There is no limit of calls (--max-rate 0). Jobs that are
submitted meanwhile must end.
table: lists, filters and GetJob on a table of 100000 ended jobs, which are written straight into it; GetJob also while 250
streams watch all jobs, and one job after the other begins and fails.
short_jobs: 10000 jobs of one rank by the launcher local. Their worker is a script, a stand-in: each job is a
supervisor and a process that ends at once.

"load" is /proc/loadavg of the last minute when a row was begun.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IDLE, LISTS, STREAMS, SLOW, BOMBS, WATCHERS = 1100, 300, 64, 32, 4, 250
BOMB_BYTES = 16 << 20
SAMPLES, PAUSE_S = 200, 0.05


def load():
    with open("/proc/loadavg") as file:
        return float(file.read().split()[0])


def memory_mib(pid, name):
    """VmRSS, or the most that it has been: VmHWM."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name))


def milliseconds(call):
    begin = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begin)


def row_of(name, times, **more):
    times = sorted(times)
    return {"name": name, "median_ms": statistics.median(times), "p99_ms": times[int(0.99 * len(times))],
            "max_ms": times[-1], "calls": len(times), **more}  # fmt: skip


def metadata(token):
    return [("authorization", f"Bearer {token}")]


# A hostile client, in a process of its own: attack KIND ENDPOINT TOKEN JOB. It says "ready" once it attacks, ends with its
# standard input, and then says how the server has answered it.


class Attack:
    def __init__(self, grpc, jobs_pb2, jobs_pb2_grpc, endpoint, token, job):
        self.grpc, self.messages, self.grpc_stubs = grpc, jobs_pb2, jobs_pb2_grpc
        self.endpoint, self.metadata, self.job = endpoint, metadata(token), job
        self.codes = {}
        self.lock = threading.Lock()
        self.over = threading.Event()

    def stubs(self, count):
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channels = [self.grpc.insecure_channel(self.endpoint, options=options) for _ in range(count)]
        return [self.grpc_stubs.JobsStub(channel) for channel in self.channels]

    def count(self, code, number=1):
        with self.lock:
            self.codes[code] = self.codes.get(code, 0) + number

    def call(self, function, request, **options):
        try:
            function(request, timeout=60, metadata=self.metadata, **options)
            self.count("OK")
        except self.grpc.RpcError as error:
            self.count(error.code().name)

    def idle(self):
        for stub in self.stubs(IDLE):
            self.call(stub.GetServerInfo, self.messages.GetServerInfoRequest())

    def lists(self):
        stubs = self.stubs(6)
        request = self.messages.ListJobsRequest()

        def again_and_again():
            while not self.over.is_set():
                calls = [stubs[i % len(stubs)].ListJobs.future(request, timeout=60, metadata=self.metadata)
                         for i in range(LISTS)]  # fmt: skip
                for call in calls:
                    self.count((call.code() or self.grpc.StatusCode.UNKNOWN).name)

        self.start(again_and_again)

    def start(self, body):
        threading.Thread(target=body, daemon=True).start()

    def streams(self):
        """Nobody reads them beyond the first message."""
        stubs = self.stubs(2)
        self.open = []
        for i in range(STREAMS):
            logs = self.messages.GetLogsRequest(id=self.job, follow=True)
            events = self.messages.WatchJobRequest(id=self.job)
            self.open.append(stubs[i % 2].GetLogs(logs, timeout=600, metadata=self.metadata))
            self.open.append(stubs[i % 2].WatchJob(events, timeout=600, metadata=self.metadata))
        for stream in self.open:
            next(stream)
        self.count("OK", len(self.open))

    def slow(self):
        stubs = self.stubs(2)

        def read_slowly(stub):
            request = self.messages.GetLogsRequest(id=self.job, follow=True)
            for _ in stub.GetLogs(request, timeout=600, metadata=self.metadata):
                self.count("OK")
                if self.over.wait(0.5):
                    return

        for i in range(SLOW):
            self.start(lambda i=i: read_slowly(stubs[i % 2]))

    def bombs(self):
        stubs = self.stubs(BOMBS)
        request = self.messages.GetJobRequest(id="j" * BOMB_BYTES)

        def send(stub):
            while not self.over.is_set():
                self.call(stub.GetJob, request, compression=self.grpc.Compression.Gzip)

        for stub in stubs:
            self.start(lambda stub=stub: send(stub))


def attack(kind, endpoint, token, job):
    import grpc
    from conftest import jobs_pb2, jobs_pb2_grpc

    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    hostile = Attack(grpc, jobs_pb2, jobs_pb2_grpc, endpoint, token, job)
    getattr(hostile, kind)()
    print("ready", flush=True)
    sys.stdin.read()
    hostile.over.set()
    print(json.dumps(hostile.codes), flush=True)
    os._exit(0)


class Attackers:
    """Processes that do these kinds of harm while the block runs; `codes` of each afterwards."""

    def __init__(self, kinds, *arguments):
        self.kinds = kinds
        self.arguments = arguments
        self.codes = {}

    def __enter__(self):
        command = [sys.executable, __file__, "attack"]
        self.processes = [
            subprocess.Popen([*command, kind, *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True) for kind in self.kinds]  # fmt: skip
        for process in self.processes:
            assert process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stdin.close()
        for kind, process in zip(self.kinds, self.processes, strict=True):
            self.codes[kind] = json.loads(process.stdout.readline())
            process.wait(60)


class Crowd:
    def __init__(self, folder):
        self.folder = folder
        tokens = folder / "tokens"
        self.tokens = {
            name: subprocess.run([conftest.PROGRAM, "token", "--tokens", tokens, name, "submit"], check=True,
                                 capture_output=True, text=True).stdout.strip() for name in ("others", "crowd")
        }  # fmt: skip
        # A job of the name `short` ends at once, any other one writes a log and stays.
        worker = conftest.script(folder / "worker", "\n".join([
            "for file; do :; done",
            "grep -q '\"name\": *\"short\"' \"$file\" && exit 65",
            "head -c 60000000 /dev/zero",
            "exec sleep 3600"]))  # fmt: skip
        self.server = conftest.Server(folder / "state", "--tokens", str(tokens), "--max-rate", "0", "--max-ranks", "8",
                                      DOTRESIZE_WORKER=worker)  # fmt: skip
        self.metadata = metadata(self.tokens["others"])
        self.created = 0

    def begin(self):
        """Starts the server, and gives it ended jobs and one that runs."""
        self.server.start()
        for _ in range(150):
            self.end_of(self.create("short"))
        self.job = self.create("long")
        environment = conftest.eventually(60, lambda: next(iter(conftest.processes_of(self.job).values()), None))
        self.heartbeat = self.make_heartbeat(environment)
        self.heartbeat()

    def create(self, name):
        self.created += 1
        spec = conftest.spec(self.folder / f"out{self.created}", name=name, resources__ranks=1)
        request = conftest.jobs_pb2.CreateJobRequest(spec=spec)
        job = self.server.jobs.CreateJob(request, timeout=60, metadata=self.metadata)
        self.server.ids.add(job.id)
        return job.id

    def status(self, id_):
        request = conftest.jobs_pb2.GetJobRequest(id=id_)
        return self.server.jobs.GetJob(request, timeout=60, metadata=self.metadata)

    def end_of(self, id_):
        return conftest.eventually(120, lambda: (job := self.status(id_)).state in conftest.ENDED and job)

    def make_heartbeat(self, environment):
        channel = conftest.grpc.insecure_channel(environment["DOTRESIZE_COORDINATOR"])
        workers = conftest.workers_pb2_grpc.WorkersStub(channel)
        request = conftest.workers_pb2.HeartbeatRequest(job_id=self.job, attempt=1)
        request.progress.phase = "calibrate"
        token = metadata(environment["DOTRESIZE_ATTEMPT_TOKEN"])

        def beat():
            request.progress.fraction = (request.progress.fraction + 0.001) % 1
            assert not workers.Heartbeat(request, timeout=60, metadata=token).stop

        return beat

    def measure(self, name, kinds):
        busy = load()
        beats, statuses = [], []
        with Attackers(kinds, self.server.endpoint, self.tokens["crowd"], self.job) as attackers:
            short = [self.create("short") for _ in range(5)]
            for _ in range(SAMPLES):
                beats.append(milliseconds(self.heartbeat))
                statuses.append(milliseconds(lambda: self.status(self.job)))
                time.sleep(PAUSE_S)
            ends = [self.end_of(id_) for id_ in short]
        assert all(job.error.code == "INVALID_INPUT" for job in ends), "the worker has run"
        job = self.status(self.job)
        assert (job.attempt, job.state) == (1, conftest.jobs_pb2.Job.RUNNING), job
        peak = memory_mib(self.server.process.pid, "VmHWM")
        for what, times in (("heartbeat", beats), ("status", statuses)):
            yield row_of(f"crowd/{name}/{what}", times, peak_mib=peak, load=busy, answers=attackers.codes)


def crowd(folder, _):
    others = Crowd(folder)
    try:
        others.begin()
        for name, kinds in {"nobody": [], "idle": ["idle"], "lists": ["lists"], "streams": ["streams"],
                            "slow": ["slow"], "bombs": ["bombs"],
                            "all": ["idle", "lists", "streams", "slow", "bombs"]}.items():  # fmt: skip
            yield from others.measure(name, kinds)
    finally:
        others.server.close()


def refusing_worker(folder):
    """A stand-in that refuses each job as a worker refuses what it cannot read: no fault of the installation."""
    return conftest.script(folder / "worker", "exit 65")


def fill_table(path, jobs):
    """Copies of its only job, of several names, owners, states and labels."""
    Job = conftest.jobs_pb2.Job
    with sqlite3.connect(path) as table:
        body, output, last = table.execute("SELECT body, output, last_event FROM jobs").fetchone()
        events = table.execute("SELECT seq, body FROM events").fetchall()
        job = Job.FromString(body)
        for number in range(2, jobs + 1):
            job.id = f"j-{number:016x}"
            job.owner = f"owner{number % 20}"
            job.spec.name = f"name{number % 1000}"
            job.state = Job.SUCCEEDED if number % 10 else Job.FAILED if number % 100 else Job.CANCELLED
            job.options.labels["team"] = f"team{number % 50}"
            table.execute("INSERT INTO jobs (number, id, name, state, output, last_event, body, owner) "
                          "VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (number, job.id, job.spec.name, job.state, output, last,
                                                              job.SerializeToString(), job.owner))  # fmt: skip
            table.execute("INSERT INTO labels VALUES ('team', ?, ?)", (job.options.labels["team"], number))
            table.executemany("INSERT INTO events VALUES (?, ?, ?)", ((number, *event) for event in events))


def table_calls(server, arguments):
    """Calls on the job table, by the name of their row."""
    Job = conftest.jobs_pb2.Job
    request, filter_ = conftest.jobs_pb2.ListJobsRequest, conftest.jobs_pb2.ListJobsRequest.Filter
    basic = conftest.jobs_pb2.ListJobsRequest.BASIC
    lists = {
        "list": request(),
        "list/1000 of the view BASIC": request(page_size=1000, view=basic),
        "list/states": request(filter=filter_(states=[Job.FAILED, Job.CANCELLED])),
        "list/state that none has": request(filter=filter_(states=[Job.RUNNING])),
        "list/name": request(filter=filter_(name="name7")),
        "list/owner": request(filter=filter_(owner="owner7")),
        "list/owner and state": request(filter=filter_(owner="owner10", states=[Job.CANCELLED])),
        "list/owner and state that none has": request(filter=filter_(owner="owner7", states=[Job.RUNNING])),
        "list/label": request(filter=filter_(labels={"team": "team7"})),
        "list/label and state": request(filter=filter_(labels={"team": "team7"}, states=[Job.SUCCEEDED])),
        "list/label and state that none has": request(filter=filter_(labels={"team": "team7"}, states=[Job.RUNNING])),
        "list/beginning of an id": request(filter=filter_(id_prefix="j-00000000000001")),
        "list/one id": request(filter=filter_(id_prefix=f"j-{arguments.jobs // 2:016x}")),
    }
    token = ""
    for _ in range(arguments.jobs // 2000):
        token = server.jobs.ListJobs(request(page_size=1000, page_token=token), timeout=60).next_page_token
    lists["list/page in the middle"] = request(page_token=token)
    get = conftest.jobs_pb2.GetJobRequest(id=f"j-{arguments.jobs // 3:016x}")
    calls = {f"table/{name}": lambda request=request: server.jobs.ListJobs(request, timeout=60)
             for name, request in lists.items()}  # fmt: skip
    calls["table/status"] = lambda: server.jobs.GetJob(get, timeout=60)
    calls["table/events"] = lambda: list(server.watch(get.id))
    calls["table/server info"] = lambda: server.jobs.GetServerInfo(conftest.jobs_pb2.GetServerInfoRequest(), timeout=60)
    return calls


@contextlib.contextmanager
def watched(server, folder):
    """WATCHERS streams of the jobs of one name over ten connections, which nobody reads here, while such jobs are submitted and fail
    at once."""
    request = conftest.jobs_pb2.WatchJobsRequest(filter=conftest.jobs_pb2.ListJobsRequest.Filter(name="test"))
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [conftest.grpc.insecure_channel(server.endpoint, options=options) for _ in range(10)]
    stubs = [conftest.jobs_pb2_grpc.JobsStub(channel) for channel in channels]
    streams = [stubs[number % len(stubs)].WatchJobs(request) for number in range(WATCHERS)]
    over = threading.Event()

    def submit():
        number = 0
        while not over.wait(0.2):
            number += 1
            server.create(conftest.spec(folder / f"watched{number}", resources__ranks=1))

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for stream in streams:
            stream.cancel()
        for channel in channels:
            channel.close()


def table(folder, arguments):
    server = conftest.Server(folder / "state", "--max-rate", "0", "--max-attempts", "1",
                             DOTRESIZE_WORKER=refusing_worker(folder))  # fmt: skip
    try:
        server.start()
        server.wait(server.create(conftest.spec(folder / "out", resources__ranks=1)).id)
        server.end(signal.SIGTERM)
        fill_table(folder / "state/jobs.sqlite", arguments.jobs)
        server.start()
        calls = table_calls(server, arguments)

        def row(name, call):
            busy = load()
            call()
            return row_of(name, [milliseconds(call) for _ in range(SAMPLES)], jobs=arguments.jobs, load=busy)

        for name, call in calls.items():
            yield row(name, call)
        with watched(server, folder):
            time.sleep(1)  # until all of them are there
            yield row("table/status/watched", calls["table/status"])
    finally:
        server.close()


def short_jobs(folder, arguments):
    server = conftest.Server(folder / "state", "--max-rate", "0", "--max-ranks", "16", "--max-attempts", "1",
                             DOTRESIZE_WORKER=refusing_worker(folder)).start()  # fmt: skip
    busy, begin = load(), time.monotonic()
    memory = {}
    step = max(1, arguments.short_jobs // 10)
    try:
        for number in range(1, arguments.short_jobs + 1):
            server.create(conftest.spec(folder / f"out{number}", resources__ranks=1))
            if number % step == 0:
                conftest.eventually(3600, lambda: not pending(server))
                memory[number] = memory_mib(server.process.pid, "VmRSS")
                print(f"{number} jobs: {memory[number]:.1f} MiB", flush=True)
        assert failed_jobs(server) == arguments.short_jobs
        server.ids.clear()  # else their processes would be looked for
        seconds = time.monotonic() - begin
    finally:
        server.close()
    yield {"name": "short_jobs", "jobs": arguments.short_jobs, "seconds": seconds, "load": busy,
           "mib_after_a_tenth": memory[step], "mib_at_the_end": memory[max(memory)], "mib": memory}  # fmt: skip


def failed_jobs(server):
    failed = conftest.jobs_pb2.ListJobsRequest.Filter(states=[conftest.jobs_pb2.Job.FAILED])
    request = conftest.jobs_pb2.ListJobsRequest(page_size=1000, filter=failed)
    count = 0
    while True:
        page = server.jobs.ListJobs(request, timeout=60)
        count += len(page.jobs)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return count


def pending(server):
    info = server.jobs.GetServerInfo(conftest.jobs_pb2.GetServerInfoRequest(), timeout=60)
    return info.queued_jobs + info.running_jobs


PARTS = {"crowd": crowd, "table": table, "short_jobs": short_jobs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--short-jobs", type=int, default=10_000)
    arguments = parser.parse_args()
    rows = json.loads(arguments.out.read_text())["benchmarks"] if arguments.out.exists() else []
    for part in arguments.only:
        rows = [row for row in rows if row["name"].split("/")[0] != part]
        with tempfile.TemporaryDirectory(prefix="dotresize-load-") as folder:
            for row in PARTS[part](Path(folder), arguments):
                rows.append(row)
                print({key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()},
                      flush=True)  # fmt: skip
        arguments.out.write_text(json.dumps({"benchmarks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    attacks = len(sys.argv) > 1 and sys.argv[1] == "attack"
    if not attacks and len(sys.argv) > 1:
        os.environ.setdefault("DOTRESIZE_BUILD", str(Path(sys.argv[1]).absolute()))
    sys.path.insert(0, str(ROOT / "tests/server"))
    if attacks:
        attack(*sys.argv[2:])
    import conftest

    main()
