"""Tests of sources with one table for embedding and head, and of jobs that make nothing narrower."""

import subprocess

import pytest
import torch
from running import VERSIONS, WORKER, keys_of, report_of, run_worker, score_all
from safetensors.torch import save_file
from tiny_models import random_dense, tensors_of, tiny_keys
from transformers import AutoModelForCausalLM

VOCABULARY = 400  # makes one table smaller than two
IDS = torch.randint(2, VOCABULARY, (16, 64), generator=torch.Generator().manual_seed(5))
TIED = {
    "llama": tiny_keys("llama", vocab_size=VOCABULARY, tie_word_embeddings=True),
    "qwen2": tiny_keys("qwen2", vocab_size=VOCABULARY, tie_word_embeddings=True),
    "mixtral": tiny_keys("mixtral", vocab_size=VOCABULARY, tie_word_embeddings=True),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Makes a directory for each family with the model, tied and untied, and tokens."""
    folders = {}
    for family, keys in TIED.items():
        folder = folders[family] = tmp_path_factory.mktemp(family)
        dense = random_dense(keys)
        dense.save_pretrained(folder / "tied")
        untied = random_dense({**keys, "tie_word_embeddings": False})
        untied.load_state_dict(dense.state_dict())
        untied.save_pretrained(folder / "untied")
        assert ("lm_head.weight" in tensors_of(folder / "untied")) and "lm_head.weight" not in tensors_of(folder / "tied")
        save_file({"tokens": IDS}, folder / "tokens.safetensors")
    return folders


def run(folder, source, output, ranks=2, activations="auto", form="any", **method):
    tokens = {"tokens": str(folder / "tokens.safetensors")}
    job = {
        "name": output.name,
        "model": {"path": str(folder / source)},
        "output": {"path": str(output), "dtype": "float32", "format": form},
        "method": method if method.keys() <= {"size", "round_to"} else {"name": "slicegpt", "allow_larger": True, **method},
        "calibration": {**tokens, "activations": activations},
        "evaluation": tokens,
        "resources": {"ranks": ranks},
    }
    output.parent.mkdir(exist_ok=True)
    return run_worker(output.parent, job, ranks=ranks)


def load(directory):
    model = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, dtype=torch.float32)
    return model.eval()


@torch.no_grad()
def logits_of(model):
    return model(IDS[:2]).logits


def check_as_loaded(directory, folder, source="tied"):
    """Checks that the report has the perplexities of both transformers and of `verify`, and the size."""
    report = report_of(directory)
    stored = tensors_of(directory)
    assert sum(tensor.numel() for tensor in stored.values()) == report["compressed"]["parameters"]
    tokens = folder / "tokens.safetensors"
    for version in VERSIONS:
        expected = pytest.approx([report["compressed"]["perplexity"]], rel=1e-3)
        assert score_all(version, [directory], tokens) == expected
    command = [WORKER, "verify", directory, "--against", folder / source, "--tokens", tokens]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert verified.returncode == 0, verified.stdout + verified.stderr


# Ways to find the maps.
CUSTOM = {
    "llama": ({"width": 40}, "original"),
    "qwen2": ({"width": 32, "head": "sliced", "metric": "fisher"}, "original"),
    "mixtral": ({"width": 40, "head": "sliced"}, "original"),
    "llama-compressed": ({"width": 40}, "compressed"),
}


@pytest.mark.parametrize("case", CUSTOM)
def test_a_tied_model_stays_tied_and_computes_what_two_tables_do(sources, tmp_path, case):
    method, activations = CUSTOM[case]
    folder = sources[case.split("-")[0]]
    tied = run(folder, "tied", tmp_path / "tied", activations=activations, **method)
    untied = run(folder, "untied", tmp_path / "untied", ranks=1, activations=activations, **method)
    keys, stored, source = keys_of(tied), tensors_of(tied), tensors_of(folder / "tied")
    assert keys["tie_word_embeddings"] and keys["embedding_projection"]
    assert keys["head_projection"]
    assert not keys_of(untied)["tie_word_embeddings"]
    table = stored["model.embed_tokens.weight"]
    assert torch.equal(table, source["model.embed_tokens.weight"])
    assert "lm_head.weight" not in stored

    first, last = keys["junction_widths"][0], keys["junction_widths"][-1]
    one_table = 48 * VOCABULARY + 48 * first + 48 * last
    less = VOCABULARY * (first + last) - one_table
    parameters = [report_of(output)["compressed"]["parameters"] for output in (tied, untied)]
    assert parameters[1] - parameters[0] == less > 0
    model, other = load(tied), load(untied)
    torch.testing.assert_close(logits_of(model), logits_of(other), atol=1e-4, rtol=0)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    check_as_loaded(tied, folder)


def test_two_tables_are_stored_where_they_are_smaller(sources, tmp_path):
    folder = sources["llama"]
    method = {"width": 24, "head": "sliced"}  # 24 + 24 < 48 · 400 / (400 - 48)
    output = run(folder, "tied", tmp_path / "narrow", **method)
    assert not keys_of(output)["tie_word_embeddings"]
    assert tensors_of(output)["lm_head.weight"].shape == (VOCABULARY, 24)
    check_as_loaded(output, folder)


@pytest.mark.parametrize("metric", ["activation", "fisher"])
def test_a_stock_model_stays_tied(sources, tmp_path, metric):
    """The stock model computes norm(x)·M·Mᵀ·diag(γ)·M·Mᵀ·Eᵀ with its one map M."""
    folder = sources["qwen2"]
    stock = run(folder, "tied", tmp_path / "stock", form="stock", width=32, metric=metric)
    assert keys_of(stock)["tie_word_embeddings"] and "lm_head.weight" not in tensors_of(stock)
    gamma = tensors_of(folder / "tied")["model.norm.weight"].double()
    check_as_loaded(stock, folder)
    if metric == "fisher":
        return
    tables = [tensors_of(of)["model.embed_tokens.weight"].double() for of in (folder / "tied", stock)]
    M = torch.linalg.lstsq(*tables).solution  # rotated such that Mᵀ·diag(γ)·M is diagonal
    torch.testing.assert_close(M.T @ M, torch.eye(32).double(), atol=1e-5, rtol=0)
    head = M.T @ (gamma[:, None] * M)
    assert (gamma[:, None] * M - M @ head).abs().max() > 0.01  # the part left out of the head
    norm = tensors_of(stock)["model.norm.weight"].double() / (48 / 32) ** 0.5
    torch.testing.assert_close(norm.diag(), head, atol=1e-5, rtol=0)


@pytest.mark.parametrize("form", ["any", "stock"])
@pytest.mark.parametrize("source", ["tied", "untied"])
def test_a_model_that_keeps_its_width_keeps_its_tensors(sources, tmp_path, form, source):
    folder = sources["llama"]
    method = {"sparsity": 0, "mlp": {"sparsity": 0.3}, "metric": "fisher"}
    output = run(folder, source, tmp_path / "out", form=form, ranks=2 if source == "tied" else 1, **method)
    stored, dense = tensors_of(output), tensors_of(folder / source)
    assert stored.keys() == dense.keys()
    for name, tensor in stored.items():
        assert torch.equal(tensor, dense[name]) == (".mlp." not in name), name
    assert keys_of(output)["tie_word_embeddings"] == (source == "tied")
    report = report_of(output)
    assert [junction["mapped"] for junction in report["junctions"]] == [False] * 7
    assert "shortcuts" not in report
    assert report["compressed"]["parameters"] < report["dense"]["parameters"]
    check_as_loaded(output, folder, source)


@pytest.mark.parametrize("method", ["magnitude", "dotresize", "slicegpt", "pca_dotresize"])
@pytest.mark.parametrize("activations", ["original", "compressed"])
def test_full_width_is_the_source(sources, tmp_path, method, activations):
    folder = sources["qwen2"]
    output = run(folder, "tied", tmp_path / "out", ranks=1, activations=activations, name=method, width=48)
    stored, dense = tensors_of(output), tensors_of(folder / "tied")
    assert stored.keys() == dense.keys()
    assert all(torch.equal(stored[name], dense[name]) for name in dense)
    report = report_of(output)
    assert report["compressed"]["perplexity"] == report["dense"]["perplexity"]
    assert report["compressed"]["kl"] == 0


@pytest.mark.parametrize("form", ["any", "stock"])
def test_tied_outputs_are_the_same_for_any_number_of_ranks(sources, tmp_path, form):
    method = {"width": 40, "mlp": {"sparsity": 0.2}}
    outputs = [
        run(sources["llama"], "tied", tmp_path / str(ranks), ranks=ranks, form=form, **method) for ranks in (1, 3)
    ]
    one, three = map(tensors_of, outputs)
    assert one.keys() == three.keys()
    assert all(torch.equal(one[name], three[name]) for name in one)


def test_an_allocation_of_a_tied_model_counts_one_table(sources, tmp_path):
    folder = sources["qwen2"]
    method = {"size": 0.85, "round_to": 4}
    output = run(folder, "tied", tmp_path / "out", **method)
    assert keys_of(output)["tie_word_embeddings"]
    report = report_of(output)
    assert 0.82 < report["compressed"]["parameters"] / report["dense"]["parameters"] <= 0.85
    check_as_loaded(output, folder)
