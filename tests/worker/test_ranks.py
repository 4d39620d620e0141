"""Tests that the number of ranks does not change a bit of the maps."""

import json
import os
import subprocess

import harness
import pytest
import torch
from safetensors.torch import load_file, save_file

ALL_CASES = bool(os.environ.get("DOTRESIZE_ALL_CASES"))
SAMPLES = 16  # two for each of 8 ranks
SEQLEN = 128  # window length in dump_maps
RANKS = [1, 3, 8]
# The method that does most runs with all numbers of ranks every day, the other methods with three ranks. The other schedules
# treat a method like the pipeline does, so one method is enough there.
MANY = ("pca_dotresize",)
METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]
SCHEDULED = [
    *((method, "pipeline") for method in METHODS),
    *((method, "token_parallel") for method in (METHODS if ALL_CASES else MANY)),
]
# One method per basis is enough every day for a shared map: they use the methods' sums.
SHARING = METHODS if ALL_CASES else ["dotresize", "slicegpt"]
WIDTH = 200
LAYERS = 3  # of the model of most tests: three ranks have two sublayers and at least two junctions each


def write_tokens(folder, samples):
    """Writes some rows of calibration and evaluation: more tokens than channels, so that no spectrum is cut."""
    for source in (harness.CALIBRATION, harness.EVALUATION):
        save_file({"tokens": load_file(source)["tokens"][:samples, :SEQLEN].clone()}, folder / source.name)
    return folder


@pytest.fixture(scope="module")
def fewer_layers(tmp_path_factory):
    """Returns the example model without its last layers."""
    folder = tmp_path_factory.mktemp("model")
    config = json.loads((harness.MODEL / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}))
    tensors = load_file(harness.MODEL / "model.safetensors")
    gone = tuple(f"model.layers.{layer}." for layer in range(LAYERS, config["num_hidden_layers"]))
    save_file({name: tensor for name, tensor in tensors.items() if not name.startswith(gone)}, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return write_tokens(tmp_path_factory.mktemp("tokens"), SAMPLES)


@pytest.fixture(scope="module")
def few_tokens(tmp_path_factory):
    """A processor multiplies in float16 at a tenth of the speed of float32."""
    return write_tokens(tmp_path_factory.mktemp("few-tokens"), 4)


def maps(model, tokens, method, schedule, ranks, directory, sharing="own"):
    """Returns support and map of every junction from a schedule."""
    directory.mkdir()
    program = [harness.BIN / "dump_maps", model, tokens / harness.CALIBRATION.name, method]
    done = subprocess.run(
        harness.mpirun(ranks, *program, WIDTH, schedule, directory, sharing),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    layers = json.loads((model / "config.json").read_text())["num_hidden_layers"]
    return [load_file(directory / f"junction-{j:02}.safetensors") for j in range(2 * layers + 1)]


def projector(m):
    return m @ m.T


def check_ranks(model, tokens, directory, method, schedule, more_ranks=RANKS[1:], sharing="own"):
    """Expects the maps of one rank from more ranks, too. Returns them."""
    alone = maps(model, tokens, method, schedule, 1, directory / "1", sharing)
    for ranks in more_ranks:
        shared = maps(model, tokens, method, schedule, ranks, directory / str(ranks), sharing)
        for one, other in zip(alone, shared, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)
    return alone


@pytest.mark.parametrize("method, schedule", SCHEDULED)
def test_maps_do_not_depend_on_the_ranks(fewer_layers, tokens, method, schedule, tmp_path):
    many = ALL_CASES or method in MANY
    check_ranks(harness.MODEL if many else fewer_layers, tokens, tmp_path, method, schedule, more_ranks=RANKS[1:] if many else [3])


def test_maps_in_the_metric_of_the_loss_do_not_depend_on_the_ranks(tokens, tmp_path):
    alone = check_ranks(harness.MODEL, tokens, tmp_path, "slicegpt,fisher", "pipeline", more_ranks=[2, 8])
    for found in alone:
        identity = torch.eye(WIDTH, dtype=torch.float64)
        assert torch.allclose(found["M_inv"] @ found["M"], identity, atol=1e-9)
        assert not torch.allclose(found["M_inv"], found["M"].T, atol=1e-2)


def test_maps_of_gradients_in_float16_are_close_to_those_in_float32_for_any_ranks(fewer_layers, few_tokens, tmp_path):
    half = check_ranks(fewer_layers, few_tokens, tmp_path, "slicegpt,fisher,float16", "pipeline", more_ranks=[3])
    for one, other in zip(half, maps(fewer_layers, few_tokens, "slicegpt,fisher", "pipeline", 1, tmp_path / "float32"), strict=True):
        difference = one["M"] @ one["M_inv"] - other["M"] @ other["M_inv"]
        assert torch.linalg.matrix_norm(difference) < 0.5 * WIDTH**0.5


def test_a_shared_map_in_the_metric_of_the_loss_does_not_depend_on_the_ranks(fewer_layers, tokens, tmp_path):
    check_ranks(fewer_layers, tokens, tmp_path, "pca_dotresize,fisher", "pipeline", more_ranks=[3], sharing="shared")


@pytest.mark.parametrize("method", ["dotresize", "pca_dotresize"] if ALL_CASES else MANY)
def test_layerwise_finds_the_maps_of_the_pipeline(fewer_layers, tokens, method, tmp_path):
    alone = check_ranks(fewer_layers, tokens, tmp_path, method, "layerwise", more_ranks=[3, 4])
    for one, other in zip(alone, maps(fewer_layers, tokens, method, "pipeline", 1, tmp_path / "pipeline"), strict=True):
        assert torch.equal(one["support"], other["support"])
        difference = projector(one["M"]) - projector(other["M"])
        assert torch.linalg.matrix_norm(difference, 2) < 1e-5


@pytest.mark.parametrize("method", SHARING)
def test_a_shared_map_does_not_depend_on_the_ranks(fewer_layers, tokens, method, tmp_path):
    alone = check_ranks(fewer_layers, tokens, tmp_path, method, "pipeline", more_ranks=[3], sharing="shared")
    own = maps(fewer_layers, tokens, method, "pipeline", 1, tmp_path / "own")
    assert all(torch.equal(one["M"], alone[0]["M"]) for one in alone)
    assert not torch.equal(own[0]["M"], alone[0]["M"])


@pytest.mark.parametrize("activations", ["original", "compressed"])
def test_the_evaluation_does_not_depend_on_the_ranks(fewer_layers, tokens, activations, tmp_path):
    found = []
    for ranks in [1, 3]:
        spec = harness.job(
            tmp_path / f"out-{ranks}",
            method={"name": "pca_dotresize", "width": WIDTH},
            samples=4,
            activations=activations,
            ranks=ranks,
            evaluation={"tokens": str(tokens / harness.EVALUATION.name)},
            model={"path": str(fewer_layers)},
        )
        report = harness.run_to_report(spec, tmp_path, threads=1)
        compressed = report["compressed"]
        found.append((report["dense"]["perplexity"], *map(compressed.get, ["perplexity", "kl", "agreement"])))
    assert found == [found[0]] * len(found)
    assert found[0][2] > 0.01 and 0.5 < found[0][3] < 1


def test_one_process_without_mpirun_is_one_rank(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # the worker chooses the threads itself
    spec = harness.job(
        tmp_path / "out", method={"name": "slicegpt", "width": WIDTH}, samples=2, evaluate=False
    )
    report = harness.run_to_report(spec, tmp_path, ranks=0)
    assert len(report["ranks"]) == 1
