"""Tests that impossible jobs are refused by name, or end with the reason."""

import json
import os
import re
import subprocess

import harness
import pytest
import torch
from safetensors.torch import load_file, save_file


@pytest.fixture
def spec(tmp_path):
    return harness.job(
        tmp_path / "out", method={"name": "pca_dotresize", "width": 200}, ranks=2, evaluate=False
    )


def test_existing_output_is_refused_unless_overwrite(spec, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("data")
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert "not a model made by dotresize" in refused.stderr and "output.overwrite" not in refused.stderr
    assert (out / "precious").read_text() == "data"

    spec["output"]["overwrite"] = True
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert "not a model made by dotresize" in refused.stderr
    assert (out / "precious").read_text() == "data"

    (out / "dotresize").mkdir()
    (out / "dotresize" / "report.json").write_text("{}")
    spec["calibration"]["samples"] = 4
    harness.run_to_report(spec, tmp_path)
    assert not (out / "precious").exists()


def copy_model(tmp_path, **changed):
    """Copies the example model with some tensors replaced."""
    model = tmp_path / "model"
    model.mkdir()
    for name in ["config.json", "tokenizer.json"]:
        (model / name).write_bytes((harness.MODEL / name).read_bytes())
    tensors = load_file(harness.MODEL / "model.safetensors")
    tensors.update({name.replace("__", "."): tensor for name, tensor in changed.items()})
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    return str(model)


def test_no_link_leads_out_of_the_allowed_directories(spec, tmp_path, monkeypatch):
    """A link that comes after the checks of a server with --allow-root is not followed."""
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.write_text('{"password": "of another user"}')
    spec["model"]["path"] = copy_model(root)
    spec["output"]["path"] = str(root / "deeper" / "out")
    spec["calibration"]["samples"] = 2
    monkeypatch.setenv("DOTRESIZE_ALLOWED_ROOTS", json.dumps([str(root), str(harness.CALIBRATION.parent)]))
    link = root / "model" / "tokenizer_config.json"
    link.symlink_to(secret)
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert "tokenizer_config.json: is outside" in refused.stderr and "--allow-root" in refused.stderr
    assert not (root / "deeper" / "out").exists()

    link.unlink()
    link.symlink_to("tokenizer.json")
    harness.run_to_report(spec, tmp_path)
    copied = root / "deeper" / "out" / "tokenizer_config.json"
    assert copied.is_file() and not copied.is_symlink()

    spec["output"]["path"] = str(tmp_path / "elsewhere" / "out")
    assert "--allow-root" in harness.run(spec, tmp_path).stderr
    assert not (tmp_path / "elsewhere").exists()


def test_a_pipe_among_the_copied_files_is_refused_at_the_start(spec, tmp_path):
    spec["model"]["path"] = copy_model(tmp_path)
    os.mkfifo(tmp_path / "model" / "vocab.json")
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert "vocab.json is not a regular file" in refused.stderr
    assert "in prepare" in refused.stderr


@pytest.mark.parametrize(
    "name, tensor, expected",
    [
        (
            "model__layers__5__mlp__down_proj__weight",
            torch.full((256, 768), float("nan"), dtype=torch.bfloat16),
            "NaN or infinity",
        ),
        (
            "model__layers__2__self_attn__q_proj__weight",
            torch.zeros(256, 255, dtype=torch.bfloat16),
            "[256, 255]",
        ),
    ],
)
def test_bad_weights_are_refused_by_tensor(name, tensor, expected, spec, tmp_path):
    spec["model"]["path"] = copy_model(tmp_path, **{name: tensor})
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert name.replace("__", ".") in refused.stderr
    assert expected in refused.stderr
    assert "junctions" not in refused.stderr  # the error comes before any junction
    assert harness.leftovers(tmp_path) == []


def test_overflow_of_float16_advises_another_dtype(spec, tmp_path):
    large = torch.full((256, 768), 6e4, dtype=torch.bfloat16)
    spec["model"]["path"] = copy_model(tmp_path, model__layers__1__mlp__down_proj__weight=large)
    spec["resources"].update(ranks=1, compute_dtype="float16")
    spec["calibration"]["samples"] = 2
    failed = harness.run(spec, tmp_path)
    assert failed.returncode == 1
    assert re.search(
        r"junction .*: the activations are not finite \(float16 ends at 65504; "
        r"resources.compute_dtype: float32 or bfloat16 has the range\)\n",
        failed.stderr,
    ), failed.stderr
    assert harness.leftovers(tmp_path) == []


def write_phi3(directory, change):
    """Writes a small phi3 in two shards, after `change` of its tensors and index."""
    config = {
        "model_type": "phi3", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64,
    }  # fmt: skip
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (64, 32),
        "lm_head.weight": (64, 32),
        "model.norm.weight": (32,),
        layer + "input_layernorm.weight": (32,),
        layer + "post_attention_layernorm.weight": (32,),
        layer + "self_attn.qkv_proj.weight": (64, 32),
        layer + "self_attn.o_proj.weight": (32, 32),
        layer + "mlp.gate_up_proj.weight": (96, 32),
        layer + "mlp.down_proj.weight": (32, 48),
    }
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    index = {
        name: f"model-0000{2 if 'mlp' in name else 1}-of-00002.safetensors" for name in tensors
    }
    change(tensors, index)
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for shard in sorted(set(index.values()) - {"absent.safetensors"}):
        held = {name: tensors[name] for name in index if index[name] == shard}
        save_file(held, directory / shard, metadata={"format": "pt"})


def without_qkv(tensors, index):
    del index["model.layers.0.self_attn.qkv_proj.weight"]


def with_gate_alone(tensors, index):
    tensors["model.layers.0.mlp.gate_up_proj.weight"] = torch.randn(48, 32)


def with_an_absent_shard(tensors, index):
    index["model.layers.0.mlp.down_proj.weight"] = "absent.safetensors"


@pytest.mark.parametrize(
    "change, expected",
    [
        (without_qkv, ["no tensor 'model.layers.0.self_attn.qkv_proj.weight'"]),
        (with_gate_alone, ["'model.layers.0.mlp.gate_up_proj.weight'", "[48, 32]", "[96, 32]"]),
        (with_an_absent_shard, ["absent.safetensors"]),
    ],
)
def test_bad_fused_checkpoint_is_refused_by_tensor_or_shard(change, expected, spec, tmp_path):
    write_phi3(tmp_path / "model", change)
    spec["model"]["path"] = str(tmp_path / "model")
    spec["method"]["width"] = 24
    spec["calibration"] = {"tokens": str(tmp_path / "tokens.safetensors")}
    save_file({"tokens": torch.arange(64).view(4, 16)}, tmp_path / "tokens.safetensors")
    spec["resources"]["ranks"] = 1
    refused = harness.run(spec, tmp_path, ranks=0)
    assert refused.returncode == 65, refused.stderr
    for part in expected:
        assert part in refused.stderr
    assert "calibrate" not in refused.stderr
    assert harness.leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"calibration": {"samples": 1000}}, "1000"),
        ({"calibration": {"tokens": "/nonexistent.safetensors"}}, "calibration.tokens"),
        ({"method": {"width": 257}}, "method.width"),
        ({"method": {"sparsity": 0.2}}, "only one"),
        ({"resources": {"device": "gpu"}}, "resources.device"),
        ({"metod": {}}, "metod"),
    ],
)
def test_bad_job_is_refused_by_key(change, expected, spec, tmp_path):
    for section, values in change.items():
        spec.setdefault(section, {}).update(values)
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert expected in refused.stderr


def test_more_ranks_than_sublayers_is_refused(spec, tmp_path):
    refused = harness.run(spec, tmp_path, ranks=13)
    assert refused.returncode == 65
    assert "12" in refused.stderr and "ranks" in refused.stderr


def test_a_tokenizer_that_wants_more_memory_than_there_is_is_refused(spec, tmp_path):
    spec["model"]["path"] = copy_model(tmp_path)
    file = tmp_path / "model" / "tokenizer.json"
    precompiled = {"type": "Precompiled", "precompiled_charsmap": "/////////////w=="}  # claims 8 GiB
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": precompiled}))
    (tmp_path / "text").write_text("a text " * 1000)
    spec["calibration"] = {"text": [str(tmp_path / "text")], "samples": 1, "seqlen": 128}
    spec["resources"]["memory"] = "1GiB"
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert "the tokenizer helper was killed by its input, by signal 6" in refused.stderr


def test_token_outside_the_vocabulary_is_refused(spec, tmp_path):
    tokens = load_file(harness.CALIBRATION)["tokens"]
    tokens[3, 17] = 4096
    save_file({"tokens": tokens}, tmp_path / "tokens.safetensors")
    spec["calibration"]["tokens"] = str(tmp_path / "tokens.safetensors")
    refused = harness.run(spec, tmp_path)
    assert refused.returncode == 65
    assert "4096" in refused.stderr


def test_sinkhorn_that_does_not_converge_fails_unless_accepted(spec, tmp_path):
    spec["calibration"]["samples"] = 4
    spec["method"]["lambda"] = 1e-4
    failed = harness.run(spec, tmp_path)
    assert failed.returncode == 1
    assert "junction" in failed.stderr and "10000 iterations" in failed.stderr

    spec["method"]["on_nonconvergence"] = "accept"
    report = harness.run_to_report(spec, tmp_path)
    text = "Sinkhorn did not converge in 10000 iterations"
    assert sum(text in warning for warning in report["warnings"]) == 12


def test_usage_errors_exit_with_64():
    for arguments in [[], ["--no-such-option"], ["eval", str(harness.MODEL)]]:
        done = subprocess.run([harness.WORKER, *arguments], capture_output=True, text=True)
        assert done.returncode == 64, (arguments, done.stderr)
