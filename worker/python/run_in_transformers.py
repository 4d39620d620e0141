"""Perplexity and latency of a model in transformers.

    python run_in_transformers.py MODEL_DIR OUT.json --threads N [--trust-remote-code]
        [--tokens TOKENS.safetensors --seqlen N]
        [--latency --prompt N --decode N --batch N --repetitions N --warmup N --seed N]

Everything is computed in float32, offline, from safetensors alone. OUT gets {"transformers":
version}, with "perplexity" and "predicted_tokens" if tokens are given, and "prompt_ms" and
"decode_ms", one time per token and repetition, with --latency. The directory's own Python code runs
with --trust-remote-code alone. Exit codes: 0; 64 usage; 65 the input is at fault; 1 anything else.
The last line on stderr says why.
"""

import argparse
import gc
import json
import math
import os
import sys
import tempfile
import time

EXIT_USAGE = 64
EXIT_DATA = 65
TOKENS_AT_A_TIME = 512


class InputError(Exception):
    """The model or the tokens cannot be used; the message names the file."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        print(f"run_in_transformers: error: {message}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def parse_arguments(arguments):
    parser = Parser(prog="run_in_transformers")
    parser.add_argument("model_dir")
    parser.add_argument("out")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--tokens")
    parser.add_argument("--latency", action="store_true")
    for name in "threads seqlen prompt decode batch repetitions warmup seed".split():
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args(arguments)


def read_token_file(path):
    """Token ids [n] int64, and the row length of a two-dimensional file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            if "tokens" not in file.keys():
                raise InputError(f'{path}: has no tensor "tokens"')
            tokens = file.get_tensor("tokens").long()
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: {error}") from error
    return tokens.flatten(), tokens.shape[1] if tokens.ndim == 2 else None


def cut(tokens, seqlen):
    """All whole windows, [W, seqlen]."""
    if seqlen < 2:
        raise InputError(f"--seqlen {seqlen}: must be at least 2")
    whole = len(tokens) // seqlen
    if whole == 0:
        raise InputError(f"{len(tokens)} tokens, fewer than one window of {seqlen}")
    return tokens[: whole * seqlen].view(whole, seqlen)


def perplexity(model, windows):
    """Each window [seqlen] of windows [W, seqlen] predicts its last seqlen-1 tokens.

    Log-likelihoods in float32, summed in float64.
    """
    import torch

    nll = 0.0
    with torch.inference_mode():
        for ids in windows.split(max(1, TOKENS_AT_A_TIME // windows.shape[1])):
            logits = model(ids, use_cache=False).logits[:, :-1].float()
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
            )
            nll += losses.double().sum().item()
    return math.exp(nll / windows[:, 1:].numel())


def timed(work):
    """Milliseconds that it takes, and its result."""
    start = time.perf_counter()
    result = work()
    return 1000 * (time.perf_counter() - start), result


def latency(model, arguments):
    """Milliseconds per token of the prompt, and of decoding after it, by repetition."""
    import torch

    generator = torch.Generator().manual_seed(arguments.seed)
    shape = (arguments.batch, arguments.prompt + arguments.decode)
    ids = torch.randint(0, model.config.get_text_config().vocab_size, shape, generator=generator)

    def read(part, cache):
        return model(part, past_key_values=cache, use_cache=True, logits_to_keep=1).past_key_values

    def decode(cache):
        for part in ids[:, arguments.prompt :].split(1, dim=1):
            cache = read(part, cache)

    prompt_ms, decode_ms = [], []
    with torch.inference_mode():
        for run in range(-arguments.warmup, arguments.repetitions):
            prompt_time, cache = timed(lambda: read(ids[:, : arguments.prompt], None))
            decode_time, _ = timed(lambda cache=cache: decode(cache))
            if run >= 0:
                prompt_ms.append(prompt_time / arguments.prompt)
                decode_ms.append(decode_time / arguments.decode)
    return {"prompt_ms": prompt_ms, "decode_ms": decode_ms}


def read_config(model_dir):
    try:
        with open(os.path.join(model_dir, "config.json"), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{model_dir}: config.json: {error}") from error


def auto_class(config):
    """The class that loads the model of this config.json: another one if its text model is a part of it."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    return AutoModelForImageTextToText if "text_config" in config else AutoModelForCausalLM


def load(model_dir, trust_remote_code):
    import torch
    from transformers import logging

    config = read_config(model_dir)
    # Quantised weights become what they stand for in bfloat16 only if bfloat16 is the model's dtype.
    dtype = "auto" if config.get("quantization_config") else torch.float32
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        model = auto_class(config).from_pretrained(
            model_dir,
            trust_remote_code=trust_remote_code,
            local_files_only=True,
            use_safetensors=True,
            torch_dtype=dtype,
        ).float()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{model_dir}: transformers cannot load it: {error}") from error
    return model.eval()


def measure(arguments):
    gc.disable()  # the collector of cycles would take a fifth of the time of the imports
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    model = load(arguments.model_dir, arguments.trust_remote_code)
    gc.freeze()
    gc.enable()
    result = {"transformers": transformers.__version__}
    if arguments.tokens:
        windows = cut(read_token_file(arguments.tokens)[0], arguments.seqlen)
        result["perplexity"] = perplexity(model, windows)
        result["predicted_tokens"] = windows[:, 1:].numel()
    if arguments.latency:
        result.update(latency(model, arguments))
    return result


def main(arguments):
    arguments = parse_arguments(arguments)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # stdout is the caller's document
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    # Custom code is copied before it runs: not into the cache that all users of transformers share.
    with tempfile.TemporaryDirectory(prefix="dotresize-modules-") as modules:
        os.environ["HF_MODULES_CACHE"] = modules
        try:
            with open(arguments.out, "w", encoding="utf-8") as out:
                json.dump(measure(arguments), out, allow_nan=False)
        except Exception as error:  # whatever it is, the caller shows it
            print(" ".join(f"run_in_transformers: error: {error}".split()), file=sys.stderr)
            return EXIT_DATA if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
