"""Tests that transformers loads what scripts/random_model.py writes, for every family."""

import json
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import random_model  # noqa: E402

FAMILIES = ("llama-3.1-8b", "mistral-nemo-12b", "phi-4", "qwen3-30b-a3b")
TINY = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 640,
}
TINY_OF = {
    "mistral-nemo-12b": {"head_dim": 24},
    "phi-4": {"pad_token_id": 600, "bos_token_id": 601, "eos_token_id": 602},
    "qwen3-30b-a3b": {"head_dim": 24, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
}


@pytest.fixture
def tiny(tmp_path):
    """Returns the path of a family's tiny config.json."""

    def write(name="llama-3.1-8b", **changes):
        config = json.loads((random_model.CONFIGS / f"{name}.json").read_text())
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(config | TINY | TINY_OF.get(name, {}) | changes))
        return path

    return write


def write(directory, *arguments):
    return random_model.main([str(argument) for argument in (directory, "--tokens", 512, "--seqlen", 32, *arguments)])


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_loads_in_transformers(name, tiny, tmp_path):
    assert write(tmp_path / "model", "--config", tiny(name), "--layers", 2) == 0
    model, loading = AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", torch_dtype=torch.float32, output_loading_info=True
    )
    assert not loading["missing_keys"] and not loading["unexpected_keys"] and not loading["mismatched_keys"]
    assert model.config.num_hidden_layers == 2
    ids = load_file(tmp_path / "model" / "calibration.safetensors")["tokens"][:4].long()
    with torch.no_grad():
        result = model.eval()(ids, output_hidden_states=True)
    assert result.logits.isfinite().all()
    assert 0.3 < result.logits.std() < 3
    # The last activation is normed to about 1 a channel. The one before has grown, but not without bound.
    assert 0.02 < result.hidden_states[-2].std() < 5


def test_a_massive_channel_stands_out(tiny, tmp_path):
    assert write(tmp_path / "model", "--config", tiny(), "--layers", 1) == 0
    rows = load_file(tmp_path / "model" / "model.safetensors")["model.layers.0.self_attn.o_proj.weight"]
    scales = rows.float().std(1).sort().values
    assert scales[-1] > 4 * scales[-2]


@pytest.mark.parametrize("name", random_model.known_names())
def test_names_are_models_of_true_width(name):
    config, whole = random_model.read_config(random_model.CONFIGS / f"{name}.json", 1)
    assert config["num_hidden_layers"] == 1 < whole
    billions = sum(tensor.bytes for tensor in random_model.tensors(config | {"num_hidden_layers": whole})) / 2e9
    expected = {"llama-3.2-1b": 1.24, "llama-3.1-8b": 8.03, "llama-3.1-70b": 70.55, "mistral-nemo-12b": 12.25, "phi-4": 14.66}
    assert billions == pytest.approx(expected.get(name, 30.53), abs=0.01)


def test_shards_have_their_limit_and_an_index(tiny, tmp_path, monkeypatch):
    assert write(tmp_path / "single", "--config", tiny(), "--layers", 2) == 0
    limit = 90_000
    monkeypatch.setattr(random_model, "MAX_SHARD_BYTES", limit)
    assert write(tmp_path / "cut", "--config", tiny(), "--layers", 2) == 0
    index = json.loads((tmp_path / "cut" / "model.safetensors.index.json").read_text())
    shards = sorted((tmp_path / "cut").glob("model-*.safetensors"))
    assert len(shards) > 2 and shards[0].name == f"model-00001-of-{len(shards):05}.safetensors"
    whole = load_file(tmp_path / "single" / "model.safetensors")
    assert index["weight_map"].keys() == whole.keys()
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in whole.values())
    for path in shards:
        with safe_open(path, "pt") as shard:
            names = shard.keys()
            assert sum(whole[name].nbytes for name in names) <= limit
            for name in names:
                assert index["weight_map"][name] == path.name
                assert torch.equal(shard.get_tensor(name), whole[name])


def test_no_more_than_a_few_pieces_are_in_memory(tiny, tmp_path, monkeypatch):
    """Memory holds the pieces that are ahead and the one being written, whatever the size of a tensor or shard."""
    alive, most, lock = 0, 0, threading.Lock()
    draw = random_model.Weights.draw

    class Piece(bytearray):
        def __del__(self):
            nonlocal alive
            with lock:
                alive -= 1

    def counted(self, tensor, row, rows):
        nonlocal alive, most
        assert rows * tensor.columns <= max(random_model.MAX_PIECE_NUMBERS, tensor.columns)
        piece = Piece(draw(self, tensor, row, rows))
        with lock:
            alive += 1
            most = max(most, alive)
        return piece

    monkeypatch.setattr(random_model, "MAX_PIECE_NUMBERS", 1 << 10)
    monkeypatch.setattr(random_model.Weights, "draw", counted)
    assert write(tmp_path / "model", "--config", tiny(), "--layers", 2) == 0
    assert most <= random_model.MAX_PIECES_AHEAD + 1
    assert alive == 0


def test_the_same_seed_gives_the_same_files_and_another_one_others(tiny, tmp_path):
    for directory, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert write(tmp_path / directory, "--config", tiny(), "--layers", 1, "--seed", seed) == 0
    a, b, c = (files(tmp_path / directory) for directory in "abc")
    assert a == b
    assert {name for name in a if a[name] == c[name]} == {"config.json"}


def test_tokens_are_frequent_by_rank(tiny, tmp_path):
    assert write(tmp_path / "model", "--config", tiny(), "--layers", 1, "--tokens", 20_000, "--seqlen", 50) == 0
    counts = []
    for name in ("calibration", "evaluation"):
        tokens = load_file(tmp_path / "model" / f"{name}.safetensors")["tokens"]
        assert tokens.shape == (400, 50) and tokens.dtype == torch.int32
        assert 0 <= tokens.min() and tokens.max() < TINY["vocab_size"]
        counts.append(tokens.flatten().long().bincount(minlength=TINY["vocab_size"]))
    sorted_counts = counts[0].sort(descending=True).values.float()
    assert sorted_counts[0] / sorted_counts[9] == pytest.approx(11.7 / 2.7, rel=0.2)
    assert counts[0].argmax() == counts[1].argmax()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", 33], "the model has 32"),
        (["--layers", 0], "the model has 32"),
        (["--seqlen", 1000], "--seqlen 1000"),
    ],
)
def test_what_cannot_be_met_is_refused(arguments, message, tiny, tmp_path, capsys):
    assert write(tmp_path / "model", "--config", tiny(), *arguments) == random_model.EXIT_DATA
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"model_type": "gpt2"}, "'gpt2' is not one of llama,"), ({"attention_bias": True}, "attention_bias")],
)
def test_a_config_of_another_kind_is_refused(changes, message, tiny, tmp_path, capsys):
    assert write(tmp_path / "model", "--config", tiny(**changes)) == random_model.EXIT_DATA
    assert message in capsys.readouterr().err


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit:
        write(tmp_path / "model", "--like", "llama-2")
    assert exit.value.code == 2
    error = capsys.readouterr().err
    assert all(name in error for name in random_model.known_names())


def test_a_directory_with_files_is_left_alone(tiny, tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("mine")
    assert write(tmp_path / "model", "--config", tiny()) == random_model.EXIT_DATA
    assert "is not empty" in capsys.readouterr().err
    assert files(tmp_path / "model") == {"mine": b"mine"}


def test_a_model_too_large_for_the_disk_is_refused_before_anything_is_written(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(random_model.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    assert write(tmp_path / "model", "--config", tiny()) == random_model.EXIT_DATA
    assert "1,000 are free" in capsys.readouterr().err
    assert not files(tmp_path / "model")
