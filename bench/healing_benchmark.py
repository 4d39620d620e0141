"""The layers' part of healing beside PyTorch's own training of the same layers: seconds of each, and their ratio.

    healing_benchmark.py BUILD_DIR OUT.json [--model DIR] [--tokens FILE] [--samples N] [--seqlen N] [--threads N]
                         [--repetitions N]

A job of one rank makes a narrower stock model and heals it for one epoch. Its seconds are those of the spans
"layers.N" in its trace: all windows but the held-out ones forward and back, a step of Adam after each, and the held-out
windows before and after. Then transformers loads the output and does the same to each of its layers in float32, with
`torch.optim.Adam` and autograd; the targets are the layer's own outputs with noise, which takes no longer than others.
The two take turns; the best of the repetitions counts. With more than sixteen windows the worker takes several in a step.
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

METHOD = {"name": "slicegpt", "sparsity": 0.2, "allow_larger": True}
EVERY_HELD_OUT = 8
LEARNING_RATE = 3e-4


def worker_seconds(arguments, output):
    """Seconds of all layers."""
    job = {
        "name": "healing-benchmark",
        "model": {"path": str(arguments.model)},
        "output": {"path": str(output), "overwrite": True, "dtype": "float32", "format": "stock"},
        "method": METHOD,
        "calibration": {"tokens": str(arguments.tokens), "samples": arguments.samples, "seqlen": arguments.seqlen},
        "resources": {"ranks": 1, "compute_dtype": "float32", "device": "cpu"},
        "heal": {"epochs": 1},
    }
    file, trace = output.with_name("job.json"), output.with_name("trace.json")
    file.write_text(json.dumps(job))
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads)}
    subprocess.run([arguments.worker, str(file), "--fresh", "--trace", str(trace)], check=True, env=environment,
                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    spans = json.loads(trace.read_text())["traceEvents"]
    layers = [span for span in spans if span["name"] == "heal" and span["args"]["junction"].startswith("layers.")]
    return sum(span["dur"] for span in layers) / 1e6


def relative_error(y, target, eps):
    energy = target.square().sum(-1) + target.shape[-1] * eps
    return ((y - target).square().sum(-1) / energy).mean()


class LayerTraining:
    """One decoder layer of a model and what it meets: inputs of each window, and targets."""

    def __init__(self, model, layer, inputs):
        self.layer = layer
        self.eps = model.config.rms_norm_eps
        positions = torch.arange(inputs[0].shape[1]).unsqueeze(0)
        self.arguments = {"position_embeddings": model.model.rotary_emb(inputs[0], positions), "attention_mask": None}
        self.inputs = inputs
        self.outputs = [self.forward(x).detach() for x in inputs]
        self.targets = [y + 0.1 * y.std() * torch.randn_like(y) for y in self.outputs]
        self.trained = [weight for name, weight in layer.named_parameters() if "norm" not in name]

    def forward(self, x):
        y = self.layer(x, **self.arguments)
        return y[0] if isinstance(y, tuple) else y

    @torch.no_grad()
    def held_out_error(self, windows):
        return sum(relative_error(self.forward(self.inputs[i]), self.targets[i], self.eps).item() for i in windows)

    def run(self, fitted, held_out):
        adam = torch.optim.Adam(self.trained, lr=LEARNING_RATE)
        self.held_out_error(held_out)
        for i in fitted:
            loss = relative_error(self.forward(self.inputs[i]), self.targets[i], self.eps)
            for weight, gradient in zip(self.trained, torch.autograd.grad(loss, self.trained), strict=True):
                weight.grad = gradient
            adam.step()
        self.held_out_error(held_out)


def pytorch_seconds(output, windows):
    """Seconds of all layers."""
    model = AutoModelForCausalLM.from_pretrained(output, dtype=torch.float32)
    with torch.no_grad():
        states = [model.get_input_embeddings()(ids.unsqueeze(0)) for ids in windows]
    held_out = range(EVERY_HELD_OUT - 1, len(windows), EVERY_HELD_OUT) or [len(windows) - 1]
    fitted = [i for i in range(len(windows)) if i not in held_out]
    seconds = 0.0
    for layer in model.model.layers:
        training = LayerTraining(model, layer, states)
        states = training.outputs
        start = time.perf_counter()
        training.run(fitted, held_out)
        seconds += time.perf_counter() - start
    return seconds


def main():
    arguments = parse(__doc__, samples=8)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        for _ in range(arguments.repetitions):
            ours.append(worker_seconds(arguments, output))
            theirs.append(pytorch_seconds(output, arguments.windows))
    write(arguments, "healing", {"worker_s": min(ours), "pytorch_s": min(theirs), "ratio": min(ours) / min(theirs)})


if __name__ == "__main__":
    main()
