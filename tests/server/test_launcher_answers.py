"""Tests of what deploy/launchers/slurm, kubernetes and ssh make of recorded answers of the clusters' programs."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import PROGRAM, SOURCE, eventually

NAME = "dotresize-j-1-1"
REQUEST = {"name": NAME, "ranks": 3, "memory_bytes": 1000 << 20, "gpus_per_rank": 1, "command": ["/w", "--attempt", "/a b"],
           "umask": "0022", "log": "/state/%j/log"}


class Programs:
    """Stand-ins for the programs of a cluster, each with an answer and an exit code."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()

    def add(self, name, output="", errors="", code=0):
        for stream, text in (("out", output), ("err", errors)):
            (self.folder / f"{name}.{stream}").write_text(text)
        program = self.folder / "bin" / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{self.folder}/{name}.arguments\nenv >{self.folder}/{name}.environment\n'
                           f"cat {self.folder}/{name}.out\ncat {self.folder}/{name}.err >&2\nexit {code}\n")
        program.chmod(0o755)

    def request(self):
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FROM_THE_SERVER": "yes"}
        return REQUEST | {"environment": environment, "folder": str(self.folder)}

    def arguments(self, name):
        return (self.folder / f"{name}.arguments").read_text().splitlines()

    def ask(self, launcher, verb, request, *options, **environment):
        return subprocess.run(
            [SOURCE / "deploy/launchers" / launcher, verb, *options], input=json.dumps(request), capture_output=True, text=True,
            timeout=60, env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **environment})

    def without(self, missing):
        """Returns a PATH with the stand-ins and what they need, and no program of this name."""
        assert not (self.folder / "bin" / missing).exists()
        for name in ("cat", "env", "sh"):
            (self.folder / "bin" / name).symlink_to(shutil.which(name))
        (self.folder / "bin/python3").symlink_to(os.path.realpath(sys.executable))
        return f"{self.folder}/bin"

    def answers(self, launcher):
        done = self.ask(launcher, "status", {"attempts": {NAME: str(self.folder), "dotresize-j-2-1": str(self.folder)}})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["attempts"]


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


def slurm_answer(programs, state, ended="0", reason="None"):
    programs.add("squeue", f"17|{NAME}|{state}|{ended}|{reason}|\n")
    programs.add("sacct", errors="Slurm accounting storage is disabled\n", code=1)
    return programs.answers("slurm")[NAME]


def test_slurm_jobs_of_others_are_left_out(programs):
    programs.add("squeue", f"12|wrap|RUNNING|0|None|\n13|their|own|words|\n17|{NAME}|PENDING|0|Resources|\n")
    programs.add("sacct")
    assert programs.answers("slurm") == {NAME: {"state": "waiting", "note": "Slurm job 17 is PENDING (Resources)"}}


def test_slurm_the_newest_job_of_a_name_counts(programs):
    programs.add("squeue", f"19|{NAME}|RUNNING|0|None|\n18|{NAME}|FAILED|256|None|\n")
    programs.add("sacct")
    assert programs.answers("slurm")[NAME]["note"] == "Slurm job 19 is RUNNING"


@pytest.mark.parametrize("squeue, sacct", [
    (f"17  {NAME}  RUNNING\n", ""), (f"x|{NAME}|RUNNING|0|None|\n", ""), ("", f"17|{NAME}|FAILED\n"), ("", f"17|{NAME}|FAILED|1:x\n")])
def test_slurm_answer_of_another_form_is_no_empty_queue(programs, squeue, sacct):
    programs.add("squeue", squeue)
    programs.add("sacct", sacct)
    assert programs.ask("slurm", "status", {"attempts": {NAME: "/"}}).returncode not in (0, 65)


def test_slurm_that_does_not_answer_is_told_with_its_last_line(programs):
    programs.add("squeue", errors="first\nslurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    done = programs.ask("slurm", "status", {"attempts": {}})
    assert (done.returncode, done.stderr) == (1, "slurm_load_jobs error: Unable to contact slurm controller\n")


def test_slurm_accounting_says_how_a_job_has_ended(programs):
    programs.add("squeue")
    programs.add("sacct", f"17|{NAME}|FAILED|65:0\n18|dotresize-j-2-1|CANCELLED by 1000|0:15\n")
    answers = programs.answers("slurm")
    assert (answers[NAME]["state"], answers[NAME]["exit_code"]) == ("ended", 65)
    assert answers["dotresize-j-2-1"]["code"] == "RANK_FAILED"


def test_slurm_without_accounting_answers_as_well(programs):
    programs.add("squeue", f"17|{NAME}|RUNNING|0|None|\n")
    done = programs.ask("slurm", "status", {"attempts": {NAME: "/", "dotresize-j-2-1": "/"}}, PATH=programs.without("sacct"))
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["attempts"]) == {NAME}


def test_slurm_job_is_not_lost_while_accounting_does_not_answer(programs):
    programs.add("squeue")
    programs.add("sacct", errors="sacct: error: Sending PersistInit msg: Connection refused\n", code=1)
    done = programs.ask("slurm", "status", {"attempts": {NAME: str(programs.folder)}})
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "sacct: error: Sending PersistInit msg: Connection refused\n")


@pytest.mark.parametrize("printed", ["17\n", "17;cluster\n"])
def test_slurm_job_that_it_has_forgotten_is_lost_and_not_submitted_again(programs, printed):
    programs.add("squeue")
    programs.add("sacct", errors="Slurm accounting storage is disabled\n", code=1)
    programs.add("sbatch", printed)
    assert programs.ask("slurm", "submit", programs.request()).returncode == 0
    (programs.folder / "sbatch.arguments").unlink()
    done = programs.ask("slurm", "status", {"attempts": {NAME: str(programs.folder), "dotresize-j-2-1": "/"}})
    answers = json.loads(done.stdout)["attempts"]
    assert answers == {NAME: {"state": "ended", "code": "LOST", "message": "Slurm has forgotten its job 17, and how it ended"}}
    assert programs.ask("slurm", "submit", programs.request()).returncode == 0
    assert not (programs.folder / "sbatch.arguments").exists(), "it was submitted before"


def test_slurm_end_of_the_script_is_the_end_of_the_attempt(programs):
    assert slurm_answer(programs, "COMPLETED")["exit_code"] == 0
    assert slurm_answer(programs, "FAILED", str(65 << 8))["exit_code"] == 65
    assert slurm_answer(programs, "FAILED", "143:0")["exit_code"] == 143
    # slurmctld reports this for a script that could not be started.
    assert "that all nodes have" in slurm_answer(programs, "FAILED", "4021")["message"]
    assert slurm_answer(programs, "FAILED", "9")["message"] == "the script of Slurm job 17 was killed by signal 9"


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "TIMEOUT", "BOOT_FAIL", "OUT_OF_MEMORY", "REVOKED"])
def test_slurm_what_it_does_to_a_job_is_lost(programs, state):
    answer = slurm_answer(programs, state)
    assert (answer["state"], answer["code"]) == ("ended", "LOST")
    assert answer["message"].startswith("Slurm job 17 ")


def test_slurm_nobody_is_expected_to_call_while_it_holds_the_job(programs):
    for state in ("PENDING", "CONFIGURING", "SUSPENDED", "COMPLETING", "REQUEUE_HOLD"):
        assert slurm_answer(programs, state)["state"] == "waiting"
    for state in ("RUNNING", "SOMETHING_NEW"):
        assert slurm_answer(programs, state)["state"] == "running"


def test_slurm_submits_what_the_attempt_needs(programs):
    programs.add("squeue")
    programs.add("sbatch", "17\n")
    request = programs.request()
    done = programs.ask("slurm", "submit", request, "--partition=gpu x", DOTRESIZE_CPUS_PER_RANK="2", NCCL_DEBUG="INFO", SECRET="s")
    assert done.returncode == 0, done.stderr
    arguments = programs.arguments("sbatch")
    for argument in (f"--job-name={NAME}", "--ntasks=3", "--cpus-per-task=2", "--mem-per-cpu=565M", "--no-requeue",
                     "--output=/state/%%j/log", "--gpus-per-task=1", "--partition=gpu x"):
        assert argument in arguments
    assert arguments[-6:] == [str(programs.folder / "job.sh"), "0022", "1", "/w", "--attempt", "/a b"]
    environment = (programs.folder / "sbatch.environment").read_text().splitlines()
    assert "FROM_THE_SERVER=yes" in environment and "NCCL_DEBUG=INFO" in environment and "SECRET=s" not in environment
    (programs.folder / "sbatch.arguments").unlink()
    programs.add("squeue", "17\n")
    assert programs.ask("slurm", "submit", request).returncode == 0
    assert not (programs.folder / "sbatch.arguments").exists(), "it is known already"


@pytest.mark.parametrize("reason, code", [
    ("Unable to contact slurm controller (connect failure)", 1), ("Requested node configuration is not available", 65)])
def test_slurm_refusal_is_no_silence(programs, reason, code):
    programs.add("squeue")
    programs.add("sbatch", errors=f"sbatch: error: Batch job submission failed: {reason}\n", code=1)
    done = programs.ask("slurm", "submit", programs.request())
    assert done.returncode == code
    assert done.stderr.endswith(f"failed: {reason}\n")


@pytest.mark.parametrize("launcher", ["slurm", "kubernetes"])
@pytest.mark.parametrize("cpus", ["0", "1025", "-1", "two", ""])
def test_number_of_processors_out_of_its_bounds_is_refused_by_name(programs, launcher, cpus):
    for program in ("squeue", "sbatch", "kubectl"):
        programs.add(program)
    done = programs.ask(launcher, "submit", programs.request(), DOTRESIZE_CPUS_PER_RANK=cpus)
    assert done.returncode not in (0, 65), "the operator can mend it"
    assert done.stderr == f"DOTRESIZE_CPUS_PER_RANK: {cpus!r} is not a number from 1 to 1024\n"


@pytest.mark.parametrize("change, fault", [
    ({"ranks": 0}, "ranks must be"), ({"cpus": 0}, "cpus must be"), ({"memory_bytes": -1}, "memory_bytes must be"),
    ({"command": []}, "command is empty"), ({"name": 7}, "type must be string"), ({"template": "/"}, "is not a regular file")],
    ids=str)
def test_request_of_another_form_makes_no_mpijob(change, fault):
    request = {**REQUEST, "folder": "/shared/x", "labels": {}, "cpus": 1, "template": "", **change}
    done = subprocess.run([PROGRAM, "mpijob"], input=json.dumps(request), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (65, "")
    assert fault in done.stderr


def mpi_job(programs, *conditions, reason="", message="", **metadata):
    """Returns the answer on an MPIJob for which these conditions hold."""
    (programs.folder / "nonce").write_text("7")
    labels = {"app.kubernetes.io/managed-by": "dotresize-server", "dotresize.dev/job": "j-1", "dotresize.dev/attempt": "1",
              "dotresize.dev/nonce": "7"}
    held = [{"type": kind, "status": "True", "reason": reason, "message": message} for kind in conditions]
    item = {"metadata": {"name": NAME, "labels": labels, **metadata},
            "status": {"conditions": held, "replicaStatuses": {"Launcher": {}, "Worker": {"active": 2}}}}
    programs.add("kubectl", json.dumps({"items": [item]}))
    return programs.answers("kubernetes").get(NAME)


def test_kubernetes_nobody_is_expected_to_call_before_all_pods_run(programs):
    assert "does mpi-operator run?" in mpi_job(programs)["note"]
    for conditions in ([], ["Created"], ["Created", "Suspended"], ["Running", "Suspended"]):
        assert mpi_job(programs, *conditions)["state"] == "waiting"
    running = mpi_job(programs, "Created", "Running")
    assert running == {"state": "running", "note": f"MPIJob {NAME} is Running, 2 workers active"}
    assert mpi_job(programs, "Running", deletionTimestamp="2026-01-01T00:00:00Z")["state"] == "waiting"


def test_kubernetes_end_of_the_launcher_is_the_end_of_the_attempt(programs):
    assert mpi_job(programs, "Created", "Succeeded")["exit_code"] == 0
    failed = mpi_job(programs, "Failed", reason="BackoffLimitExceeded/", message="limit: ")
    assert (failed["state"], failed["exit_code"]) == ("ended", 1), "a rank or the log says why"


@pytest.mark.parametrize("reason", [
    "MPIJobEvicted", "BackoffLimitExceeded/Evicted", "BackoffLimitExceeded/NodeLost", "BackoffLimitExceeded/Terminated",
    "BackoffLimitExceeded/Preempting", "BackoffLimitExceeded/NodeShutdown", "BackoffLimitExceeded"])
def test_kubernetes_what_it_does_to_a_pod_is_lost(programs, reason):
    answer = mpi_job(programs, "Failed", reason=reason, message="1/2 workers")
    assert (answer["state"], answer["code"]) == ("ended", "LOST")
    assert f"({reason}: 1/2 workers)" in answer["message"]


def test_kubernetes_deadline_of_the_template_is_the_jobs(programs):
    assert mpi_job(programs, "Failed", reason="DeadlineExceeded")["code"] == "DEADLINE_EXCEEDED"


def test_kubernetes_mpijob_with_another_nonce_is_none_of_the_attempt(programs):
    assert mpi_job(programs, "Running", labels={"dotresize.dev/nonce": "8"}) is None


def test_kubernetes_answer_of_another_form_is_no_empty_list(programs):
    for text in ("", "[]", "{}", '{"items": [{}]}'):
        programs.add("kubectl", text)
        assert programs.ask("kubernetes", "status", {"attempts": {NAME: "/"}}).returncode not in (0, 65)


@pytest.fixture
def ssh(programs):
    """Programs whose ssh runs its script here, and whose mpirun ignores SIGTERM until it is killed."""
    (programs.folder / "bin/ssh").write_text("#!/bin/sh\nexec sh\n")
    (programs.folder / "bin/mpirun").write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n")
    for name in ("ssh", "mpirun"):
        (programs.folder / "bin" / name).chmod(0o755)
    yield programs
    with contextlib.suppress(OSError, ValueError):
        os.killpg(group_of(programs), signal.SIGKILL)


def group_of(ssh):
    return int((ssh.folder / "pid").read_text().split()[0])


def ask_ssh(ssh, verb, **changes):
    path = f"{ssh.folder}/bin:{os.environ['PATH']}"
    request = {**ssh.request(), "log": f"{ssh.folder}/log", "environment": {"PATH": path}, **changes}
    asked = {"attempts": {NAME: request["folder"]}} if verb == "status" else request
    done = ssh.ask("ssh", verb, asked, DOTRESIZE_HOSTS="node1:8")
    return done if verb != "status" or done.returncode else json.loads(done.stdout)["attempts"]


def test_ssh_ends_what_ignores_a_cancel(ssh):
    assert ask_ssh(ssh, "submit").returncode == 0
    assert ask_ssh(ssh, "submit").returncode == 0, "it is started once"
    group = group_of(ssh)
    assert ask_ssh(ssh, "status")[NAME]["state"] == "running"
    assert ask_ssh(ssh, "cancel").returncode == 0
    eventually(10, lambda: ask_ssh(ssh, "status")[NAME] == {
        "state": "ended", "code": "LOST", "message": "mpirun on node1:8 is gone"})
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    assert ask_ssh(ssh, "cancel").returncode == 0, "there is nothing to do"


@pytest.mark.parametrize("field", ["boot", "start time"])
def test_ssh_group_of_a_number_used_again_is_another_one(ssh, field):
    assert ask_ssh(ssh, "submit").returncode == 0
    pid, start, boot = (ssh.folder / "pid").read_text().split()
    assert boot == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (ssh.folder / "pid").write_text(f"{pid} {start} {boot[::-1]}\n" if field == "boot" else f"{pid} {int(start) + 1} {boot}\n")
    assert ask_ssh(ssh, "status")[NAME]["code"] == "LOST"
    assert ask_ssh(ssh, "cancel").returncode == 0
    os.killpg(int(pid), 0)


def test_ssh_leader_that_is_dead_leaves_a_group_that_runs(ssh):
    assert ask_ssh(ssh, "submit").returncode == 0
    os.kill(group_of(ssh), signal.SIGKILL)
    assert ask_ssh(ssh, "status")[NAME]["state"] == "running"


def test_ssh_folder_that_cannot_be_reached_is_no_answer(ssh):
    assert ask_ssh(ssh, "status") == {}
    for verb in ("status", "cancel"):
        assert ask_ssh(ssh, verb, folder=f"{ssh.folder}/away").returncode not in (0, 65)


def test_ssh_submission_that_does_not_start_is_not_waited_for(ssh):
    ssh.add("setsid")
    done = ask_ssh(ssh, "submit")
    assert (done.returncode, done.stderr) == (1, "run.sh does not start\n")
