"""Tests of scripts/load_and_score.py on the example model, whose perplexity is known from elsewhere."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "docs-llama"
TOKENS = ROOT / "tests" / "data" / "evaluation.safetensors"
GOLDEN = json.loads((ROOT / "tests" / "data" / "golden.json").read_text())

sys.path.insert(0, str(ROOT / "scripts"))
import load_and_score  # noqa: E402
import trusted_code  # noqa: E402

WITHOUT_MAPS = {
    "model_type": "dotresize",
    "norm_weights": True,
    "architectures": ["DotResizeLlamaForCausalLM"],
    "auto_map": {auto: name.format("DotResizeLlama") for auto, name in trusted_code.LAYER_SIZES.items()},
}


def score(*arguments):
    """Returns the exit code. Runs in this process: importing transformers takes longer than most scores."""
    return load_and_score.main([str(argument) for argument in arguments])


def test_the_example_has_its_known_perplexity(capsys):
    assert score(MODEL, TOKENS) == 0
    assert float(capsys.readouterr().out) == pytest.approx(GOLDEN["cases"][0]["dense_perplexity"], rel=1e-4)


def test_windows_do_not_overlap_and_the_tail_is_dropped(tmp_path, capsys):
    tokens = load_file(TOKENS)["tokens"].flatten()[:100]
    save_file({"tokens": tokens}, tmp_path / "tokens.safetensors")
    assert score(MODEL, tmp_path / "tokens.safetensors", "--seqlen", 32, "-o", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == 3 * 31
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.float32).eval()
    windows = tokens[:96].view(3, 32).long()
    with torch.no_grad():
        losses = [model(ids[None], labels=ids[None]).loss.item() for ids in windows]
    assert report["perplexity"] == pytest.approx(math.exp(sum(losses) / 3), rel=1e-5)


def test_weights_of_four_bits_are_the_nearest_of_sixteen_steps_in_each_group():
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.float32)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    narrow = model.model.layers[0].mlp.gate_proj
    narrow.weight.data[0] = 0
    load_and_score.round_to_four_bits(model, 96)  # 256 columns are two groups and a shorter one
    for name, weight in model.named_parameters():
        if "proj" not in name:
            assert torch.equal(weight, before[name]), name
    assert not narrow.weight[0].any()
    for group in (slice(0, 96), slice(96, 192), slice(192, 256)):
        row, dense = narrow.weight[1, group], before["model.layers.0.mlp.gate_proj.weight"][1, group]
        scale = dense.abs().max() / 7.5
        grid = torch.arange(-8, 8) * scale
        nearest = grid[(dense[:, None] - grid).abs().argmin(1)]
        assert torch.allclose(row, nearest, atol=1e-6)


def test_four_bits_cost_the_example_some_perplexity(tmp_path, capsys):
    save_file({"tokens": load_file(TOKENS)["tokens"].flatten()[:1024]}, tmp_path / "tokens.safetensors")
    assert score(MODEL, tmp_path / "tokens.safetensors", "--seqlen", 256) == 0
    assert score(MODEL, tmp_path / "tokens.safetensors", "--seqlen", 256, "--w4a16", 128) == 0
    dense, rounded = map(float, capsys.readouterr().out.split())
    assert 1.001 < rounded / dense < 1.1


def test_text_is_tokenised_as_the_worker_does(tmp_path, capsys):
    text, tokens = tmp_path / "a.txt", tmp_path / "tokens.safetensors"
    text.write_text("The with statement is used to wrap the execution of a block.\n" * 20)
    tokenize = ROOT / "worker" / "python" / "tokenize_text.py"
    subprocess.run([sys.executable, tokenize, MODEL, tokens, text], check=True, timeout=60)
    assert score(MODEL, text, "--seqlen", 64) == score(MODEL, tokens, "--seqlen", 64) == 0
    of_text, of_tokens = capsys.readouterr().out.splitlines()
    assert of_text == of_tokens


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no/such/model", TOKENS), "no/such/model: not a model directory"),
        ((MODEL, "no/such.safetensors"), "no/such.safetensors: "),
        ((MODEL, "no/such.txt"), "no/such.txt: No such file or directory"),
        ((MODEL, TOKENS, "--seqlen", 1), "--seqlen 1: must be at least 2"),
        ((MODEL, TOKENS, "--seqlen", 99999), "32768 tokens, fewer than one window of 99999"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys, arguments, message):
    assert score(*arguments) == 65
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and message in printed.err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "dotresize"}, "config.json: auto_map does not name the code of dotresize"),
        ({"model_type": "dotresize", "auto_map": trusted_code.CLASSES}, "configuration_dotresize.py: not there"),
        (WITHOUT_MAPS, "modeling_layer_sizes.py: not there"),
        (WITHOUT_MAPS | {"architectures": ["DotResizeMistralForCausalLM"]}, "auto_map does not name the code of dotresize"),
        (WITHOUT_MAPS | {"architectures": ["LlamaForCausalLM"]}, "auto_map does not name the code of dotresize"),
        ({"model_type": "nemotron-nas"}, "auto_map does not name the code of `dotresize export`"),
        ({"model_type": "nemotron-nas", "auto_map": {"AutoConfig": "configuration_decilm.DeciLMConfig"}},
         "configuration_decilm.py: not the file of `dotresize export`"),
    ],
)
def test_a_directory_without_its_code_is_refused(tmp_path, capsys, config, message):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert score(tmp_path, TOKENS) == 65
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and message in printed.err
