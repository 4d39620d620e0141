"""Run by scripts/engines.sh --engine vllm: scores the same tokens in vLLM and in transformers. With --as nemotron-nas vLLM
gets what the program's exporter makes of a custom output."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from comparison import ROOT, Refused, compare, parser


def last_line(command):
    """Runs a program; returns the last line that it prints. Its last error is why it refuses a model."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[-1])
    return done.stdout.splitlines()[-1]


def in_vllm(model_dir, tokens, *options):
    """Scores in a process of its own: after a refused model vLLM refuses the next one too."""
    result = json.loads(last_line([sys.executable, Path(__file__).with_name("score_in_vllm.py"), tokens, model_dir, *options]))
    if "refused" in result:
        raise Refused(result["refused"])
    return result["perplexity"]


def exported_in_vllm(model_dir, tokens):
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "model"
        last_line([ROOT / "build" / "bin" / "dotresize", "export", model_dir, exported, "--to", "nemotron-nas"])
        return in_vllm(exported, tokens, "--trust")


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--as", dest="form", choices=["nemotron-nas"])
    arguments = arguments.parse_args()
    engine, score = ("vLLM, nemotron-nas", exported_in_vllm) if arguments.form else ("vLLM", in_vllm)
    return compare(engine, score, arguments.tokens, arguments.model_dir)


if __name__ == "__main__":
    sys.exit(main())
