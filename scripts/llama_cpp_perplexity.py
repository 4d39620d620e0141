"""What scripts/engines.sh runs: converts models to GGUF in float32 and scores the same tokens in llama.cpp and in transformers."""

import argparse
import json
import math
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

TOLERANCE = 1e-3


def convert(converter, model_dir, file):
    """In a process of its own, with this program's --only-convert."""
    arguments = [sys.executable, __file__, "--only-convert", "--converter", converter, file, model_dir]
    subprocess.run(list(map(str, arguments)), check=True, stdout=subprocess.DEVNULL)


def run_converter(converter, file, model_dir):
    """llama.cpp's own, which knows tokenizers by a hash. Tokens are given as ids here, so any will do."""
    sys.path[:0] = [str(converter), str(converter / "gguf-py")]
    from conversion import base

    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    sys.argv = ["convert_hf_to_gguf.py", str(model_dir), "--outtype", "f32", "--outfile", str(file)]
    runpy.run_path(str(converter / "convert_hf_to_gguf.py"), run_name="__main__")


def in_llama_cpp(file, windows):
    from llama_cpp import Llama

    engine = Llama(str(file), n_ctx=windows.shape[1], logits_all=True, verbose=False)
    nll = 0.0
    for window in windows:
        engine.reset()
        engine.eval(window.tolist())
        logits = np.asarray(engine.scores[: len(window) - 1], dtype=np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(window) - 1), window[1:]]
        nll += float((np.log(np.exp(logits).sum(axis=1)) - chosen).sum())
    return math.exp(nll / (windows.shape[0] * (windows.shape[1] - 1)))


def in_transformers(model_dir, tokens):
    script = Path(__file__).with_name("load_and_score.py")
    command = [sys.executable, script, model_dir, tokens, "-o", "json"]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["perplexity"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--converter", type=Path, required=True, help="llama.cpp's source")
    parser.add_argument("--only-convert", action="store_true", help="one model to the file TOKENS")
    parser.add_argument("tokens", type=Path)
    parser.add_argument("model_dir", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.only_convert:
        run_converter(arguments.converter, arguments.tokens, arguments.model_dir[0])
        return 0
    windows = load_file(arguments.tokens)["tokens"]
    equal = True
    for model_dir in arguments.model_dir:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            convert(arguments.converter, model_dir, file)
            found = in_llama_cpp(file, windows)
        expected = in_transformers(model_dir, arguments.tokens)
        same = abs(found / expected - 1) <= TOLERANCE
        equal = equal and same
        print(f"{model_dir}: llama.cpp {found:.4f}, transformers {expected:.4f}: {'the same' if same else 'DIFFERENT'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
