"""Tests of `heal`: each decoder layer of the output is distilled on its own, then the output as a whole."""

import copy
import functools
import json
import math
import os
import time

import harness
import interrupted
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import kl_div
from torch.nn.utils import parametrize
from transformers import AutoModelForCausalLM

LAYERS = 6
SEQLEN = 128
METHODS = {
    "no maps": {"name": "slicegpt", "width": 256, "mlp": {"width": 256}},
    "own maps": {"name": "slicegpt", "width": 200, "metric": "fisher"},
    "one map": {"name": "slicegpt", "width": 200, "format": "stock"},
    "compressed": {"name": "dotresize", "width": 200},
    "allocated": {"size": 1.6, "allocate": "auto"},  # the output is float32: 0.8 of the parameters
}
# Observed relative decreases of the sum of the held-out errors.
FALLS = {"own maps": 0.065, "one map": 0.023, "compressed": 0.039, "allocated": 0.0046}
RATE = 0.0002
HEAL = json.dumps({"epochs": 1, "learning_rate": RATE})
TWO_EPOCHS = json.dumps({"epochs": 2, "learning_rate": RATE})
all_cases = pytest.mark.skipif(not os.environ.get("DOTRESIZE_ALL_CASES"), reason="DOTRESIZE_ALL_CASES is not set")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Writes nine windows of 128 tokens. Eight are for fitting (two microbatches of four, one step of a layer each), one is
    held out."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.safetensors"
    save_file({"tokens": load_file(harness.CALIBRATION)["tokens"][:9, :SEQLEN].clone()}, path)
    return path


def job(output, tokens, method="no maps", heal=None, samples=9, ranks=1):
    spec = harness.job(output, method=METHODS[method], samples=samples, evaluate=False, ranks=ranks)
    spec["calibration"]["tokens"] = str(tokens)
    return spec if heal is None else {**spec, "heal": json.loads(heal)}


@pytest.fixture(scope="module")
def outcome(tokens, tmp_path_factory):
    """Returns shards, report and directory of an uninterrupted job with one rank and one thread."""

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


def test_what_got_worse_keeps_its_folded_weights(outcome):
    shards, report, _ = outcome('{"epochs": 2, "learning_rate": 0.1}')
    assert shards == outcome()[0]
    assert report["heal"]["update_share"] == 0
    assert report["heal"]["held_out_kl"][-1] == report["heal"]["held_out_kl"][0]
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
    assert len(report["heal"]["held_out_kl"]) == 4, "of 1024 tokens: whether it falls is chance"


@all_cases
@pytest.mark.parametrize("ranks", [2, 3])
def test_sums_of_several_microbatches_do_not_depend_on_the_ranks(ranks, outcome, tmp_path):
    """49 of 56 windows of 512 tokens are for fitting. A step takes three microbatches of four for a layer, and a window for the
    output."""
    heal = '{"epochs": 1, "learning_rate": 0.0005}'
    spec = job(tmp_path / "out", harness.CALIBRATION, "compressed", heal, samples=56, ranks=ranks)
    report = harness.run_to_report(spec, tmp_path, threads=1)
    shards, alone, _ = outcome(heal, "compressed", harness.CALIBRATION, 56)
    assert harness.shard_hashes(tmp_path / "out") == shards
    assert report["heal"] == alone["heal"]
    assert report["heal"]["update_share"] > 0, "so many tokens are enough"


def wait_for(running, journal, entry):
    while not (journal / f"{entry}.json").exists():
        assert running.process.poll() is None, running.log
        time.sleep(0.002)


@pytest.mark.parametrize(
    "entry, victim, ranks, ranks_after, threads_after",
    [
        ("healing-1", "another rank", 3, 2, 1),
        ("updates-1", "all ranks", 2, 3, 1),
        pytest.param("healing-1", "rank 0", 2, 1, 2, marks=all_cases),
        pytest.param("updates-0", "all ranks", 1, 3, 1, marks=all_cases),
        pytest.param("updates-1", "rank 0", 3, 1, 2, marks=all_cases),
    ],
)
def test_a_killed_job_goes_on(entry, victim, ranks, ranks_after, threads_after, tokens, outcome, tmp_path):
    spec = job(tmp_path / "out", tokens, heal=TWO_EPOCHS, ranks=ranks)
    running = harness.Running(spec, tmp_path, threads=1)
    wait_for(running, interrupted.journal_of(spec), entry)
    interrupted.kill(running, victim)
    if entry == "updates-1":  # a layer that is damaged is trained again
        interrupted.truncate(max(interrupted.journal_of(spec).glob("healed-*.safetensors")))
    spec["resources"]["ranks"] = ranks_after
    done = harness.run(spec, tmp_path, threads=threads_after)
    assert done.returncode == 0, done.stderr
    healed = [line for line in done.stderr.splitlines() if line.startswith("healed layers.1: ")]
    assert len(healed) == 1 and healed[0].endswith(", by an earlier run")
    epochs = [line.endswith(", by an earlier run") for line in done.stderr.splitlines() if line.startswith("KL ")]
    assert len(epochs) == 3 and epochs[0] == entry.startswith("updates")
    shards, report, _ = outcome(TWO_EPOCHS)
    assert report["heal"]["update_share"] > 0
    assert harness.shard_hashes(tmp_path / "out") == shards


def microbatches(path):
    """Returns the two microbatches of four windows for the job below to fit, and the window that it holds out."""
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
    """Runs the algorithm of docs/method.md with torch's autograd and Adam: one epoch, one microbatch a step."""
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


class Update(torch.nn.Module):
    """A weight W + B·A."""

    def __init__(self, weight, sublayer, number):
        super().__init__()
        out, width = weight.shape
        rank = min(64, out, width)
        generator = torch.Generator().manual_seed(sublayer * 2**20 + number)
        self.A = torch.nn.Parameter(torch.randn(rank, width, generator=generator) / width**0.5)
        self.B = torch.nn.Parameter(torch.zeros(out, rank))
        self.rates = (1.0, (width / rank) ** 0.5)
        self.share = 1.0

    def forward(self, weight):
        return weight + self.share * self.B @ self.A


def with_updates(model):
    """Puts updates on the weights, which the model computes with from here on. Returns the updates."""
    updates = []
    for layer in range(LAYERS):
        block = model.model.layers[layer]
        attention, mlp = block.self_attn, block.mlp
        for sublayer, linears in enumerate(
            [(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj), (mlp.gate_proj, mlp.up_proj, mlp.down_proj)]
        ):
            for number, linear in enumerate(linears):
                updates.append(Update(linear.weight, 2 * layer + sublayer, number))
                parametrize.register_parametrization(linear, "weight", updates[-1])
    return updates


def log_predictions(model, window):
    return model(window[None]).logits[0].log_softmax(-1)


def divergence(model, dense, window):
    """Returns the KL at each position."""
    theirs = log_predictions(dense, window).detach()
    return kl_div(log_predictions(model, window), theirs, reduction="none", log_target=True).sum(-1)


def loss(model, dense, window):
    """Returns the loss at each position: 0.9 of its KL and 0.1 of the next token's loss. The last position has its KL alone."""
    kl = divergence(model, dense, window)
    nll = -log_predictions(model, window)[:-1].gather(1, window[1:, None])[:, 0]
    return torch.cat([0.9 * kl[:-1] + 0.1 * nll, kl[-1:]])


def take_share(dense, model, held_out, updates, before):
    """Scales the updates by the share that loses least on the held-out window, and returns it. Smaller shares are tried while
    the loss falls."""
    shares, losses = [1.0, 0.75, 0.5, 0.25], []
    for share in shares:
        for update in updates:
            update.share = share
        losses.append(loss(model, dense, held_out)[:-1].mean().item())
        if len(losses) > 1 and losses[-1] >= losses[-2]:
            losses.pop()
            break
    taken = shares[len(losses) - 1] if losses[-1] < before else 0.0
    for update in updates:
        update.share = taken
    return taken


def train_updates(dense, model, windows, held_out, rate):
    """Trains for one epoch, which is one step of 1024 tokens. Returns the share of the updates taken, and the held-out KL
    before, after the epoch and with that share."""
    updates = with_updates(model)
    groups = [(value, of_rate) for update in updates for value, of_rate in zip((update.A, update.B), update.rates, strict=True)]
    adam = torch.optim.Adam([{"params": [value], "lr": rate} for value, _ in groups])
    before = loss(model, dense, held_out)[:-1].mean().item()
    kl = [divergence(model, dense, held_out)[:-1].mean().item()]
    for group, (_, of_rate) in zip(adam.param_groups, groups, strict=True):
        group["lr"] = rate * of_rate
    torch.stack([loss(model, dense, window).mean() for window in windows]).mean().backward()
    adam.step()
    kl.append(divergence(model, dense, held_out)[:-1].mean().item())
    share = take_share(dense, model, held_out, updates, before)
    return share, [*kl, divergence(model, dense, held_out)[:-1].mean().item()]


def weights_of(model):
    """Returns the weights by their names in the checkpoint, with updates."""
    return {name: model.get_submodule(name.rpartition(".")[0]).weight.detach() for name in WEIGHTS}


WEIGHTS = [
    f"model.layers.{layer}.{part}_proj.weight"
    for layer in range(LAYERS)
    for part in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down")
]


def test_the_steps_are_those_of_torch(tokens, outcome):
    """The model has no maps, so its streams have the dense model's coordinates."""
    load = functools.partial(AutoModelForCausalLM.from_pretrained, dtype=torch.float32, trust_remote_code=True)
    dense = load(harness.MODEL)
    wanted = load(outcome()[2])
    before = copy.deepcopy(weights_of(wanted))
    batches = microbatches(tokens)
    errors = distil(dense, wanted, batches, RATE)
    share, kl = train_updates(dense, wanted, [window for batch in batches[:-1] for window in batch], batches[-1][0], RATE * 2 / 3)
    _, report, healed = outcome(HEAL)
    found = weights_of(load(healed))

    assert sum(layer["epochs"] for layer in layers(report)) >= 2
    for (folded, healed_error), layer in zip(errors, layers(report), strict=True):
        assert layer["folded_error"] == pytest.approx(folded, rel=1e-4)
        assert layer["healed_error"] == pytest.approx(min(folded, healed_error), rel=1e-4)
    assert report["heal"]["update_share"] == share > 0
    assert report["heal"]["held_out_kl"] == pytest.approx(kl, rel=2e-3)
    for name, weight in weights_of(wanted).items():
        assert (found[name] - weight).norm() <= 0.02 * (weight - before[name]).norm(), name
