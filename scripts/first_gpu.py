"""The steps of scripts/first_gpu.sh, which builds before.

doctor     parts of the machine, and the self-test of all GPUs; counts the GPUs for the other steps
topology   nvidia-smi's table of the links between GPUs
tests      ctest -R cuda: kernels, NCCL and whole jobs against known numbers
bench      kernels and a layer (scripts/bench.sh cuda), then the rates of the machine (scripts/bench.sh hardware)
example    the job of examples/docs-llama on the CPU, then on 1, 2 and 8 GPUs: perplexities must be the CPU's to 0.5 %, on
           one GPU also in its 16-bit dtype, to 1 %
8b, 70b    jobs at these widths, two layers of random weights: forward passes alone, then with gradients, on 1 and all GPUs

On a machine with one GPU, steps that need two run two ranks on it, for the results alone (DOTRESIZE_SHARE_GPU).

--rehearse runs all steps on a machine without a GPU: on the fake GPUs of tests/cuda/fake_device, with a small model in
place of the wide ones and a few tokens. Benchmarks only say what they would measure.
"""

import argparse
import datetime
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
DOTRESIZE = BIN / "dotresize"
FAKE = ROOT / "build" / "lib" / "fake_device"
EXAMPLE = ROOT / "examples" / "docs-llama"
METHODS = {
    "forward": {"name": "dotresize", "sparsity": 0.2, "allow_larger": True},
    "gradients": {"name": "pca_dotresize", "sparsity": 0.2, "metric": "fisher", "allow_larger": True},
}
LAYERS = 2
SHARING = 2  # ranks that share the GPU of a machine with one: their times say nothing, their results do
MINUTE = 60
LONGEST_TAIL = 4000  # characters of a failing step's output that are kept


@dataclass(frozen=True)
class Scale:
    """The sizes of the jobs, and the environment of what computes on a GPU."""

    widths: dict  # {name of the steps: random_model.py's options for the model}
    seqlen: int  # tokens in a window of the wide models
    windows: int
    example: tuple = ()  # settings of the example's job beside its own
    bench: dict = field(default_factory=dict)  # {name of a benchmark: its command in place of bench.sh's}
    environment: dict = field(default_factory=dict)  # for all that computes on a GPU


def real_scale():
    return Scale({"8b": ["--like", "llama-3.1-8b"], "70b": ["--like", "llama-3.1-70b"]}, seqlen=512, windows=32)


def rehearsal():
    small = ["--config", EXAMPLE / "config.json"]
    paths = [str(FAKE), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return Scale(
        {"8b": small, "70b": small},
        seqlen=64,
        windows=8,
        example=("calibration.samples=8", "calibration.seqlen=64", "evaluation.samples=2", "evaluation.seqlen=64"),
        bench={"cuda": [BIN / "cuda_benchmark", "--benchmark_list_tests=true"], "hardware": [BIN / "hardware_benchmark", "--help"]},
        environment={"DOTRESIZE_CUDA_MODULE": str(FAKE / "libdotresize_fake_cuda.so"), "LD_LIBRARY_PATH": ":".join(paths),
                     "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


class Skipped(Exception):
    """The step cannot run here; the message says why."""


class Failed(Exception):
    """The step has run and is not as it should be."""


class Run:
    """Runs steps one after the other, and writes the results so far after each."""

    def __init__(self, out, folder, only, scale):
        self.out = out
        self.scale = scale
        self.folder = folder
        self.only = only
        self.gpus = 0
        self.result = {
            "host": socket.gethostname(),
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": output_of(["git", "rev-parse", "HEAD"]),
            "gpus": [],
            "steps": [],
        }

    def step(self, name, command, *, gpus=0, minutes=30, environment=None, judge=None, judge_failure=False):
        """Runs a command if the machine has so many GPUs. `judge` takes its output and returns the values to keep, or raises
        Failed; it is asked only of a command that has succeeded, unless it is to judge failures too."""
        if self.only and not any(name.startswith(part) for part in self.only):
            return
        row = {"name": name, "command": " ".join(map(str, command)), "outcome": "passed"}
        start = time.monotonic()
        try:
            if self.gpus == 1 and gpus == SHARING:
                environment = (environment or {}) | {"DOTRESIZE_SHARE_GPU": "1"}
                row["shared"] = True
            elif gpus > self.gpus:
                raise Skipped(f"needs {gpus} GPU{'s' if gpus > 1 else ''}, this machine has {self.gpus}")
            if shutil.which(str(command[0]), path=f"{os.environ['PATH']}:{ROOT}") is None:
                raise Skipped(f"there is no {command[0]}")
            code, text = run(command, minutes * MINUTE, environment)
            row["exit_code"] = code
            row["output"] = text[-LONGEST_TAIL:]
            if code != 0 and not judge_failure:
                raise Failed(f"exit code {code}: {(text.strip().splitlines() or ['no output'])[-1]}")
            row |= {"values": judge(text)} if judge else {}
            del row["output"]
        except Skipped as skipped:
            row |= {"outcome": "skipped", "why": str(skipped)}
            row.pop("output", None)
        except (Failed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as fault:
            row |= {"outcome": "failed", "why": f"{fault}"}
        row["seconds"] = round(time.monotonic() - start, 1)
        self.result["steps"].append(row)
        self.write()
        print(f"{row['outcome']:<8} {name:<28} {row['seconds']:8.1f} s  {row.get('why', '')}", flush=True)

    def write(self):
        self.out.parent.mkdir(parents=True, exist_ok=True)
        partial = self.out.with_name(self.out.name + ".partial")
        partial.write_text(json.dumps(self.result, indent=1) + "\n")
        partial.rename(self.out)


def output_of(command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run(command, limit, environment):
    """Exit code and output. What runs for longer is killed with all that it has started."""
    with subprocess.Popen([str(word) for word in command], cwd=ROOT, env=os.environ | (environment or {}), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
    return process.returncode, text


def look_at_machine(machine):
    def judge(text):
        document = json.loads(text[text.index("{") :])
        found = [check for check in document["checks"] if check["part"].startswith("GPU ")]
        machine.gpus = sum(check["state"] == "ok" for check in found)
        machine.result["gpus"] = [check["text"] for check in found]
        faults = [f"{check['part']}: {check['text']}" for check in document["checks"] if check["state"] == "fault"]
        if faults:
            raise Failed("; ".join(faults))
        return document

    machine.step("doctor", [DOTRESIZE, "doctor", "-o", "json"], minutes=5, environment=machine.scale.environment,
                 judge=judge, judge_failure=True)  # fmt: skip
    machine.step("topology", ["nvidia-smi", "topo", "-m"], gpus=1, minutes=1, judge=lambda text: {"table": text})


def test_and_measure(machine):
    def judge(text):
        """Lists skipped tests, which prove nothing."""
        skipped = [line.strip() for line in text.splitlines() if "***Skipped" in line or "(Skipped)" in line]
        return {"summary": text.splitlines()[-3:], "skipped": skipped}

    machine.step("tests", ["ctest", "--test-dir", "build", "-R", "cuda|self_test|nccl", "--output-on-failure"], judge=judge,
                 environment={"DOTRESIZE_SHARE_GPU": "1"} if machine.gpus == 1 else None)
    for name, environment in (("cuda", {"CONFIGS": "llama-3.1-8b llama-3.1-70b"}), ("hardware", {"DEVICE": "cuda"})):
        command = machine.scale.bench.get(name, [ROOT / "scripts" / "bench.sh", name])
        machine.step(f"bench {name}", command, gpus=1, environment=environment | machine.scale.environment)


def report_of(output):
    return json.loads((output / "dotresize" / "report.json").read_text())


def numbers_of(report):
    """Figures of a job's report, for the result file."""
    return {
        "compute_dtype": report["compute_dtype"],
        "wall_time_s": report["wall_time_s"],
        "dense": report["dense"].get("perplexity"),
        "compressed": report["compressed"].get("perplexity"),
        "ranks": [{key: rank.get(key) for key in ("gpu", "seconds", "peak_device_memory_bytes", "cost")}
                  for rank in report["ranks"]],
    }  # fmt: skip


def run_example(machine):
    """Runs the job on the CPU first, with which the results of GPUs are compared."""
    reference = machine.folder / "example-cpu"

    def job(name, device, ranks, compute_dtype):
        settings = [f"output.path={machine.folder / name}", "output.overwrite=true", f"resources.device={device}",
                    f"resources.ranks={ranks}", f"resources.compute_dtype={compute_dtype}", *machine.scale.example]  # fmt: skip
        changes = [word for setting in settings for word in ("--set", setting)]
        return [DOTRESIZE, "run", EXAMPLE / "job.yaml", "--fresh", *changes]

    def compared(name, bound):
        def judge(_):
            report = report_of(machine.folder / name)
            expected = report_of(reference)
            for model in ("dense", "compressed"):
                mine, theirs = report[model]["perplexity"], expected[model]["perplexity"]
                if not abs(mine - theirs) <= bound * theirs:
                    raise Failed(f"perplexity of the {model} model is {mine:.3f}, on the CPU {theirs:.3f}")
            return numbers_of(report)

        return judge

    if not (EXAMPLE / "calibration.txt").exists():
        machine.step("example text", [sys.executable, EXAMPLE / "make_text.py"], minutes=5)
    machine.step("example-cpu", job("example-cpu", "cpu", 1, "float32"), judge=lambda _: numbers_of(report_of(reference)))
    for ranks in (1, 2, 8):
        name = f"example-{ranks}-gpus"
        machine.step(name, job(name, "cuda", ranks, "float32"), gpus=ranks, environment=machine.scale.environment,
                     judge=compared(name, 0.005))  # fmt: skip
    name = "example-16-bits"
    machine.step(name, job(name, "cuda", 1, "auto"), gpus=1, environment=machine.scale.environment,
                 judge=compared(name, 0.01))  # fmt: skip


def numbers_of_removed(output):
    """Figures of an output, whose many GB are removed."""
    numbers = numbers_of(report_of(output))
    shutil.rmtree(output)
    return numbers


def run_width(machine, width):
    """Runs jobs at this width. A rank holds a sublayer at least, so four ranks are the most for two layers."""
    scale = machine.scale
    model = machine.folder / f"{width}-model"
    if not (model / "evaluation.safetensors").exists():
        machine.step(f"{width} model", [sys.executable, "scripts/random_model.py", model, *scale.widths[width], "--layers",
                     LAYERS, "--tokens", scale.windows * scale.seqlen, "--seqlen", scale.seqlen], gpus=1)  # fmt: skip
    for ranks in sorted({1, 2, min(max(machine.gpus, 2), 2 * LAYERS)}):
        for kind, method in METHODS.items():
            name = f"{width}-{kind}-{ranks}-gpus"
            output = machine.folder / name
            tokens = {section: {"tokens": str(model / f"{section}.safetensors"), "seqlen": scale.seqlen}
                      for section in ("calibration", "evaluation")}  # fmt: skip
            tokens["calibration"] |= {"samples": scale.windows, "activations": "original"}
            file = machine.folder / f"{name}.json"
            file.write_text(json.dumps({
                "name": name, "model": {"path": str(model)}, "output": {"path": str(output), "overwrite": True},
                "method": method, "resources": {"ranks": ranks, "device": "cuda", "timeout_s": 5 * MINUTE}, **tokens,
            }))  # fmt: skip
            machine.step(name, [DOTRESIZE, "run", file, "--fresh"], gpus=ranks, environment=scale.environment,
                         judge=lambda _, output=output: numbers_of_removed(output))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "first-gpu.json", help="result file")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "first-gpu", help="models and outputs")
    parser.add_argument("--only", nargs="+", default=[], metavar="STEP", help="steps whose names begin so; doctor always runs")
    parser.add_argument("--rehearse", action="store_true", help="on fake GPUs, with small models")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    machine = Run(options.out.absolute(), options.folder.absolute(), options.only and ["doctor", *options.only],
                  rehearsal() if options.rehearse else real_scale())  # fmt: skip
    look_at_machine(machine)
    test_and_measure(machine)
    run_example(machine)
    for width in machine.scale.widths:
        run_width(machine, width)
    outcomes = [step["outcome"] for step in machine.result["steps"]]
    print(f"{outcomes.count('passed')} passed, {outcomes.count('failed')} failed, {outcomes.count('skipped')} skipped: {machine.out}")
    return 1 if "failed" in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
