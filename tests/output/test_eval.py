"""Tests of dotresize-worker eval: perplexity and latency, side by side, in both runtimes."""

import itertools
import json
import os
import shutil
import subprocess

import pytest
import torch
from forking import MODELS, forking_python
from layer_sizes import with_layer_sizes
from narrowing import fold, output_keys, random_maps, write_output
from running import WORKER
from safetensors.torch import load_file, save_file
from tiny_models import random_dense, tiny_keys
from transformers import AutoModelForCausalLM

KEYS = tiny_keys("llama", sliding_window=None)
WIDTHS = [40] * 6 + [48]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes "dense", "narrow", "sizes" (without maps) and "stranger" (which has another vocabulary), and tokens for all of them."""
    folder = tmp_path_factory.mktemp("eval")
    dense = random_dense(KEYS)
    dense.save_pretrained(folder / "dense")
    tensors = fold(dense, random_maps(48, WIDTHS))
    write_output(folder / "narrow", tensors, output_keys(KEYS, WIDTHS))
    with_layer_sizes(folder / "sizes", KEYS, [20, 0, 7], [0, 12, 5])
    random_dense({**KEYS, "vocab_size": 120}).save_pretrained(folder / "stranger")
    ids = torch.randint(2, 97, (6, 40), generator=torch.Generator().manual_seed(5))
    save_file({"tokens": ids}, folder / "tokens.safetensors")
    return folder


def evaluate(*arguments, exit_code=0, **environment):
    result = subprocess.run(
        [WORKER, "eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": "", "DOTRESIZE_PYTHON": forking_python(MODELS), **environment},
    )
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result


def document(*arguments):
    return json.loads(evaluate(*arguments, "-o", "json").stdout)


QUICK = ["--latency", "--prompt", 12, "--decode", 4, "--repetitions", 3, "--warmup", 1]


@pytest.fixture(scope="module")
def documents(folder):
    """Returns the documents of both runtimes for the same request."""
    models = [folder / "dense", folder / "narrow", folder / "sizes"]
    tokens = ["--tokens", folder / "tokens.safetensors"]
    return {
        runtime: document(*models, *tokens, *QUICK, "--batch", 2, "--runtime", runtime)
        for runtime in ("own", "transformers")
    }


def test_both_runtimes_measure_the_same_perplexities(documents):
    own, transformers = (
        [model["perplexity"] for model in documents[runtime]["models"]]
        for runtime in ("own", "transformers")
    )
    assert own == pytest.approx(transformers, rel=1e-5)
    for one, another in itertools.combinations(own, 2):
        assert one != pytest.approx(another, rel=1e-3)


@pytest.mark.parametrize("runtime", ["own", "transformers"])
def test_the_document_says_what_was_measured_and_how(documents, folder, runtime):
    found = documents[runtime]
    assert found["runtime"] == runtime and found["dtype"] == "float32" and found["threads"] >= 1
    assert found["latency"] == {
        "prompt": 12, "decode": 4, "batch": 2, "repetitions": 3, "warmup": 1,
    }  # fmt: skip
    assert found["warnings"] == []
    assert [model["model"] for model in found["models"]] == [str(folder / name) for name in ("dense", "narrow", "sizes")]
    for model in found["models"]:
        assert model["bytes"] == 4 * model["parameters"]
        assert (model["predicted_tokens"], model["seqlen"]) == (6 * 39, 40)
        for times in (model["prompt_ms_per_token"], model["decode_ms_per_token"]):
            assert 0 < times["p10"] <= times["median"] <= times["p90"]
    assert len({model["parameters"] for model in found["models"]}) == 3
    assert len({model["tokens_sha256"] for model in found["models"]}) == 1


def test_a_table_is_for_people_and_progress_goes_to_stderr(folder):
    result = evaluate(
        folder / "dense", folder / "narrow", "--tokens", folder / "tokens.safetensors", *QUICK
    )
    lines = result.stdout.splitlines()
    assert lines[0].split()[:5] == ["model", "parameters", "bytes", "perplexity", "change"]
    assert lines[1].startswith(str(folder / "dense")) and lines[2].startswith(str(folder / "narrow"))
    assert "%" in lines[2] and "%" not in lines[1]
    assert "threads" in result.stdout and "10th - 90th percentile" in result.stdout
    assert f"2/2 {folder / 'narrow'}: latency" in result.stderr


def test_latency_alone_needs_no_text(folder):
    (model,) = document(folder / "narrow", *QUICK)["models"]
    assert "perplexity" not in model and "decode_ms_per_token" in model


def test_all_models_of_a_call_are_measured_over_the_same_windows(folder):
    """Positions differ between models, and the window length is that of the model with the fewest."""
    tokens = folder / "one-text.safetensors"
    save_file({"tokens": load_file(folder / "tokens.safetensors")["tokens"].flatten()}, tokens)
    shutil.copytree(folder / "dense", folder / "few positions")
    config = json.loads((folder / "dense" / "config.json").read_text())
    (folder / "few positions" / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 16}))
    for arguments in ([folder / "dense", folder / "few positions"], [folder / "few positions", "--reference", folder / "dense"]):
        found = document(*arguments, "--tokens", tokens)
        one, other = found["models"]
        assert one["seqlen"] == other["seqlen"] == 16 and one["perplexity"] == other["perplexity"] and not found["warnings"]


def test_perplexities_over_another_vocabulary_are_not_compared(folder):
    arguments = [folder / "dense", folder / "stranger", "--tokens", folder / "tokens.safetensors"]
    (warning,) = document(*arguments)["warnings"]
    assert warning.startswith(str(folder / "stranger")) and "cannot be compared" in warning
    result = evaluate(*arguments)
    assert "cannot be compared" in result.stderr
    assert "%" not in result.stdout


@torch.no_grad()
def log_probabilities(directory, windows):
    model = AutoModelForCausalLM.from_pretrained(
        directory, trust_remote_code=True, dtype=torch.float32
    ).eval()
    return model(windows).logits[:, :-1].double().log_softmax(-1)


def test_the_divergence_is_that_of_transformers(folder):
    arguments = [folder / "narrow", "--reference", folder / "dense", "--tokens", folder / "tokens.safetensors"]
    found = document(*arguments)
    reference, model = found["models"]
    windows = load_file(folder / "tokens.safetensors")["tokens"]
    p, q = (log_probabilities(folder / name, windows) for name in ("dense", "narrow"))
    assert model["kl"] == pytest.approx((p.exp() * (p - q)).sum(-1).mean().item(), rel=1e-5)
    assert model["agreement"] == (p.argmax(-1) == q.argmax(-1)).double().mean().item()
    assert 0 < model["agreement"] < 1
    assert found["reference"] == reference["model"] == str(folder / "dense")
    assert "kl" not in reference

    printed = evaluate(*arguments).stdout
    lines = printed.splitlines()
    assert lines[0].split()[3:] == ["perplexity", "change", "KL", "agreement"]
    assert f"{model['kl']:.4f}  {100 * model['agreement']:>7.1f} %" in lines[2]
    assert f"KL({folder / 'dense'} ‖ model) in nats a token" in printed


def test_a_model_does_not_diverge_from_itself(folder):
    arguments = ["--reference", folder / "narrow", "--tokens", folder / "tokens.safetensors"]
    model = document(folder / "narrow", *arguments)["models"][1]
    assert (model["kl"], model["agreement"]) == (0, 1)


def test_a_reference_of_another_vocabulary_is_refused(folder):
    arguments = ["--reference", folder / "stranger", "--tokens", folder / "tokens.safetensors"]
    refusal = evaluate(folder / "narrow", *arguments, exit_code=65).stderr
    assert f"{folder / 'narrow'}: cannot be compared with {folder / 'stranger'}: " in refusal
    assert "its vocabulary has 97 tokens, not 120" in refusal


def append(path):
    path.write_text(path.read_text() + "\n")


def point_elsewhere(path):
    keys = json.loads(path.read_text())
    keys["auto_map"]["AutoModelForCausalLM"] = "elsewhere/model--modeling.Model"
    path.write_text(json.dumps(keys))


def name_another_family(path):
    path.write_text(path.read_text().replace("modeling_layer_sizes.DotResizeLlama", "modeling_layer_sizes.DotResizeMistral"))


@pytest.mark.parametrize(
    ("name", "file", "change"),
    [
        ("narrow", "modeling_dotresize.py", append),
        ("narrow", "configuration_dotresize.py", append),
        ("narrow", "config.json", point_elsewhere),
        ("sizes", "modeling_layer_sizes.py", append),
        ("sizes", "config.json", name_another_family),
    ],
)
def test_code_that_is_not_dotresizes_is_not_run(folder, tmp_path, name, file, change):
    model = tmp_path / "model"
    shutil.copytree(folder / name, model)
    change(model / file)
    result = evaluate(model, *QUICK, "--runtime", "transformers", exit_code=65)
    assert f"{model / file}: " in result.stderr and "untrusted code" in result.stderr
    evaluate(model, *QUICK)  # the native runtime starts no Python


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 64, "--latency"),
        (["--seqlen", 8, "--latency"], 64, "--seqlen"),
        (["--prompt", 8, "--tokens", "t"], 64, "--prompt"),
        (["--latency", "--runtime", "other"], 64, "--runtime"),
        (["--latency", "--reference", "m"], 64, "--reference needs"),
        (["--tokens", "t", "--reference", "m", "--runtime", "transformers"], 64, "--reference"),
        (["--latency", "--repetitions", 0], 64, "--repetitions"),
        (["--latency", "--prompt", 250, "--decode", 7], 65, "max_position_embeddings"),
        (["--tokens", "no.safetensors"], 65, "no.safetensors"),
    ],
)
def test_what_cannot_be_measured_is_refused(folder, arguments, code, said):
    assert said in evaluate(folder / "dense", *arguments, exit_code=code).stderr


def test_a_missing_python_is_named(folder):
    arguments = [folder / "dense", *QUICK, "--runtime", "transformers"]
    result = evaluate(*arguments, exit_code=69, DOTRESIZE_PYTHON="/no/such/python")
    assert "/no/such/python" in result.stderr
