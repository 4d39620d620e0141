"""The layers' part of healing beside PyTorch's own training of the same layers: seconds of each, and their ratio.

    healing_benchmark.py BUILD_DIR OUT.json [--model DIR] [--tokens FILE] [--samples N] [--seqlen N] [--threads N]
                         [--repetitions N]

A job of one rank makes a narrower stock model and heals it for one epoch. Its seconds are those of the spans
"layers.N" in its trace: all windows but the held-out ones forward and back, a step of Adam after each, and the held-out
windows before and after. Then transformers loads the output and does the same to each of its layers in float32, with
`torch.optim.Adam` and autograd; the targets are the layer's own outputs with noise, which takes no longer than others.
The two take turns; the best of the repetitions counts.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent
METHOD = {"name": "slicegpt", "map_sharing": "model", "sparsity": 0.2, "allow_larger": True}
EVERY_HELD_OUT = 8
LEARNING_RATE = 3e-4


def worker_seconds(worker, arguments, output):
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
    subprocess.run([worker, str(file), "--fresh", "--trace", str(trace)], check=True, env=environment,
                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    spans = json.loads(trace.read_text())["traceEvents"]
    layers = [span for span in spans if span["name"] == "heal" and span["args"]["junction"].startswith("layers.")]
    return sum(span["dur"] for span in layers) / 1e6, len(layers)


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
    held_out = range(EVERY_HELD_OUT - 1, len(windows), EVERY_HELD_OUT)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, default=ROOT / "examples" / "docs-llama")
    parser.add_argument("--tokens", type=Path, default=ROOT / "tests" / "data" / "calibration.safetensors")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--seqlen", type=int, default=512)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    (tokens,) = load_file(arguments.tokens).values()
    windows = tokens.flatten()[: arguments.samples * arguments.seqlen].view(arguments.samples, arguments.seqlen).long()
    worker = arguments.build / "bin" / "dotresize-worker"
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        for _ in range(arguments.repetitions):
            seconds, layers = worker_seconds(worker, arguments, output)
            ours.append(seconds)
            theirs.append(pytorch_seconds(output, windows))
    row = {
        "name": f"healing/{arguments.model.name}",
        "tokens": windows.numel(),
        "seqlen": arguments.seqlen,
        "threads": arguments.threads,
        "layers": layers,
        "worker_s": min(ours),
        "pytorch_s": min(theirs),
        "ratio": min(ours) / min(theirs),
    }
    arguments.out.write_text(json.dumps({"benchmarks": [row]}, indent=1) + "\n")
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
