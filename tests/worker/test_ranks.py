"""Tests that the number of ranks does not change a bit of the maps."""

import dataclasses
import functools
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
METHODS = ["magnitude", "dotresize", "slicegpt", "pca_dotresize"]
WIDTH = 200
LAYERS = 3  # of the model of most tests: three ranks have two sublayers and at least two junctions each


@dataclasses.dataclass(frozen=True)
class Case:
    """Maps of one job, made by each number of ranks. Few tokens: a processor multiplies in float16 at a tenth of the speed of
    float32."""

    method: str
    schedule: str = "pipeline"
    sharing: str = "own"
    ranks: tuple = (1, 3)
    model: str = "fewer layers"
    tokens: str = "tokens"

    def __str__(self):
        return f"{self.method}:{self.schedule}:{self.sharing}"


# The method that does most runs with all numbers of ranks every day, the other methods with three ranks. The other schedules
# treat a method like the pipeline does, so one method is enough there.
EVERY_DAY = "pca_dotresize"
SAME_BITS = [
    Case(method, schedule, **({"ranks": (1, 3, 8), "model": "example"} if ALL_CASES or method == EVERY_DAY else {}))
    for schedule in ("pipeline", "token_parallel")
    for method in METHODS
    if ALL_CASES or schedule == "pipeline" or method == EVERY_DAY
]
LAYERWISE = [Case(method, "layerwise", ranks=(1, 3, 4)) for method in ("dotresize", "pca_dotresize") if ALL_CASES or method == EVERY_DAY]
# One method per basis is enough every day for a shared map: they use the methods' sums.
SHARED = [Case(method, sharing="shared") for method in (METHODS if ALL_CASES else ["dotresize", "slicegpt"])]
FISHER = Case("slicegpt,fisher", ranks=(1, 2, 8), model="example")
SHARED_FISHER = Case("pca_dotresize,fisher", sharing="shared")
FLOAT16 = Case("slicegpt,fisher,float16", tokens="few tokens")
# What others are compared with.
FLOAT32 = Case("slicegpt,fisher", ranks=(1,), tokens="few tokens")
OWN = [Case(method, ranks=(1,)) for method in METHODS]
ALL = [*SAME_BITS, *LAYERWISE, *SHARED, FISHER, SHARED_FISHER, FLOAT16, FLOAT32, *OWN]


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
def maps(fewer_layers, tokens, tmp_path_factory):
    """Returns the function that returns support and map of every junction of a case, made by so many ranks. Those ranks start
    once and make the maps of all cases that they are wanted for."""
    models = {"example": harness.MODEL, "fewer layers": fewer_layers}
    texts = {"tokens": tokens, "few tokens": write_tokens(tmp_path_factory.mktemp("few-tokens"), 4)}

    @functools.cache
    def made(model, text, ranks):
        directory = tmp_path_factory.mktemp("maps")
        wanted = {str(case) for case in ALL if (case.model, case.tokens) == (model, text) and ranks in case.ranks}
        program = [harness.BIN / "dump_maps", models[model], texts[text] / harness.CALIBRATION.name, WIDTH, directory]
        done = subprocess.run(harness.mpirun(ranks, *program, *sorted(wanted)), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return directory

    def of(case, ranks):
        folder = made(case.model, case.tokens, ranks) / str(case)
        layers = json.loads((models[case.model] / "config.json").read_text())["num_hidden_layers"]
        return [load_file(folder / f"junction-{j:02}.safetensors") for j in range(2 * layers + 1)]

    return of


def projector(m):
    return m @ m.T


def check_ranks(maps, case):
    """Expects the maps of one rank from more ranks, too. Returns them."""
    alone = maps(case, 1)
    for ranks in case.ranks[1:]:
        for one, other in zip(alone, maps(case, ranks), strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)
    return alone


@pytest.mark.parametrize("case", SAME_BITS, ids=str)
def test_maps_do_not_depend_on_the_ranks(maps, case):
    check_ranks(maps, case)


def test_maps_in_the_metric_of_the_loss_do_not_depend_on_the_ranks(maps):
    for found in check_ranks(maps, FISHER):
        identity = torch.eye(WIDTH, dtype=torch.float64)
        assert torch.allclose(found["M_inv"] @ found["M"], identity, atol=1e-9)
        assert not torch.allclose(found["M_inv"], found["M"].T, atol=1e-2)


def test_maps_of_gradients_in_float16_are_close_to_those_in_float32_for_any_ranks(maps):
    for one, other in zip(check_ranks(maps, FLOAT16), maps(FLOAT32, 1), strict=True):
        difference = one["M"] @ one["M_inv"] - other["M"] @ other["M_inv"]
        assert torch.linalg.matrix_norm(difference) < 0.5 * WIDTH**0.5


def test_a_shared_map_in_the_metric_of_the_loss_does_not_depend_on_the_ranks(maps):
    check_ranks(maps, SHARED_FISHER)


@pytest.mark.parametrize("case", LAYERWISE, ids=str)
def test_layerwise_finds_the_maps_of_the_pipeline(maps, case):
    for one, other in zip(check_ranks(maps, case), maps(Case(case.method, ranks=(1,)), 1), strict=True):
        assert torch.equal(one["support"], other["support"])
        difference = projector(one["M"]) - projector(other["M"])
        assert torch.linalg.matrix_norm(difference, 2) < 1e-5


@pytest.mark.parametrize("case", SHARED, ids=str)
def test_a_shared_map_does_not_depend_on_the_ranks(maps, case):
    alone = check_ranks(maps, case)
    own = maps(Case(case.method, ranks=(1,)), 1)
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
