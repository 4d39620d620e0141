"""Loads a model in vLLM's build for CPUs, in this process: its exceptions say why it refuses one."""

import os
import sys

from comparison import ROOT

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",  # by the one token that it has to generate, which is not scored
}
sys.path.append(str(ROOT / "scripts"))

from trusted_code import may_run_code  # noqa: E402
from vllm import LLM  # noqa: E402


def load_in_vllm(model_dir, dtype, context, trusted=False, **options):
    """context: tokens of a prompt and of its continuation. trusted: the code in the directory is this repository's."""
    return LLM(
        str(model_dir),
        dtype=dtype,
        enforce_eager=True,
        max_model_len=context,
        skip_tokenizer_init=True,
        trust_remote_code=trusted or may_run_code(model_dir),
        **options,
    )
