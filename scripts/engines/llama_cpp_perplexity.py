"""Run by scripts/engines.sh: exports models to GGUF and scores the same tokens in llama.cpp and in transformers."""

import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np
from comparison import Refused, compare, export, parser, perplexity, read_windows

LOG_ERROR = 4  # a ggml_log_level
errors = []  # llama.cpp's log


@llama_cpp.llama_log_callback
def keep_errors(level, text, _):
    if level == LOG_ERROR:
        errors.append(text.decode().strip())


def load(file, seqlen):
    errors.clear()
    try:
        return llama_cpp.Llama(str(file), n_ctx=seqlen, logits_all=True, verbose=False)
    except ValueError as error:
        raise Refused(errors[0] if errors else error) from error


def token_losses(file, windows):
    """The loss of each predicted token, in nats: [windows, seqlen - 1]."""
    engine = load(file, windows.shape[1])
    losses = []
    for window in windows:
        engine.reset()
        engine.eval(window.tolist())
        logits = np.asarray(engine.scores[: len(window) - 1], dtype=np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(window) - 1), window[1:]]
        losses.append(np.log(np.exp(logits).sum(axis=1)) - chosen)
    return np.stack(losses)


def main():
    arguments = parser(__doc__).parse_args()
    llama_cpp.llama_log_set(keep_errors, None)

    def in_llama_cpp(model_dir, tokens):
        windows = read_windows(tokens)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            export(model_dir, file, "f32")
            return perplexity(float(token_losses(file, windows).sum()), windows)

    return compare("llama.cpp", in_llama_cpp, arguments.tokens, arguments.model_dir)


if __name__ == "__main__":
    sys.exit(main())
