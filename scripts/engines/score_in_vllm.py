"""The perplexity of one model in vLLM, on the CPU and in float32. Prints {"perplexity": x} or {"refused": why}.

score_in_vllm.py TOKENS MODEL_DIR [--trust]       --trust: the code in the directory is this repository's
"""

import json
import os
import sys
from pathlib import Path

from comparison import ROOT, perplexity, read_windows

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # its exceptions say why it refuses a model
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",  # by the one token that it has to generate, which is not scored
}
sys.path.append(str(ROOT / "scripts"))

from trusted_code import may_run_code  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402


def score(model_dir, windows, trusted):
    engine = LLM(
        str(model_dir),
        dtype="float32",
        enforce_eager=True,
        max_model_len=windows.shape[1] + 1,
        skip_tokenizer_init=True,
        trust_remote_code=trusted or may_run_code(model_dir),
    )
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
