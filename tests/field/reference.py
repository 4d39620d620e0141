"""Perplexities as transformers computes them: a module for version 5, and a program for version 4.

    PYTHONPATH=.venv-transformers4 python reference.py PAIRS.json

PAIRS is a list of [MODEL_DIR, TOKENS.safetensors]; stdout has a list with a perplexity, or the reason of a refusal, for each.
"""

import gc
import json
import math
import sys
from pathlib import Path

gc.disable()  # see tests/output/conftest.py

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)


@torch.no_grad()
def perplexity(model, tokens):
    windows = load_file(tokens)["tokens"].long()
    logits = model.eval()(windows, use_cache=False).logits[:, :-1].double()
    return math.exp(torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).item())


def score(model_dir, tokens, **settings):
    """Returns the perplexity, or why transformers has none: its error, or tensors that it would fill with random numbers."""
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            model_dir, torch_dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True, **settings
        )
        missing = sorted(found.get("missing_keys", []))
        return f"not stored: {', '.join(missing)}" if missing else perplexity(model, tokens)
    except Exception as error:  # whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    json.dump([score(*pair) for pair in json.loads(Path(sys.argv[1]).read_text())], sys.stdout)
