#!/usr/bin/env python3
"""Writes a llama as eight models that compute the same and quantize differently (docs/serving.md#rotation-for-quantizers).

    scripts/engines/rotations.py MODEL_DIR OUT_DIR

MODEL_DIR: a llama without biases, with separate embedding and head, whose width and head_dim are powers of two. OUT_DIR must not
exist; its folders are as-is, folded, hadamard, hadamard-values, fourth-powers, channels, features and values.
"""

import argparse
import copy
import sys
from pathlib import Path

import torch
from scipy.linalg import hadamard
from torch.nn.utils.parametrizations import orthogonal
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

STEPS = 200
LEARNING_RATE = 0.02
MOST_DIFFERENCE = 1e-3  # between logits of float32 models that compute the same


def readers(model):
    """Modules whose columns are channels of the stream, each with the norm before it."""
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        yield layer.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj]
        yield layer.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj]
    yield model.model.norm, [model.lm_head]


def writers(model):
    """Modules whose rows are channels of the stream."""
    return [module for layer in model.model.layers for module in (layer.self_attn.o_proj, layer.mlp.down_proj)]


def fold_norms(model):
    for norm, modules in readers(model):
        for module in modules:
            module.weight.mul_(norm.weight)
        norm.weight.fill_(1)


def rotate_stream(model, rotation):
    """rotation: [d, d], orthogonal; the stream x becomes x rotation. The norms are folded."""
    model.model.embed_tokens.weight.copy_(model.model.embed_tokens.weight @ rotation)
    for _, modules in readers(model):
        for module in modules:
            module.weight.copy_(module.weight @ rotation)
    for module in writers(model):
        module.weight.copy_(rotation.T @ module.weight)


def value_heads(layer, head_dim):
    """Views [key heads, head_dim, d] of v_proj and [d, key heads, queries of each, head_dim] of o_proj."""
    values = layer.self_attn.v_proj.weight.unflatten(0, (-1, head_dim))
    return values, layer.self_attn.o_proj.weight.unflatten(1, (values.shape[0], -1, head_dim))


def rotate_values(model, rotations):
    """rotations: of each layer [key heads, head_dim, head_dim]; a value head v becomes v rotation."""
    for layer, rotation in zip(model.model.layers, rotations, strict=True):
        values, outputs = value_heads(layer, rotation.shape[-1])
        values.copy_(rotation.mT @ values)
        outputs.copy_(outputs @ rotation)


def hadamard_matrix(size):
    return torch.tensor(hadamard(size), dtype=torch.float32) / size**0.5


def hadamard_of_values(model):
    heads, head_dim = model.config.num_key_value_heads, model.config.head_dim
    return [hadamard_matrix(head_dim).expand(heads, -1, -1) for _ in model.model.layers]


@torch.enable_grad()
def least_fourth_powers(start, cost):
    """The orthogonal matrix [.., n, n] near `start` with the least cost(matrix), by steps of Adam along its exponential map."""
    holder = torch.nn.Module()
    holder.weight = torch.nn.Parameter(start.clone())
    orthogonal(holder, "weight", orthogonal_map="matrix_exp")
    holder.weight = start
    optimizer = torch.optim.Adam(holder.parameters(), LEARNING_RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        cost(holder.weight).backward()
        optimizer.step()
    left, _, right = torch.linalg.svd(holder.weight.detach().double())
    return (left @ right).float()


def rotate_to_least_fourth_powers(model):
    reading = torch.cat([module.weight for _, modules in readers(model) for module in modules] + [model.model.embed_tokens.weight])
    writing = torch.cat([module.weight for module in writers(model)], 1)
    stream = least_fourth_powers(
        hadamard_matrix(model.config.hidden_size),
        lambda rotation: (reading @ rotation).pow(4).sum() + (rotation.T @ writing).pow(4).sum(),
    )
    rotate_stream(model, stream)
    rotations = []
    for layer, start in zip(model.model.layers, hadamard_of_values(model), strict=True):
        values, outputs = (view.clone() for view in value_heads(layer, model.config.head_dim))
        rotations.append(
            least_fourth_powers(
                start,
                lambda rotation, v=values, o=outputs: (rotation.mT @ v).pow(4).sum() + (o @ rotation).pow(4).sum(),
            )
        )
    rotate_values(model, rotations)


def sort_channels(model):
    """Sorts the channels by the largest weight that writes them."""
    order = torch.cat([module.weight for module in writers(model)], 1).abs().amax(1).argsort()
    model.model.embed_tokens.weight.copy_(model.model.embed_tokens.weight[:, order])
    for norm, modules in readers(model):
        norm.weight.copy_(norm.weight[order])
        for module in modules:
            module.weight.copy_(module.weight[:, order])
    for module in writers(model):
        module.weight.copy_(module.weight[order])


def sort_features(model):
    """Sorts the features by the largest weight of down_proj."""
    for layer in model.model.layers:
        order = layer.mlp.down_proj.weight.abs().amax(0).argsort()
        layer.mlp.down_proj.weight.copy_(layer.mlp.down_proj.weight[:, order])
        for module in (layer.mlp.gate_proj, layer.mlp.up_proj):
            module.weight.copy_(module.weight[order])


def with_hadamard(model):
    fold_norms(model)
    rotate_stream(model, hadamard_matrix(model.config.hidden_size))


def with_hadamard_and_values(model):
    with_hadamard(model)
    rotate_values(model, hadamard_of_values(model))


def with_fourth_powers(model):
    fold_norms(model)
    rotate_to_least_fourth_powers(model)


VARIANTS = {
    "as-is": lambda model: None,
    "folded": fold_norms,
    "hadamard": with_hadamard,
    "hadamard-values": with_hadamard_and_values,
    "fourth-powers": with_fourth_powers,
    "channels": sort_channels,
    "features": sort_features,
    "values": lambda model: rotate_values(model, hadamard_of_values(model)),
}


def fourth_powers(model):
    weights = [module.weight for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return sum(weight.pow(4).sum().item() for weight in weights)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    dense = AutoModelForCausalLM.from_pretrained(arguments.model_dir, dtype=torch.float32)
    if dense.config.model_type != "llama" or dense.config.tie_word_embeddings or dense.config.attention_bias:
        return f"rotations: error: {arguments.model_dir}: not a llama with separate embedding and head and without biases"
    if any(size & (size - 1) for size in (dense.config.hidden_size, dense.config.head_dim)):
        return f"rotations: error: {arguments.model_dir}: width and head_dim must be powers of two"
    if arguments.out_dir.exists():
        return f"rotations: error: {arguments.out_dir}: is there already"
    arguments.out_dir.mkdir(parents=True)
    ids = torch.arange(64)[None]
    for name, change in VARIANTS.items():
        model = copy.deepcopy(dense)
        change(model)
        difference = (model(ids).logits - dense(ids).logits).abs().max()
        if not difference < MOST_DIFFERENCE:
            return f"rotations: error: {name}: the logits are {difference:.1e} apart"
        print(f"{name}: sum of fourth powers {fourth_powers(model):.4g}, logits at most {difference:.1e} apart", flush=True)
        model.save_pretrained(arguments.out_dir / name)
        AutoTokenizer.from_pretrained(arguments.model_dir).save_pretrained(arguments.out_dir / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
