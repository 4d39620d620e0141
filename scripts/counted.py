"""Counts what a model directory computes, from its config.json and the headers of its files."""

import math
from functools import cached_property

from paper.inputs import read_config, shapes_of
from paper.programs import Failure


class Counted:
    def __init__(self, directory):
        """Throws Failure if the directory has no config.json, or not one of a text model without experts."""
        self.config = read_config(directory)
        self.shapes = shapes_of(directory)
        if "num_hidden_layers" not in self.config or any(".experts." in name for name in self.shapes):
            raise Failure(f"{directory}: not a text model without experts: what a token costs is not counted")

    @cached_property
    def matrices(self):
        """Entries of the layers' matrices: each token of a prompt is multiplied by all."""
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
