"""The text of the Debian packages debian-handbook (a book in HTML) and anarchism (a FAQ in Markdown), and its two parts, as text
and as tokens: calibration from the beginning of each, evaluation from later in each."""

import argparse
import gzip
import re
from pathlib import Path

import torch
from lxml import html
from safetensors.torch import save_file
from tokenizers import Tokenizer

BOOK = "usr/share/doc/debian-handbook/html/en-US"
FAQ = "usr/share/doc/anarchism/markdown"
ENDS_A_LINE = {"br", "dd", "div", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "pre", "table", "tr", "ul"}

SEQLEN = 1024

# Fractions of each text's characters, and numbers of characters; passages begin with a paragraph.
CALIBRATION_END = {BOOK: 0.6, FAQ: 0.25}
EVALUATION_START = {BOOK: 0.7, FAQ: 0.5}
EVALUATION_LENGTH = {BOOK: 28_500, FAQ: 41_000}


def text_of_page(file):
    body = html.parse(str(file)).getroot().find("body")
    for element in body.iter(*ENDS_A_LINE):
        element.tail = "\n" + (element.tail or "")
    lines = re.sub(r"[ \t\xa0]+", " ", body.text_content())
    return re.sub(r"\n\s*\n+", "\n\n", lines).strip()


def read_markdown(file):
    opened = gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else open(file, encoding="utf-8")
    with opened as text:
        return text.read()


def texts(packages):
    """The whole text of each package, the pages sorted by name. packages: the folder they were unpacked in."""
    return {
        BOOK: "\n\n".join(text_of_page(file) for file in sorted((packages / BOOK).glob("*.html"))),
        FAQ: "\n\n".join(read_markdown(file) for file in sorted((packages / FAQ).glob("sec*.md*"))),
    }


def passage(text, start, length):
    begin = text.index("\n\n", int(start * len(text))) + 2
    return text[begin : begin + length]


def calibration(whole):
    return "\n\n".join(text[: int(CALIBRATION_END[name] * len(text))] for name, text in whole.items())


def evaluation(whole):
    return "\n\n".join(passage(text, EVALUATION_START[name], EVALUATION_LENGTH[name]) for name, text in whole.items())


def tokens(text, tokenizer):
    """Its whole windows, [windows, SEQLEN]."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    windows = len(ids) // SEQLEN
    return torch.tensor(ids[: windows * SEQLEN], dtype=torch.int32).view(windows, SEQLEN)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--packages", type=Path, help="folder that both packages were unpacked in")
    source.add_argument("--texts", type=Path, help="folder of the texts, as this has made them")
    parser.add_argument("model", type=Path, help="whose tokenizer makes the tokens")
    parser.add_argument("output", type=Path, help="folder for text/ and tokens/")
    options = parser.parse_args()
    if options.texts is None:
        whole = texts(options.packages)
        made = {"calibration": calibration(whole), "evaluation": evaluation(whole)}
    else:
        made = {name: (options.texts / f"{name}.txt").read_text(encoding="utf-8") for name in ("calibration", "evaluation")}
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    for folder in ("text", "tokens"):
        (options.output / folder).mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (options.output / "text" / f"{name}.txt").write_text(text, encoding="utf-8")
        save_file({"tokens": tokens(text, tokenizer)}, options.output / "tokens" / f"{name}.safetensors")


if __name__ == "__main__":
    main()
