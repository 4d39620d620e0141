#!/usr/bin/env python3
"""Writes calibration.txt and evaluation.txt beside this file, from Python's own documentation.

The texts are the help topics that every Python carries (pydoc_data.topics), in alphabetical order:
the even ones are for calibration, the odd ones for evaluation. Topics quote each other, so what the
calibration text has already is left out of the evaluation text, paragraph by paragraph.
"""

from pathlib import Path
from pydoc_data.topics import topics


def paragraphs(names):
    return [part for name in names for part in topics[name].strip().split("\n\n")]


def write(name, parts):
    path = Path(__file__).resolve().parent / name
    text = "\n\n".join(parts) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path}: {len(text)} characters")


def main():
    names = sorted(topics)
    calibration = paragraphs(names[0::2])
    seen = set(calibration)
    write("calibration.txt", calibration)
    write("evaluation.txt", [part for part in paragraphs(names[1::2]) if part not in seen])


if __name__ == "__main__":
    main()
