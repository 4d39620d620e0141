"""Holds a model in transformers for scripts/speed.py (timing.py): timed_transformers.py MODEL_DIR DTYPE"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import load_and_score  # noqa: E402
import torch  # noqa: E402
from timing import THREADS, serve  # noqa: E402
from transformers import logging  # noqa: E402


def load():
    directory, dtype = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(THREADS)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = load_and_score.load(directory, getattr(torch, dtype))

    def generate(tokens, new):
        ids = torch.tensor([tokens])
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=new, max_new_tokens=new, pad_token_id=0)

    return generate, json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]


serve(load)
