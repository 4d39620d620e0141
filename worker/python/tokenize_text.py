"""Texts to token ids, and back, with a model's own tokenizer, MODEL_DIR/tokenizer.json.

    python tokenize_text.py MODEL_DIR OUT.safetensors TEXT_FILE...
    python tokenize_text.py --encode MODEL_DIR TEXTS.json IDS.json
    python tokenize_text.py --decode MODEL_DIR IDS.json TEXTS.json

The text files (UTF-8) are joined with a blank line and tokenised once. OUT holds one tensor,
"tokens", [n] int32, and appears whole or not at all. TEXTS is a list of texts, each tokenised by
itself, IDS a list of lists of ids. No special tokens are added to a text, and none are left out of one.
Exit codes: 0; 64 usage; 65 the input is at fault; 1 anything else. Errors are one line on stderr.
"""

import json
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


def encode(tokenizer, texts):
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    for text, row in zip(texts, ids, strict=True):
        if not row:
            raise InputError(f"no tokens in the text {text!r}")
    return ids


def decode(tokenizer, ids):
    return [tokenizer.decode(row, skip_special_tokens=False) for row in ids]


def translate(direction, model_dir, given, out):
    """From one JSON document to the other."""
    result = direction(load_tokenizer(model_dir), json.loads(Path(given).read_bytes()))
    Path(out).write_text(json.dumps(result))


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
    directions = {"--encode": encode, "--decode": decode}
    direction = directions.get(arguments[0]) if arguments else None
    if len(arguments) != 4 if direction else len(arguments) < 3:
        print("usage: tokenize_text.py MODEL_DIR OUT.safetensors TEXT_FILE...\n"
              "       tokenize_text.py --encode|--decode MODEL_DIR IN.json OUT.json", file=sys.stderr)  # fmt: skip
        return EXIT_USAGE
    try:
        if direction:
            translate(direction, *arguments[1:])
        else:
            model_dir, out, *text_files = arguments
            write_tokens(out, tokenize_files(model_dir, text_files))
    except (InputError, OSError, ImportError, ValueError) as error:
        print(" ".join(f"tokenize_text: error: {error}".split()), file=sys.stderr)
        return EXIT_DATA if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
