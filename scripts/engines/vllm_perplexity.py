"""What scripts/engines.sh --engine vllm runs: scores the same tokens in vLLM and in transformers."""

import json
import subprocess
import sys
from pathlib import Path

from comparison import Refused, compare, parser


def in_vllm(model_dir, tokens):
    """In a process of its own: a model that vLLM refuses leaves it in a state that refuses the next."""
    command = [sys.executable, Path(__file__).with_name("score_in_vllm.py"), tokens, model_dir]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[-1])
    result = json.loads(done.stdout.splitlines()[-1])
    if "refused" in result:
        raise Refused(result["refused"])
    return result["perplexity"]


def main():
    arguments = parser(__doc__).parse_args()
    return compare("vLLM", in_vllm, arguments.tokens, arguments.model_dir)


if __name__ == "__main__":
    sys.exit(main())
