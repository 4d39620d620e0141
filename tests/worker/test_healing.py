"""`heal`: each decoder layer of the output is distilled on its own."""

import copy
import functools
import json
import math
import os
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import harness
import interrupted

LAYERS = 6
SEQLEN = 128
METHODS = {
    "no maps": {"name": "slicegpt", "width": 256, "mlp": {"width": 256}},
    "own maps": {"name": "slicegpt", "width": 200, "metric": "fisher"},
    "one map": {"name": "slicegpt", "width": 200, "map_sharing": "model"},
    "compressed": {"name": "dotresize", "width": 200},
    "allocated": {"size": 1.6, "allocate": "auto"},  # in float32: 0.8 of the parameters
}
# By how much of itself the sum of the held-out errors was seen to fall.
FALLS = {"own maps": 0.065, "one map": 0.023, "compressed": 0.039, "allocated": 0.0046}
RATE = 0.0002
HEAL = json.dumps({"epochs": 1, "learning_rate": RATE})
all_cases = pytest.mark.skipif(not os.environ.get("DOTRESIZE_ALL_CASES"), reason="DOTRESIZE_ALL_CASES is not set")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Nine windows of 128 tokens: two microbatches are fitted to, in two steps, and one window is held out."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.safetensors"
    save_file({"tokens": load_file(harness.CALIBRATION)["tokens"][:9, :SEQLEN].clone()}, path)
    return path


def job(output, tokens, method="no maps", heal=None, samples=9, ranks=1):
    spec = harness.job(output, method=METHODS[method], samples=samples, evaluate=False, ranks=ranks)
    spec["calibration"]["tokens"] = str(tokens)
    return spec if heal is None else {**spec, "heal": json.loads(heal)}


@pytest.fixture(scope="module")
def outcome(tokens, tmp_path_factory):
    """Shards, report and directory of a job in one go, with one rank and one thread."""

    @functools.cache
    def run(heal=None, method="no maps", source=tokens, samples=9):
        directory = tmp_path_factory.mktemp("healing")
        report = harness.run_to_report(job(directory / "out", source, method, heal, samples), directory, threads=1)
        return harness.shard_hashes(directory / "out"), report, directory / "out"

    return run


def layers(report):
    return report["heal"]["layers"]


def total(report, key):
    return sum(layer[key] for layer in layers(report))


def test_zero_epochs_leave_every_byte(outcome):
    assert outcome('{"epochs": 0}')[0] == outcome()[0]


def test_a_layer_that_got_worse_keeps_its_folded_weights(outcome):
    shards, report, _ = outcome('{"epochs": 1, "learning_rate": 0.1}')
    assert shards == outcome()[0]
    assert all(layer["epochs"] == 0 for layer in layers(report))
    assert total(report, "healed_error") == total(report, "folded_error")


@all_cases
@pytest.mark.parametrize("method", FALLS)
def test_errors_on_held_out_windows_fall(method, outcome):
    shards, report, _ = outcome('{"epochs": 2, "learning_rate": 0.0005}', method)
    assert shards != outcome(None, method)[0]
    assert [layer["name"] for layer in layers(report)] == [f"layers.{layer}" for layer in range(LAYERS)]
    assert all(layer["healed_error"] <= layer["folded_error"] for layer in layers(report))
    assert total(report, "healed_error") < (1 - FALLS[method] / 2) * total(report, "folded_error")


@all_cases
@pytest.mark.parametrize("ranks", [2, 3])
def test_sums_of_several_microbatches_do_not_depend_on_the_ranks(ranks, outcome, tmp_path):
    """49 of 56 windows of 512 tokens are fitted to, three a step."""
    heal = '{"epochs": 1, "learning_rate": 0.0005}'
    spec = job(tmp_path / "out", harness.CALIBRATION, "compressed", heal, samples=56, ranks=ranks)
    report = harness.run_to_report(spec, tmp_path, threads=1)
    shards, alone, _ = outcome(heal, "compressed", harness.CALIBRATION, 56)
    assert harness.shard_hashes(tmp_path / "out") == shards
    assert layers(report) == layers(alone)


def wait_for_layer(running, journal, layer):
    while not (journal / f"healing-{layer}.json").exists():
        assert running.process.poll() is None, running.log
        time.sleep(0.002)


@pytest.mark.parametrize(
    "victim, ranks, ranks_after, threads_after",
    [("another rank", 3, 2, 1), *(pytest.param(*case, marks=all_cases) for case in [("rank 0", 2, 1, 2), ("all ranks", 1, 3, 1)])],
)
def test_a_killed_job_goes_on(victim, ranks, ranks_after, threads_after, tokens, outcome, tmp_path):
    spec = job(tmp_path / "out", tokens, heal=HEAL, ranks=ranks)
    running = harness.Running(spec, tmp_path, threads=1)
    wait_for_layer(running, interrupted.journal_of(spec), 1)
    interrupted.kill(running, victim)
    spec["resources"]["ranks"] = ranks_after
    done = harness.run(spec, tmp_path, threads=threads_after)
    assert done.returncode == 0, done.stderr
    healed = [line for line in done.stderr.splitlines() if line.startswith("healed layers.1: ")]
    assert len(healed) == 1 and healed[0].endswith(", by an earlier run")
    assert harness.shard_hashes(tmp_path / "out") == outcome(HEAL)[0]


def microbatches(path):
    """The two microbatches of four windows that the job below is fitted to, and the window that it holds out."""
    tokens = load_file(path)["tokens"].long()
    return [tokens[:4], tokens[[4, 5, 6, 8]], tokens[7:8]]


def stream(model, layer, x):
    rotary = model.model.rotary_emb(x, torch.arange(x.shape[1])[None])
    result = model.model.layers[layer](x, position_embeddings=rotary, attention_mask=None)
    return result[0] if isinstance(result, tuple) else result


def error(model, layer, x, target):
    squares = (stream(model, layer, x) - target).square().sum(-1)
    energies = target.square().sum(-1) + target.shape[-1] * model.config.rms_norm_eps
    return (squares / energies).mean()


def distil(dense, folded, batches, rate):
    """The algorithm of docs/method.md with torch's autograd and Adam: one epoch, a microbatch a step."""
    x = [folded.model.embed_tokens(batch).detach() for batch in batches]
    target = [dense.model.embed_tokens(batch).detach() for batch in batches]
    errors = []
    for layer in range(LAYERS):
        target = [stream(dense, layer, batch).detach() for batch in target]
        before = copy.deepcopy(folded.model.layers[layer].state_dict())
        held_out = [error(folded, layer, x[-1], target[-1]).item()]
        adam = torch.optim.Adam([weight for weight in folded.model.layers[layer].parameters() if weight.dim() == 2])
        for step in range(len(x) - 1):
            adam.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / (len(x) - 1)))
            adam.zero_grad()
            error(folded, layer, x[step], target[step]).backward()
            adam.step()
        held_out.append(error(folded, layer, x[-1], target[-1]).item())
        if held_out[1] >= held_out[0]:
            folded.model.layers[layer].load_state_dict(before)
        errors.append(held_out)
        x = [stream(folded, layer, batch).detach() for batch in x]
    return errors


def test_the_steps_are_those_of_torch(tokens, outcome):
    """A model without maps, whose streams have the dense one's coordinates."""
    load = functools.partial(AutoModelForCausalLM.from_pretrained, dtype=torch.float32, trust_remote_code=True)
    wanted = load(outcome()[2])
    before = copy.deepcopy(wanted.state_dict())
    errors = distil(load(harness.MODEL), wanted, microbatches(tokens), RATE)
    _, report, healed = outcome(HEAL)
    found = load(healed).state_dict()

    assert sum(layer["epochs"] for layer in layers(report)) >= 2
    for (folded, healed_error), layer in zip(errors, layers(report)):
        assert layer["folded_error"] == pytest.approx(folded, rel=1e-4)
        assert layer["healed_error"] == pytest.approx(min(folded, healed_error), rel=1e-4)
    for name, weight in wanted.state_dict().items():
        assert (found[name] - weight).norm() <= 0.02 * (weight - before[name]).norm(), name
