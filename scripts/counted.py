"""Counts what a model directory computes, from its config.json and the headers of its files."""

import json
import math
from functools import cached_property

from paper.inputs import weight_files
from safetensors import safe_open


class Counted:
    def __init__(self, directory):
        self.directory = directory
        self.config = json.loads((directory / "config.json").read_text(encoding="utf-8"))

    @cached_property
    def shapes(self):
        found = {}
        for file in weight_files(self.directory):
            with safe_open(file, framework="numpy") as tensors:
                found |= {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}
        return found

    @cached_property
    def matrices(self):
        """Entries of the layers' matrices: each token of a prompt is multiplied by all, as there are no experts here."""
        return sum(math.prod(shape) for name, shape in self.shapes.items() if ".layers." in name and len(shape) == 2)

    @property
    def entries_of_a_token(self):
        """Entries that a new token reads: those of the layers' matrices and of the head, which may be the embedding's table."""
        name = "lm_head.weight" if "lm_head.weight" in self.shapes else "model.embed_tokens.weight"
        return self.matrices + math.prod(self.shapes[name])

    def multiplications(self, prompt):
        """For a token of a prompt, with scores and values of attention; engines compute the head for the last token alone."""
        config, layers = self.config, self.config["num_hidden_layers"]
        heads = config["num_attention_heads"]
        head_dim = config.get("head_dim") or config["hidden_size"] // heads
        kinds = config.get("layer_types") or ["full_attention"] * layers
        window = min(config.get("sliding_window") or prompt, prompt)
        seen = sum(prompt / 2 if kind == "full_attention" else window - window**2 / (2 * prompt) for kind in kinds)
        return self.matrices + 2 * heads * head_dim * seen

    def work(self, what):
        """The cost of a token: multiplications for `prompt N`, entries that are read for `decode`."""
        return self.entries_of_a_token if what == "decode" else self.multiplications(int(what.split()[-1]))
