"""Runs the real worker under the real mpirun."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import time

import psutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DOTRESIZE_BUILD", ROOT / "build")) / "bin"
WORKER = BIN / "dotresize-worker"
MODEL = ROOT / "examples" / "docs-llama"
CALIBRATION = ROOT / "tests" / "data" / "calibration.safetensors"
EVALUATION = ROOT / "tests" / "data" / "evaluation.safetensors"
HOST = socket.gethostname()


def job(output, *, method, samples=64, evaluate=True, activations="auto", ranks=1, **sections):
    """Returns a job on the example model and its own token files, entirely in float32, which is larger than the model's
    bfloat16. A `format` in the method goes to the section `output`."""
    method = {"allow_larger": True, **method}
    form = {"format": method.pop("format")} if "format" in method else {}
    spec = {
        "name": "test",
        "model": {"path": str(MODEL)},
        "output": {"path": str(output), "dtype": "float32", **form},
        "method": method,
        "calibration": {
            "tokens": str(CALIBRATION),
            "samples": samples,
            "activations": activations,
        },
        "resources": {"ranks": ranks, "timeout_s": 120},
    }
    if evaluate:
        spec["evaluation"] = {"tokens": str(EVALUATION)}
    for section, values in sections.items():
        spec.setdefault(section, {}).update(values)
    return spec


def mpirun(ranks, *program):
    return [
        "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
        "--mca", "plm_rsh_agent", "", "--mca", "btl_vader_single_copy_mechanism", "none",
        "-np", str(ranks), *map(str, program),
    ]  # fmt: skip


def write_job(spec, directory):
    path = pathlib.Path(directory) / "job.yaml"
    path.write_text(json.dumps(spec))  # JSON is YAML
    return path


def command(spec, directory, ranks=None, options=()):
    """Returns the mpirun command with the job's ranks; ranks=0: the worker alone, without mpirun."""
    worker = [str(WORKER), str(write_job(spec, directory)), *map(str, options)]
    ranks = spec["resources"]["ranks"] if ranks is None else ranks
    return mpirun(ranks, *worker) if ranks else worker


def with_threads(threads):
    """Returns the environment with this many threads per rank; None: the environment of this process."""
    return None if threads is None else {**os.environ, "OMP_NUM_THREADS": str(threads)}


def run(spec, directory, ranks=None, threads=None, options=()):
    return subprocess.run(
        command(spec, directory, ranks, options),
        capture_output=True, text=True, timeout=600, env=with_threads(threads),
    )  # fmt: skip


def leftovers(directory):
    """Returns what a job at directory/out has left there, except a journal from which it could resume."""
    names = [path.name for path in directory.iterdir() if path.name.startswith("out")]
    partial = directory / "out.partial"
    if partial.name in names and [path.name for path in partial.iterdir()] == ["journal"]:
        names.remove(partial.name)
    return names


def run_to_report(spec, directory, ranks=None, threads=None, options=()):
    done = run(spec, directory, ranks, threads, options)
    assert done.returncode == 0, done.stderr
    return report(spec["output"]["path"])


def shard_hashes(output):
    """Returns the SHA-256 of each file of tensors, by file name."""
    shards = sorted(pathlib.Path(output).glob("*.safetensors"))
    assert shards, f"no shards in {output}"
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in shards}


def outcome(output):
    """Returns the results that must not depend on the schedule: the files of tensors, and the transport plans."""
    plans = [junction.get("transport") for junction in report(output)["junctions"]]
    return shard_hashes(output), plans


def plan(spec, directory):
    """Returns the result of `dotresize plan`; None if it refuses the budget."""
    arguments = [BIN / "dotresize", "plan", write_job(spec, directory), "-o", "json"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if done.returncode == 65 and "resources.memory" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def named_budget(refusal):
    """Returns the smallest sufficient budget, which the refusal names."""
    found = re.search(
        r"resources\.memory: .* a rank is too little: this job needs at least (\S+) (\S+) with",
        refusal,
    )
    assert found, refusal
    return "".join(found.groups())


def report(output):
    return json.loads((pathlib.Path(output) / "dotresize" / "report.json").read_text())


def budget_for(spec, directory, groups, kind="junction_groups"):
    """Returns the smallest memory, in steps of 64 KiB, with which a pipeline has at most this many groups of a kind."""

    def is_enough(steps):
        resources = {**spec["resources"], "memory": f"{64 * steps}KiB"}
        planned = plan({**spec, "resources": resources}, directory)
        return (
            planned is not None
            and planned["schedule"] == "pipeline"
            and planned[kind] <= groups
        )

    too_little, enough = 0, 1024 * 16  # 1 GiB
    assert is_enough(enough)
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if is_enough(middle):
            enough = middle
        else:
            too_little = middle
    return f"{64 * enough}KiB"


def workers_of(process):
    """Returns the ranks that a running mpirun has started, in order of rank."""
    ranks = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if child.name().startswith("dotresize-worke")
    ]
    return sorted(ranks, key=lambda rank: int(rank.environ()["OMPI_COMM_WORLD_RANK"]))


class Running:
    """A job in the background; `log` grows while it runs. kill_all() ends it at the latest."""

    started = []

    def __init__(self, spec, directory, ranks=None, threads=None):
        self.seen = []
        self.log_path = pathlib.Path(directory) / "log"
        self.log_file = self.log_path.open("w")
        self.process = subprocess.Popen(
            command(spec, directory, ranks),
            stdout=self.log_file, stderr=subprocess.STDOUT, env=with_threads(threads),
        )  # fmt: skip
        Running.started.append(self)

    @property
    def log(self):
        return self.log_path.read_text()

    def wait_for(self, text, seconds=120):
        deadline = time.monotonic() + seconds
        while text not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, f"'{text}' not seen:\n{self.log}"
            time.sleep(0.05)

    def ranks(self):
        self.seen = workers_of(self.process)
        return self.seen

    def end(self, seconds=30):
        """Waits for the end. Returns the exit code and the seconds it took."""
        start = time.monotonic()
        code = self.process.wait(seconds)
        self.log_file.close()
        return code, time.monotonic() - start

    def kill(self):
        """Kills everything that is left of the job, including stopped ranks."""
        left = self.seen
        if self.process.poll() is None:
            mpirun = psutil.Process(self.process.pid)
            left = [mpirun, *mpirun.children(recursive=True), *left]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(30)
        self.log_file.close()


def kill_all():
    """Kills all processes of all jobs that were started here, even if their parents are gone."""
    while Running.started:
        Running.started.pop().kill()


def all_gone(processes, seconds=5):
    """Returns whether all processes ended within the time that the kernel needs."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not alive
