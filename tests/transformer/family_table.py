"""Measures each family and writes docs/families.md. Not a part of the tests: takes some minutes.

    .venv/bin/python tests/transformer/family_table.py [FAMILY...] [--engines llama.cpp vllm]     other rows of the page stay

Each family has a random model, the first of its cases in model_cases.py, with every oddity of the family switched on. Needs the built programs.
--engines: scores stock outputs in those that `scripts/engines.sh` has installed; the cells of others stay.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / folder) for folder in ("tests/worker", "tests/output", "worker/python")]

import harness  # noqa: E402
import interrupted  # noqa: E402
import torch  # noqa: E402
from exports import tokenizer_document  # noqa: E402
from make_models import make_case  # noqa: E402
from model_cases import BASE, CASES, YARN  # noqa: E402
from run_in_transformers import load, perplexity  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

PAGE = ROOT / "docs" / "families.md"
HEAD = """# Families

`tests/transformer/family_table.py` makes this table with a small random model of each family, in float32. *Logits* and *gradients*: the largest
difference from transformers 5, of gradients relative to the largest one. *Custom*, *stock* and *healed*: the relative difference of the perplexity
that a job of `size: {size}` reports from the one in transformers. *Resume*: a job killed after {entries} entries of its journal and run again has
the same bytes. *GGUF* and *vLLM*: as the jobs, for the stock output in llama.cpp, exported by `dotresize export`, and in vLLM on a CPU. Both
refuse what they have no kernel for. vLLM's code of ministral3 leaves out the factor of queries, which is 1 up to `original_max_position_embeddings`.

| family | logits | gradients | custom | stock | healed | resume | GGUF | vLLM |
| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: |
"""
SIZE, ENTRIES = 0.8, 4
# In place of settings that no engine has a form for.
PLAIN = {
    "olmo3": {"rope_parameters": {"full_attention": {**YARN, "rope_theta": 5e5}, "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}},
    "exaone4": {"sliding_window": None, "layer_types": ["full_attention"] * 4},
    "qwen2_moe": {"norm_topk_prob": False},
    "gpt_oss": {"swiglu_limit": 7.0, "swiglu_alpha": 1.702},
    "qwen3_5_text": {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "rms_norm_eps": 1e-6},
}
WHOLE_HEADS = ("phi3", "qwen2", "olmo2", "olmo3", "exaone4", "qwen2_moe")  # whose heads are hidden_size / heads wide, in vLLM or in llama.cpp
IDS = torch.randint(2, 96, (32, 64), generator=torch.Generator().manual_seed(5))


def cases(families):
    """{family: (name, seed, options)} of one case of each family: the one that has its name, else the first."""
    found = {}
    for seed, (name, options) in enumerate(CASES.items()):
        found.setdefault(name.split("-")[0], (name, seed, options))
        if name in found:
            found[name] = (name, seed, options)
    return {family: case for family, case in sorted(found.items()) if not families or family in families}


def differences(folder):
    """Largest differences of logits and gradients, as texts."""
    environment = os.environ | {"DOTRESIZE_TEST_MODELS": str(folder)}
    report = folder.parent / f"{folder.name}.json"
    command = [harness.BIN / "transformers_test", "--gtest_filter=*GivesTheSame*", f"--gtest_output=json:{report}"]
    subprocess.run(command, env=environment, capture_output=True)
    tests = json.loads(report.read_text())["testsuites"][0]["testsuite"]
    found = {test["name"].split("/")[0]: "FAILED" if "failures" in test else f"{1e-9 * float(test['difference']):.0e}" for test in tests}
    return [found["GivesTheSameLogits"], found["GivesTheSameGradients"]]


def job_of(model, folder, name, form="any", **more):
    tokens = folder / "tokens.safetensors"
    save_file({"tokens": IDS}, tokens)
    return {"name": name, "model": {"path": str(model)}, "output": {"path": str(folder / name), "dtype": "float32", "format": form},
            "method": {"size": SIZE, "round_to": 4}, "calibration": {"tokens": str(tokens)}, "evaluation": {"tokens": str(tokens)},
            "resources": {"ranks": 2}, **more}  # fmt: skip


def run_job(job, folder):
    """Runs the job. Returns the relative difference of its perplexity from that in transformers, as text; or why it is refused."""
    done = harness.run(job, folder)
    if done.returncode != 0:
        return "refused: " + next(line for line in done.stderr.splitlines() if "error: " in line).split("error: ")[-1]
    reported = harness.report(job["output"]["path"])["compressed"]["perplexity"]
    measured = perplexity(load(job["output"]["path"], trust_remote_code=job["output"]["format"] == "any"), IDS)
    return f"{abs(reported / measured - 1):.0e}"


def resumed(model, folder, whole):
    """Kills a job and runs it again. whole: the same job's output, made at once."""
    job = job_of(model, folder, "resumed")
    interrupted.run_to_entries(job, folder, ENTRIES, lambda running: interrupted.kill(running, "all ranks"))
    done = harness.run(job, folder)
    same = done.returncode == 0 and harness.shard_hashes(job["output"]["path"]) == harness.shard_hashes(whole)
    return "the same" if same else "FAILED"


def in_engine(engine, directory, tokens):
    """The relative difference of the perplexity in the engine from that in transformers, as text; or why there is none."""
    command = [ROOT / "scripts" / "engines.sh", "--engine", engine, tokens, directory]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    line = (done.stdout or done.stderr).strip().splitlines()[-1]
    if match := re.search(r" ([\d.]+), transformers ([\d.]+)", line):
        difference = abs(float(match[1]) / float(match[2]) - 1)
        return f"{difference:.0e}" if difference else "<1e-06"  # four decimals are printed
    print(line, file=sys.stderr)
    if "has no exporter" in line:
        return "no"
    return line.rpartition(": ")[2] if "not exported" in line or "norm_topk_prob" in line else "refused"


def rows_of_page():
    """{family: row} of the page as it is."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def tokenizer():
    """Returns a part of the example's tokenizer with one merge: llama.cpp wants some."""
    document = tokenizer_document(BASE["vocab_size"])
    first, second, *_, last = document["model"]["vocab"]
    merged = {token: number for token, number in document["model"]["vocab"].items() if token != last}
    document["model"] |= {"vocab": merged | {first + second: len(merged)}, "merges": [[first, second]]}
    return document


def row(family, case, engines, before):
    """engines: those to try. before: the row that there is, whose cells stay for others."""
    name, seed, options = case
    if family.startswith("gemma"):  # all published ones are tied
        options = options | {"tie_word_embeddings": True}
    if engines:
        options = options | PLAIN.get(family, {}) | {"head_dim": 32}  # the narrowest heads that vLLM has a kernel for on a CPU
    if engines and family in WHOLE_HEADS:
        options = {key: value for key, value in options.items() if key != "head_dim"} | {"num_attention_heads": 2, "num_key_value_heads": 1}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "models").mkdir()
        make_case(folder / "models" / name, seed, options)
        model = folder / "models" / name
        (model / "tokenizer.json").write_text(json.dumps(tokenizer()))  # exporters need one
        cells = differences(folder / "models")
        cells.append(run_job(job_of(model, folder, "custom"), folder))
        cells.append(run_job(job_of(model, folder, "stock", "stock"), folder))
        cells.append(run_job(job_of(model, folder, "healed", heal={"epochs": 1}), folder))
        cells.append(resumed(model, folder, folder / "custom") if (folder / "custom").exists() else "–")
        kept = [cell.strip() for cell in before.strip("| ").split("|")][-2:] if before else ["untried"] * 2
        for engine, cell in zip(("llama.cpp", "vllm"), kept, strict=True):
            tried = engine in engines and (folder / "stock").exists()
            cells.append(in_engine(engine, folder / "stock", folder / "tokens.safetensors") if tried else cell)
    return f"| `{family}` | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(prog="family_table.py")
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--engines", nargs="*", choices=("llama.cpp", "vllm"), default=())
    options = parser.parse_args()
    rows = rows_of_page()
    for family, case in cases(options.families).items():
        rows[family] = row(family, case, options.engines, rows.get(family))
        print(rows[family], flush=True)
        text = "\n".join(rows[name] for name in sorted(rows))
        PAGE.write_text(HEAD.format(size=SIZE, entries=ENTRIES) + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
