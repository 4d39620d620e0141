"""Tests of dotresize-worker verify: an output alone, and against its source model."""

import hashlib
import json
import random
import shutil
import subprocess

import pytest
import torch
from running import WORKER, run_worker
from safetensors.torch import load_file, save_file
from tiny_models import random_dense, tiny_keys

KEYS = tiny_keys("llama", attention_bias=True)


def save_tokens(path, seed):
    save_file({"tokens": torch.randint(2, 97, (16, 64), generator=torch.Generator().manual_seed(seed))}, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    random_dense(KEYS, seed=1).save_pretrained(folder / "source")
    random_dense(KEYS, seed=2).save_pretrained(folder / "other")
    save_tokens(folder / "tokens.safetensors", seed=3)
    save_tokens(folder / "others.safetensors", seed=4)
    return folder


def compress(folder, name, method, dtype, **more):
    job = {
        "name": name,
        "model": {"path": str(folder / "source")},
        "output": {"path": str(folder / name), "dtype": dtype},
        "method": {"name": "pca_dotresize", "allow_larger": True, **method},
        "calibration": {"tokens": str(folder / "tokens.safetensors")},
        "resources": {"ranks": 1},
        **more,
    }
    return run_worker(folder, job, ranks=1)


@pytest.fixture(scope="module")
def narrow(folder):
    evaluation = {"tokens": str(folder / "tokens.safetensors"), "seqlen": 32}
    return compress(folder, "narrow", {"width": 40}, "float32", evaluation=evaluation)


@pytest.fixture(scope="module")
def full(folder):
    """Returns an output as wide as its source."""
    return compress(folder, "full", {"width": 48, "head": "sliced"}, "float16")


def verify(*arguments, exit_code=0):
    command = [WORKER, "verify", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout + result.stderr


def problems_of(*arguments):
    """Returns the lines before the last one, which counts them."""
    return verify(*arguments, exit_code=65).splitlines()[:-1]


def changed(model, folder, change, keys=None):
    """Returns a copy of the model with changed tensors, changed keys of config.json, and matching hashes."""
    copy = folder / "changed"
    shutil.copytree(model, copy)
    (shard,) = copy.glob("*.safetensors")
    tensors = load_file(shard)
    change(tensors)
    save_file(tensors, shard)
    if keys:
        (copy / "config.json").write_text(json.dumps(keys))
        index = copy / "model.safetensors.index.json"
        size = {"total_size": sum(tensor.nbytes for tensor in tensors.values())}
        index.write_text(json.dumps({"metadata": size, "weight_map": dict.fromkeys(tensors, shard.name)}))
    sums = (copy / "SHA256SUMS").read_text().splitlines()
    names = [line.split("  ", 1)[1] for line in sums]
    lines = [f"{hashlib.sha256((copy / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (copy / "SHA256SUMS").write_text("".join(lines))
    return copy


@pytest.fixture(scope="module")
def narrow_matrices(narrow, folder):
    """Returns an output of earlier versions, whose shortcuts are one matrix each."""
    keys = json.loads((narrow / "config.json").read_text())
    ranks = keys.pop("shortcut_ranks")
    widths = keys["junction_widths"]

    def multiply(tensors):
        for sublayer, rank in enumerate(ranks):
            name = f"model.layers.{sublayer // 2}.{('attention', 'mlp')[sublayer % 2]}_shortcut"
            matrix = torch.eye(widths[sublayer + 1], widths[sublayer])
            if rank:
                factor = tensors.pop(f"{name}.A")
                matrix -= factor[:, : len(matrix)].T @ factor
            tensors[f"{name}.weight"] = matrix

    (folder / "matrices").mkdir()
    return changed(narrow, folder / "matrices", multiply, keys)


def swap(tensors):
    one, other = (f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 2))
    tensors[one], tensors[other] = tensors[other], tensors[one]


def scale(tensors):
    tensors["model.layers.1.self_attn.o_proj.weight"] *= 1.1


def test_a_changed_row_of_a_tied_table_is_found(folder, tmp_path):
    keys = tiny_keys("llama", vocab_size=400, tie_word_embeddings=True)
    random_dense(keys, seed=1).save_pretrained(tmp_path / "source")
    tokens = folder / "tokens.safetensors"
    source, evaluation = {"path": str(tmp_path / "source")}, {"tokens": str(tokens)}
    method = {"name": "slicegpt", "width": 40}
    made = compress(tmp_path, "tied", method, "float32", model=source, evaluation=evaluation, calibration=evaluation)
    against = ("--against", tmp_path / "source", "--tokens", tokens)
    assert "OK" in verify(made, *against)

    def change(tensors):  # changes a token that does not occur here
        tensors["model.embed_tokens.weight"][399, 7] += 1e-4

    problems = problems_of(changed(made, tmp_path, change), *against)
    assert problems[0].startswith("tensor 'model.embed_tokens.weight' differs from the source's")


def test_outputs_are_what_their_source_gives(folder, narrow, full):
    tokens = folder / "tokens.safetensors"
    assert "parameters, OK" in verify(narrow)
    assert "parameters, OK" in verify(narrow, "--against", folder / "source", "--tokens", tokens)
    assert "parameters, OK" in verify(full, "--against", folder / "source")
    assert "parameters, OK" in verify(full, "--against", folder / "source", "--tokens", tokens)


def test_a_file_that_was_removed_with_its_hash_is_missed(narrow, tmp_path):
    for name in ("generation_config.json", "dotresize/report.json"):
        copy = shutil.copytree(narrow, tmp_path / "copy")
        (copy / name).unlink()
        sums = (copy / "SHA256SUMS").read_text().splitlines(keepends=True)
        (copy / "SHA256SUMS").write_text("".join(line for line in sums if not line.endswith(f"  {name}\n")))
        (problem,) = problems_of(copy)
        assert problem.startswith(f"{name}: ") and problem.endswith("missing")
        shutil.rmtree(copy)


def test_links_are_accepted_in_the_cache_of_the_hub_alone(narrow, tmp_path):
    snapshot, blobs = tmp_path / "models--a--b/snapshots/1234", tmp_path / "models--a--b/blobs"
    shutil.copytree(narrow, snapshot)
    blobs.mkdir()
    for number, path in enumerate([path for path in snapshot.rglob("*") if path.is_file()]):
        path.rename(blobs / str(number))
        path.symlink_to(blobs / str(number))
    assert "parameters, OK" in verify(snapshot)
    elsewhere = tmp_path / "elsewhere.json"
    shutil.copy(snapshot / "config.json", elsewhere)
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(elsewhere)
    (problem,) = problems_of(snapshot)
    assert problem == "config.json: is a symbolic link, and its target is no part of this model"


@pytest.mark.parametrize("change", [swap, scale])
def test_changed_weights_with_correct_hashes_are_found_by_what_they_compute(
    folder, narrow, full, tmp_path, change
):
    tokens = folder / "tokens.safetensors"
    model = changed(narrow, tmp_path, change)
    assert "parameters, OK" in verify(model)
    (problem,) = problems_of(model, "--against", folder / "source", "--tokens", tokens)
    assert problem.startswith("the compressed perplexity is ")
    shutil.rmtree(model)
    (problem,) = problems_of(changed(full, tmp_path, change), "--against", folder / "source")
    assert problem.startswith("the logits of output and source differ by ")


# Cases: output, tensor, change, message.
SHORTCUTS = {
    "a factor that is larger than orthonormal maps allow": (
        "narrow",
        "model.layers.1.attention_shortcut.A",
        lambda factor: factor * 3.0,
        "more than the 1 that orthonormal maps allow",
    ),
    "larger than orthonormal maps allow": (
        "narrow_matrices",
        "model.layers.1.attention_shortcut.weight",
        lambda shortcut: shortcut * 1.2,
        "more than the 1 that orthonormal maps allow",
    ),
    "to a junction of full width": (
        "narrow_matrices",
        "model.layers.2.mlp_shortcut.weight",
        lambda shortcut: shortcut * 0.9,
        "less than the 1 that a junction of full width implies",
    ),
}


@pytest.mark.parametrize("width", [24, 40], ids=["matrices", "of low rank"])
def test_shortcuts_of_oblique_maps_may_stretch(folder, width):
    output = compress(folder, f"oblique-{width}", {"name": "slicegpt", "width": width, "metric": "fisher"}, "float32")
    assert verify(output).endswith(" OK\n")
    if width == 24:
        tensors = load_file(next(output.glob("*.safetensors")))
        matrices = [tensor for name, tensor in tensors.items() if "shortcut" in name]
        assert max(torch.linalg.matrix_norm(matrix, 2) for matrix in matrices) > 1.01


@pytest.mark.parametrize("case", SHORTCUTS)
def test_shortcuts_that_no_maps_can_give_are_found(request, tmp_path, case):
    model, name, change, said = SHORTCUTS[case]

    def change_it(tensors):
        tensors[name] = change(tensors[name].float()).to(tensors[name].dtype)

    (problem,) = problems_of(changed(request.getfixturevalue(model), tmp_path, change_it))
    assert problem.startswith(f"tensor '{name}' has the singular value ") and problem.endswith(said)


def test_another_dtype_than_the_configs_is_found(narrow, tmp_path):
    def halve(tensors):
        tensors["lm_head.weight"] = tensors["lm_head.weight"].half()

    (problem,) = problems_of(changed(narrow, tmp_path, halve))
    assert problem == "tensor 'lm_head.weight' is float16, the report says float32"


def test_another_source_is_found_by_its_hash(folder, narrow):
    other, tokens = folder / "other", folder / "tokens.safetensors"
    (problem,) = problems_of(narrow, "--against", other, "--tokens", tokens)
    assert problem.startswith(f"{other / 'model.safetensors'}: its content differs from the source")


def test_other_tokens_than_the_evaluations_are_refused(folder, narrow):
    against = [narrow, "--against", folder / "source", "--tokens"]
    (problem,) = problems_of(*against, folder / "others.safetensors")
    assert problem.startswith("these are not the tokens of the job's evaluation")
    (problem,) = problems_of(*against, folder / "tokens.safetensors", "--seqlen", 64)
    assert problem == "--seqlen 64: the job's evaluation had windows of 32 tokens"


@pytest.fixture(scope="module")
def spoken(folder):
    """Returns a source with a tokenizer of characters, and a text for it."""
    random_dense(KEYS, seed=5).save_pretrained(folder / "spoken")
    characters = {character: number for number, character in enumerate("abcdefghijklmnopqrstuvwxyz \n")}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
                 "post_processor": None, "decoder": None,
                 "model": {"type": "BPE", "vocab": characters, "merges": [], "unk_token": None, "dropout": None,
                           "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False}}
    (folder / "spoken" / "tokenizer.json").write_text(json.dumps(tokenizer))
    rng = random.Random(1)
    text = folder / "words.txt"
    text.write_text(" ".join("".join(rng.choices("abcdefghij", k=rng.randint(1, 9))) for _ in range(800)))
    return folder / "spoken", text


# Evaluations of a job whose calibration has 8 windows, and a name.
BESIDE = {"all the rest": {}, "some of the rest": {"samples": 3}}


@pytest.mark.parametrize("case", BESIDE)
def test_windows_beside_the_calibration_are_those_of_the_job(folder, spoken, tmp_path, monkeypatch, case):
    source, text = spoken
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calibration = {"text": [str(text)], "samples": 8, "seqlen": 32}
    made = compress(tmp_path, "beside", {"width": 40}, "float32", model={"path": str(source)}, calibration=calibration, evaluation=BESIDE[case])
    assert "parameters, OK" in verify(made, "--against", source, "--text", text)
    shorter = tmp_path / "shorter.txt"
    shorter.write_text(text.read_text()[:200])
    (problem,) = problems_of(made, "--against", source, "--text", shorter)
    assert problem.startswith(f"these are not the tokens of the job's evaluation, --text {text}: ")
    assert f"evaluation, --text {text}" in verify(made, "--against", source, exit_code=64)


@pytest.mark.parametrize("case", BESIDE)
def test_windows_beside_the_calibration_may_be_given_as_tokens(folder, tmp_path, case):
    tokens = folder / "tokens.safetensors"
    made = compress(folder, f"beside {case}", {"width": 40}, "float32", calibration={"tokens": str(tokens), "samples": 8}, evaluation=BESIDE[case])
    assert "parameters, OK" in verify(made, "--against", folder / "source", "--tokens", tokens)


def test_some_windows_of_an_evaluation_are_those_of_the_job(folder):
    tokens = folder / "others.safetensors"
    made = compress(folder, "some", {"width": 40}, "float32", evaluation={"tokens": str(tokens), "samples": 5, "seqlen": 48})
    assert "parameters, OK" in verify(made, "--against", folder / "source", "--tokens", tokens)


def test_tokens_that_are_needed_are_asked_for(folder, narrow):
    said = verify(narrow, "--against", folder / "source", exit_code=64)
    assert f"evaluation, --tokens {folder / 'tokens.safetensors'}" in said
    assert "need --against" in verify(narrow, "--tokens", "x", exit_code=64)


def test_a_report_without_perplexities_cannot_be_measured_again(folder):
    model = compress(folder, "unmeasured", {"width": 40}, "float32")
    (problem,) = problems_of(model, "--against", folder / "source")
    assert "has no perplexities" in problem


def test_json_lists_the_problems(narrow, tmp_path):
    model = changed(narrow, tmp_path, lambda tensors: tensors.pop("lm_head.weight"))
    command = [WORKER, "verify", model, "-o", "json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    document = json.loads(result.stdout)
    assert result.returncode == 65 and not document["ok"]
    assert any("lm_head.weight" in problem for problem in document["problems"])
