"""What scripts/engines.sh runs: exports models to GGUF and scores the same tokens in llama.cpp and in transformers. With
--quantize: in llama.cpp alone, of the files that its quantizer makes of the export, with their sizes."""

import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np
from comparison import ROOT, Refused, compare, parser, perplexity, read_windows

LOG_ERROR = 4  # of ggml_log_level
FTYPE = "LLAMA_FTYPE_MOSTLY_"
errors = []  # that llama.cpp has logged


@llama_cpp.llama_log_callback
def keep_errors(level, text, _):
    if level == LOG_ERROR:
        errors.append(text.decode().strip())


def export(model_dir, file):
    """As float32, by the program's own exporter."""
    script = ROOT / "worker" / "python" / "export_gguf.py"
    command = [sys.executable, script, model_dir, file, "--type", "f32"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[-1])


def quantize(file, type_name, quantized):
    """As llama-quantize does without an importance matrix."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, FTYPE + type_name)
    errors.clear()
    if llama_cpp.llama_model_quantize(str(file).encode(), str(quantized).encode(), options) != 0:
        raise Refused(errors[0] if errors else f"no {type_name} of it")


def load(file, seqlen):
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


def score_quantized(model_dir, types, windows):
    """A line for each type. Whether llama.cpp has taken them all."""
    whole = True
    with tempfile.TemporaryDirectory() as folder:
        file, quantized = Path(folder) / "model.gguf", Path(folder) / "quantized.gguf"
        for type_name in types:
            try:
                if not file.exists():
                    export(model_dir, file)
                quantize(file, type_name, quantized)
                size = quantized.stat().st_size
                print(f"{model_dir}: {type_name} {size:,} bytes, perplexity {score(quantized, windows):.4f}", flush=True)
            except Refused as reason:
                whole = False
                print(f"{model_dir}: {type_name} refused: {' '.join(str(reason).split())}", flush=True)
    return whole


def main():
    arguments = parser(__doc__)
    known = [name.removeprefix(FTYPE) for name in vars(llama_cpp) if name.startswith(FTYPE)]
    arguments.add_argument("--quantize", nargs="+", choices=known, metavar="TYPE", help=f"of {', '.join(known)}")
    arguments = arguments.parse_args()
    llama_cpp.llama_log_set(keep_errors, None)
    if arguments.quantize:
        windows = read_windows(arguments.tokens)
        taken = [score_quantized(model_dir, arguments.quantize, windows) for model_dir in arguments.model_dir]
        return 0 if all(taken) else 1

    def in_llama_cpp(model_dir, tokens):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            export(model_dir, file)
            return score(file, read_windows(tokens))

    return compare("llama.cpp", in_llama_cpp, arguments.tokens, arguments.model_dir)


if __name__ == "__main__":
    sys.exit(main())
