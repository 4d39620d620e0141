"""Prompts to token ids and token ids to texts, with a model's own tokenizer.

    python prompts.py encode MODEL_DIR TEXTS.json IDS.json
    python prompts.py decode MODEL_DIR IDS.json TEXTS.json

IDS is a list of lists of ids. No special tokens are added to a text, and none are left out of one.
Exit codes: 0; 64 usage; 65 the input is at fault; 1 anything else. Errors are one line on stderr.
"""

import json
import sys
from pathlib import Path

EXIT_USAGE = 64
EXIT_DATA = 65


class InputError(Exception):
    """The model directory or a prompt cannot be used."""


def load_tokenizer(model_dir):
    from tokenizers import Tokenizer

    path = model_dir / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path}: no such file, and text input needs the model's tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise InputError(f"{path}: not a tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def encode(tokenizer, texts):
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    for text, row in zip(texts, ids, strict=True):
        if not row:
            raise InputError(f"no tokens in the prompt {text!r}")
    return ids


def decode(tokenizer, ids):
    return [tokenizer.decode(row, skip_special_tokens=False) for row in ids]


def main(arguments):
    directions = {"encode": encode, "decode": decode}
    if len(arguments) != 4 or arguments[0] not in directions:
        print("usage: prompts.py encode|decode MODEL_DIR IN.json OUT.json", file=sys.stderr)
        return EXIT_USAGE
    model_dir, given, out = map(Path, arguments[1:])
    try:
        result = directions[arguments[0]](load_tokenizer(model_dir), json.loads(given.read_bytes()))
        out.write_text(json.dumps(result))
    except (InputError, OSError, ImportError, ValueError) as error:
        print(" ".join(f"prompts: error: {error}".split()), file=sys.stderr)
        return EXIT_DATA if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
