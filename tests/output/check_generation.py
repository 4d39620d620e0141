"""Loads a model directory like a user does, generates, and prints the result as JSON.

    python check_generation.py MODEL_DIR

Trusts remote code if the directory has some. A program, so that each transformers version gets its own process.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = ["The with statement is used to", "If an exception"]


def generate(model, inputs, **options):
    return model.generate(
        **inputs, max_new_tokens=16, do_sample=False, pad_token_id=1, eos_token_id=None, **options
    )


def main(directory):
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    has_code = any(Path(directory).glob("modeling_*.py"))
    model, loading = AutoModelForCausalLM.from_pretrained(
        directory, trust_remote_code=has_code, torch_dtype=torch.float32, output_loading_info=True
    )
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=has_code)
    tokenizer.pad_token_id = 1
    tokenizer.padding_side = "left"
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    together = generate(model, batch)
    alone = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        alone.append(generate(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}))
    result = {
        "transformers": transformers.__version__,
        "class": type(model).__name__,
        "unloaded": sorted(set(map(str, loading["missing_keys"]))),
        "unexpected": sorted(set(map(str, loading["unexpected_keys"]))),
        "together": [row[-16:].tolist() for row in together],
        "alone": [row[0, -16:].tolist() for row in alone],
        "without_cache": [row[-16:].tolist() for row in generate(model, batch, use_cache=False)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
