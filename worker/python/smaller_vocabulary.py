"""A model without the tokens that a text needs least: a directory of the same family, with fewer rows in embedding and head.

    python smaller_vocabulary.py MODEL_DIR OUT_DIR --keep N --text FILE... [--check FILE...] [--json]

Standard input has the description of the model (job/checkpoint/model_description.h). The N tokens that stay are those of bytes,
added tokens, those that settings name, then those that the texts have most often, then those of the tokenizer's first merges; each with
the tokens that its merges go through. Ids follow in tokenizer.json and in all settings. Any text still has tokens, and one whose
tokens all stay has the same. OUT_DIR must not exist, and appears whole or not at all.
--check: texts that the choice does not see. The result says which share of their tokens stays, and how many more they become.
Exit codes and errors as export_gguf.py.
"""

import json
import math
import shutil
import sys
from collections import Counter
from pathlib import Path

from exporting import InputError, Parser, reading, run
from model_directory import Shards, whole_or_nothing, write_json
from smaller_tokenizer import BpeTokenizer, needed_ids, with_new_ids
from text_files import ChatTemplate, text_of_file
from text_files import InputError as TextError
from tokenize_text import load_tokenizer

TOKENIZER = "tokenizer.json"
TABLES = ("model.embed_tokens.weight", "lm_head.weight")
FILES_WITH_IDS = ("generation_config.json", "tokenizer_config.json")  # beside config.json
COPIED = ("special_tokens_map.json", "chat_template.jinja", "chat_template.json")
COMPARED_LINES = 10000


class Texts:
    """Texts, and how often the model's tokenizer has each token in them."""

    def __init__(self, model, tokenizer, files):
        template = ChatTemplate(model.directory)
        self.texts = [text_of_file(file, template) for file in files]
        self.counts = Counter(number for text in self.texts for number in tokens_of(tokenizer, text))
        if not self.counts:
            raise InputError(f"{', '.join(map(str, files))}: no tokens in the text")

    def lines(self):
        return [line for text in self.texts for line in text.splitlines()[:COMPARED_LINES]]

    def coverage(self, new_ids, tokenizer):
        """Tokens of the texts, the share that stays, and the tokens that they become under the smaller tokenizer."""
        stays = sum(count for number, count in self.counts.items() if number in new_ids)
        after = sum(len(tokens_of(tokenizer, text)) for text in self.texts)
        return {"tokens": self.counts.total(), "share_kept": stays / self.counts.total(), "tokens_after": after}


def tokens_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def refuse_what_cannot_lose_tokens(model):
    if model.config["compressed"]:
        raise InputError(f"{model.directory}: is a custom output; take tokens from its source, and run the job on that")
    if TOKENIZER not in model.companions:
        raise InputError(f"{model.directory}: has no tokenizer.json, which says what the tokens are")


def settings_of(model):
    """{file: content} of the JSON files that name tokens by id."""
    return {"config.json": model.settings} | {name: model.read_json(name) for name in FILES_WITH_IDS if name in model.companions}


def choose(model, tokenizer, counts, keep):
    """{id: new id} of the tokens that stay."""
    rows, ids = model.config["vocab_size"], tokenizer.ids()
    if not 0 <= min(ids) <= max(ids) < rows:
        raise InputError(f"{tokenizer.file}: has a token {max(ids)}, and the embedding {rows} rows")
    if keep >= len(ids):
        raise InputError(f"--keep {keep}: the model has {len(ids)} tokens; keep fewer")
    named = set()
    for name, content in settings_of(model).items():
        with reading(model.directory / name, "a file of settings"):
            named |= needed_ids(content, rows)
    if without_token := sorted(named - ids):  # under its number the output would have another token
        raise InputError(f"{model.directory}: the settings name the token {without_token[0]}, which {tokenizer.file.name} does not have; "
                         "correct the key that names it")
    return {number: new for new, number in enumerate(tokenizer.choose(counts, named, keep))}


def require_same_tokens(lines, before, after, new_ids, file):
    """Refuses a tokenizer that divides a line differently although all of its tokens stay."""
    for line in lines:
        ids = tokens_of(before, line)
        if set(ids) <= new_ids.keys() and tokens_of(after, line) != [new_ids[number] for number in ids]:
            raise InputError(f"{file}: divides {line[:60]!r} differently without the tokens that it does not need")


def names_in_files(model):
    """{name in the family's files: names of the description}, several where one tensor has those of all experts."""
    found = {}
    for name in sorted(model.tensors, key=lambda name: [int(part) if part.isdigit() else part for part in name.split(".")]):
        found.setdefault(model.tensors[name].get("whole", name), []).append(name)
    return found


def stored_tensor(model, names):
    """The tensor as the family's files have it. names: of the description."""
    import torch

    if "whole" not in model.tensors[names[0]]:
        return model.get(names[0])
    parts = [model.get(name) for name in names]
    return torch.stack([part.mT if part.ndim == 2 else part for part in parts])  # matrices are [in, out] there


def write_weights(model, new_ids, directory):
    """Returns the numbers of tensors, parameters and bytes."""
    import torch

    kept, parameters = torch.tensor(list(new_ids)), 0
    shards = Shards(directory, "smaller_vocabulary")
    for name, names in sorted(names_in_files(model).items()):
        values = stored_tensor(model, names)
        values = values[kept] if name in TABLES else values
        parameters += values.numel()
        shards.add(name, values)
    return {"tensors": shards.finish(), "parameters": parameters, "bytes": shards.bytes}


def write_settings(model, tokenizer, new_ids, directory):
    for name, content in settings_of(model).items():
        with reading(model.directory / name, "a file of settings"):
            changed = with_new_ids(content, new_ids, model.directory / name)
        write_json(directory / name, changed | {"vocab_size": len(new_ids)} if name == "config.json" else changed)
    for name in set(COPIED) & set(model.companions):
        shutil.copyfile(model.directory / name, directory / name)
    text = json.dumps(tokenizer.with_tokens(new_ids), ensure_ascii=False, indent=1)
    (directory / TOKENIZER).write_text(text + "\n", encoding="utf-8")


def shrink(model, options):
    refuse_what_cannot_lose_tokens(model)
    file = model.directory / TOKENIZER
    try:
        with reading(file, "a tokenizer"):
            tokenizer, before = BpeTokenizer(model.read_json(TOKENIZER), file), load_tokenizer(model.directory)
            texts = Texts(model, before, options.text)
            checked = Texts(model, before, options.check) if options.check else texts
            new_ids = choose(model, tokenizer, texts.counts, options.keep)
        with whole_or_nothing(options.out, model) as partial:
            with reading(file, "a tokenizer"):
                write_settings(model, tokenizer, new_ids, partial)
                after = load_tokenizer(partial)
                require_same_tokens(texts.lines(), before, after, new_ids, file)
            written = write_weights(model, new_ids, partial)
    except TextError as error:
        raise InputError(str(error)) from error
    return {"file": str(options.out), "vocabulary": len(new_ids), "vocabulary_before": len(tokenizer.ids()),
            "parameters_before": sum(math.prod(model.shape(name)) for name in model.tensors),
            **written, **checked.coverage(new_ids, after)}  # fmt: skip


def text_of(written):
    words = "{file}: {vocabulary:,} of {vocabulary_before:,} tokens, {parameters:,} of {parameters_before:,} parameters ({share:.1%})\n"
    words += "{share_kept:.2%} of the text's {tokens:,} tokens stay; they become {tokens_after:,} ({growth:+.2%})"
    share, growth = written["parameters"] / written["parameters_before"], written["tokens_after"] / written["tokens"] - 1
    return words.format(**written, share=share, growth=growth)


def main(arguments):
    parser = Parser(prog="smaller_vocabulary.py")
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--keep", type=int, required=True)
    parser.add_argument("--text", type=Path, nargs="+", required=True)
    parser.add_argument("--check", type=Path, nargs="+")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    return run(options, lambda model: shrink(model, options), text_of, program="vocabulary")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
