"""Tests of jobs as MPIJobs: a server, kubectl, a stand-in for the API (kubernetes_api.py), and mpirun on this machine."""

import json
import shutil
import signal
import subprocess
import threading

import pytest
import yaml
from conftest import (BINARIES, SOURCE, Authority, eventually, free_port, jobs_pb2, processes_of, reasons, says,
                      script, spec)
from kubernetes_api import JOBS, MPI_JOB, NAMESPACE, KubernetesApi, Operator, faults

Job = jobs_pb2.Job
TEMPLATE = yaml.safe_load((SOURCE / "deploy/kubernetes/mpijob.yaml").read_text())
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "own")


@pytest.fixture
def api(authority, tmp_path):
    api = KubernetesApi(tmp_path, *authority.issue("api"))
    api.ca = authority.certificate
    yield api
    api.close()


@pytest.fixture
def operator(api):
    operator = Operator(api, {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "GOMP_SPINCOUNT": "1000"})
    yield operator
    operator.close()


def write_template(folder, worker):
    """Writes the template of deploy/ with this machine's volume and programs."""
    template = json.loads(json.dumps(TEMPLATE))
    for kind in ("Launcher", "Worker"):
        container = template["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["containers"][0]
        container["volumeMounts"][0]["mountPath"] = str(folder)
        if kind == "Launcher":
            container["command"] = [*MPIRUN, str(worker)]
    file = folder / "template.yaml"
    file.write_text(yaml.safe_dump(template))
    return str(file)


def write_configuration(file, api, authority):
    """Writes kubectl's configuration, without a namespace."""
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": api.url, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": {"tokenFile": str(api.token)}}]}))


@pytest.fixture
def make_kubernetes_server(make_server, api, tmp_path):
    if not shutil.which("kubectl"):
        pytest.skip("there is no kubectl")

    def make(*options, worker=BINARIES / "dotresize-worker", authority=api.ca, template=None):
        write_configuration(tmp_path / "kubectl.json", api, authority)
        launcher = tmp_path / "launcher"
        launcher.write_text(f'#!/bin/sh\nexec {SOURCE}/deploy/launchers/kubernetes "$@" --namespace={NAMESPACE} '
                            f"--cache-dir={tmp_path}/cache\n")
        launcher.chmod(0o755)
        return make_server("--launcher", f"kubernetes={launcher}", "--workers", f"127.0.0.1:{free_port()}", "--retry-delay", "0",
                           *options, KUBECONFIG=str(tmp_path / "kubectl.json"),
                           DOTRESIZE_CPUS_PER_RANK="3",
                           DOTRESIZE_KUBERNETES_TEMPLATE=write_template(tmp_path, worker) if template is None else template)
    return make


@pytest.fixture
def patient_worker(tmp_path):
    """Returns a worker whose ranks wait until they are ended."""
    return script(tmp_path / "worker", "exec sleep 300")


def mpi_job(id_, attempt=1):
    return f"dotresize-{id_}-{attempt}"


def test_job_runs_to_its_end(make_kubernetes_server, api, operator, tmp_path):
    server = make_kubernetes_server()
    job = server.create(spec(tmp_path / "out"))
    assert job.launcher == "kubernetes"
    name = mpi_job(job.id)
    item = eventually(20, lambda: api.objects.get(name))
    secret = json.loads((server.state / f"jobs/{job.id}/attempt-1/attempt.json").read_text())["token"]
    ended = server.wait(job.id)
    assert ended.state == Job.SUCCEEDED, (ended.error, server.logs(job.id)[-2000:])
    assert (tmp_path / "out/dotresize/report.json").exists()
    assert server.logs(job.id)
    assert not any(secret in body for _, _, body in api.calls)
    assert not (server.state / f"jobs/{job.id}/attempt-1/attempt.json").exists(), "the secret goes with the attempt"
    container = item["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert int(container["resources"]["limits"]["memory"].removesuffix("Mi")) << 20 > ended.memory_bytes
    assert container["resources"]["requests"]["cpu"] == "6"
    assert name not in api.objects
    posts = [body for method, path, body in api.calls if (method, path) == ("POST", JOBS)]
    assert len(posts) == 1
    shown = subprocess.run([BINARIES / "dotresize", "admin", "info", "--server", server.endpoint], capture_output=True,
                           text=True, timeout=60, check=True)
    assert "launchers  kubernetes" in shown.stdout


def test_cancel_outlives_the_server_and_the_absence_of_the_api(make_kubernetes_server, api, operator, patient_worker,
                                                                tmp_path):
    server = make_kubernetes_server(worker=patient_worker)
    id_ = server.create(spec(tmp_path / "out")).id
    says(server, id_, "is Running, 1 worker active")
    with api.failing(503):
        assert server.cancel(id_).cancelling
        says(server, id_, "no answer since: Error from server (ServiceUnavailable)")
        server.end(signal.SIGKILL)
        server.start()
        says(server, id_, "has not answered yet")
        assert operator.is_running(mpi_job(id_))
    assert server.wait(id_).state == Job.CANCELLED
    assert not operator.is_running(mpi_job(id_))
    assert mpi_job(id_) not in api.objects
    options = next(json.loads(body) for method, _, body in api.calls if method == "DELETE")
    assert options["propagationPolicy"] == "Foreground"
    eventually(20, lambda: not processes_of(id_))


def test_attempt_that_has_lost_a_pod_is_gone_before_the_next_one(make_kubernetes_server, api, operator, patient_worker,
                                                                 tmp_path):
    server = make_kubernetes_server(worker=patient_worker)
    id_ = server.create(spec(tmp_path / "out")).id
    says(server, id_, "is Running")
    operator.deaf = True
    operator.evict(mpi_job(id_))
    says(server, id_, "is being deleted")
    server.kill_and_restart()
    says(server, id_, "is being deleted")
    assert server.get(id_).attempt == 1 and operator.is_running(mpi_job(id_))
    operator.deaf = False
    eventually(20, lambda: mpi_job(id_, 2) in api.objects)
    assert not operator.is_running(mpi_job(id_)) and mpi_job(id_) not in api.objects
    server.cancel(id_)
    server.wait(id_)
    assert any("MPIJobEvicted: 1/2 workers are evicted" in reason for _, reason in reasons(server, id_))


def test_mpijob_whose_creation_nobody_has_heard_of_is_found_again(make_kubernetes_server, api, operator, patient_worker,
                                                                  tmp_path):
    for i in range(600):  # jobs of another server, more than one page of a list
        api.objects[f"another-{i:03}"] = {
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": f"another-{i:03}", "uid": str(i), "labels": {"app.kubernetes.io/managed-by": "dotresize-server"}},
            "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    server = make_kubernetes_server(worker=patient_worker)
    created = threading.Event()
    with api.failing(method="POST", after=created):
        id_ = server.create(spec(tmp_path / "out")).id
        assert created.wait(20)
        server.end(signal.SIGKILL)
    uid = api.objects[mpi_job(id_)]["metadata"]["uid"]
    server.start()
    says(server, id_, "is Running")
    assert (server.get(id_).attempt, api.objects[mpi_job(id_)]["metadata"]["uid"]) == (1, uid)
    # The server now knows that the MPIJob exists, so its deletion ends the attempt.
    operator.call("DELETE", f"{JOBS}/{mpi_job(id_)}", {"propagationPolicy": "Foreground"})
    eventually(20, lambda: server.get(id_).attempt == 2)
    server.cancel(id_)
    server.wait(id_)
    assert any(reason == f"kubernetes does not know {mpi_job(id_)}" for _, reason in reasons(server, id_))


def test_mpijob_of_somebody_else_is_left_alone(make_kubernetes_server, api, patient_worker, tmp_path):
    server = make_kubernetes_server(worker=patient_worker)
    with api.failing(method="POST"):
        id_ = server.create(spec(tmp_path / "out")).id
        posted = eventually(20, lambda: [body for method, _, body in api.calls if method == "POST"])
        other = json.loads(posted[0])
        other["metadata"]["labels"]["dotresize.dev/nonce"] = "0" * 32
        api.handle("POST", JOBS, {}, other)
    job = server.wait(id_)
    assert (job.state, job.error.code) == (Job.FAILED, "INVALID_INPUT")
    assert "is not of this attempt" in job.error.message
    assert mpi_job(id_) in api.objects and not any(method == "DELETE" for method, _, _ in api.calls)


@pytest.mark.parametrize("code, message", [(403, "exceeded quota: gpus"), (422, "\x1b[31mspec")], ids=["forbidden", "invalid"])
def test_what_kubernetes_refuses_fails_with_its_message(make_kubernetes_server, api, patient_worker, tmp_path, code, message):
    server = make_kubernetes_server(worker=patient_worker)
    with api.failing(code, message, method="POST"):
        job = server.wait(server.create(spec(tmp_path / "out")).id)
    assert (job.state, job.error.code) == (Job.FAILED, "INVALID_INPUT")
    assert job.error.message.startswith("Kubernetes refuses the MPIJob: ")
    assert message.replace("\x1b", "?") in job.error.message


def test_queue_is_held_while_the_api_is_away(make_kubernetes_server, api, operator, patient_worker, tmp_path):
    server = make_kubernetes_server(worker=patient_worker)
    with api.failing():
        first = server.create(spec(tmp_path / "out0")).id
        says(server, first, "the server is currently unable to handle the request")
        second = server.create(spec(tmp_path / "out1")).id
        eventually(20, lambda: "launcher kubernetes does not answer: Error from server" in server.get(second).waiting_for)
        assert server.get(second).state == Job.QUEUED
    assert says(server, first, "is Running").attempt == 1
    # Kubernetes replaces the pod's token from time to time.
    api.token.with_name("next").write_text("eyJhbGciOi.second")
    api.token.with_name("next").replace(api.token)
    for id_ in (second, first):
        server.cancel(id_)
        assert server.wait(id_).state == Job.CANCELLED


def test_api_of_another_authority_gets_no_token(make_kubernetes_server, api, patient_worker, tmp_path):
    stranger = Authority(tmp_path / "stranger")
    server = make_kubernetes_server(worker=patient_worker, authority=stranger.certificate)
    id_ = server.create(spec(tmp_path / "out")).id
    eventually(20, lambda: "certificate signed by unknown authority" in str(server.get(id_)))
    assert api.calls == []
    server.cancel(id_)
    server.end(signal.SIGKILL)
    write_configuration(tmp_path / "kubectl.json", api, api.ca)
    server.start()
    assert server.wait(id_).state == Job.CANCELLED
    assert not any(method == "POST" for method, _, _ in api.calls), "what is cancelled is not created any more"


def test_killed_rank_is_named(make_kubernetes_server, operator, tmp_path):
    server = make_kubernetes_server("--max-attempts", "1", worker=script(
        tmp_path / "worker", "test $OMPI_COMM_WORLD_RANK = 0 || { sleep 0.7; kill -9 $$; }; exec sleep 300"))
    job = server.wait(server.create(spec(tmp_path / "out")).id)
    assert (job.error.code, job.error.rank, job.error.signal) == ("RANK_KILLED", 1, 9), job.error


def test_template_that_cannot_be_used_holds_the_queue(make_kubernetes_server, tmp_path):
    server = make_kubernetes_server(template="")
    first = server.create(spec(tmp_path / "out0")).id
    says(server, first, "the built-in MPIJob: launcher and workers need a volume at the state directory")
    second = server.create(spec(tmp_path / "out1")).id
    eventually(20, lambda: "need a volume" in server.get(second).waiting_for)


def test_plan_makes_what_the_api_takes(tmp_path):
    job = tmp_path / "job.json"
    job.write_text(json.dumps({
        "name": "Tiny (2)", "model": {"path": str(SOURCE / "examples/docs-llama")}, "output": {"path": str(tmp_path / "out")},
        "method": {"width": 128}, "calibration": {"tokens": str(SOURCE / "tests/data/calibration.safetensors")},
        "resources": {"ranks": 9, "device": "cuda"}}))
    done = subprocess.run([BINARIES / "dotresize", "plan", job, "--manifest", "mpijob", "-o", "json"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    config_map, made = json.loads(done.stdout)["items"]
    assert faults(made, MPI_JOB) == []
    worker = made["spec"]["mpiReplicaSpecs"]["Worker"]
    assert (worker["replicas"], made["spec"]["slotsPerWorker"]) == (2, 5)
    assert worker["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 5
    assert config_map["metadata"]["name"].startswith("dotresize-tiny-2-")
