"""The baseline: whole layers are dropped, those that change the stream least (ShortGPT, arXiv 2403.03853). Nothing of dotresize is
in it; the model is transformers'."""

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from .scoring import Reference, Score


@torch.no_grad()
def block_influence(model, windows):
    """The mean of 1 - cos(input, output) of each layer over the tokens of windows [count, tokens]."""
    layers = model.base_model.layers
    influence = torch.zeros(len(layers), dtype=torch.float64)

    def adds_to(number):
        def hook(_, inputs, output):
            similarity = torch.cosine_similarity(inputs[0].double(), output.double(), dim=-1)
            influence[number] += (1 - similarity).mean() / len(windows)

        return hook

    hooks = [layer.register_forward_hook(adds_to(number)) for number, layer in enumerate(layers)]
    for window in windows:
        model.base_model(window[None], use_cache=False)
    for hook in hooks:
        hook.remove()
    return influence.tolist()


def dropped_at(influence, size, parameters, of_a_layer):
    """The layers to drop, the fewest with which the model has at most this fraction of its parameters."""
    by_influence = sorted(range(len(influence)), key=influence.__getitem__)
    dropped = []
    while parameters - len(dropped) * of_a_layer > size * parameters:
        dropped.append(by_influence[len(dropped)])
    return sorted(dropped)


@contextmanager
def without_layers(model, dropped):
    layers = model.base_model.layers
    model.base_model.layers = torch.nn.ModuleList(layer for number, layer in enumerate(layers) if number not in dropped)
    try:
        yield model
    finally:
        model.base_model.layers = layers


@dataclass(frozen=True)
class Shallow:
    """A model without some of its layers."""

    layers: int
    net: float  # fraction of its parameters
    score: Score
    seconds: float


class DroppedLayers:
    """The baseline of a model directory. Influences are those of so many windows of the calibration, spread evenly. All sizes
    share them and the dense model's evaluation; the seconds of each have them. dtype: what is computed in, `auto` that of the files."""

    def __init__(self, directory, calibration, evaluation, windows, dtype="auto"):
        self.directory = directory
        self.files = {"calibration": calibration, "evaluation": evaluation}
        self.windows = windows
        self.dtype = dtype

    def tokens(self, name):
        return load_file(self.files[name])["tokens"].long()

    @property
    def calibration(self):
        """The windows of the calibration, [count, tokens]."""
        tokens = self.tokens("calibration")
        return tokens[[number * len(tokens) // self.windows for number in range(self.windows)]]

    @cached_property
    def _measured(self):
        start = time.monotonic()
        model = AutoModelForCausalLM.from_pretrained(self.directory, dtype=self.dtype).eval()
        influence = block_influence(model, self.calibration)
        return model, influence, Reference(model, self.tokens("evaluation")), time.monotonic() - start

    @property
    def model(self):
        return self._measured[0]

    @property
    def reference(self):
        return self._measured[2]

    def at(self, size):
        model, influence, reference, seconds = self._measured
        parameters = model.num_parameters()
        of_a_layer = sum(tensor.numel() for tensor in model.base_model.layers[0].parameters())
        dropped = dropped_at(influence, size, parameters, of_a_layer)
        start = time.monotonic()
        with without_layers(model, dropped) as shallow:
            score = reference.score(shallow)
        left = len(influence) - len(dropped)
        return Shallow(left, 1 - len(dropped) * of_a_layer / parameters, score, seconds + time.monotonic() - start)
