"""Feeds hostile tokenizer.json files to the tokenising helper (worker/python/tokenize_text.py), each in its own process.

    tokenizer.py SECONDS [SEED]

A file is the example's with some parts of other kinds, with numbers at their limits or with flipped bits. The helper must end
within a minute: with exit code 0 or 65 and no quotation of the file, or by a signal of the library (an allocation beyond
--memory). The run stops at the first input that breaks this, and leaves it in build/fuzz/tokenizer/crash-SEED.json.
"""

import collections
import copy
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "worker" / "python"))
import tokenize_text  # noqa: E402

SECRET = "root:$6$secret"
MEMORY = 4 << 30
NUMBERS = [None, -1, 0, 1, 255, 2**31, 2**32, 2**63, 2**64, 1e308, 0.5, True, "", "é", "▁▁", SECRET]
PATTERNS = [{"String": ""}, {"String": "a"}, {"Regex": ""}, {"Regex": "a|"}, {"Regex": "(a*)*b"}, {"Regex": "(?=.)"}, {"Regex": SECRET + "("}]
CHARSMAPS = ["", "AAAAAA==", "BAAAAP////8=", "/////////////w=="]
PLACES = {
    "truncation": [{"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}],
    "padding": [{"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}],
    "added_tokens": [[{"id": 7, "content": "a", "single_word": False, "lstrip": True, "rstrip": True, "normalized": True, "special": True}]],
    "normalizer": [
        *({"type": "Replace", "pattern": pattern, "content": "xx"} for pattern in PATTERNS),
        *({"type": "Precompiled", "precompiled_charsmap": charsmap} for charsmap in CHARSMAPS),
        {"type": "Prepend", "prepend": ""}, {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "NFKD"}, {"type": "Nmt"}, {"type": "ByteLevel"}, {"type": "StripAccents"},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    ],
    "pre_tokenizer": [
        {"type": "FixedLength", "length": 3}, {"type": "Digits", "individual_digits": True}, {"type": "UnicodeScripts"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, {"type": "BertPreTokenizer"},
        {"type": "CharDelimiterSplit", "delimiter": "e"}, {"type": "Punctuation", "behavior": "Contiguous"},
        *({"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": True} for pattern in PATTERNS),
    ],
    "post_processor": [
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "X", "type_id": 0}}], "pair": [], "special_tokens": {}},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "RobertaProcessing", "sep": ["a", 9], "cls": ["b", 8], "trim_offsets": True, "add_prefix_space": True},
    ],
    "model": [
        {"type": "BPE", "dropout": 1.0, "unk_token": "a", "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>",
         "fuse_unk": True, "byte_fallback": True, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        {"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0], ["b", -1.0]], "byte_fallback": True},
        {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9, "vocab": {"a": 0}},
        {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}},
    ],
}  # fmt: skip


def leaves(document):
    """Returns (container, key) of every leaf of the document."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        if isinstance(value, dict | list):
            yield from leaves(value)
        else:
            yield document, key


def hostile(base, random_):
    """Returns the bytes of one hostile file."""
    document = dict(base)
    for place in random_.sample(list(PLACES), random_.choice([1, 1, 2, 3])):
        parts = PLACES[place]
        part = copy.deepcopy(random_.choice(parts))
        if place.endswith("izer") and random_.random() < 0.3:
            kind = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}[place]
            part = {"type": "Sequence", kind: [part, *copy.deepcopy(random_.choices(parts, k=random_.randrange(8)))]}
        if random_.random() < 0.6:
            container, key = random_.choice(list(leaves(part)))
            container[key] = random_.choice(NUMBERS)
        document[place] = part
    content = bytearray(json.dumps(document).encode())
    if random_.random() < 0.2:
        for _ in range(random_.choice([1, 3])):
            content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    return bytes(content)


def run_helper(folder):
    """Runs the helper. Returns (wait status, text of stderr)."""
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(to_parent, 2)
        signal.alarm(60)
        code = tokenize_text.main(["--memory", str(MEMORY), str(folder), str(folder / "out"), str(folder / "text")])
        sys.stderr.flush()
        os._exit(code)
    os.close(to_parent)
    with os.fdopen(from_child, "rb") as written:
        error = written.read().decode("utf-8", "replace")
    return os.waitpid(child, 0)[1], error


def broken_promise(status, error):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "" if number in (signal.SIGABRT, signal.SIGSEGV) else f"ended by signal {number}"
    code = os.waitstatus_to_exitcode(status)
    last = error.strip().splitlines()[-1:]
    if code not in (0, 65) or (code == 65 and "tokenize_text: error: " not in str(last)):
        return f"exit code {code}, {last}"
    return "quotes the file" if SECRET in str(last) else ""


def main(seconds, seed="1"):
    tokenize_text.import_packages()
    random_ = random.Random(seed)
    base = json.loads((ROOT / "examples/docs-llama/tokenizer.json").read_bytes())
    vocabulary = dict(list(base["model"]["vocab"].items())[:300])
    base["model"] |= {"vocab": vocabulary, "merges": []}
    ends = collections.Counter()
    end = time.monotonic() + float(seconds)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "text").write_text("Hello world, é and ab. " * 40)
        while time.monotonic() < end:
            content = hostile(base, random_)
            (folder / "tokenizer.json").write_bytes(content)
            status, error = run_helper(folder)
            fault = broken_promise(status, error)
            if fault:
                kept = ROOT / "build/fuzz/tokenizer" / f"crash-{seed}.json"
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(content)
                sys.exit(f"broken promise: {fault}; {kept}")
            ends[os.waitstatus_to_exitcode(status)] += 1
    print(f"{ends.total()} files; how often each exit code came: {dict(ends)}")
    if not {0, 65} <= set(ends):
        sys.exit("nothing was accepted, or nothing refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
