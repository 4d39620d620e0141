"""Models that the code of other tools makes of the same text, at the same sizes."""

import sys

import torch
from paper.programs import ROOT, Failure
from transformers import AutoModelForCausalLM

FOLDER = ROOT / "build" / "peers"


def import_peer(name):
    sys.path.append(str(FOLDER))
    try:
        return __import__(name)
    except ImportError as error:
        install = f"pip install --no-deps --require-hashes --target {FOLDER} -r scripts/real/requirements-peers.txt"
        raise Failure(f"{name} is not installed ({install})", 69) from error


def optipfair(directory, windows, features):
    """Narrower MLPs by optipfair: each keeps the same number of features, those of largest weights and activations (its hybrid of
    both, from windows [count, tokens])."""
    tool = import_peer("optipfair")
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    share = 100 * (1 - features / model.config.intermediate_size)
    batches = [{"input_ids": window[None], "attention_mask": torch.ones_like(window[None])} for window in windows]
    return tool.prune_model(model, neuron_selection_method="MAW", pruning_percentage=share, dataloader=batches, show_progress=False).eval()
