"""The baseline: whole layers are dropped, those that change the stream least (ShortGPT, arXiv 2403.03853). Nothing of dotresize is
in it; the model is transformers'."""

from contextlib import contextmanager

import torch


@torch.no_grad()
def block_influence(model, windows):
    """Of each layer the mean of 1 - cos(its input, its output) over the tokens of windows [count, tokens]."""
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
