"""Holds a model in transformers for scripts/speed.py (timing.py): timed_transformers.py MODEL_DIR DTYPE"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.append(str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from timing import THREADS, serve  # noqa: E402
from transformers import AutoModelForCausalLM, logging  # noqa: E402
from trusted_code import may_run_code  # noqa: E402


def load():
    directory, dtype = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(THREADS)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype), trust_remote_code=may_run_code(directory)).eval()

    def generate(tokens, new):
        ids = torch.tensor([tokens])
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=new, max_new_tokens=new, pad_token_id=0)

    return generate, json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]


serve(load)
