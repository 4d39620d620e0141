"""Tests of what a run takes from its parent and its machine: limits, steps of MPI and Slurm, users, directories."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import psutil
import pytest
from conftest import BIN, SOURCE, read_until

MODEL = SOURCE / "examples" / "docs-llama"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems and becomes another user")
STRANGER = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]  # in no list of users
PARENT_IN_MPI = """
import ctypes, subprocess, sys
ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL).MPI_Init(None, None)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


def run(*command, exit_code=0, **options):
    """Runs a command around the program. Returns its stderr."""
    options.setdefault("env", os.environ)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == exit_code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stderr


def with_text(job_files, **options):
    text = job_files.folder / "text.txt"
    text.write_text("The module returns a list of the values. " * 200)
    calibration = {"tokens": None, "text": [str(text)], "samples": 2, "seqlen": 64}
    return job_files("text", calibration=calibration, resources={"ranks": 1}, **options)


@pytest.fixture
def open_folder():
    """Returns a directory that every user can write to."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dotresize-open-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("parent", ["mpi", "mpirun", "slurm"])
def test_two_ranks_start_within_a_step_of_mpi_or_slurm(job_files, parent):
    program = [BIN / "dotresize", "run", job_files()]
    if parent == "mpi":
        run(sys.executable, "-c", PARENT_IN_MPI, *program)
    elif parent == "mpirun":
        run("mpirun", "--allow-run-as-root", "-np", "1", *program)
    else:  # of two nodes, in which mpirun would start its daemons
        step = {"SLURM_JOBID": "1", "SLURM_NODELIST": "a,b", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_NNODES": "2",
                "SLURM_STEP_NUM_TASKS": "4"}
        run(*program, env=os.environ | step)


@pytest.mark.parametrize("limit", ["4000000000", "4000000000:16000000000"])
def test_a_lower_limit_of_the_address_space_stays(job_files, limit):
    run("prlimit", f"--as={limit}", BIN / "dotresize", "run", with_text(job_files))


def test_a_limit_of_file_sizes_is_named(job_files):
    error = run("prlimit", "--fsize=100000", BIN / "dotresize", "run", job_files(resources={"ranks": 1}), exit_code=1)
    assert "File too large" in error


def test_too_few_open_files_are_named(job_files):
    error = run("prlimit", "--nofile=32:32", BIN / "dotresize", "run", job_files(), exit_code=69)
    assert "32 are too few for an mpirun with 2 ranks" in error and "ulimit -n" in error
    run("prlimit", "--nofile=32:64", BIN / "dotresize", "run", job_files())


@needs_root
def test_too_little_shared_memory_is_explained(job_files):
    program = f"mount -t tmpfs -o size=64k none /dev/shm && exec {BIN}/dotresize run {job_files()}"
    error = run("unshare", "--mount", "sh", "-c", program, exit_code=69)
    assert "/dev/shm: less than 16.0 MiB are free; ranks exchange messages there" in error


@needs_root
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_user_without_home_and_name_can_run_jobs(job_files, open_folder, ranks):
    if subprocess.run([*STRANGER, BIN / "dotresize-worker", "--version"], capture_output=True).returncode != 0:
        pytest.skip("other users cannot reach the programs")
    tokens = shutil.copy(job_files.tokens, open_folder)
    os.chmod(tokens, 0o644)
    job = open_folder / "job.json"
    job.write_text(job_files(output={"path": str(open_folder / "out")}, calibration={"tokens": tokens},
                             resources={"ranks": ranks}).read_text())
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    run(*STRANGER, BIN / "dotresize", "run", job, env=environment, cwd=open_folder)


@needs_root
def test_a_job_file_may_lie_in_a_directory_that_cannot_be_written(job_files, tmp_path):
    job, mounted = with_text(job_files), tmp_path / "mounted"
    mounted.mkdir()
    program = (f"mount -t tmpfs none {mounted} && cp {job} {mounted} && mount -o remount,ro {mounted} && "
               f"exec {BIN}/dotresize run {mounted}/{job.name}")
    for cache in (tmp_path / "cache", mounted):  # the user's cache, or a temporary directory
        run("unshare", "--mount", "sh", "-c", program, env=os.environ | {"XDG_CACHE_HOME": str(cache)})
        shutil.rmtree(tmp_path / "out-text")
    assert list((tmp_path / "cache").rglob("tokens-*.safetensors"))


@pytest.mark.parametrize("arguments", [["plan", "job.yaml"], ["eval", MODEL, "--tokens", "x"], ["verify", MODEL], ["list"]])
def test_a_removed_working_directory_is_named(tmp_path, arguments):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["sh", "-c", f'rmdir {gone}; exec "$0" "$@"', BIN / "dotresize", *arguments]
    assert "the working directory cannot be found" in run(*command, exit_code=65, cwd=gone)


@pytest.mark.parametrize("arguments", [
    ["export", "", "--to", "gguf"], ["export", "m", "", "--to", "gguf"], ["init", ""], ["init", "m", ""],
    ["init", "m", "--text", ""], ["plan", ""], ["plan", "j", "--hardware", ""], ["run", ""], ["run", "j", "--trace", ""],
    ["run", "j", "--set", ""], ["verify", ""], ["eval", "", "--latency"], ["eval", "m", "--text", ""], ["eval", "m", "--text", "a", ""],
    ["eval", "m", "--generate", ""], ["sweep", ""], ["report", ""], ["submit", ""], ["fetch", "j-1", ""], ["status", ""],
])
def test_an_empty_argument_is_a_usage_error(offline, arguments):
    error = offline(*arguments, exit_code=64).stderr
    assert f"dotresize: error: {arguments[0]}: " in error and "must not be empty" in error


def test_the_worker_refuses_an_empty_argument_too():
    assert "job: must not be empty" in run(BIN / "dotresize-worker", "", exit_code=64)


def test_an_export_into_a_missing_folder_names_the_folder(offline, tmp_path):
    file = tmp_path / "missing" / "x.gguf"
    error = offline("export", MODEL, file, "--to", "gguf", exit_code=65).stderr
    assert f"{file}: its folder is not there; make it with mkdir -p {file.parent}" in error


def test_the_same_job_is_done_already_and_another_one_is_refused(offline, job_files, tmp_path):
    job = job_files()
    offline("run", job)
    weights = next((tmp_path / "out-tiny").glob("model-*.safetensors"))
    before = weights.stat()
    again = offline("run", job)
    assert again.stderr == f"done already: {tmp_path}/out-tiny is the complete output of this job\n"
    assert isinstance(offline.json("run", job), dict)
    assert weights.stat() == before
    run(BIN / "dotresize-worker", job)  # by hand
    assert "out-tiny exists" in offline("run", job, "--set", "method.width=120", exit_code=65).stderr
    assert "out-tiny exists" in offline("run", job, "--fresh", exit_code=65).stderr
    weights.unlink()
    assert "out-tiny exists" in offline("run", job, exit_code=65).stderr


def test_a_complete_output_counts_however_mpirun_ends(offline, job_files, tmp_path, monkeypatch):
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "mpirun").write_text(f'#!/bin/sh\n{shutil.which("mpirun")} "$@"\nexit 137\n')
    (commands / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    job = job_files()
    assert "warning: the ranks ended with exit code 137 after the output was complete" in offline("run", job).stderr
    assert "done already" in offline("run", job).stderr


def test_an_mpirun_that_says_nothing_comes_with_what_to_try(offline, job_files, tmp_path, monkeypatch):
    (tmp_path / "mpirun").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    error = offline("run", job_files(), exit_code=1).stderr
    assert "the ranks ended with exit code 1 and gave no reason: `dotresize doctor` tries" in error


def test_a_killed_mpirun_leaves_no_shared_memory(offline, job_files):
    started = offline.start("run", job_files.endless())
    read_until(started.stderr, "calibrate")
    [mpirun] = [child for child in psutil.Process(started.pid).children() if child.name() == "mpirun"]
    folder = pathlib.Path(mpirun.cmdline()[mpirun.cmdline().index("btl_vader_backing_directory") + 1])
    assert list(folder.glob("vader_segment.*"))
    mpirun.send_signal(signal.SIGKILL)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode == 137 and "the ranks were killed by signal 9" in stderr
    assert not folder.exists()


@needs_root
def test_an_output_that_cannot_be_renamed_is_refused_before_the_work(job_files, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    job = job_files(output={"path": str(place), "overwrite": True}, resources={"ranks": 1})
    mount = f"mount -t tmpfs none {place} && mkdir {place}/dotresize && echo {{}} > {place}/dotresize/report.json"
    error = run("unshare", "--mount", "sh", "-c", f"{mount} && exec {BIN}/dotresize run {job}", exit_code=65)
    assert "place exists and is a mount point" in error and "prepare" not in error


def test_what_comes_to_the_output_meanwhile_costs_no_work(offline, job_files, tmp_path):
    """A user's directory appears after the job's start. The run fails at its last step, and the next one makes up for it."""
    job = job_files(resources={"ranks": 1})
    out, partial = tmp_path / "out-tiny", tmp_path / "out-tiny.partial"
    started = offline.start("run", job)
    read_until(started.stderr, "prepare")
    (out / "thesis").mkdir(parents=True)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode == 65 and f"the complete output stays in {partial}" in stderr, stderr
    assert (out / "thesis").exists()
    shutil.rmtree(out)
    again = offline("run", job)
    assert "lacked only its name" in again.stdout and "calibrate" not in again.stderr
    assert not partial.exists()
    offline("verify", out)
    moved = tmp_path / "moved"
    out.rename(moved)  # as the message advises
    assert "done already" in offline("run", job, "--set", f"output.path={moved}").stderr
