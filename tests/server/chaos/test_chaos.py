"""Runs jobs of some clients under faults: processes are killed and stopped, disks fill, another program locks the job table,
journals and caches are damaged, directories of unfinished jobs are replaced by links, tokens are revoked, and the clock is set.

There are DOTRESIZE_CHAOS_POINTS faults, and DOTRESIZE_CHAOS_JOBS jobs or more, until every fault has met one.
DOTRESIZE_CHAOS_SEED draws both; they are printed (-s). The machine decides which process a fault meets, and when. The only
deadlines on wall time are the server's for heartbeats (DOTRESIZE_CHAOS_HEARTBEAT seconds) and a limit on the time in which
nothing happens.
"""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import time
from collections import Counter

import pytest
from chaos.access import Access, ServerWithTokens
from chaos.clients import Client, ClientOnCall
from chaos.faults import DISK_KINDS, HEARTBEAT_TIMEOUT_S, KINDS, Clock, Faults, schedule
from chaos.files import CACHE
from chaos.orders import NEEDED, Inputs, Job, Orders, make_orders
from chaos.processes import processes_of_jobs
from chaos.witness import Witness, fault_of_files, tree
from conftest import ENDED, SOURCE, eventually, jobs_pb2, spec
from small_disk import small_disk

POINTS = int(os.environ.get("DOTRESIZE_CHAOS_POINTS", "20"))
JOBS = int(os.environ.get("DOTRESIZE_CHAOS_JOBS", str(POINTS // 2)))
SEED = os.environ.get("DOTRESIZE_CHAOS_SEED", "1752")
CLIENTS = {**{f"client-{number}": "submit" for number in range(4)}, "on-call": "admin"}  # roles
MOST_JOBS = 4 * JOBS  # limit for jobs that end before their fault has come


@pytest.fixture
def disks(tmp_path):
    """Returns (state directory, folder of some outputs); the second is None if small disks cannot be made."""
    with small_disk(tmp_path / "state", 128) as state, small_disk(tmp_path / "disk", 96) as disk:
        (tmp_path / "state").chmod(0o700)
        yield tmp_path / "state", disk if state else None


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


@pytest.fixture
def server(disks, tmp_path, clock):
    (tmp_path / "temporary").mkdir()
    access = Access(tmp_path / "tokens", CLIENTS)
    server = ServerWithTokens(
        disks[0], access, "--max-ranks", "4", "--retry-delay", "0", "--max-attempts", "100",
        "--heartbeat-timeout", str(HEARTBEAT_TIMEOUT_S), "--max-rate", "0",
        TMPDIR=str(tmp_path / "temporary"), OMP_NUM_THREADS="1", **clock.environment())  # fmt: skip
    yield server.start()
    if server.process:
        server.process.send_signal(signal.SIGCONT)
        server.end(signal.SIGKILL)
    for process in processes_of_jobs(server.state):
        process.signal(signal.SIGKILL)


def make_neighbours(folder, orders):
    """Makes files of others beside the outputs, with names that could be taken for the server's. Returns {name: content}."""
    for order in orders:
        for name in (f"{order.number}.partial.old", f".{order.number}.partial.deleted-00", f"{order.number}x"):
            if order.number % 4 == 0:
                (folder / name).mkdir()
                (folder / name / "keep").write_text(name)
        if order.kind == "foreign":
            order.partial.mkdir()
            (order.partial / "keep").write_text("not of dotresize")
    (folder / "link").symlink_to(folder.parent)
    return tree(folder)


def make_earlier_models(folder, server):
    """Makes the same model for each client. Returns ({client: model}, id of the job)."""
    first = server.create(spec(folder / "root", method__sparsity=0.4)).id
    assert server.wait(first).state == Job.SUCCEEDED
    for name in CLIENTS:
        shutil.copytree(folder / "root", folder / name)
        owner = folder / name / "dotresize/owner.json"
        owner.write_text(json.dumps({**json.loads(owner.read_text()), "owner": name}))
    return {name: folder / name for name in CLIENTS}, first


def make_faults(points, faults, witness, clients, orders):
    """Makes the faults. Returns how many of each kind have met something."""
    met = Counter()
    for point in points:
        # Faults are spread over the jobs.
        while witness.ended < 0.9 * JOBS * point.number / len(points) and any(map(Client.is_alive, clients)):
            tick(faults, witness, clients)
        found = make_fault(point, faults, witness, clients, orders)
        orders.wanted = None
        print(f"{point}: {found or 'nothing to meet any more'}", flush=True)
        met[point.kind] += bool(found)
    return met


def make_fault(point, faults, witness, clients, orders):
    due = time.monotonic() + point.delay
    while time.monotonic() < due:
        tick(faults, witness, clients)
    faults.begin()
    ended = witness.ended
    while any(map(Client.is_alive, clients)):
        stage = point.stage if witness.ended == ended else "any"
        found = faults.make(point, stage)
        if found:
            witness.happened()
            return found
        orders.wanted = NEEDED.get(point.kind)
        tick(faults, witness, clients)
    return None


def tick(faults, witness, clients):
    faults.tick()
    witness.check_stall()
    failures = [client.failure for client in clients if client.failure]
    assert not failures, "\n".join(failures)


def all_jobs(server):
    jobs, token = [], ""
    while True:
        page = server.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=7, page_token=token), timeout=60)
        jobs += page.jobs
        token = page.next_page_token
        if not token:
            return jobs


def check_table(server, witness, first):
    """Checks the jobs with a new server, and in the file."""
    accepted = {first, *witness.orders}
    jobs = all_jobs(server)
    assert len(jobs) == len(accepted), "no job is lost or doubled"
    assert {job.id for job in jobs} == accepted
    for job in jobs:
        if job.id == first:
            continue
        order = witness.orders[job.id]
        order.job.ClearField("unfinished_bytes")  # lists do not have this field
        assert job == order.job, "what has ended stays so"
        events = list(server.watch(job.id))
        assert events == order.events, "nobody has missed one"
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        states = [event.state_change.state for event in events if event.HasField("state_change")]
        assert [state in ENDED for state in states] == [False] * (len(states) - 1) + [True], states
    server.end(signal.SIGTERM)
    with sqlite3.connect(server.state / "jobs.sqlite") as table:
        assert table.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert table.execute("SELECT count(*) FROM queue").fetchone() == (0,)
        assert table.execute("SELECT count(*) FROM claims").fetchone() == (0,)


def check_nothing_is_left(server, witness, folder, neighbours, disk):
    assert processes_of_jobs(server.state) == []
    left = [path for path in pathlib.Path("/dev/shm").iterdir() if any(id_ in path.name for id_ in witness.orders)]
    assert left == []
    assert list((folder.parent / "temporary").iterdir()) == []
    eventually(60, lambda: not list((server.state / "trash").iterdir()))
    cache = server.state / CACHE
    if disk and cache.exists():
        assert sum(path.stat().st_size for path in cache.iterdir()) <= shutil.disk_usage(disk.parent / "state").total / 8
    # With a damaged owner.json an unfinished output is nobody's.
    journals = {
        order.partial for order in witness.orders.values() if order.job.state == Job.FAILED or order.id in witness.tampered
    }
    earlier = {order.output for order in witness.orders.values() if order.kind == "overwrite"}
    for place in filter(None, [folder, disk]):
        for path in place.iterdir():
            ours = path in journals | earlier or path.with_suffix("") in earlier
            assert ours or path.name in {name.split("/")[0] for name in neighbours}, path
    found = tree(folder)
    assert {name: found.get(name) for name in neighbours} == neighbours, "files of others are touched"


def check_failed_jobs_go_on(server, witness):
    """Resumes the failed jobs that could not rename their complete output, or not remove their files."""
    server.start()
    orders = [order for order in witness.orders.values() if order.to_resume]
    for order in orders:
        server.resume(order.id)
        job = server.wait(order.id)
        assert job.state == Job.SUCCEEDED, (order, job.error)
        log = server.logs(order.id).decode()
        if order.to_resume == "complete":
            assert "lacked only its name" in log, log
        assert not fault_of_files(order.output, tree(order.output))
    kinds = Counter(order.to_resume for order in orders)
    print(f"resumed after the end: {dict(kinds)}")
    server.end(signal.SIGTERM)


def print_summary(points, met, witness, seconds):
    orders = list(witness.orders.values())
    attempts = sum(order.job.attempt for order in orders)
    states = Counter(Job.State.Name(order.job.state) for order in orders)
    print(f"seed {SEED}: {sum(met.values())} of {len(points)} faults met something: {dict(met)}")
    print(f"{len(orders)} jobs accepted from {len(CLIENTS)} clients, {attempts} attempts: {dict(states)}; "
          f"{sum(len(order.events) for order in orders)} events; {seconds:.0f} s; {len(witness.faults)} wrong")


def test_no_fault_loses_doubles_or_spoils_a_job(server, disks, clock, tmp_path):
    begin = time.monotonic()
    disk = disks[1]
    print(f"seed {SEED}: {POINTS} faults, {JOBS} jobs{'' if disk else ', no full disks'}", flush=True)
    folder = tmp_path / "out"
    folder.mkdir()
    inputs = {path: tree(path) for path in (SOURCE / "examples/docs-llama", SOURCE / "tests/data")}
    (tmp_path / "earlier").mkdir()
    earlier, first = make_earlier_models(tmp_path / "earlier", server)
    points = schedule(SEED, POINTS, {**KINDS, **(DISK_KINDS if disk else {})})
    orders = make_orders(SEED, MOST_JOBS, folder, disk, Inputs(tmp_path / "inputs"))
    neighbours = make_neighbours(folder, orders)

    witness = Witness({name: tree(model) for name, model in earlier.items()})
    to_order = Orders(orders, JOBS, disk)
    clients = [
        (Client if role == "submit" else ClientOnCall)(name, server, to_order, witness, earlier[name])
        for name, role in CLIENTS.items()
    ]
    (tmp_path / "others").mkdir()
    faults = Faults(server, disk, witness, clock, tmp_path / "others")
    for client in clients:
        client.start()
    try:
        met = make_faults(points, faults, witness, clients, to_order)
        to_order.enough = True
        while faults.to_end or faults.down or any(map(Client.is_alive, clients)):
            tick(faults, witness, clients)
        tick(faults, witness, clients)
    finally:
        faults.end_all()
    print_summary(points, met, witness, time.monotonic() - begin)
    assert not witness.faults, "\n".join(witness.faults)
    assert sum(met.values()) > 0.8 * POINTS
    server.kill_and_restart()
    check_nothing_is_left(server, witness, folder, neighbours, disk)
    check_table(server, witness, first)
    check_failed_jobs_go_on(server, witness)
    assert {path: tree(path) for path in inputs} == inputs
    shutil.rmtree(tmp_path / "earlier")
