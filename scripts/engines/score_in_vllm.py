"""The perplexity of one model in vLLM, on the CPU and in float32. Prints {"perplexity": x} or {"refused": why}.

score_in_vllm.py TOKENS MODEL_DIR [--trust]       --trust: the code in the directory is this repository's
"""

import json
import sys
from pathlib import Path

from comparison import perplexity, read_windows
from in_vllm import load_in_vllm
from vllm import SamplingParams


def score(model_dir, windows, trusted):
    engine = load_in_vllm(model_dir, "float32", windows.shape[1] + 1, trusted)
    options = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)
    prompts = [{"prompt_token_ids": window.tolist()} for window in windows]
    nll = 0.0
    for window, result in zip(windows.tolist(), engine.generate(prompts, options, use_tqdm=False), strict=True):
        for token, known in list(zip(window, result.prompt_logprobs, strict=True))[1:]:
            nll -= known[token].logprob
    return perplexity(nll, windows)


def main(tokens, model_dir, trusted):
    windows = read_windows(tokens)
    try:
        result = {"perplexity": score(model_dir, windows, trusted)}
    except Exception as error:  # vLLM throws many kinds
        result = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["--trust"])
