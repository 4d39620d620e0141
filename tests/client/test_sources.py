"""Tests of init, and of what texts and token files a job can have."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from conftest import SOURCE
from safetensors.numpy import save_file

HARDWARE = SOURCE / "examples/hardware"
MODEL = SOURCE / "examples/docs-llama"


def test_plan_and_init_know_models_that_this_machine_has_no_memory_for(offline, tmp_path):
    config = json.loads((MODEL / "config.json").read_text())
    config |= {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
               "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "torch_dtype": "bfloat16"}
    (tmp_path / "large").mkdir()
    (tmp_path / "large/config.json").write_text(json.dumps(config))
    save_file({"tokens": np.zeros((20, 256), dtype=np.int32)}, tmp_path / "tokens.safetensors")
    job = tmp_path / "job.yaml"
    offline("init", tmp_path / "large", job, "--tokens", tmp_path / "tokens.safetensors")
    assert "\n  samples: 16 " in job.read_text() and "\n  seqlen: 256\n" in job.read_text()
    assert len(offline.json("plan", job)["alternatives"]) == 4


def test_a_token_file_is_planned_for_as_large_as_it_is(offline, job_files, tmp_path):
    tokens = tmp_path / "tokens.safetensors"

    def plan(shape, **more):
        save_file({"tokens": np.zeros(shape, dtype=np.int32)}, tokens)
        return offline.json("plan", job_files("sized", calibration={"tokens": str(tokens)} | more), "--hardware", HARDWARE / "cpu.yaml")

    small, large = plan((16, 128)), plan((128, 2048))
    assert (small["calibration"]["samples"], small["calibration"]["seqlen"]) == (16, 128)
    assert (large["calibration"]["samples"], large["calibration"]["seqlen"]) == (128, 2048)
    assert small["seconds"]["total"] < 0.5 * large["seconds"]["total"]
    assert small["ranks"][0]["peak_memory_bytes"] < large["ranks"][0]["peak_memory_bytes"]
    assert plan((128, 2048), samples=16, seqlen=128)["seconds"] == small["seconds"]


def test_init_writes_a_job_that_can_be_planned_and_overwrites_nothing(offline, tmp_path):
    job, text = tmp_path / "job.yaml", tmp_path / "text.txt"
    text.write_text("word " * 300_000)
    offline("init", f"{MODEL}/", job, "--text", text)
    plan = offline.json("plan", job)
    assert plan["target"] == "size 0.8, allocated by loss" and plan["warnings"] == []
    before = job.read_text()
    assert "is not overwritten" in offline("init", MODEL, job, "--text", text, exit_code=65).stderr
    assert job.read_text() == before


@pytest.mark.parametrize("name", ["null", "true", "~", "1e3", ".inf", "no", "a b", "-x", "#", "Null"])
def test_init_writes_names_that_yaml_reads_as_texts(offline, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).symlink_to(MODEL)
    (tmp_path / "text.txt").write_text("word " * 10_000)
    offline("init", f"./{name}", "--text", "text.txt", "--output", "job.yaml")
    written = yaml.safe_load((tmp_path / "job.yaml").read_text())
    assert written["model"]["path"] == f"./{name}" and written["output"]["path"] == f"out/{name}-80"
    assert "name" not in written
    offline("init", name if name[0] != "-" else f"./{name}", "--text", "text.txt", "--output", "again.yaml")
    assert pathlib.Path(yaml.safe_load((tmp_path / "again.yaml").read_text())["model"]["path"]).name == name
    assert offline.json("plan", "again.yaml")["name"] == f"{name}-80"


def test_every_alternative_that_init_names_can_be_planned(offline, tmp_path):
    job, text = tmp_path / "job.yaml", tmp_path / "text.txt"
    text.write_text("word " * 300_000)
    offline("init", MODEL, "--text", text, "--output", job)
    written = job.read_text()
    alternatives = re.findall(r"^ *# ((?:name|format): \w+)", written, re.MULTILINE)
    assert alternatives == ["format: stock", "name: slicegpt", "name: pca_dotresize"]
    for line in alternatives:
        job.write_text(written.replace(f"# {line}", line))
        offline("plan", job)
    (tmp_path / "evaluation.txt").write_text(text.read_text())
    job.write_text(written.replace("evaluation: {}", "# ").replace("# evaluation:", "evaluation:").replace(
        "#   text: [evaluation.txt]", "  text: [evaluation.txt]"))
    assert "evaluation.txt" in job.read_text()
    offline("plan", job)


def test_init_takes_a_job_file_behind_its_texts_for_one(offline, tmp_path):
    texts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for text in texts:
        text.write_text("word " * 100_000)
    job = tmp_path / "x.yaml"
    offline("init", MODEL, "--text", *texts, job)
    assert f"text: [{texts[0]}, {texts[1]}]" in job.read_text()
    assert "--text: is needed" in offline("init", MODEL, tmp_path / "y.yaml", exit_code=65).stderr
    error = offline("init", MODEL, tmp_path / "y.yaml", "--text", tmp_path / "c.txt", exit_code=65).stderr
    assert "c.txt" in error and not (tmp_path / "y.yaml").exists()


def test_conversations_are_planned_for_and_measured_as_their_template_writes_them(offline, tmp_path):
    shutil.copytree(MODEL, tmp_path / "model")
    config = json.loads((MODEL / "tokenizer_config.json").read_text())
    config["chat_template"] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(config))
    rows = [[{"role": "user", "content": f"What is {i}?"}, {"role": "assistant", "content": f"It is {i}."}] for i in range(150)]
    chat, plain = tmp_path / "chat.jsonl", tmp_path / "plain.txt"
    chat.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    plain.write_text("".join(f"<{m['role']}>{m['content']}\n" for row in rows for m in row))
    measured = [offline.json("eval", tmp_path / "model", "--text", text, "--seqlen", "64") for text in (chat, plain)]
    assert measured[0]["models"][0]["tokens_sha256"] == measured[1]["models"][0]["tokens_sha256"]
    offline("init", tmp_path / "model", tmp_path / "job.yaml", "--text", plain, chat)
    assert offline.json("plan", tmp_path / "job.yaml")["calibration"]["samples"] > 1
    config["chat_template"] = config["chat_template"].replace("<", "[")
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(config))
    again = offline.json("eval", tmp_path / "model", "--text", chat, "--seqlen", "64")
    assert again["models"][0]["tokens_sha256"] != measured[0]["models"][0]["tokens_sha256"]
    shutil.copy(chat, tmp_path / "chat.txt")
    assert "has JSON lines, not text" in offline("eval", tmp_path / "model", "--text", tmp_path / "chat.txt", exit_code=65).stderr


def test_a_tokenizer_is_made_as_the_refusal_says(offline, job_files, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    tokenizer = json.loads((model / "tokenizer.json").read_text())["model"]
    (model / "vocab.json").write_text(json.dumps(tokenizer["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["merges"]]
    (model / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    (tmp_path / "text.txt").write_text("word " * 1_000)
    error = offline("eval", model, "--text", tmp_path / "text.txt", exit_code=65).stderr
    program = error.split("python -c ", 1)[1].strip().strip('"')
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env=environment, capture_output=True)
    assert offline.json("eval", model, "--text", tmp_path / "text.txt", "--seqlen", "64")["models"][0]["perplexity"] > 1


def test_init_takes_as_many_samples_as_the_text_has(offline, tmp_path):
    text, job = tmp_path / "short.txt", tmp_path / "job.yaml"
    text.write_text("word " * 10_000)  # about 12 windows of 1024 tokens, one of which is for the evaluation
    offline("init", MODEL, job, "--text", text)
    assert "  samples: 8 " in job.read_text()
    error = offline("init", MODEL, tmp_path / "absent" / "job.yaml", "--text", text, exit_code=1).stderr
    assert f"{tmp_path}/absent/job.yaml: cannot" in error and "No such file or directory" in error
    text.write_text("word")
    error = offline("init", MODEL, tmp_path / "none.yaml", "--text", text, exit_code=65).stderr
    assert "--text: 4 bytes of text cannot be 2 windows of 1024 tokens" in error
