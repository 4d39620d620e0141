"""Tests of sweeps: one job of the server that runs all combinations of settings."""

import json
import os
import pathlib
import signal
import subprocess
import urllib.request

import grpc
import numpy as np
import pytest
from conftest import (BINARIES, SOURCE, eventually, free_port, jobs_pb2, processes_of, refused, script, spec, sweep_pb2)
from safetensors.numpy import load_file, save_file
from test_webhooks import listen, secret  # noqa: F401

Job = jobs_pb2.Job
WORKER = os.environ.get("DOTRESIZE_WORKER") or str(BINARIES / "dotresize-worker")


@pytest.fixture
def tokens(tmp_path):
    rows = load_file(SOURCE / "tests/data/evaluation.safetensors")["tokens"]
    save_file({"tokens": np.ascontiguousarray(rows[:2, :64])}, tmp_path / "tokens.safetensors")
    return str(tmp_path / "tokens.safetensors")


@pytest.fixture
def base(tmp_path, tokens):
    """Returns a job without the axes that takes a second."""
    result = spec(tmp_path / "sweep", calibration__tokens=tokens, evaluation__tokens=tokens, resources__ranks=1)
    result.calibration.ClearField("samples")
    return result


def request(base, axes, request_id="", webhook="", **sweep):
    result = jobs_pb2.CreateSweepRequest(spec=base, sweep=sweep_pb2.SweepSpec(**sweep), request_id=request_id)
    if webhook:
        result.options.notify.webhook = webhook
    for key, values in axes.items():
        result.sweep.axes.add(key=key).values.extend(values)
    return result


def create(server, *arguments, **options):
    sweep = server.jobs.CreateSweep(request(*arguments, **options), timeout=60)
    server.ids.add(sweep.job.id)
    return sweep


def get(server, id_):
    return server.jobs.GetSweep(jobs_pb2.GetSweepRequest(id=id_), timeout=20)


def runners_of(id_):
    """Returns the processes that run a sweep itself."""
    command_lines = {pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in processes_of(id_)}
    return [pid for pid, words in command_lines.items() if words[1:2] == [b"sweep"]]


AXES = {"method.name": ["slicegpt", "pca_dotresize"], "method.size": [0.9, 0.8, 0.01]}


def artifacts_of(server, id_):
    """Returns {name: content} of the job's artifacts."""
    def content(name):
        chunks = server.jobs.GetArtifact(jobs_pb2.GetArtifactRequest(id=id_, name=name), timeout=20)
        return b"".join(chunk.data for chunk in chunks)
    listed = server.jobs.ListArtifacts(jobs_pb2.ListArtifactsRequest(id=id_), timeout=20).artifacts
    return {artifact.name: content(artifact.name) for artifact in listed}


def test_a_sweep_outlives_its_server_and_gives_what_single_jobs_give(make_server, base, listen, secret, tmp_path):  # noqa: F811
    runs = tmp_path / "runs"
    listener = listen()
    hook = {"webhook": listener.origin + "/hook"}
    worker = script(tmp_path / "worker", f'echo once >> {runs}\nexec {WORKER} "$@"')
    server = make_server("--http", "127.0.0.1:0", "--allow-webhook", listener.origin, "--webhook-secret", secret, DOTRESIZE_WORKER=worker)
    created = create(server, base, AXES, "r", parallel=1, **hook)
    id_ = created.job.id
    assert (created.job.sweep_size.combinations, created.pending, created.refused) == (6, 4, 2)
    reasons = [row.reason for row in created.results.variants if row.state == row.refused]
    assert len(reasons) == 2 and all("method.size" in reason for reason in reasons)

    eventually(60, lambda: get(server, id_).done)
    server.kill_and_restart()
    again = create(server, base, AXES, "r", parallel=1, **hook)
    assert (again.job.id, again.job.already_submitted) == (id_, True)
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        create(server, base, {"method.size": [0.9]}, "r", parallel=1)

    job = server.wait(id_)
    sweep = get(server, id_)
    assert job.state == Job.SUCCEEDED, (job, server.logs(id_))
    assert (sweep.done, sweep.refused, sweep.pending, sweep.failed) == (4, 2, 0, 0)
    assert (job.attempt, runs.read_text().count("once")) == (1, 4)
    assert job.progress.phase == "4 of 4 jobs" and job.progress.fraction == 1
    done = {(row.values["method.name"], row.values["method.size"]): row for row in sweep.results.variants
            if row.state == row.done}
    for name in AXES["method.name"]:
        single = spec(tmp_path / name, evaluation__tokens=base.evaluation.tokens, resources__ranks=1,
                      calibration__tokens=base.calibration.tokens, method__size=0.8,
                      method__name=type(base.method).Name.Value(name))
        single.method.ClearField("sparsity")
        single.calibration.ClearField("samples")
        result = server.wait(server.create(single).id).result
        assert done[name, "0.8"].perplexity == pytest.approx(result.compressed.perplexity, rel=1e-6)
        assert sweep.results.dense.perplexity == pytest.approx(result.dense.perplexity, rel=1e-6)
    assert [bool(row.model) for row in done.values()] == [row.best for row in done.values()]

    # The sweep has artifacts, a webhook call and a line in the list.
    artifacts = artifacts_of(server, id_)
    assert artifacts.keys() == {"job.json", "log", "plan.txt", "results.json", "report.html"}
    assert all(artifacts[name] == (tmp_path / "sweep" / name).read_bytes() for name in ("results.json", "report.html"))
    eventually(30, lambda: server.get(id_).notification.state == jobs_pb2.Notification.DELIVERED)
    [(path, _, body)] = listener.messages
    assert path == "/hook" and json.loads(body)["data"]["id"] == id_
    with urllib.request.urlopen(f"{server.http}/jobs", timeout=20) as page:
        assert "4 jobs of a sweep" in page.read().decode()

    # The command line shows the same results, and does not run finished jobs again.
    def cli(*arguments):
        return subprocess.run([BINARIES / "dotresize", *map(str, arguments)], capture_output=True, text=True, check=True,
                              env={**os.environ, "DOTRESIZE_SERVER": server.endpoint}, timeout=60).stdout

    document = json.loads((tmp_path / "sweep/results.json").read_text())
    assert json.loads(cli("report", id_, "-o", "json")) == document
    file = tmp_path / "sweep.json"
    axes = {"sweep": AXES, "model": {"path": base.model.path}, "output": {"path": "sweep"}, "name": "test",
            "calibration": {"tokens": "tokens.safetensors"}, "evaluation": {"tokens": "tokens.safetensors"}}
    file.write_text(json.dumps(axes))
    before = runs.read_text()
    front = cli("submit", file, "--wait", "--pareto").splitlines()
    assert runs.read_text() == before
    assert front == cli("sweep", file, "--pareto").splitlines() and "dense:" in front[-1]
    assert front[0].split()[:2] == ["name", "size"]


def test_a_sweep_is_cancelled_with_all_of_its_processes(make_server, base, tmp_path):
    server = make_server("--retry-delay", "0", "--max-ranks", "2",
                         DOTRESIZE_WORKER=script(tmp_path / "worker", "sleep 300"))
    id_ = create(server, base, {"method.sparsity": [0.2, 0.3]}, parallel=2).job.id
    eventually(20, lambda: server.get(id_).state == Job.RUNNING and len(runners_of(id_)) == 1)
    # The sweep has the ranks of both jobs. Their processes cannot call the server.
    other = server.create(spec(tmp_path / "other", resources__ranks=1)).id
    eventually(20, lambda: server.get(other).waiting_for == "1 ranks (0 free)")
    server.cancel(other)

    def supervisor_and_runner_alone_have_the_token():
        environments = processes_of(id_).values()
        # A worker that has not reached its exec yet still has the runner's environment.
        return len(environments) > 2 and sum("DOTRESIZE_ATTEMPT_TOKEN" in found for found in environments) == 2

    eventually(20, supervisor_and_runner_alone_have_the_token)
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        server.create(spec(tmp_path / "sweep/variants/other"))
    assert found[0] == "OUTPUT_IN_USE"

    os.kill(runners_of(id_)[0], signal.SIGKILL)
    eventually(20, lambda: server.get(id_).attempt == 2 and runners_of(id_))
    server.cancel(id_)
    assert server.wait(id_).state == Job.CANCELLED
    assert processes_of(id_) == {}
    assert get(server, id_).pending == 2


def test_a_sweep_whose_jobs_fail_says_why_and_can_be_resumed(make_server, base, tmp_path):
    line = "dotresize-worker: error: rank 0 on here in calibrate: bad luck"
    server = make_server(DOTRESIZE_WORKER=script(tmp_path / "worker", f"echo '{line}' >&2; exit 1"))
    link = tmp_path / "link.safetensors"
    link.symlink_to(SOURCE / "tests/data/calibration.safetensors")
    base.evaluation.ClearField("tokens")
    base.evaluation.text.append(str(SOURCE / "README.md"))
    id_ = create(server, base, {"calibration.tokens": [base.calibration.tokens, str(link)]}).job.id
    job = server.wait(id_)
    run = [json.loads(file.read_text()) for file in tmp_path.glob("sweep/variants/*/job.json")]
    assert {spec["calibration"]["tokens"] for spec in run} == {base.calibration.tokens, os.path.realpath(link)}
    assert [spec["evaluation"]["text"] for spec in run] == [[str(SOURCE / "README.md")]] * 2
    assert (job.state, job.error.code) == (Job.FAILED, "RANK_FAILED")
    assert job.error.message.startswith("2 of 2 jobs failed; ") and job.error.message.endswith("bad luck")
    assert {row.reason for row in get(server, id_).results.variants} == {"bad luck"}
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        server.resume(id_, fresh=True)
    assert "fresh" in found[1]
    assert server.resume(id_).state == Job.QUEUED
    assert server.wait(id_).attempt == 2


def test_a_sweep_whose_jobs_need_more_than_the_machine_has_is_refused(make_server, base):
    server = make_server("--memory", "64MiB", DOTRESIZE_WORKER="/bin/false")
    base.resources.memory = "64GiB"
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        create(server, base, {"method.size": [0.9, 0.8]})
    assert "64.0 MiB for jobs (--memory)" in found[1]["resources.memory"]


def test_bad_sweeps_are_refused_by_name(make_server, base, tokens, tmp_path):
    server = make_server("--max-ranks", "2", "--allow-root", str(SOURCE), "--allow-root", str(tmp_path),
                         DOTRESIZE_WORKER="/bin/false")

    def violations(axes, job_spec=base, **sweep):
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
            create(server, job_spec, axes, **sweep)
        return found[1]

    sizes = {"method.size": [0.9, 0.8]}
    assert set(violations({})) == {"sweep"}
    assert set(violations({"method.size": ["large"], "output.path": ["/a"]})) == {"sweep.method.size", "sweep.output.path"}
    assert "no combination gives a valid job" in violations({"method.size": [0.01]})["sweep"]
    assert "more than 4096" in violations({"method.lambda": list(range(1, 101)), "method.width": list(range(1, 101))})["sweep"]
    assert "--max-ranks" in violations(sizes, parallel=3)["sweep.parallel"]
    assert "not an absolute path" in violations({"calibration.tokens": ["a", tokens]})["sweep.calibration.tokens"]
    without = type(base)()
    without.CopyFrom(base)
    without.ClearField("evaluation")
    assert set(violations(sizes, without)) == {"evaluation"}
    newer = type(base)()
    newer.CopyFrom(base)
    newer.MergeFromString(b"\x80\x7d\x01")  # field 2000
    assert "number 2000" in violations(sizes, newer)["spec"]

    with refused(grpc.StatusCode.PERMISSION_DENIED) as found:
        create(server, base, {"calibration.tokens": ["/etc/hostname", tokens]})
    assert found[0] == "PATH_NOT_ALLOWED"
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep/mine").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for output in ("sweep", "link"):
        elsewhere = type(base)()
        elsewhere.CopyFrom(base)
        elsewhere.output.path = str(tmp_path / output)
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
            create(server, elsewhere, sizes)
        assert found[0] == "OUTPUT_FOREIGN"

    job = server.create(spec(tmp_path / "out", resources__ranks=1))
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
        get(server, job.id)
    assert found[0] == "NO_SWEEP"


def test_sweep_that_asks_for_no_launcher_runs_on_the_servers_machine(make_server, base):
    remote = ("--workers", f"127.0.0.1:{free_port()}")
    server = make_server("--launcher", "external,local", *remote)
    sweep = create(server, base, {"method.size": [0.9]})
    assert not sweep.job.HasField("launcher")
    assert server.wait(sweep.job.id).state == Job.SUCCEEDED
    base.resources.launcher = "external"
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        create(server, base, {"method.size": [0.8]})
    assert "not by external" in found[1]["resources.launcher"]
    server.end(signal.SIGTERM)
    base.resources.ClearField("launcher")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
        create(make_server("--launcher", "external", *remote), base, {"method.size": [0.8]})
    assert "by the launcher local, which this server does not have" in found[1]["resources.launcher"]
