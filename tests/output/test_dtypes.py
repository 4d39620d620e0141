"""Tests that sizes and the output's dtypes are those of the stored tensors, whatever config.json says."""

import json
import shutil
import subprocess

import pytest
import torch
from running import BUILD, keys_of, report_of, run_worker
from safetensors.torch import save_file
from tiny_models import random_dense, tensors_of, tiny_keys

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PAIRS = [(stated, stored) for stated in DTYPES for stored in DTYPES]
KEYS = tiny_keys("llama", vocab_size=256, intermediate_size=96)
SIZE = 0.8
EMBEDDING, HEAD, DOWN = "model.embed_tokens.weight", "lm_head.weight", "model.layers.1.mlp.down_proj.weight"


def is_coarse(name):
    """Returns true for the float16 tensors of the mixed model: the others are its norms, its embedding and one matrix."""
    return "norm" not in name and name not in (EMBEDDING, DOWN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes a directory for each pair of dtypes, one with mixed dtypes, one with mixed dtypes and one table, and tokens."""
    folder = tmp_path_factory.mktemp("dtypes")
    tensors = random_dense(KEYS).state_dict()
    for stated, stored in PAIRS:
        cast = {name: tensor.to(DTYPES[stored]) for name, tensor in tensors.items()}
        write_model(folder / f"{stated}-{stored}", {**KEYS, "torch_dtype": stated}, cast)
    mixed = {name: tensor.half() if is_coarse(name) else tensor for name, tensor in tensors.items()}
    write_model(folder / "mixed", {**KEYS, "torch_dtype": "float16"}, mixed)
    del mixed[HEAD]
    write_model(folder / "tied", {**KEYS, "torch_dtype": "float16", "tie_word_embeddings": True}, mixed)
    ids = torch.randint(2, KEYS["vocab_size"], (16, 64), generator=torch.Generator().manual_seed(3))
    save_file({"tokens": ids}, folder / "tokens.safetensors")
    return folder


def write_model(directory, keys, tensors):
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(keys))
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def job_of(folder, source, name, heal=None, **output):
    healing = {"heal": heal} if heal else {}
    return {
        "name": name,
        "model": {"path": str(folder / source)},
        "output": {"path": str(folder / name), **output},
        "method": {"size": SIZE},
        "calibration": {"tokens": str(folder / "tokens.safetensors")},
        "resources": {"ranks": 1},
        **healing,
    }


def plan_of(folder, source, **output):
    path = folder / "plan.json"
    path.write_text(json.dumps(job_of(folder, source, "planned", **output)))
    done = subprocess.run([BUILD / "bin" / "dotresize", "plan", path, "-o", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bytes_of(directory):
    return sum(tensor.nbytes for tensor in tensors_of(directory).values())


def run(folder, source, name, heal=None, **output):
    """Runs the job. Returns its output's directory, after its bytes were compared with the plan's and the report's."""
    out = run_worker(folder, job_of(folder, source, name, heal, **output), ranks=1)
    report, dense, stored = report_of(out), bytes_of(folder / source), bytes_of(out)
    assert report["dense"]["bytes"] == dense
    assert report["compressed"]["bytes"] == stored
    assert report["compressed"]["bytes_fraction"] == pytest.approx(stored / dense)
    assert (SIZE - 0.05) * dense < stored <= SIZE * dense  # a step of all features of the stock model is 0.03
    assert stored <= plan_of(folder, source, **output)["compressed"]["bytes_at_most"]
    verified = subprocess.run([BUILD / "bin" / "dotresize-worker", "verify", out], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout
    return out


@pytest.mark.parametrize(("stated", "stored"), PAIRS)
def test_a_plan_counts_the_bytes_that_are_stored(folder, stated, stored):
    plan = plan_of(folder, f"{stated}-{stored}")
    dense = bytes_of(folder / f"{stated}-{stored}")
    assert plan["dense"]["bytes"] == sum(rank["bytes"] for rank in plan["ranks"]) == dense
    assert plan["compressed"]["bytes_at_most"] == int(SIZE * dense)
    assert (plan["dense"]["dtype"], plan["compressed"]["dtype"]) == (stored, stored)
    assert any(stated in warning and stored in warning for warning in plan["warnings"]) == (stated != stored)


def test_a_plan_tells_what_else_is_in_the_files(folder):
    tensors = tensors_of(folder / "mixed")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(6)
    write_model(folder / "buffer", {**KEYS, "torch_dtype": "float16"}, tensors)
    dense = plan_of(folder, "buffer")["dense"]
    assert (dense["bytes"], dense["file_bytes"]) == (bytes_of(folder / "mixed"), bytes_of(folder / "buffer"))


@pytest.mark.parametrize(("stated", "stored"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_an_output_has_the_dtype_that_is_stored(folder, stated, stored):
    out = run(folder, f"{stated}-{stored}", f"of-{stated}-{stored}")
    assert {tensor.dtype for tensor in tensors_of(out).values()} == {DTYPES[stored]}
    assert keys_of(out)["dtype"] == stored
    assert any(stated in warning and stored in warning for warning in report_of(out)["warnings"])


@pytest.fixture(scope="module")
def mixed_output(folder):
    return run(folder, "mixed", "of-mixed", heal={"epochs": 1})


def check_mixed(folder, out):
    """Checks that the output of the mixed model keeps the dtype of each tensor."""
    tensors = tensors_of(out)
    source = tensors_of(folder / "mixed")
    for name, tensor in tensors.items():
        assert tensor.dtype == (source[name].dtype if name in source else torch.float16), name
    assert tensors[EMBEDDING].dtype == torch.float32
    assert keys_of(out)["dtype"] == "float16"
    report = report_of(out)["output"]
    assert report["dtype"] == "float16"
    assert report["other_dtypes"] == {name: "float32" for name in tensors if not is_coarse(name)}


def test_an_output_of_a_mixed_model_keeps_the_dtype_of_each_tensor(folder, mixed_output):
    check_mixed(folder, mixed_output)
    table = subprocess.run([BUILD / "bin" / "dotresize", "plan", folder / "of-mixed.yaml"], capture_output=True, text=True)
    assert "  float16, some float32\n" in table.stdout


def test_a_stock_output_of_a_mixed_model_keeps_the_dtype_of_each_tensor(folder):
    out = run(folder, "mixed", "of-mixed-stock", format="stock")
    check_mixed(folder, out)
    assert any("norm" in name for name in tensors_of(out))


def test_a_head_of_its_own_has_the_dtype_of_the_table_that_it_was(folder):
    tensors = tensors_of(run(folder, "tied", "of-tied"))
    assert {tensors[name].dtype for name in (EMBEDDING, HEAD) if name in tensors} == {torch.float32}


def test_a_dtype_that_is_asked_for_is_that_of_all_tensors(folder):
    plan = plan_of(folder, "mixed", dtype="bfloat16")
    assert plan["compressed"]["dtype"] == "bfloat16" and "other_dtypes" not in plan["compressed"]
    out = run(folder, "mixed", "of-mixed-bfloat16", dtype="bfloat16")
    assert {tensor.dtype for tensor in tensors_of(out).values()} == {torch.bfloat16}


def test_verify_finds_another_dtype_than_the_reports(folder, mixed_output):
    out = folder / "changed"
    shutil.copytree(mixed_output, out)
    (shard,) = out.glob("*.safetensors")
    tensors = tensors_of(out)
    tensors[EMBEDDING] = tensors[EMBEDDING].half()
    save_file(tensors, shard, {"format": "pt"})
    command = [BUILD / "bin" / "dotresize-worker", "verify", out]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert f"tensor '{EMBEDDING}' is float16, the report says float32" in said
