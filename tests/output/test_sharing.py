"""Outputs of jobs whose junctions share maps: stock models, and fewer shortcuts."""

import json
import math
import subprocess
from pathlib import Path

import pytest
import torch
from narrowing import CODE_FILES, random_dense, tiny_keys
from running import DATA, EXAMPLE, ROOT, VERSIONS, WORKER, run_python, run_worker
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

# method.map_sharing and output.dtype
KINDS = {
    "stock-float32": ("model", "float32"),
    "stock-bfloat16": ("model", "bfloat16"),
    "groups": (3, "float32"),
}
STOCK = [kind for kind in KINDS if kind.startswith("stock")]


def as_text(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    """A quarter of the evaluation tokens."""
    path = tmp_path_factory.mktemp("tokens") / "evaluation.safetensors"
    save_file({"tokens": load_file(DATA / "evaluation.safetensors")["tokens"][:16].clone()}, path)
    return path


@pytest.fixture(scope="module")
def outputs(tmp_path_factory, evaluation):
    folder = tmp_path_factory.mktemp("jobs")
    return {
        name: run_worker(
            folder,
            {
                "name": name,
                "model": {"path": str(EXAMPLE)},
                "output": {"path": str(folder / name), "dtype": dtype},
                "method": {
                    "name": "pca_dotresize",
                    "width": 208,
                    "map_sharing": sharing,
                    "allow_larger": True,
                },
                "calibration": {"tokens": str(DATA / "calibration.safetensors"), "samples": 8},
                "evaluation": {"tokens": str(evaluation)},
                "resources": {"ranks": 3},
            },
            ranks=3,
        )
        for name, (sharing, dtype) in KINDS.items()
    }


def report_of(directory):
    return json.loads((directory / "dotresize" / "report.json").read_text())


def tensors_of(directory):
    tensors = {}
    for shard in directory.glob("*.safetensors"):
        tensors.update(load_file(shard))
    return tensors


@pytest.mark.parametrize("kind", STOCK)
def test_a_stock_output_is_a_model_of_the_source_family(outputs, kind):
    directory = outputs[kind]
    keys = json.loads((directory / "config.json").read_text())
    assert (keys["model_type"], keys["architectures"]) == ("llama", ["LlamaForCausalLM"])
    assert (keys["hidden_size"], keys["head_dim"]) == (208, 32)
    assert "auto_map" not in keys
    assert not list(directory.glob("*.py"))
    assert "trust_remote_code" not in (directory / "README.md").read_text()
    norms = [tensor for name, tensor in tensors_of(directory).items() if "norm" in name]
    assert len(norms) == 13
    dtype = getattr(torch, KINDS[kind][1])
    expected = torch.full((208,), math.sqrt(256 / 208)).to(dtype)
    assert all(torch.equal(norm, expected) for norm in norms)


def test_groups_store_shortcuts_between_them_alone(outputs):
    directory = outputs["groups"]
    keys = json.loads((directory / "config.json").read_text())
    assert keys["junction_groups"] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    shortcuts = sorted(name for name in tensors_of(directory) if "shortcut" in name)
    assert shortcuts == [
        "model.layers.1.mlp_shortcut.weight",
        "model.layers.3.mlp_shortcut.weight",
        "model.layers.5.mlp_shortcut.weight",
    ]
    assert all((directory / name).is_file() for name in CODE_FILES)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_those_of_the_files(outputs, evaluation, kind):
    tensors = tensors_of(outputs[kind])
    parameters = sum(tensor.numel() for tensor in tensors.values())
    report = report_of(outputs[kind])
    assert report["compressed"]["parameters"] == parameters
    assert report["compressed"]["bytes"] == sum(t.nbytes for t in tensors.values())
    verified = json.loads(as_text([WORKER, "verify", outputs[kind], "-o", "json"]))
    assert verified["ok"] and verified["parameters"] == parameters
    command = [WORKER, "eval", outputs[kind], "--tokens", evaluation, "-o", "json"]
    evaluated = json.loads(as_text(command))
    assert evaluated["parameters"] == parameters
    assert evaluated["perplexity"] == pytest.approx(report["compressed"]["perplexity"], rel=1e-5)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_measures_the_reported_perplexity(outputs, evaluation, kind, version):
    script = ROOT / "scripts" / "load_and_score.py"
    measured = float(run_python(version, script, outputs[kind], evaluation))
    reported = report_of(outputs[kind])["compressed"]["perplexity"]
    assert measured == pytest.approx(reported, rel=1e-3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_generates(outputs, kind, version):
    program = Path(__file__).parent / "check_generation.py"
    result = json.loads(run_python(version, program, outputs[kind]))
    assert result["transformers"].startswith(version + ".")
    assert result["class"] == ("LlamaForCausalLM" if kind in STOCK else "DotResizeForCausalLM")
    assert result["unloaded"] == result["unexpected"] == []
    assert result["together"] == result["alone"] == result["without_cache"]


SOURCES = {
    "llama-biases-tied": tiny_keys(
        "llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True
    ),
    "mistral-sliding-wide-heads": tiny_keys("mistral", sliding_window=7, head_dim=20),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", ["magnitude", "pca_dotresize"])
def test_a_stock_model_of_full_width_gives_the_dense_logits(tmp_path, source, method):
    dense = random_dense(SOURCES[source])
    dense.save_pretrained(tmp_path / "dense")
    ids = torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(5))
    save_file({"tokens": ids}, tmp_path / "tokens.safetensors")
    job = {
        "name": "full",
        "model": {"path": str(tmp_path / "dense")},
        "output": {"path": str(tmp_path / "full"), "dtype": "float32"},
        "method": {"name": method, "width": 48, "map_sharing": "model", "allow_larger": True},
        "calibration": {"tokens": str(tmp_path / "tokens.safetensors")},
        "resources": {"ranks": 2},
    }
    model = AutoModelForCausalLM.from_pretrained(run_worker(tmp_path, job, ranks=2)).eval()
    with torch.no_grad():
        expected, actual = dense(ids[:2]).logits, model(ids[:2]).logits
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_narrow_stock_model_scores_as_reported(tmp_path, source, version):
    random_dense(SOURCES[source]).save_pretrained(tmp_path / "dense")
    ids = torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(6))
    tokens = tmp_path / "tokens.safetensors"
    save_file({"tokens": ids}, tokens)
    job = {
        "name": "narrow",
        "model": {"path": str(tmp_path / "dense")},
        "output": {"path": str(tmp_path / "narrow"), "dtype": "float32"},
        "method": {"name": "slicegpt", "width": 40, "map_sharing": "model"},
        "calibration": {"tokens": str(tokens)},
        "evaluation": {"tokens": str(tokens)},
        "resources": {"ranks": 2},
    }
    directory = run_worker(tmp_path, job, ranks=2)
    script = ROOT / "scripts" / "load_and_score.py"
    measured = float(run_python(version, script, directory, tokens))
    assert measured == pytest.approx(report_of(directory)["compressed"]["perplexity"], rel=1e-3)
