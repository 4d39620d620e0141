"""What scripts/engines.sh runs: converts models to GGUF and scores the same tokens in llama.cpp and in transformers."""

import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np
from comparison import Refused, compare, parser, perplexity, read_windows

LOG_ERROR = 4  # of ggml_log_level
errors = []  # that llama.cpp has logged


@llama_cpp.llama_log_callback
def keep_errors(level, text, _):
    if level == LOG_ERROR:
        errors.append(text.decode().strip())


def convert(converter, model_dir, file):
    """In a process of its own."""
    script = Path(__file__).with_name("convert_to_gguf.py")
    command = [sys.executable, script, converter, file, model_dir]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[-1])


def load(file, seqlen):
    llama_cpp.llama_log_set(keep_errors, None)
    errors.clear()
    try:
        return llama_cpp.Llama(str(file), n_ctx=seqlen, logits_all=True, verbose=False)
    except ValueError as error:
        raise Refused(errors[0] if errors else error) from error


def score(file, windows):
    engine = load(file, windows.shape[1])
    nll = 0.0
    for window in windows:
        engine.reset()
        engine.eval(window.tolist())
        logits = np.asarray(engine.scores[: len(window) - 1], dtype=np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(window) - 1), window[1:]]
        nll += float((np.log(np.exp(logits).sum(axis=1)) - chosen).sum())
    return perplexity(nll, windows)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--converter", type=Path, required=True, help="llama.cpp's source")
    arguments = arguments.parse_args()

    def in_llama_cpp(model_dir, tokens):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            convert(arguments.converter, model_dir, file)
            return score(file, read_windows(tokens))

    return compare("llama.cpp", in_llama_cpp, arguments.tokens, arguments.model_dir)


if __name__ == "__main__":
    sys.exit(main())
