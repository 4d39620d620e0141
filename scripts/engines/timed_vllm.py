"""Holds a model in vLLM's build for CPUs for scripts/speed.py (timing.py): timed_vllm.py MODEL_DIR DTYPE CONTEXT"""

import json
import sys
from pathlib import Path

from in_vllm import load_in_vllm
from timing import serve
from vllm import SamplingParams


def load():
    directory, dtype, context = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    engine = load_in_vllm(directory, dtype, context, enable_prefix_caching=False)

    def generate(tokens, new):
        options = SamplingParams(temperature=0.0, max_tokens=new, min_tokens=new, ignore_eos=True, detokenize=False)
        engine.generate([{"prompt_token_ids": tokens}], options, use_tqdm=False)

    return generate, json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]


serve(load)
