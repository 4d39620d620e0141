"""The gradient pass of one rank beside PyTorch's own autograd with the same sums: seconds of each, and their ratio.

    gradient_benchmark.py BUILD_DIR OUT.json [--model DIR] [--tokens FILE] [--samples N] [--seqlen N] [--threads N]
                          [--repetitions N]

Both take all windows forward and back, in float32, and sum G = Σ xᵀx of the residual stream and F = Σ gᵀg of its
gradients at every junction in float64. The worker's seconds are those that its report says of a job with the metric
of the loss: forward, backward and gram. In transformers hooks keep the stream and its gradients; the labels are drawn
from the model's own predictions. The two take turns; the best of the repetitions counts.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from beside_pytorch import parse, write
from transformers import AutoModelForCausalLM

PASS = ("forward", "backward", "gram")
BLOCK_TOKENS = 1024


def worker_seconds(arguments, folder):
    """Seconds of each phase of the pass."""
    job = {
        "name": "gradient-benchmark",
        "model": {"path": str(arguments.model)},
        "output": {"path": str(folder / "out"), "overwrite": True, "dtype": "float32"},
        "method": {"name": "slicegpt", "sparsity": 0.2, "metric": "fisher", "allow_larger": True},
        "calibration": {"tokens": str(arguments.tokens), "samples": arguments.samples, "seqlen": arguments.seqlen},
        "resources": {"ranks": 1, "compute_dtype": "float32", "device": "cpu"},
    }
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads)}
    subprocess.run([arguments.worker, str(file), "--fresh"], check=True, env=environment, stderr=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    report = json.loads((folder / "out" / "dotresize" / "report.json").read_text())
    seconds = report["ranks"][0]["seconds"]
    return {phase: seconds[phase] for phase in PASS}


class Sums:
    """G and F of every junction: what the layers read and return, and what lies between attention and MLP."""

    def __init__(self, model):
        self.states = {}
        width = model.config.hidden_size
        junctions = 2 * model.config.num_hidden_layers + 1
        self.G = torch.zeros(junctions, width, width, dtype=torch.float64)
        self.F = torch.zeros_like(self.G)
        for number, layer in enumerate(model.model.layers):
            layer.register_forward_pre_hook(self.keep(2 * number, lambda inputs: inputs[0]))
            layer.post_attention_layernorm.register_forward_pre_hook(self.keep(2 * number + 1, lambda inputs: inputs[0]))
        model.model.norm.register_forward_pre_hook(self.keep(junctions - 1, lambda inputs: inputs[0]))

    def keep(self, junction, of):
        def hook(_, inputs):
            x = of(inputs)
            x.retain_grad()
            self.states[junction] = x

        return hook

    @staticmethod
    def add(total, rows):
        for block in rows.detach().flatten(0, 1).split(BLOCK_TOKENS):
            block = block.double()
            total.addmm_(block.T, block)

    def add_all(self):
        for junction, x in self.states.items():
            self.add(self.G[junction], x)
            self.add(self.F[junction], x.grad)
        self.states.clear()


def autograd_seconds(model, windows):
    """One pass over all windows, with as many tokens at a time as the worker takes."""
    sums = Sums(model)
    step = max(1, 512 // windows.shape[1])
    torch.manual_seed(0)
    start = time.perf_counter()
    for ids in windows.split(step):
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, use_cache=False).logits.flatten(0, 1)
        with torch.no_grad():
            labels = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        torch.nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
        sums.add_all()
    return time.perf_counter() - start


def main():
    arguments = parse(__doc__, samples=4)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    model.requires_grad_(False)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repetitions):
            ours.append(worker_seconds(arguments, Path(folder)))
            theirs.append(autograd_seconds(model, arguments.windows))
    best = min(ours, key=lambda seconds: sum(seconds.values()))
    write(arguments, "gradient", {
        "worker_s": sum(best.values()),
        "worker_phases_s": best,
        "autograd_s": min(theirs),
        "ratio": sum(best.values()) / min(theirs),
    })  # fmt: skip


if __name__ == "__main__":
    main()
