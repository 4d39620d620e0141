"""Text files to token ids with a model's own tokenizer.

    python tokenize_text.py MODEL_DIR OUT.safetensors TEXT_FILE...

The texts (UTF-8) are joined with a blank line and tokenised once with MODEL_DIR/tokenizer.json,
without special tokens. OUT holds one tensor, "tokens", [n] int32, and appears whole or not at all.
Exit codes: 0; 64 usage; 65 the input is at fault; 1 anything else. Errors are one line on stderr.
"""

import os
import sys
from pathlib import Path

EXIT_USAGE = 64
EXIT_DATA = 65


class InputError(Exception):
    """The model directory or a text cannot be used; the message names the file."""


def read_text(path):
    try:
        return Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: byte {error.start} is invalid") from error


def load_tokenizer(model_dir):
    from tokenizers import Tokenizer

    path = Path(model_dir) / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path}: no such file, and text input needs the model's tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise InputError(f"{path}: not a tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tokenize_files(model_dir, text_files):
    """Token ids of the texts, a list of int."""
    text = "\n\n".join(read_text(path) for path in text_files)
    ids = load_tokenizer(model_dir).encode(text, add_special_tokens=False).ids
    if not ids:
        raise InputError(f"{', '.join(map(str, text_files))}: no tokens in the text")
    return ids


def write_tokens(path, ids):
    import numpy
    from safetensors.numpy import save

    data = save({"tokens": numpy.asarray(ids, dtype=numpy.int32)})
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def main(arguments):
    if len(arguments) < 3:
        print("usage: tokenize_text.py MODEL_DIR OUT.safetensors TEXT_FILE...", file=sys.stderr)
        return EXIT_USAGE
    model_dir, out, *text_files = arguments
    try:
        write_tokens(out, tokenize_files(model_dir, text_files))
    except (InputError, OSError, ImportError) as error:
        print(" ".join(f"tokenize_text: error: {error}".split()), file=sys.stderr)
        return EXIT_DATA if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
