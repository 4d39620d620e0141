"""Texts to token ids, and back, with a model's own tokenizer, MODEL_DIR/tokenizer.json.

    python tokenize_text.py MODEL_DIR OUT.safetensors TEXT_FILE... [--sha256 HASH...]
    python tokenize_text.py --encode MODEL_DIR TEXTS.json IDS.json
    python tokenize_text.py --decode MODEL_DIR IDS.json TEXTS.json
    python tokenize_text.py --check

The text files (UTF-8, or tables: text_files.py) are joined with a blank line and tokenised once. OUT holds one tensor,
"tokens", [n] int32, and appears whole or not at all. OUT.sha256 has its hash. TEXTS is a list of texts, each tokenised by
itself, IDS a list of lists of ids. No special tokens are added to a text, and none are left out of one.
--check: imports the packages that all of this needs, and does nothing else.
--sha256: what the caller has found of tokenizer.json and of each text; other bytes are refused before
anything looks into them. --template-sha256: likewise of the files of the chat template.
--memory BYTES: the address space of this process, at most; a lower limit of its parent stays.
Exit codes: 0; 64 usage; 65 the input is at fault; 69 a package is missing; 1 anything else. Errors are one line on stderr.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

from text_files import BLANK_LINE, TEMPLATE_FILES, ChatTemplate, InputError, read_bytes, text_of_file

EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_UNAVAILABLE = 69

LARGEST_ID = 2**31 - 1  # OUT has int32


def tokenizer_file(model_dir):
    return Path(model_dir) / "tokenizer.json"


@contextmanager
def faults_of(path, what):
    """Treats what the library raises as a fault of this tokenizer. Its message may quote a file that the reader may not see,
    so it is left out."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # Exception itself; a panic of the library is none
        place = re.search(r"at line \d+ column \d+", str(error))
        raise InputError(f"{path}: {what}{': a fault ' + place[0] if place else ''}") from error


def load_tokenizer(model_dir, sha256=None):
    from tokenizers import Tokenizer

    path = tokenizer_file(model_dir)
    if not path.is_file():
        raise InputError(f"{path}: no such file, and text input needs the model's tokenizer")
    content = read_bytes(path, sha256)
    with faults_of(path, "not a tokenizer"):
        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer


def tokenize_files(model_dir, text_files, sha256=None, template_sha256=None):
    """Token ids of the texts, a list of int. `sha256`: of tokenizer.json and of each text; `template_sha256`: of TEMPLATE_FILES."""
    of_tokenizer, *of_texts = sha256 or [None] * (1 + len(text_files))
    template = ChatTemplate(model_dir, template_sha256)
    text = BLANK_LINE.join(text_of_file(file, template, of_text) for file, of_text in zip(text_files, of_texts, strict=True))
    tokenizer = load_tokenizer(model_dir, of_tokenizer)
    require_tokens_of_transformers(tokenizer, template, text)
    with faults_of(tokenizer_file(model_dir), "cannot tokenise the text"):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
    if not ids:
        raise InputError(f"{', '.join(map(str, text_files))}: no tokens in the text")
    if max(ids) > LARGEST_ID:
        raise InputError(f"{tokenizer_file(model_dir)}: has a token {max(ids)}, and the largest id is {LARGEST_ID}")
    return ids


def require_tokens_of_transformers(tokenizer, template, text):
    """Refuses a text whose tokens are others in transformers, which reads more than tokenizer.json."""
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    advice = 'save the tokenizer once more with AutoTokenizer.from_pretrained("DIR").save_pretrained("DIR")'
    for token, file in template.tokens_of_transformers().items():
        if token not in added and token in text:
            raise InputError(f"{template.model_dir / file}: the text has {token!r}, which transformers takes for one token and "
                             f"tokenizer.json has not added: {advice}")
    if template.splits_special_tokens() and any(token in text for token in added):
        raise InputError(f"{template.model_dir / 'tokenizer_config.json'}: split_special_tokens is set, which is not supported for a "
                         "text that has special tokens")


def encode(tokenizer, texts):
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def require_tokens(texts, ids):
    for text, row in zip(texts, ids, strict=True):
        if not row:
            raise InputError(f"no tokens in the text {text!r}")


def decode(tokenizer, ids):
    return [tokenizer.decode(row, skip_special_tokens=False) for row in ids]


def translate(direction, model_dir, given, out):
    """Translates one JSON document to the other."""
    tokenizer, document = load_tokenizer(model_dir), json.loads(Path(given).read_bytes())
    with faults_of(tokenizer_file(model_dir), "cannot translate between text and tokens"):
        result = direction(tokenizer, document)
    if direction is encode:
        require_tokens(document, result)
    Path(out).write_text(json.dumps(result))


def write_tokens(path, ids):
    """Writes OUT after its seal: no byte that changes on the way to the disk is sealed."""
    import numpy
    from safetensors.numpy import save

    data = save({"tokens": numpy.asarray(ids, dtype=numpy.int32)})
    path = Path(path)
    write_file(path.with_name(f"{path.name}.sha256"), hashlib.sha256(data).hexdigest().encode() + b"\n")
    write_file(path, data)


def write_file(path, data):
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        error.filename = os.path.realpath(partial)  # the path may lead through a descriptor
        raise
    finally:
        partial.unlink(missing_ok=True)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"usage: {self.format_usage().removeprefix('usage: ').strip()}: {message}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def parse(arguments):
    parser = Parser(prog="tokenize_text.py")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument("--encode", dest="direction", action="store_const", const=encode)
    direction.add_argument("--decode", dest="direction", action="store_const", const=decode)
    direction.add_argument("--check", action="store_true")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--sha256", nargs="+")
    parser.add_argument("--template-sha256", nargs=len(TEMPLATE_FILES))
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args(arguments)
    if options.check and not options.paths:
        return options
    if options.check or (len(options.paths) != 3 if options.direction else len(options.paths) < 3):
        parser.error("too few or too many paths")
    if options.sha256 and len(options.sha256) != len(options.paths) - 1:
        parser.error("--sha256 needs a hash of the tokenizer and of each text")
    return options


def import_packages():
    import jinja2.sandbox  # noqa: F401
    import numpy  # noqa: F401
    import safetensors.numpy  # noqa: F401
    import tokenizers  # noqa: F401


def run(options):
    if options.check:
        import_packages()
    elif options.direction:
        translate(options.direction, *options.paths)
    else:
        model_dir, out, *text_files = options.paths
        write_tokens(out, tokenize_files(model_dir, text_files, options.sha256, options.template_sha256))


def main(arguments):
    options = parse(arguments)
    os.umask(os.umask(0o077) | 0o022)  # a kept file that others may write is not used
    memory = None
    if options.memory is not None:
        memory = min(options.memory, *(limit % 2**64 for limit in resource.getrlimit(resource.RLIMIT_AS)))  # -1 is no limit
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        run(options)
    except MemoryError:
        print(f"tokenize_text: error: {memory} bytes of memory are too few (resources.memory, or ulimit -v)", file=sys.stderr)
        return 1
    except (InputError, OSError, ImportError, ValueError) as error:
        print(" ".join(f"tokenize_text: error: {error}".split()), file=sys.stderr)
        if isinstance(error, ImportError):
            return EXIT_UNAVAILABLE
        return EXIT_DATA if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
