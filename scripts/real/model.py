"""The models that scripts/real_model.sh makes, and their shapes."""

import json
import math
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from paper.inputs import shapes_of
from paper.programs import ROOT, Failure

ROUND_TO = 8  # a job's default for features at these widths


def most_features(size, parameters, of_a_feature, features, round_to):
    """Features of each MLP, if a model with so many features in each has so many parameters, `of_a_feature` of them for one in each,
    and is to have at most this fraction of them."""
    removed = math.ceil((1 - size) * parameters / of_a_feature)
    return (features - removed) // round_to * round_to


@dataclass(frozen=True)
class RealModel:
    key: str  # the argument of scripts/real_model.sh
    name: str
    directory: Path
    token_folder: Path

    def tokens(self, name):
        return self.token_folder / f"{name}.safetensors"

    @cached_property
    def config(self):
        return json.loads((self.directory / "config.json").read_text(encoding="utf-8"))

    @property
    def hidden_size(self):
        return self.config["hidden_size"]

    @property
    def layers(self):
        return self.config["num_hidden_layers"]

    @cached_property
    def parameters(self):
        return sum(map(math.prod, shapes_of(self.directory).values()))

    def features_at(self, size):
        """The most features of each MLP with which the model has at most this fraction of its parameters."""
        of_a_feature = 3 * self.hidden_size * self.layers  # gate, up and down
        return most_features(size, self.parameters, of_a_feature, self.config["intermediate_size"], ROUND_TO)


SMOLLM2 = "SmolLM2-135M-Instruct"
GEMMA3 = "Gemma 3 270M"
NAMES = (SMOLLM2, GEMMA3)
# Name, and the places of model and tokens in the folder that the script prints.
MODELS = {"smollm2": (SMOLLM2, "smollm2", "tokens"), "gemma3": (GEMMA3, "model", "tokens")}


def real_model(key):
    """The model of this key of MODELS, made first if it is not there."""
    arguments = [] if key == "smollm2" else [key]
    done = subprocess.run([ROOT / "scripts" / "real_model.sh", *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure("there is no real model to measure", done.returncode)
    folder = Path(done.stdout.split()[-1])
    name, directory, tokens = MODELS[key]
    return RealModel(key, name, folder / directory, folder / tokens)
