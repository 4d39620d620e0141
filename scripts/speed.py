#!/usr/bin/env python3
"""Compares how fast models are in an engine, and how much memory it takes: prompts and new tokens, of a dense model and others.

    .venv/bin/python scripts/speed.py DENSE MODEL... [--engine transformers|llama.cpp|vllm] [--prompts N...] [--new N] [--rounds N]
                              [--types TYPE...] [--dtype D] [--threads N] [--out FILE.json [--name NAME]]

All models are loaded side by side, each in a process of its own. In each round every model reads every prompt once, the next round
begins with the next model; a ratio is that of the same round. `prompt N`: tokens a second from N random tokens to the first new one.
`decode`: new tokens a second after the first, at the end of the shortest prompt. Promised is the ratio of the multiplications of a
prompt's tokens, or of the entries that a new token reads. Resident is the memory of the process at the end, the engine's own included.

transformers and vLLM compute in --dtype; llama.cpp gets a GGUF file of each --types. llama.cpp and vLLM are installed by
scripts/engines.sh if they are not there. Exit codes: 0; 1 an engine refuses a model; 65 the dense one, or a mixture of experts, of
which a token uses some; 69 an engine cannot be installed.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from counted import Counted
from engines.comparison import Refused, export
from paper.programs import ROOT, Failure
from tabulate import tabulate

ENGINES = ROOT / "scripts" / "engines"
INSTALLED = ROOT / "build" / "engines"
PYTHON = ROOT / ".venv" / "bin" / "python"
SLACK = 16  # tokens of a context beyond the longest prompt and its continuation


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("dense", type=Path)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--engine", choices=("transformers", "llama.cpp", "vllm"), default="transformers")
    parser.add_argument("--prompts", type=int, nargs="+", default=[128, 512, 2048], metavar="N")
    parser.add_argument("--new", type=int, default=32, metavar="N", help="new tokens")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--types", nargs="+", default=["F16", "Q8_0", "Q4_K_M"], metavar="TYPE", help="types of llama.cpp")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="gets the figures with all digits, beside those of others")
    parser.add_argument("--name", help="of the dense model in FILE.json (default: its directory's)")
    return parser.parse_args(arguments)


class Held:
    """A model in an engine (engines/timing.py)."""

    def __init__(self, model, command, environment):
        self.model = model
        self.process = subprocess.Popen(
            list(map(str, command)), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.resident = None
        self.refused = self.answer().get("refused")

    def answer(self):
        """The next document: other lines are the engine's."""
        for line in self.process.stdout:
            if line.startswith("{"):
                document = json.loads(line)
                self.resident = document.get("resident_bytes")
                return document
        return {"refused": f"ended with {self.process.wait()}"}

    def seconds(self, prompt, new):
        print(json.dumps({"prompt": prompt, "new": new}), file=self.process.stdin, flush=True)
        answer = self.answer()
        if "refused" in answer:
            raise Failure(f"{self.model}: at a prompt of {prompt} tokens: {answer['refused']}", 1)
        return answer["seconds"]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def install(engine):
    if subprocess.run([ROOT / "scripts" / "engines.sh", "--engine", engine, "--install"]).returncode:
        raise Failure(f"{engine} is not installed", 69)


def commands(options, folder):
    """{type or dtype: [(model, command, None) or (model, None, why it is refused)]} of each model."""
    context = max(options.prompts) + options.new + SLACK
    models = [options.dense, *options.models]
    if options.engine == "transformers":
        return {options.dtype: [(model, [PYTHON, ENGINES / "timed_transformers.py", model, options.dtype], None) for model in models]}
    install(options.engine)
    if options.engine == "vllm":
        python = INSTALLED / "vllm" / "bin" / "python"
        return {options.dtype: [(model, [python, ENGINES / "timed_vllm.py", model, options.dtype, context], None) for model in models]}
    found = {name: [] for name in options.types}
    for number, model in enumerate(models):
        for name in options.types:
            file = folder / f"{number}-{name}.gguf"
            try:
                write_gguf(model, folder / f"{number}.gguf", file, name, options)
            except Refused as reason:
                found[name].append((model, None, str(reason)))
            else:
                found[name].append((model, [PYTHON, ENGINES / "timed_llama_cpp.py", file, context], None))
    return found


def write_gguf(model, source, file, name, options):
    """Writes a model in a type of llama.cpp's quantizer. source: its file in float16, which is made once."""
    if not source.exists():
        export(model, source, "f16")
    done = subprocess.run([PYTHON, ENGINES / "quantize.py", source, file, name], env=environment_of(options), stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip())


def environment_of(options):
    path = INSTALLED / "llama.cpp" if options.engine == "llama.cpp" else ""
    threads = str(options.threads)
    return os.environ | {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": threads, "DOTRESIZE_SPEED_THREADS": threads, "PYTHONPATH": str(path)}


def times(held, options):
    """{model: {what: [seconds a token of each round]}}"""
    found = {one.model: {} for one in held}
    shortest = min(options.prompts)
    for one in held:  # the first of its kind takes longer
        one.seconds(shortest, 2)
    for number in range(options.rounds):
        for one in held[number % len(held) :] + held[: number % len(held)]:
            first = {prompt: one.seconds(prompt, 1) for prompt in options.prompts}
            whole = one.seconds(shortest, 1 + options.new)
            tokens = {f"prompt {prompt}": first[prompt] / prompt for prompt in options.prompts}
            tokens["decode"] = (whole - first[shortest]) / options.new
            for what, seconds in tokens.items():
                found[one.model].setdefault(what, []).append(seconds)
    return found


def label(model):
    """Size and format of an output; the directory's name of any other model."""
    file = model / "dotresize" / "report.json"
    if not file.exists():
        return model.name
    report = json.loads(file.read_text(encoding="utf-8"))
    form = "custom" if "auto_map" in json.loads((model / "config.json").read_text(encoding="utf-8")) else "stock"
    return f"{report['compressed']['bytes_fraction']:.0%}, {form}"


def figures(kind, held, seconds, counted, options):
    """One row for each model and what was timed."""
    dense, rows = options.dense, []
    for one in held:
        for what, of_model in seconds[one.model].items():
            promised = counted[dense].work(what) / counted[one.model].work(what)
            ratios = sorted(of_dense / mine for of_dense, mine in zip(seconds[dense][what], of_model, strict=True))
            rows.append({
                "engine": options.engine, "type": kind, "model": "dense" if one.model == dense else label(one.model), "what": what,
                "tokens_per_s": 1 / statistics.median(of_model), "times_dense": statistics.median(ratios),
                "lowest": ratios[0], "highest": ratios[-1], "promised": promised, "resident_bytes": one.resident,
            })  # fmt: skip
    return rows


def measure(options):
    """The rows, and {(type, model): why it is refused}."""
    rows, refused = [], {}
    counted = {model: Counted(model) for model in (options.dense, *options.models)}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        for kind, models in commands(options, Path(folder)).items():
            with contextlib.ExitStack() as ends:
                held = []
                for model, command, why in models:
                    one = None if why else Held(model, command, environment_of(options))
                    if one:
                        ends.callback(one.end)
                    if why := why or one.refused:
                        refused[kind, model] = why
                    else:
                        held.append(one)
                if (kind, options.dense) in refused:
                    raise Failure(f"{options.dense}: {kind}: {refused[kind, options.dense]}")
                rows += figures(kind, held, times(held, options), counted, options)
    return rows, refused


HEADER = ("type", "model", "", "tokens/s", "times dense", "from", "to", "promised", "of the promise", "resident MB")


def table(rows):
    cells = [
        (row["type"], row["model"], row["what"], f"{row['tokens_per_s']:.1f}", f"{row['times_dense']:.2f}", f"{row['lowest']:.2f}",
         f"{row['highest']:.2f}", f"{row['promised']:.2f}", f"{row['times_dense'] / row['promised']:.2f}", f"{row['resident_bytes'] / 1e6:.0f}")
        for row in rows
    ]  # fmt: skip
    return tabulate(cells, HEADER, tablefmt="pipe", disable_numparse=True, colalign=("left",) * 3 + ("right",) * 7)


def keep(rows, options):
    """Puts the rows in place of those of the same engine and types."""
    document = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    name, new = options.name or options.dense.name, {(row["engine"], row["type"]) for row in rows}
    others = [row for row in document.get(name, []) if (row["engine"], row["type"]) not in new]
    document[name] = sorted(others + rows, key=lambda row: (row["engine"], row["type"]))
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        rows, refused = measure(options)
    except Failure as error:
        print(f"speed: error: {error}", file=sys.stderr)
        return error.code
    print(table(rows))
    for (kind, model), why in refused.items():
        print(f"{model}: {options.engine} {kind} refuses it: {why}", file=sys.stderr)
    if options.out:
        keep(rows, options)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
